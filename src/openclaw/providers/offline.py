"""The responder for a machine without a model: a few deterministic abilities, and honesty about the rest.

It goes through the same loop and the same tools as any model. It keeps no state: what it has done so far is read
from the conversation, so the same request always gives the same answer.
"""

import re
from collections.abc import AsyncIterator, Sequence

from msgspec import Struct

from openclaw.core.events import CallDelta, Done, ModelEvent, TextDelta
from openclaw.core.messages import Assistant, Message, Text, ToolCall, ToolResult, Usage, User
from openclaw.core.provider import Model, ModelRequest
from openclaw.providers.offline_abilities import Ability, OfflineContext, understand

PLACE = re.compile(r"^Terminal directory: (.+)$", re.MULTILINE)
FOOTER = "(Answered offline, without a model.)"


class _Turn(Struct, frozen=True):
    """The latest thing the person said, and what has been done about it."""

    text: str
    timestamp: int
    results: dict[str, ToolResult]


def _latest(messages: Sequence[Message]) -> _Turn:
    start = max((i for i, message in enumerate(messages) if isinstance(message, User)), default=-1)
    said = messages[start] if start >= 0 else User(content="")
    results = {m.tool_call_id: m for m in messages[start + 1 :] if isinstance(m, ToolResult)}
    return _Turn(said.text, said.timestamp if isinstance(said, User) else 0, results)


def respond(request: ModelRequest) -> tuple[str, tuple[ToolCall, ...]]:
    """What to say or do next: text, or tool calls."""
    turn = _latest(request.messages)
    place = PLACE.search(request.system.dynamic)
    scene = OfflineContext(
        here=place.group(1) if place else ".",
        now_ms=turn.timestamp,
        tools=frozenset(spec.name for spec in request.tools),
        session=request.cache_key,
        exchanges=sum(isinstance(message, User) for message in request.messages),
    )
    abilities = understand(turn.text, scene)
    calls: list[ToolCall] = []
    texts: list[str] = []
    for number, ability in enumerate(abilities):
        step = _advance(ability, f"_a{number}_s", len(request.messages), turn.results)
        calls.extend(step if isinstance(step, tuple) else ())
        texts.extend((step,) if isinstance(step, str) else ())
    if calls:
        return "", tuple(calls)
    return "\n\n".join(texts) + f"\n\n{FOOTER}", ()


def _advance(ability: Ability, mark: str, length: int, results: dict[str, ToolResult]) -> str | tuple[ToolCall, ...]:
    """The ability's next step; `mark` in a call's id says which ability made it."""
    mine = [result for call_id, result in results.items() if mark in call_id]
    step = ability.step(mine)
    if isinstance(step, str):
        return step
    return (ToolCall(id=f"offline_{length}{mark}{len(mine)}", name=step.tool, arguments=step.arguments),)


class Offline:
    """`Provider` without a model behind it."""

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        text, calls = respond(request)
        for call in calls:
            yield CallDelta(call.id, call.name, "")
        for line in text.splitlines(keepends=True):
            yield TextDelta(line)
        model = request.model
        yield Done(
            Assistant(
                content=(*((Text(text),) if text else ()), *calls),
                api=model.api,
                provider=model.provider,
                model=model.id,
                usage=Usage(),
                stop_reason="toolUse" if calls else "stop",
            )
        )

    async def close(self) -> None:
        return None

    async def models(self) -> list[Model]:
        return [Model(provider="offline", id="offline", api="offline", name="Offline responder")]
