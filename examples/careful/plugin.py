"""A guard: looks at each call before it is made and at each message before it is sent.

If it fails or is gone, calls are refused: the gateway counts a guard that cannot answer as an objection.
"""

import re
from collections.abc import Sequence

from openclaw.plugin import (
    Api,
    BeforeToolCall,
    HookContext,
    MessageSending,
    RequireApproval,
    SendingVerdict,
    ToolVerdict,
)

BLOCK = ("rm -rf /", "mkfs", "dd if=", "> /dev/sd", "shutdown", ":(){")
ASK = ("git push", "npm publish", "twine upload", "kubectl delete", "terraform apply")
SECRETS = re.compile(r"\b(?:sk-[A-Za-z0-9_-]{20,}|gh[pousr]_[A-Za-z0-9]{30,}|AKIA[0-9A-Z]{16})\b")


def named(command: str, words: Sequence[str]) -> str:
    """The first of `words` that stands in a command, whatever its spacing."""
    flat = " ".join(command.split())
    return next((word for word in words if word in flat), "")


def register(api: Api) -> None:
    block = tuple(api.config.get("block", BLOCK))
    ask = tuple(api.config.get("ask", ASK))

    def before_tool_call(event: BeforeToolCall, context: HookContext) -> ToolVerdict | None:
        command = str(event.params.get("command", ""))
        if word := named(command, block):
            return ToolVerdict(block=True, block_reason=f"careful: a command with {word!r} is never run")
        if word := named(command, ask):
            return ToolVerdict(
                require_approval=RequireApproval(title="This leaves your machine", description=f"{word!r} in {command}")
            )
        return None

    def message_sending(event: MessageSending, context: HookContext) -> SendingVerdict | None:
        cleaned = SECRETS.sub("[a credential]", event.content)
        return SendingVerdict(content=cleaned) if cleaned != event.content else None

    api.on("before_tool_call", before_tool_call, priority=100, matcher=("exec",))
    api.on("message_sending", message_sending, priority=100)
