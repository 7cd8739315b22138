"""The agent loop: asks the model, runs its tool calls, and repeats until it calls none.

`EmbeddedHarness.run` yields every event and returns after one `RunEnded`. Two things come from outside: messages that
people add while it is busy (`Steering`), and cancellation. `ModelCall` is one call to a model.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import aclosing

from msgspec import Struct, field, structs

from openclaw.core.clock import Clock, Timer, millis
from openclaw.core.errors import (
    BadResponse,
    ContextTooLong,
    OpenClawError,
    ProviderError,
    ProviderTimeout,
    Unavailable,
)
from openclaw.core.events import (
    AttemptFailed,
    Done,
    Event,
    MessageEnded,
    ModelCalled,
    ModelEvent,
    RunEnded,
    RunNotice,
    Steered,
    ToolEnded,
)
from openclaw.core.harness import Attempt, MeteredCall, ModelAnswer, ModelRouter, RunJob, RunTools, Steering
from openclaw.core.messages import AskedQuestion, Assistant, Message, Text, ToolCall, ToolResult, Usage, grow
from openclaw.core.provider import ModelRequest

LOOPS_ALLOWED = 1
LOOPING = "stopped: the model kept repeating calls that bring nothing new"
CROWDED = "context_crowded"
"""How a run ends that should continue after a compaction."""
PERSISTED = "compaction_loop_persisted"
FULL_SHARE = 0.99
CLOSING_ATTEMPTS = 2
WITHOUT_SUMMARY = "The work is done, but the model gave no summary of it. Ask for one if you need it."
CUT_SHORT = "The answer ends here because it reached the model's output limit. Write “go on” for the rest."


class EmptyReply(BadResponse):
    """The model ended its turn without text or a call."""

    reason = "empty_response"


class EmbeddedHarness(Struct, frozen=True):
    """The runtime of this process: the loop, with the models of one turn."""

    route: ModelRouter
    clock: Clock

    async def run(self, job: RunJob, tools: RunTools, steering: Steering) -> AsyncGenerator[Event, None]:
        """One run, from its messages to its end."""
        messages = list(job.messages)
        usage = Usage()
        turns = closing = 0
        acted = False
        while True:
            # Also where a run is resumed: its process may have ended between the call and the words.
            asks = (tools.ended or not turns) and messages and isinstance(messages[-1], ToolResult)
            if asks and (question := _asked(messages)) is not None:
                yield MessageEnded(structs.replace(question, timestamp=millis(self.clock)))
                yield RunEnded("stop", usage, turns=turns)
                return
            if steering.waiting:
                steered = steering.waiting.popleft()
                messages.append(steered)
                tools.heard(steered)
                yield Steered(steered)
            if turns and job.crowded is not None and job.crowded(messages):
                yield RunEnded("error", usage, "the conversation has grown too long for the model", CROWDED, turns)
                return
            reply: Assistant | None = None
            try:
                asking = _ask(job, tuple(messages), self.route, tools, self.clock, acted=acted, closing=bool(closing))
                async with aclosing(asking) as events:
                    async for event in events:
                        yield event
                        if isinstance(event, MessageEnded):
                            reply = event.message
            except EmptyReply as error:
                if not acted:
                    yield RunEnded("error", usage, self.route.verdict(error), error.reason, turns)
                    return
                # Tools ran but the model said nothing: ask again, with tool calls disabled.
                closing += 1
                if closing <= CLOSING_ATTEMPTS:
                    continue
                yield RunNotice(WITHOUT_SUMMARY, delivered=True)
                yield RunEnded("stop", usage, turns=turns)
                return
            except ProviderError as error:
                yield RunEnded("error", usage, self.route.verdict(error), error.reason, turns)
                return
            if reply is None:
                raise RuntimeError("a model stream ended without a message and without an error")
            turns += 1
            usage = usage + reply.usage
            messages.append(reply)
            if reply.calls:
                acted, closing = True, 0
                results: dict[str, ToolResult] = {}
                async with aclosing(tools.run_all(reply.calls, steering)) as acts:
                    async for act in acts:
                        yield act
                        if isinstance(act, ToolEnded):
                            results[act.call.id] = act.result
                # Results arrive as they finish; the model gets them in the order of its calls.
                messages.extend(results[call.id] for call in reply.calls)
                if tools.loops > LOOPS_ALLOWED:
                    yield RunEnded("error", usage, LOOPING, "tool_loop", turns)
                    return
                if tools.persisted:
                    yield RunEnded("error", usage, LOOPING, PERSISTED, turns)
                    return
                if tools.ended and _asked(messages) is None:
                    yield RunEnded("stop" if tools.yielded else "toolUse", usage, turns=turns, yielded=tools.yielded)
                    return
            elif not steering.waiting:
                if reply.stop_reason == "length":
                    yield RunNotice(CUT_SHORT, delivered=True)
                yield RunEnded(reply.stop_reason, usage, reply.error_message, None, turns)
                return


def _asked(messages: Sequence[Message]) -> Assistant | None:
    """The question that the last tool results put to the person, as a message of the assistant."""
    found: list[AskedQuestion] = []
    for message in reversed(messages):
        if not isinstance(message, ToolResult):
            break
        if message.asks is not None:
            found.insert(0, message.asks)
    if not found or not isinstance(message, Assistant):
        return None
    # One press can answer one question.
    whole = found[0] if len(found) == 1 else AskedQuestion(found[0].id, "\n\n".join(each.text for each in found))
    return Assistant(
        content=(Text(whole.text),), api=message.api, provider=message.provider, model=message.model, asks=whole
    )


async def _ask(
    job: RunJob,
    messages: tuple[Message, ...],
    route: ModelRouter,
    tools: RunTools,
    clock: Clock,
    *,
    acted: bool = False,
    closing: bool = False,
) -> AsyncGenerator[Event, None]:
    """One answer, from whichever model the router ends up with. After tool calls (`acted`) it may be empty."""
    while True:
        attempt = route.attempt
        model = attempt.model
        request = ModelRequest(
            model=model,
            system=job.system,
            messages=messages,
            tools=tools.specs,
            tool_choice="none" if closing else "auto",
            thinking=attempt.thinking,
            max_tokens=job.max_tokens or model.max_tokens,
            temperature=job.temperature,
            cache_key=job.cache_key,
            cache_retention=job.cache_retention,
        )
        try:
            message: Assistant | None = None
            async with ModelCall(attempt, request, clock) as events:
                yield ModelCalled(model.provider, model.id, attempt.thinking)
                async for event in events:
                    if isinstance(event, Done):
                        message = event.message
                        break
                    yield event
            yield MessageEnded(_finished(message, request, clock))
            route.answered()
            return
        except EmptyReply as error:
            wait = None if acted else route.failed(error)
            if wait is None:
                raise
            failure = AttemptFailed(model.provider, model.id, error.reason, error.message, wait)
        except ProviderError as error:
            wait = route.failed(error)
            if wait is None:
                raise
            failure = AttemptFailed(model.provider, model.id, error.reason, error.message, wait)
        yield failure
        await clock.sleep(failure.wait)


class ModelCall:
    """One call to a model: reserved in the budget, streamed under a limit on silence, recorded when it ends.

    It iterates over the events: `async with ModelCall(…) as events`.
    """

    def __init__(self, attempt: Attempt, request: ModelRequest, clock: Clock) -> None:
        self._attempt = attempt
        self._request = request
        self._clock = clock
        self._metered: MeteredCall | None = None
        self._events: AsyncIterator[ModelEvent] | None = None
        self._watchdog: Timer | None = None
        self._limit = attempt.first_event_timeout
        self._since = 0.0
        self._waiting: asyncio.Task[object] | None = None
        """The task that awaits the stream; None while its consumer works, which is never interrupted."""
        self._expired = False

    async def __aenter__(self) -> "ModelCall":
        if self._attempt.reserve is not None:
            self._metered = await self._attempt.reserve(self._request)
        return self

    def __aiter__(self) -> "ModelCall":
        return self

    async def __anext__(self) -> ModelEvent:
        task = asyncio.current_task()
        assert task is not None
        if self._events is None:
            self._events = self._attempt.provider.stream(self._request)
            if self._metered is not None:
                self._metered.begun = True
            self._since = self._clock.now()
            self._watch()
        cancelled = task.cancelling()
        self._waiting, self._since = task, self._clock.now()
        try:
            event = await anext(self._events)
        except ProviderError as error:
            if self._metered is not None:
                self._metered.failed(error)
            raise
        except asyncio.CancelledError:
            # A cancellation from outside at the same moment takes precedence.
            if not self._expired or task.uncancel() > cancelled:
                raise
            raise ProviderTimeout(
                f"{self._request.model.ref} said nothing for {self._limit:g} s. "
                "Try again, or raise models.providers.<id>.timeoutSeconds."
            ) from None
        finally:
            self._waiting = None
        self._limit = self._attempt.idle_timeout
        if self._metered is not None:
            self._metered.add(event)
        return event

    async def __aexit__(self, *ended: object) -> None:
        if self._watchdog is not None:
            self._watchdog.cancel()
        try:
            if isinstance(self._events, AsyncGenerator):
                await self._events.aclose()
        finally:
            if self._metered is not None:
                await self._metered.close()

    def _watch(self) -> None:
        """Interrupts the awaiting task when the limit is reached. One timer per stream, not one per event."""
        limits = (self._attempt.first_event_timeout, self._attempt.idle_timeout)
        step = min((limit for limit in limits if limit), default=0.0)
        if not step:
            return
        left = self._since + self._limit - self._clock.now() if self._limit else step
        if left <= 0 and self._waiting is not None:
            self._expired = True
            self._waiting.cancel()
            return
        # The limit may change meanwhile, so look again after no more than the shorter of the two.
        self._watchdog = self._clock.call_later(min(left, step) if left > 0 else step, self._watch)


def _finished(message: Assistant | None, request: ModelRequest, clock: Clock) -> Assistant:
    """The answer a stream ended with, its time and call ids that are unique in the conversation; none is an error."""
    if message is None:
        raise BadResponse(f"{request.model.ref} ended its answer without finishing it")
    cut = message.stop_reason == "length" and not message.content
    if cut and message.usage.prompt_tokens >= FULL_SHARE * request.model.context_window:
        raise ContextTooLong(f"the conversation leaves {request.model.ref} no room for an answer")
    if message.stop_reason == "stop" and not message.calls and not message.text.strip():
        raise EmptyReply(f"{request.model.ref} gave an empty answer")
    content = message.content
    if message.calls:
        content, taken = (), set(grow(_CallIds, request.messages).seen)
        for block in message.content:
            if isinstance(block, ToolCall):
                call_id, number = block.id or "call", 1
                while call_id in taken:
                    number += 1
                    call_id = f"{block.id or 'call'}_{number}"
                taken.add(call_id)
                block = structs.replace(block, id=call_id)
            content = (*content, block)
    return structs.replace(message, content=content, timestamp=message.timestamp or millis(clock))


class _CallIds(Struct):
    """The ids of all calls of a conversation."""

    seen: set[str] = field(default_factory=set)

    def add(self, message: Message) -> None:
        if isinstance(message, Assistant):
            self.seen.update(call.id for call in message.calls)


class ModelAsker(Struct, frozen=True):
    """Asks a model, with its fallbacks, a single question outside of a run."""

    route: Callable[[], Awaitable[ModelRouter]]
    clock: Clock

    async def ask(self, job: RunJob, tools: RunTools) -> ModelAnswer:
        """The last thing said; an `OpenClawError` when there was no answer."""
        text, end = "", None
        route = await self.route()
        async with aclosing(EmbeddedHarness(route, self.clock).run(job, tools, Steering())) as events:
            async for event in events:
                if isinstance(event, MessageEnded) and event.message.text.strip():
                    text = event.message.text
                elif isinstance(event, RunEnded):
                    end = event
        if end is None or end.error:
            why = end.error if end and end.error else "the model gave no answer"
            raise _FAILURES.get(end.error_code or "" if end else "", Unavailable)(why)
        return ModelAnswer(text, end.usage)


_FAILURES: dict[str, type[OpenClawError]] = {ContextTooLong.reason: ContextTooLong}
