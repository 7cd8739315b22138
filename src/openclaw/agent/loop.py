"""The agent loop: asks the model, runs its tool calls, and repeats until it calls none.

`run` yields every event and returns after one `RunEnded`. Two things come from outside: messages that people add while
it is busy (`Steering`), and cancellation.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing

from msgspec import Struct, structs

from openclaw.agent.model_call import ModelCall
from openclaw.core.clock import Clock, millis
from openclaw.core.errors import BadResponse, ContextTooLong, OpenClawError, ProviderError, Unavailable
from openclaw.core.events import (
    AttemptFailed,
    Done,
    Event,
    MessageEnded,
    ModelCalled,
    RunEnded,
    RunNotice,
    Steered,
    ToolEnded,
)
from openclaw.core.harness import ModelAnswer, ModelRouter, RunJob, RunTools, Steering
from openclaw.core.messages import AskedQuestion, Assistant, Message, Text, ToolCall, ToolResult, Usage
from openclaw.core.provider import Model, ModelRequest

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


async def run(
    job: RunJob,
    route: ModelRouter,
    tools: RunTools,
    steering: Steering,
    clock: Clock,
) -> AsyncGenerator[Event, None]:
    """One run, from its messages to its end."""
    messages = list(job.messages)
    usage = Usage()
    turns = closing = 0
    acted = False
    while True:
        # Also where a run is resumed: its process may have ended between the call and the words.
        asks = (tools.ended or not turns) and messages and isinstance(messages[-1], ToolResult)
        if asks and (question := _asked(messages)) is not None:
            yield MessageEnded(structs.replace(question, timestamp=millis(clock)))
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
            asking = _ask(job, tuple(messages), route, tools, clock, acted=acted, closing=bool(closing))
            async with aclosing(asking) as events:
                async for event in events:
                    yield event
                    if isinstance(event, MessageEnded):
                        reply = event.message
        except EmptyReply as error:
            if not acted:
                yield RunEnded("error", usage, route.verdict(error), error.reason, turns)
                return
            # Tools ran but the model said nothing: ask again, with tool calls disabled.
            closing += 1
            if closing <= CLOSING_ATTEMPTS:
                continue
            yield RunNotice(WITHOUT_SUMMARY, delivered=True)
            yield RunEnded("stop", usage, turns=turns)
            return
        except ProviderError as error:
            yield RunEnded("error", usage, route.verdict(error), error.reason, turns)
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


def _finished(message: Assistant | None, request: ModelRequest, clock: Clock) -> Assistant:
    """The answer a stream ended with; one that is none is an error."""
    if message is None:
        raise BadResponse(f"{request.model.ref} ended its answer without finishing it")
    if message.stop_reason == "length" and not message.content and _fills(message.usage, request.model):
        raise ContextTooLong(f"the conversation leaves {request.model.ref} no room for an answer")
    if message.stop_reason == "stop" and not message.calls and not message.text.strip():
        raise EmptyReply(f"{request.model.ref} gave an empty answer")
    return _with_own_ids(message, request.messages, millis(clock))


def _fills(usage: Usage, model: Model) -> bool:
    return usage.prompt_tokens >= FULL_SHARE * model.context_window


def _with_own_ids(message: Assistant, before: tuple[Message, ...], now: int) -> Assistant:
    """`message` with a timestamp, and with call ids that are unique in the conversation."""
    seen = {call.id for earlier in before if isinstance(earlier, Assistant) for call in earlier.calls}
    content = []
    for block in message.content:
        if isinstance(block, ToolCall):
            call_id, number = block.id or "call", 1
            while call_id in seen:
                number += 1
                call_id = f"{block.id or 'call'}_{number}"
            seen.add(call_id)
            block = structs.replace(block, id=call_id)
        content.append(block)
    return structs.replace(message, content=tuple(content), timestamp=message.timestamp or now)


class EmbeddedHarness(Struct, frozen=True):
    """The runtime of this process: `run`, with the models of one turn."""

    route: ModelRouter
    clock: Clock

    def run(self, job: RunJob, tools: RunTools, steering: Steering) -> AsyncGenerator[Event, None]:
        return run(job, self.route, tools, steering, self.clock)


class ModelAsker(Struct, frozen=True):
    """Asks a model, with its fallbacks, a single question outside of a run."""

    route: Callable[[], Awaitable[ModelRouter]]
    clock: Clock

    async def ask(self, job: RunJob, tools: RunTools) -> ModelAnswer:
        """The last thing said; an `OpenClawError` when there was no answer."""
        text, end = "", None
        route = await self.route()
        async with aclosing(run(job, route, tools, Steering(), self.clock)) as events:
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
