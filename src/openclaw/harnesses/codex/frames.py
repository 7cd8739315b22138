"""What Codex says of a turn, as events of a run; only decides."""

from collections.abc import Container, Iterator, Mapping, Sequence
from typing import Any

from openclaw.core.errors import (
    AuthFailed,
    BadRequest,
    ContextTooLong,
    ModelNotFound,
    ProviderError,
    RateLimited,
    ServerFailed,
)
from openclaw.core.events import (
    AttemptFailed,
    CompactionEnded,
    CompactionStarted,
    Event,
    MessageEnded,
    TextDelta,
    ThinkingDelta,
    ToolEnded,
    ToolStarted,
)
from openclaw.core.harness import RunTools
from openclaw.core.messages import Assistant, AssistantBlock, StopReason, Text, Thinking, ToolCall, ToolResult, Usage
from openclaw.core.provider import Model, cost_of
from openclaw.core.text import make_origin
from openclaw.harnesses.codex.binding import API
from openclaw.harnesses.codex.liveness import TurnProgress

NATIVE = {
    "commandExecution": "codex_shell",
    "fileChange": "codex_apply_patch",
    "mcpToolCall": "codex_mcp",
    "webSearch": "codex_web_search",
    "imageGeneration": "codex_image",
}
"""Tools of Codex itself, under names that are not ours."""
_QUIET = ("error", "warning", "thread/status/changed", "account/rateLimits/updated", "thread/readState/changed")
"""Frames that are no progress."""


def usage_between(before: Mapping[str, int], after: Mapping[str, int], model: Model) -> Usage:
    """What was used since `before`; of a thread that counts anew, all it says."""
    whole = before if after.get("totalTokens", 0) >= before.get("totalTokens", 0) else {}

    def since(name: str) -> int:
        return max(0, int(after.get(name, 0)) - int(whole.get(name, 0)))

    cached, written = since("cachedInputTokens"), since("cacheWriteInputTokens")
    usage = Usage(
        input=max(0, since("inputTokens") - cached - written),
        output=since("outputTokens"),
        cache_read=cached,
        cache_write=written,
        total_tokens=since("totalTokens"),
    )
    return Usage(*_fields(usage), cost_of(usage, model.price))


def _fields(usage: Usage) -> tuple[int, int, int, int, int]:
    return usage.input, usage.output, usage.cache_read, usage.cache_write, usage.total_tokens


def turn_error(error: Mapping[str, Any] | None) -> ProviderError:
    """A failed turn, in our own tree of errors."""
    said = str((error or {}).get("message") or "the turn failed")
    info = (error or {}).get("codexErrorInfo")
    kind, detail = next(iter(info.items())) if isinstance(info, dict) and info else (info, {})
    status = detail.get("httpStatusCode") if isinstance(detail, dict) else None
    message = f"Codex: {said}"[:2000]
    if kind == "contextWindowExceeded":
        return ContextTooLong(message)
    if kind in ("usageLimitExceeded", "responseTooManyFailedAttempts") or status == 429:
        return RateLimited(message)
    if kind == "unauthorized" or status in (401, 403):
        return AuthFailed(message)
    if kind == "modelNotFound" or status == 404:
        return ModelNotFound(message)
    if kind == "internalServerError" or (isinstance(status, int) and status >= 500):
        return ServerFailed(message)
    return BadRequest(message) if kind == "other" and said.lstrip().startswith("{") else ServerFailed(message)


class TurnReader:
    """Reads the frames of one turn: yields events, and keeps what belongs to the message that is not complete yet."""

    def __init__(self, model: Model, total: Mapping[str, int], progress: TurnProgress) -> None:
        self.model = model
        self.total = dict(total)
        self.acted = False
        """Whether anything was said or done."""
        self.progress = progress
        self.used = Usage()
        """Used and not yet attributed to a message."""
        self.spent = Usage()
        self.failure: ProviderError | None = None
        self.compacted = False
        self._children: dict[str, dict[str, int]] = {}
        self._blocks: list[AssistantBlock] = []
        self._open: dict[str, str] = {}
        self._native: list[tuple[ToolCall, ToolResult]] = []

    @property
    def said(self) -> bool:
        """Whether there is a message that was not given yet."""
        return any(isinstance(block, Text) for block in self._blocks)

    def begin_again(self) -> None:
        """Forgets what a failed attempt had begun to say."""
        self._blocks, self.failure = [], None
        self._open.clear()
        self.progress.under_way = 0

    def take(
        self, method: str, params: Mapping[str, Any], now: float, judged: Container[str] = frozenset()
    ) -> Iterator[Event]:
        """The events of a frame; items that are `judged` are on record as calls of our tools."""
        if method not in _QUIET:
            self.progress.since = now
        item: Mapping[str, Any] = params.get("item") or {}
        match method:
            case "item/agentMessage/delta":
                yield TextDelta(params["delta"])
            case "item/reasoning/summaryTextDelta" | "item/reasoning/textDelta":
                yield ThinkingDelta(params["delta"])
            case "item/started":
                self._open[item["id"]] = item["type"]
                if item["type"] == "contextCompaction":
                    yield CompactionStarted(reason="threshold", tokens=self.total.get("totalTokens", 0))
                if item["type"] == "agentMessage" and self.said:
                    yield self.message(())
            case "item/completed":
                self._open.pop(item["id"], None)
                if item["id"] not in judged:
                    yield from self._completed(item)
            case "thread/tokenUsage/updated":
                self.total = self._count(self.total, params["tokenUsage"]["total"])
            case "child/tokenUsage/updated":
                child = params["threadId"]
                self._children[child] = self._count(self._children.get(child, {}), params["tokenUsage"]["total"])
            case "error" if params.get("willRetry"):
                error = turn_error(params.get("error"))
                yield AttemptFailed(self.model.provider, self.model.id, error.reason, error.message)
            case "error":
                self.failure = turn_error(params.get("error"))
            case _:
                pass
        self.progress.under_way = len(self._open)

    def _count(self, before: Mapping[str, int], total: Mapping[str, int]) -> dict[str, int]:
        fresh = usage_between(before, total, self.model)
        self.used, self.spent = self.used + fresh, self.spent + fresh
        return dict(total)

    def _completed(self, item: Mapping[str, Any]) -> Iterator[Event]:
        kind = item["type"]
        self.acted = self.acted or kind != "userMessage"
        self.progress.answered, self.progress.acted = kind == "agentMessage", kind in ("reasoning", *NATIVE)
        if kind == "agentMessage":
            if item["text"]:
                self._blocks.append(Text(item["text"]))
        elif kind == "reasoning":
            text = "\n".join((*item.get("summary", ()), *item.get("content", ())))
            self._blocks += [Thinking(text)] if text else []
        elif kind == "contextCompaction":
            self.compacted = True
            yield CompactionEnded(reason="threshold", ok=True)
        elif kind in NATIVE:
            self._native.append(_native_call(item))

    def native(self, tools: RunTools) -> Iterator[Event]:
        """The tools that Codex ran unasked since the last message; their results are another program's words."""
        done, self._native = self._native, []
        for call, result in done:
            tools.heard(result)
            yield self.message((call,))
            yield ToolStarted(call)
            yield ToolEnded(call, result)

    def message(self, calls: Sequence[ToolCall], stop_reason: StopReason | None = None) -> MessageEnded:
        """What was said so far as a message, with the tools it calls."""
        content, used = (*self._blocks, *calls), self.used
        self._blocks, self.used = [], Usage()
        return MessageEnded(
            Assistant(
                content=content,
                api=API,
                provider=self.model.provider,
                model=self.model.id,
                usage=used,
                stop_reason=stop_reason or ("toolUse" if calls else "stop"),
                timestamp=int(self.progress.since * 1000),
            )
        )


def _native_call(item: Mapping[str, Any]) -> tuple[ToolCall, ToolResult]:
    name, status = NATIVE[item["type"]], str(item.get("status", "completed"))
    shown = {key: item[key] for key in ("command", "cwd", "changes", "query", "tool", "server") if item.get(key)}
    call = ToolCall(id=item["id"], name=name, arguments=shown)
    text = item.get("aggregatedOutput") or f"{name}: {status}"
    result = ToolResult(
        tool_call_id=call.id,
        tool_name=name,
        content=(Text(str(text)),),
        is_error=status in ("failed", "declined"),
        origins=(make_origin("external", f"Codex ({name})"),),
    )
    return call, result
