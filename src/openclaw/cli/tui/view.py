"""Messages and tool calls, in the words of the wire, as items on a screen. Pure."""

from collections.abc import Mapping
from typing import Any, Literal

from msgspec import Struct

from openclaw.cli.tui.words import harmless, one_line, pretty, summary_of, text_of

Who = Literal["you", "assistant", "gateway", "problem"]
State = Literal["running", "done", "failed"]


class TextItem(Struct, frozen=True, kw_only=True):
    """Something somebody said, on the screen."""

    key: str
    who: Who
    text: str
    thinking: str = ""
    hint: str = ""


class ToolCard(Struct, frozen=True, kw_only=True):
    """A tool at work, on the screen."""

    key: str
    name: str
    summary: str
    arguments: str
    output: str = ""
    state: State = "running"


Item = TextItem | ToolCard


class ToolItem(Struct, frozen=True, kw_only=True):
    """What events told of a call that has no result on record yet."""

    name: str = ""
    args: Any = None
    output: str = ""
    state: State = "running"


def of_message(key: str, message: Mapping[str, Any]) -> list[Item]:
    """What a recorded message says; its calls are shown as cards."""
    role = message.get("role")
    if role == "toolResult":
        return []
    notices = _notices(key, message)
    if role != "assistant":
        who: Who = "you" if role == "user" else "gateway"
        return [TextItem(key=key, who=who, text=harmless(text_of(message))), *notices]
    items: list[Item] = []
    text, thinking = text_of(message).strip("\n"), text_of(message, "thinking")
    if text.strip() or thinking.strip():
        items.append(TextItem(key=key, who="assistant", text=harmless(text), thinking=harmless(thinking)))
    if message.get("stopReason") == "aborted":
        items.append(TextItem(key=f"{key}:stopped", who="gateway", text="stopped"))
    elif error := message.get("errorMessage"):
        items.append(TextItem(key=f"{key}:error", who="problem", text=harmless(str(error))))
    return [*items, *notices]


def _notices(key: str, message: Mapping[str, Any]) -> list[Item]:
    """What the gateway says beside a message: who answered instead, what it was interrupted by."""
    told = (message.get("__openclaw") or {}).get("notices") or ()
    return [TextItem(key=f"{key}:notice{n}", who="gateway", text=harmless(str(text))) for n, text in enumerate(told)]


def card(
    call: str, name: str, arguments: Any, heard: ToolItem | None, result: Mapping[str, Any] | None, busy: bool
) -> ToolCard:
    """A call: from its result when that is on record, from what was heard otherwise."""
    state: State = "running" if busy else "failed"
    output = ""
    if result is not None:
        state, output = ("failed" if result.get("isError") else "done"), text_of(result)
    elif heard is not None:
        state, output = heard.state, heard.output
    arguments = arguments if arguments is not None else heard.args if heard else None
    return ToolCard(
        key=f"call:{call}",
        name=one_line(name, 40),
        summary=summary_of(arguments),
        arguments=pretty(arguments),
        output=output,
        state=state,
    )
