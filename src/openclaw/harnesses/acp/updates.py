"""What an external agent reports of a turn, as events of a run; only decides."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct, field

from openclaw.core.events import Event, MessageEnded, TextDelta, ThinkingDelta, ToolEnded, ToolStarted, ToolUpdated
from openclaw.core.messages import (
    Assistant,
    AssistantBlock,
    Cost,
    StopReason,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    Usage,
)
from openclaw.core.provider import Model
from openclaw.core.text import make_origin
from openclaw.harnesses.acp.choice import API
from openclaw.security.external import sanitize_external_text
from openclaw.sessions.reply_parse import SILENT

SAID_NOTHING = "(it said nothing)"
UNREPORTED = "(it reported no result)"
CUT_OFF = "The agent ended before this call was done. Check whether it took effect before repeating it."
MOST_RESULT = 20_000
MOST_INPUT = 4_000
_ENDS = ("completed", "failed")


class ReportedCall(Struct):
    """A tool call of the agent, with all that it has reported of it."""

    call: ToolCall
    about: dict[str, Any]
    began: float
    result: ToolResult | None = None
    seconds: float = 0.0


class UpdateReader(Struct):
    """Reads the updates of one run: yields events, and keeps what belongs to the message that is not complete yet.

    A transcript has the results of a message's calls before the next message. So a call that begins while others are
    under way is shown at once, and recorded when those have ended.
    """

    model: Model
    prefix: str
    """Makes the ids of calls unique in the transcript."""
    enclose: Callable[[str], str]
    """Puts untrusted text between our markers."""
    spent: Usage = Usage()
    last: Usage = Usage()
    """Of the last prompt, until it is booked."""
    cost: float = 0.0
    """What the session has cost so far, as the agent says."""
    now: float = 0.0
    _blocks: list[AssistantBlock] = field(default_factory=list)
    _calls: dict[str, ReportedCall] = field(default_factory=dict)
    """By the agent's own ids."""
    _open: list[ReportedCall] = field(default_factory=list)
    _queued: list[ReportedCall] = field(default_factory=list)
    _count: int = 0
    _spoke: bool = False
    _message: str = ""
    _charged: float | None = None

    def about(self, call_id: str) -> Mapping[str, Any]:
        """What was reported of a call."""
        known = self._calls.get(call_id)
        return known.about if known is not None else {}

    def take(self, update: Mapping[str, Any], now: float) -> Iterator[Event]:
        self.now = now
        match update.get("sessionUpdate"):
            case "agent_message_chunk":
                text = _chunk(update)
                name = str(update.get("messageId") or "")
                if self._message and name and name != self._message and self._blocks:
                    text = f"\n\n{text}"
                self._message = name or self._message
                self._blocks.append(Text(text))
                yield TextDelta(text)
            case "agent_thought_chunk":
                text = _chunk(update)
                self._blocks.append(Thinking(text))
                yield ThinkingDelta(text)
            case "tool_call" | "tool_call_update":
                yield from self._call(update)
            case "usage_update":
                cost = update.get("cost") or {}
                amount = cost.get("amount")
                if cost.get("currency", "USD") == "USD" and isinstance(amount, int | float):
                    self._charged = (self._charged or 0.0) + max(0.0, amount - self.cost)
                    self.cost = amount
            case _:
                pass

    def _call(self, update: Mapping[str, Any]) -> Iterator[Event]:
        name = str(update.get("toolCallId") or "")
        known = self._calls.get(name)
        if known is None or (update["sessionUpdate"] == "tool_call" and known.result is not None):
            self._count += 1
            about = dict(update)
            call = ToolCall(id=f"{self.prefix}-{self._count}", name=call_name(about), arguments=call_arguments(about))
            known = self._calls[name] = ReportedCall(call, about, self.now)
            if self._open:
                self._queued.append(known)
            else:
                self._open.append(known)
                yield self.message((call,))
            yield ToolStarted(call)
        else:
            known.about.update({key: value for key, value in update.items() if value not in (None, "", [], {})})
        if known.result is not None:
            return
        if update.get("status") in _ENDS:
            self._end(known, failed=update["status"] == "failed")
            yield from self._settle()
        elif progress := (call_text(update) or (str(update.get("title") or "") if known.about != update else "")):
            yield ToolUpdated(known.call, progress[:MOST_RESULT])

    def _end(self, known: ReportedCall, *, failed: bool, text: str = "") -> None:
        said = text or call_text(known.about) or UNREPORTED
        recorded = known.call.arguments
        if (now := call_arguments(known.about)) != recorded:  # it has told more since the call was recorded
            said = f"{json.dumps(now, ensure_ascii=False)}\n{said}"
        known.seconds = self.now - known.began
        known.result = ToolResult(
            tool_call_id=known.call.id,
            tool_name=known.call.name,
            content=(Text(self.enclose(sanitize_external_text(said[:MOST_RESULT]))),),
            is_error=failed,
            timestamp=int(self.now * 1000),
            origins=(self._origin(),),
        )

    def _settle(self) -> Iterator[Event]:
        """Ends the calls that are done, and records those that waited for it."""
        while self._open:
            left = []
            for known in self._open:
                if known.result is None:
                    left.append(known)
                else:
                    yield ToolEnded(known.call, known.result, known.seconds)
            self._open = left
            if left or not self._queued:
                return
            self._open, self._queued = self._queued, []
            yield self.message([known.call for known in self._open])

    def _origin(self) -> Any:
        return make_origin("external", f"acp agent {self.model.id}")

    def finish(self, told: Mapping[str, Any] | None) -> Iterator[Event]:
        """The last events of a prompt; `told` is the usage the agent tells of it."""
        yield from self._close("")
        usage = self.last = usage_of(told, self._charged)
        self._charged = None
        self.spent = self.spent + usage
        if not any(isinstance(block, Text) and block.text.strip() for block in self._blocks):
            self._blocks.append(Text(SILENT if self._spoke else SAID_NOTHING))
        yield self.message((), usage)
        self._spoke, self._message = False, ""

    def cut_off(self) -> Iterator[Event]:
        """The results of calls that nobody will report on."""
        yield from self._close(CUT_OFF)

    def _close(self, why: str) -> Iterator[Event]:
        for known in (*self._open, *self._queued):
            if known.result is None:
                self._end(known, failed=bool(why), text=why)
        yield from self._settle()

    def message(self, calls: Sequence[ToolCall], usage: Usage | None = None) -> MessageEnded:
        """What was said so far as a message, with the tools it calls."""
        content, self._blocks = (*_merged(self._blocks), *calls), []
        self._spoke = self._spoke or any(isinstance(block, Text) for block in content)
        reason: StopReason = "toolUse" if calls else "stop"
        return MessageEnded(
            Assistant(
                content=content,
                api=API,
                provider=self.model.provider,
                model=self.model.id,
                usage=usage or Usage(),
                stop_reason=reason,
                timestamp=int(self.now * 1000),
                origins=(self._origin(),),
            )
        )


def _merged(blocks: Sequence[AssistantBlock]) -> list[AssistantBlock]:
    """Pieces of text and of thought put together, and cleaned."""
    found: list[tuple[bool, list[str]]] = []
    for block in blocks:
        thought = isinstance(block, Thinking)
        piece = block.thinking if isinstance(block, Thinking) else block.text if isinstance(block, Text) else ""
        if found and found[-1][0] == thought:
            found[-1][1].append(piece)
        else:
            found.append((thought, [piece]))
    whole = [(thought, sanitize_external_text("".join(pieces))) for thought, pieces in found]
    return [Thinking(text) if thought else Text(text) for thought, text in whole if text.strip()]


def _chunk(update: Mapping[str, Any]) -> str:
    content = update.get("content") or {}
    return str(content.get("text") or content.get("uri") or f"[{content.get('type', 'something')}]")


def call_name(about: Mapping[str, Any]) -> str:
    """The name of the agent's tool among ours: one that is not ours."""
    return f"acp_{about.get('kind') or 'other'}"


def call_arguments(about: Mapping[str, Any]) -> dict[str, Any]:
    """What a call is about, in what the agent told of it."""
    given = about.get("rawInput")
    if given is not None and len(text := json.dumps(given, ensure_ascii=False)) > MOST_INPUT:
        given = f"{text[:MOST_INPUT]}…"
    shown = {"title": str(about.get("title") or "")[:300], "input": given, "paths": paths_of(about)}
    return {name: value for name, value in shown.items() if value not in (None, "", [], {})}


def paths_of(about: Mapping[str, Any]) -> list[str]:
    """The files a call is about."""
    changed = [each.get("path") for each in about.get("content") or () if each.get("type") == "diff"]
    places = [each.get("path") for each in about.get("locations") or ()]
    return [str(path) for path in dict.fromkeys((*places, *changed)) if path]


def call_text(about: Mapping[str, Any]) -> str:
    """The output of a call as text."""
    parts = []
    for each in about.get("content") or ():
        match each.get("type"):
            case "content":
                parts.append(_chunk(each))
            case "diff":
                old, new = str(each.get("oldText") or ""), str(each.get("newText") or "")
                parts.append(f"{each.get('path')}: {len(old.splitlines())} lines became {len(new.splitlines())}")
            case _:
                pass
    raw = about.get("rawOutput")
    if not parts and raw is not None:
        parts.append(raw if isinstance(raw, str) else json.dumps(raw, ensure_ascii=False))
    return "\n".join(parts)


def usage_of(told: Mapping[str, Any] | None, charged: float | None = None) -> Usage:
    """The tokens of a prompt as the agent tells them, and what it charged; without a price the cost stays unknown."""
    counts = told or {}
    read, written = int(counts.get("cachedReadTokens") or 0), int(counts.get("cachedWriteTokens") or 0)
    given = int(counts.get("inputTokens") or 0)
    output = int(counts.get("outputTokens") or 0) + int(counts.get("thoughtTokens") or 0)
    total = int(counts.get("totalTokens") or 0) or given + output + read + written
    cost = None if charged is None else Cost(total=charged)
    return Usage(input=given, output=output, cache_read=read, cache_write=written, total_tokens=total, cost=cost)
