"""A conversation as text, for an external agent whose session begins in the middle of it; only decides."""

import json
from collections.abc import Sequence

from openclaw.core.messages import Assistant, Image, Message, Text, ToolResult, User

MOST_HISTORY = 120_000
MOST_RESULT = 2_000
BEFORE = (
    "What was said in this conversation before, the oldest first. It is there for you to know; what you are asked now "
    "comes after it."
)
GO_ON = "The work above was interrupted before it was finished. Check what took effect, and go on."


def history_text(messages: Sequence[Message]) -> str:
    """`messages` between tags they cannot close; of a long conversation the latest part."""
    parts: list[str] = []
    left = MOST_HISTORY
    for message in reversed(messages):
        text = _said(message)
        if len(text) > left:
            parts.append("[what was said earlier is left out]")
            break
        left -= len(text)
        parts += [text] if text else []
    if not parts:
        return ""
    body = "\n\n".join(reversed(parts)).replace("</conversation", "&lt;/conversation")
    return f"{BEFORE}\n<conversation>\n{body}\n</conversation>"


def _said(message: Message) -> str:
    match message:
        case User():
            return f"User: {message.text}" if message.text else ""
        case ToolResult():
            text = message.text
            cut = text if len(text) <= MOST_RESULT else f"{text[:MOST_RESULT]}…"
            return f"Result of {message.tool_name}: {cut}"
        case Assistant():
            calls = [f"Calls {call.name} {json.dumps(call.arguments, ensure_ascii=False)}" for call in message.calls]
            said = [f"Assistant: {message.text}"] if message.text else []
            return "\n".join((*said, *calls))


def prompt_blocks(messages: Sequence[User], *, images: bool) -> list[dict[str, str]]:
    """What people said, as content of a prompt; pictures where the agent takes them."""
    blocks: list[dict[str, str]] = []
    for message in messages:
        parts = (Text(message.content),) if isinstance(message.content, str) else message.content
        for part in parts:
            if isinstance(part, Text):
                blocks.append({"text": part.text})
            elif isinstance(part, Image):
                shown = {"image": part.data, "mime": part.mime_type}
                blocks.append(shown if images else {"text": "[a picture, which this agent does not take]"})
    return blocks or [{"text": GO_ON}]
