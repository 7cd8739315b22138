"""Commands that reach beyond a conversation: approvals, the configuration, the gateway itself. For the owner."""

import asyncio
import json
from collections.abc import Callable

import msgspec

from openclaw.config.edit import Editor
from openclaw.core.errors import InvalidRequest
from openclaw.core.settings import Live
from openclaw.core.tool import ApprovalRequest
from openclaw.runs.commands.catalog import CommandHandler, CommandRequest, CommandResult
from openclaw.security.pending import PendingApprovals
from openclaw.security.settings import CommandsSettings

SHOWN_CHARS = 3_500


class ManagementCommands:
    """Answers questions of the gateway, and changes how it works."""

    def __init__(
        self,
        approvals: PendingApprovals,
        editor: Editor,
        restart: Callable[[str], None] | None,
        settings: Live[CommandsSettings],
    ) -> None:
        self._approvals = approvals
        self._editor = editor
        self._restart_gateway = restart
        self._settings = settings
        self.handlers: dict[str, CommandHandler] = {
            "approve": self._approve,
            "config": self._config,
            "restart": self._restart,
        }

    async def _approve(self, call: CommandRequest) -> CommandResult:
        words = call.args.split()
        if not words and (waiting := self._approvals.listed()):
            return CommandResult("\n\n".join(_question(each.request) for each in waiting))
        if len(words) != 2:
            raise InvalidRequest("write: /approve ID allow-once, allow-always or deny")
        resolution = await self._approvals.resolve(words[0], words[1], by="chat")
        return CommandResult(f"{resolution.id}: {resolution.decision}.")

    async def _config(self, call: CommandRequest) -> CommandResult:
        if not call.owner:
            raise InvalidRequest("/config is for the owner: a client needs the scope operator.admin")
        if not self._settings.current.config:
            raise InvalidRequest("/config is off: `openclaw config set commands.config true` allows it")
        action, _, rest = call.args.partition(" ")
        path, _, given = rest.strip().partition(" ")
        path, equals, value = path.partition("=")
        given = value + (f" {given}" if equals and given else "") if equals else given.strip()
        match action.lower():
            case "" | "show" | "get":
                found = await asyncio.to_thread(self._editor.get, path)
                return CommandResult(_cut(json.dumps(found, indent=2, ensure_ascii=False)))
            case "set" if path and given:
                changed = await asyncio.to_thread(self._editor.by("the owner, in a chat").set, path, _value(given))
                told = [f"{path} is set." if changed.written or changed.changed else f"{path} was so already."]
                return CommandResult("\n".join((*told, *map(str, changed.warnings))))
            case "unset" if path:
                await asyncio.to_thread(self._editor.by("the owner, in a chat").unset, path)
                return CommandResult(f"{path} is not set any more: its default applies.")
        raise InvalidRequest("write: /config show [PATH], /config set PATH VALUE or /config unset PATH")

    async def _restart(self, call: CommandRequest) -> CommandResult:
        if not call.owner:
            raise InvalidRequest("/restart is for the owner: a client needs the scope operator.admin")
        if not self._settings.current.restart:
            raise InvalidRequest("/restart is off: commands.restart is false")
        if self._restart_gateway is None:
            raise InvalidRequest("there is no gateway to restart: this one ends with its command")
        # After this answer is on its way: a restart waits for what runs, and takes connections with it.
        asyncio.get_running_loop().call_later(1.0, self._restart_gateway, f"asked for in {call.key}")
        return CommandResult("The gateway restarts; what runs is finished first, or taken up again.")


def _value(text: str) -> object:
    """A value as JSON, or as the text it is."""
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        return text


def _cut(text: str) -> str:
    rest = len(text) - SHOWN_CHARS
    return text if rest <= 0 else f"{text[:SHOWN_CHARS]}\n… {rest} more characters: name a path, /config get agents"


def _question(request: ApprovalRequest) -> str:
    """An approval request as chat text: what would happen, why it is asked, what was read before."""
    read = "".join(f"\n  read before it: {each.source}" for each in request.origins[:5])
    word = "allow-once|allow-always|deny" if request.standing else "allow-once|deny"
    return f"{request.command}\n  in {request.cwd}\n  {request.why}{read}\n  /approve {request.id} {word}"
