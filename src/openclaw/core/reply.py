"""A reply in the making: adapters add what they read, block by block, and get one message out."""

from typing import Any

import msgspec

from openclaw.core.messages import Assistant, AssistantBlock, Cost, StopReason, Text, Thinking, ToolCall, Usage
from openclaw.core.provider import Model, Price

MAX_ARGUMENT_CHARS = 1_000_000


def cost_of(usage: Usage, price: Price | None) -> Cost | None:
    """What `usage` costs, or None when the price is not known: an unknown price is not a free call."""
    if price is None:
        return None
    parts = (
        usage.input * price.input / 1e6,
        usage.output * price.output / 1e6,
        usage.cache_read * price.cache_read / 1e6,
        usage.cache_write * price.cache_write / 1e6,
    )
    return Cost(*parts, sum(parts))


def parse_arguments(raw: str) -> tuple[dict[str, Any], str | None]:
    """Tool arguments from their JSON text, and the raw text when it is not an object."""
    if not raw.strip():
        return {}, None
    if len(raw) > MAX_ARGUMENT_CHARS:
        return {}, raw[:500]
    try:
        value = msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        value = _repaired(raw)
    return (value, None) if isinstance(value, dict) else ({}, raw[:2000])


def _repaired(raw: str) -> Any:
    """The object inside `raw` when all that is wrong is a little junk around it."""
    start, end = raw.find("{"), raw.rfind("}")
    if start < 0 or end < start or start > 96 or len(raw) - end - 1 > 3 or len(raw) > 64_000:
        return None
    try:
        return msgspec.json.decode(raw[start : end + 1])
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return None


class _Block:
    __slots__ = ("call_id", "kind", "name", "parts", "redacted", "signature")

    def __init__(self, kind: str, call_id: str = "", name: str = "") -> None:
        self.kind = kind
        self.parts: list[str] = []
        self.call_id = call_id
        self.name = name
        self.signature: str | None = None
        self.redacted = False


class ReplyBuilder:
    """Collects the blocks of one assistant message in the order they began."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.usage = Usage()
        self.stop_reason: StopReason | None = None
        self.response_id: str | None = None
        self._blocks: dict[Any, _Block] = {}

    def text(self, key: Any, part: str) -> None:
        self._block(key, "text").parts.append(part)

    def thinking(self, key: Any, part: str) -> None:
        self._block(key, "thinking").parts.append(part)

    def signature(self, key: Any, kind: str, value: str, *, redacted: bool = False) -> None:
        """A signature for the block `key`, kept exactly as it came."""
        block = self._block(key, kind)
        block.signature = (block.signature or "") + value if kind == "thinking" and not redacted else value
        block.redacted = block.redacted or redacted

    def call(self, key: Any, call_id: str = "", name: str = "", fragment: str = "") -> tuple[str, str]:
        """Adds to the tool call `key`; gives its id and name as known so far."""
        block = self._block(key, "call")
        block.call_id = block.call_id or call_id
        block.name = block.name or name
        block.parts.append(fragment)
        return block.call_id, block.name

    def replace_call(self, key: Any, arguments: str) -> None:
        """The complete argument text of the call `key`, when a provider repeats it at the end."""
        self._block(key, "call").parts = [arguments]

    @property
    def empty(self) -> bool:
        return not self._blocks

    @property
    def has_calls(self) -> bool:
        return any(block.kind == "call" for block in self._blocks.values())

    def message(self, timestamp: int = 0) -> Assistant:
        """The message so far. With a stop reason it is complete; without one the stream was cut."""
        cut = self.stop_reason is None
        # At the output limit the last call may have stopped before its arguments began.
        starved = next(reversed(self._blocks), None) if self.stop_reason == "length" else None
        finished = (_finish(part, key, cut, starved=key == starved) for key, part in self._blocks.items())
        content = tuple(block for block in finished if block is not None)
        usage = self.usage
        total = usage.total_tokens or usage.input + usage.output + usage.cache_read + usage.cache_write
        usage = Usage(
            usage.input,
            usage.output,
            usage.cache_read,
            usage.cache_write,
            total,
            cost_of(usage, self.model.price),
        )
        stop: StopReason = self.stop_reason or "error"
        if stop == "stop" and any(isinstance(block, ToolCall) for block in content):
            stop = "toolUse"
        return Assistant(
            content=content,
            api=self.model.api,
            provider=self.model.provider,
            model=self.model.id,
            usage=usage,
            stop_reason=stop,
            timestamp=timestamp,
            response_id=self.response_id,
        )

    def _block(self, key: Any, kind: str) -> _Block:
        slot = (kind, key)
        if slot not in self._blocks:
            self._blocks[slot] = _Block(kind)
        return self._blocks[slot]


def _finish(block: _Block, key: Any, cut: bool, *, starved: bool) -> AssistantBlock | None:
    body = "".join(block.parts)
    if block.kind == "text":
        return Text(body, block.signature) if body else None
    if block.kind == "thinking":
        return Thinking(body, block.signature, block.redacted) if body or block.signature else None
    if cut or not block.name:
        return None  # a call cut off in the middle is never run
    arguments, broken = ({}, "") if starved and not body.strip() else parse_arguments(body)
    call_id = block.call_id or f"call_{key[1]}"
    return ToolCall(id=call_id, name=block.name, arguments=arguments, signature=block.signature, broken=broken)
