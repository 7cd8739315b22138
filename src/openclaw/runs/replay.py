"""Replays a recorded run: the real loop, with recorded streams and results in place of models and tools.

The loop builds each request anew. Its bytes are compared with those rebuilt from the record, and these with the
checksum of what was sent at the time, so a difference is either in the record or in the program. Also exports a run to
a file.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import aclosing
from typing import Any

import msgspec
from msgspec import Struct, structs

from openclaw.agent.loop import EmbeddedHarness, ModelCall
from openclaw.core.clock import Clock
from openclaw.core.errors import InvalidRequest, ProviderError
from openclaw.core.events import (
    CallDelta,
    Done,
    MessageEnded,
    ModelEvent,
    TextDelta,
    ThinkingDelta,
    ToolEnded,
    ToolStarted,
)
from openclaw.core.harness import Attempt, Perform, RunJob, Steering, ToolEvent
from openclaw.core.messages import Assistant, Message, Text, Thinking, ToolCall, ToolResult, User
from openclaw.core.provider import CacheRetention, Model, ModelRequest, System, ThinkingLevel, ToolChoice
from openclaw.core.tool import ToolSpec
from openclaw.models.recording import Failure, RecordedCall, is_sent

Encode = Callable[[ModelRequest], bytes]
AROUND = 60
"""Bytes shown on both sides of a difference."""
EXPORT = "openclaw-run"
EXPORT_VERSION = 1


class ReplayDifference(Struct, frozen=True):
    """The first difference: the call (counted from 1) and what was found."""

    call: int
    what: str
    recorded: str = ""
    rebuilt: str = ""


class Replay(Struct, frozen=True, kw_only=True):
    """The result of a replay."""

    calls: int
    followed: int
    """Calls whose request was the same to the byte."""
    difference: ReplayDifference | None = None
    answer: str = ""

    @property
    def identical(self) -> bool:
        return self.difference is None

    def __str__(self) -> str:
        if self.difference is None:
            return f"identical: {self.calls} call(s), every request the same to the byte"
        where = self.difference
        shown = f"\n  recorded: …{where.recorded}…\n  now:      …{where.rebuilt}…" if where.recorded else ""
        return f"call {where.call} of {self.calls} differs: {where.what}{shown}"


class _Over(ProviderError):
    """The record has no more calls."""

    reason = "refused"


class _Differs(ProviderError):
    reason = "refused"


async def replay(calls: Sequence[RecordedCall], encode: Encode, clock: Clock) -> Replay:
    """Runs the recorded calls through the loop again."""
    answer, followed = "", 0
    for start, end in _stretches(calls):
        stretch = _Stretch(calls, start, end, encode)
        answer = await stretch.run(clock) or answer
        followed = stretch.place
        if stretch.difference is None and stretch.place < end:
            stretch.difference = ReplayDifference(
                stretch.place + 1, "it is not made any more: the loop ended before it"
            )
        if stretch.difference is not None:
            return Replay(calls=len(calls), followed=followed, difference=stretch.difference, answer=answer)
    return Replay(calls=len(calls), followed=followed, answer=answer)


def _stretches(calls: Sequence[RecordedCall]) -> list[tuple[int, int]]:
    """Spans of calls that continue each other; between two spans the session was changed (compacted)."""
    cuts = [0]
    for place in range(1, len(calls)):
        before, after = calls[place - 1].request, calls[place].request
        grown = after.messages[: len(before.messages)] == before.messages
        if not grown or before.system != after.system or before.cache_key != after.cache_key:
            cuts.append(place)
    return list(zip(cuts, (*cuts[1:], len(calls)), strict=True)) if calls else []


class _Stretch:
    """Calls that continue each other; serves as route, provider and steering of their replay."""

    def __init__(self, calls: Sequence[RecordedCall], start: int, end: int, encode: Encode) -> None:
        self._calls = calls
        self._start = start
        self._end = end
        self._encode = encode
        self._steering = Steering()
        self.place = start
        """How many calls were followed, counted over the whole run."""
        self.difference: ReplayDifference | None = None

    async def run(self, clock: Clock) -> str:
        first = self._calls[self._start].request
        # The loop's limit is the model's, unless a job says otherwise.
        own_limit = first.max_tokens if first.max_tokens != first.model.max_tokens else None
        job = RunJob(
            system=first.system,
            messages=first.messages,
            cache_key=first.cache_key,
            cache_retention=first.cache_retention,
            max_tokens=own_limit,
            temperature=first.temperature,
        )
        said = ""
        async with aclosing(EmbeddedHarness(self, clock).run(job, _RecordedTools(self), self._steering)) as events:
            async for event in events:
                if isinstance(event, MessageEnded):
                    said = event.message.text
        return said

    # As the loop's route: the recorded attempts, one after the other.

    @property
    def attempt(self) -> Attempt:
        recorded = self._calls[min(self.place, self._end - 1)].request
        return Attempt(model=recorded.model, provider=self, thinking=recorded.thinking)

    def failed(self, error: ProviderError) -> float | None:
        if isinstance(error, _Over | _Differs) or self.place >= self._end:
            return None
        return 0.0

    def answered(self) -> None:
        return None

    def verdict(self, error: ProviderError) -> str:
        return error.message

    # As the loop's provider: compares the request, then repeats the recorded answer.

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        if self.place >= self._end:
            raise _Over("the record ends here")
        recorded = self._calls[self.place]
        self.difference = self._compared(recorded, request)
        if self.difference is not None:
            raise _Differs("the request is not the recorded one")
        self.place += 1
        for message in self._fresh():
            if isinstance(message, User):
                self._steering.add(message)
        for event in recorded.events:
            yield event
        if recorded.failure is not None:
            raise recorded.failure.error()
        if recorded.reply is None:
            raise _Over("the record breaks off here, as the answer did")

    async def close(self) -> None:
        return None

    def _compared(self, recorded: RecordedCall, request: ModelRequest) -> ReplayDifference | None:
        rebuilt, made = self._encode(recorded.request), self._encode(request)
        number = self.place + 1
        if not is_sent(rebuilt, recorded.wire):
            return ReplayDifference(number, "the request rebuilt from the record is not the one that was sent")
        if rebuilt == made:
            return None
        shorter = min(len(rebuilt), len(made))
        at = next((place for place in range(shorter) if rebuilt[place] != made[place]), shorter)
        return ReplayDifference(
            number,
            f"its request is not the recorded one, from byte {at} on",
            rebuilt[max(0, at - AROUND) : at + AROUND].decode(errors="replace"),
            made[max(0, at - AROUND) : at + AROUND].decode(errors="replace"),
        )

    def _fresh(self) -> tuple[Message, ...]:
        """The messages of the next request that the last one did not have."""
        if not self._start < self.place < self._end:
            return ()
        before = self._calls[self.place - 1].request.messages
        return self._calls[self.place].request.messages[len(before) :]

    def result(self, call: ToolCall) -> ToolResult:
        found = next((m for m in self._fresh() if isinstance(m, ToolResult) and m.tool_call_id == call.id), None)
        return found or ToolResult(tool_call_id=call.id, tool_name=call.name, content=(Text("(not on record)"),))

    @property
    def specs(self) -> tuple[ToolSpec, ...]:
        return self._calls[self._start].request.tools


class _RecordedTools:
    """Answers every call with the recorded result; runs nothing."""

    def __init__(self, stretch: _Stretch) -> None:
        self._stretch = stretch
        self.specs = stretch.specs
        self.loops = 0
        self.ended = self.yielded = self.persisted = False

    def heard(self, message: Message) -> None:
        """Does nothing: what it led to is recorded too."""

    async def admit(self, call: ToolCall) -> str | None:
        return "Nothing is run in a replay."

    async def run_all(
        self,
        calls: Sequence[ToolCall],
        steering: Steering | None = None,
        performers: Mapping[str, Perform] | None = None,
    ) -> AsyncGenerator[ToolEvent, None]:
        for call in calls:
            yield ToolStarted(call)
            yield ToolEnded(call, self._stretch.result(call))


class ModelComparison(Struct, frozen=True, kw_only=True):
    """One recorded request, answered by another model."""

    call: int
    recorded: Assistant
    now: Assistant

    @property
    def same(self) -> bool:
        return _gist(self.recorded) == _gist(self.now)


def _gist(message: Assistant) -> tuple[str, list[tuple[str, dict[str, Any]]]]:
    return message.text.strip(), [(call.name, call.arguments) for call in message.calls]


async def compare_models(
    calls: Sequence[RecordedCall], attempt: Attempt, clock: Clock
) -> AsyncIterator[ModelComparison]:
    """Sends every recorded request that was answered to another model; runs no tools."""
    for number, recorded in enumerate(calls, 1):
        before = recorded.reply
        if before is None:
            continue
        request = structs.replace(
            recorded.request, model=attempt.model, thinking=attempt.thinking, max_tokens=attempt.model.max_tokens
        )
        async with ModelCall(attempt, request, clock) as events:
            async for event in events:
                if isinstance(event, Done):
                    yield ModelComparison(call=number, recorded=before, now=event.message)


# Export: one file of a run, without secrets.


class _ExportedCall(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    model: Model
    system: System
    messages: tuple[int, ...]
    """Indexes into the list of messages that all calls share."""
    tools: tuple[str, ...] = ()
    """Names in the list of tools that all calls share."""
    thinking: ThinkingLevel = "off"
    max_tokens: int | None = None
    temperature: float | None = None
    cache_key: str = ""
    cache_retention: CacheRetention = "short"
    tool_choice: ToolChoice = "auto"
    reply: Assistant | None = None
    failure: Failure | None = None


class ExportedRun(Struct, frozen=True, kw_only=True, rename="camel"):
    """A run as one document: what `runs export` writes and `openclaw.testing.RecordedRun` reads."""

    kind: str = EXPORT
    version: int = EXPORT_VERSION
    run_id: str
    session_key: str = ""
    tools: tuple[ToolSpec, ...] = ()
    messages: tuple[Message, ...] = ()
    calls: tuple[_ExportedCall, ...] = ()


def export(run_id: str, session_key: str, calls: Sequence[RecordedCall], redact: Callable[[str], str]) -> bytes:
    """The run as JSON with every text redacted; a stream is kept as the message it ended with."""
    places: dict[bytes, int] = {}
    messages: list[Message] = []
    tools: dict[str, ToolSpec] = {}

    def place(message: Message) -> int:
        name = msgspec.json.encode(message)
        if name not in places:
            places[name] = len(messages)
            messages.append(message)
        return places[name]

    made = []
    for call in calls:
        request = call.request
        tools |= {spec.name: spec for spec in request.tools}
        made.append(
            _ExportedCall(
                model=structs.replace(request.model, headers={}),
                system=request.system,
                messages=tuple(place(message) for message in request.messages),
                tools=tuple(spec.name for spec in request.tools),
                thinking=request.thinking,
                max_tokens=request.max_tokens,
                temperature=request.temperature,
                cache_key=request.cache_key,
                cache_retention=request.cache_retention,
                tool_choice=request.tool_choice,
                reply=call.reply,
                failure=call.failure,
            )
        )
    document = ExportedRun(
        run_id=run_id,
        session_key=session_key,
        tools=tuple(tools.values()),
        messages=tuple(messages),
        calls=tuple(made),
    )
    plain = _redacted(msgspec.to_builtins(document), redact)
    return msgspec.json.format(msgspec.json.encode(plain), indent=1) + b"\n"


def _redacted(value: Any, redact: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, Mapping):
        return {name: _redacted(part, redact) for name, part in value.items()}
    return [_redacted(part, redact) for part in value] if isinstance(value, list | tuple) else value


def load_export(data: bytes) -> tuple[ExportedRun, list[RecordedCall]]:
    """Loads the run in an exported file."""
    try:
        document = msgspec.json.decode(data, type=ExportedRun)
    except msgspec.DecodeError as error:
        raise InvalidRequest(f"this is not an exported run: {error}") from error
    if document.kind != EXPORT or document.version != EXPORT_VERSION:
        raise InvalidRequest(f"this is not an exported run of version {EXPORT_VERSION}")
    tools = {spec.name: spec for spec in document.tools}
    calls = []
    for number, call in enumerate(document.calls, 1):
        request = ModelRequest(
            model=call.model,
            system=call.system,
            messages=tuple(document.messages[place] for place in call.messages),
            tools=tuple(tools[name] for name in call.tools),
            thinking=call.thinking,
            max_tokens=call.max_tokens,
            temperature=call.temperature,
            cache_key=call.cache_key,
            cache_retention=call.cache_retention,
            tool_choice=call.tool_choice,
        )
        calls.append(
            RecordedCall(
                call_id=f"{document.run_id}:{number}", request=request, events=_said(call.reply), failure=call.failure
            )
        )
    return document, calls


def _said(reply: Assistant | None) -> tuple[ModelEvent, ...]:
    """The stream that ends with `reply`, one delta per block."""
    events: list[ModelEvent] = []
    for block in reply.content if reply else ():
        match block:
            case Text(text=text):
                events.append(TextDelta(text))
            case Thinking(thinking=text):
                events.append(ThinkingDelta(text))
            case ToolCall():
                events.append(CallDelta(block.id, block.name, msgspec.json.encode(block.arguments).decode()))
    return (*events, Done(reply)) if reply else ()
