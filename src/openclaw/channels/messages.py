"""Messages that are sent on somebody's word: finds whom a target means, puts the message into the outbox, waits for it.

Used by the `message` tool, by `send` and by `message.action`.
"""

import os
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct, structs

from openclaw.channels.accounts import LABELS, AccountName
from openclaw.channels.media.outbound import is_address
from openclaw.core.channel import Address, Button, ChannelFacts, Outbound, Platform
from openclaw.core.clock import Clock
from openclaw.core.errors import Conflict, InvalidRequest, Unavailable
from openclaw.core.keys import SessionKey, parse_session_key
from openclaw.core.sandbox import to_host_path, to_sandbox_path
from openclaw.core.secret import is_secret_path
from openclaw.core.settings import Live
from openclaw.runs.hooks.runs import RunHooks
from openclaw.runs.outbox import Outbox
from openclaw.security.sandboxes.service import SandboxService
from openclaw.security.settings import CommandsSettings
from openclaw.security.tool_policy import is_shared
from openclaw.tools.paths import confine, missing_error, quote_path, resolve_links, resolve_path
from openclaw.tools.settings import ToolsSettings
from openclaw.workspace.files import BOOTSTRAP_FILES
from openclaw.workspace.seed import Workspaces

RECEIPT_SECONDS = 20.0
MADE_SECONDS = 3600.0
"""How old a file may be that an answer hands to others than the owner."""
MOST_BUTTONS = 100
BUTTON_BYTES = 64
"""Telegram takes no more for what a button stands for."""
PREFIXES = {"tg": "telegram"}
NO_CHANNEL = "no channel is connected: openclaw channels add connects one, openclaw channels status says what is wrong"


class Target(Struct, frozen=True):
    """Whom a person or a model named; an empty channel is not said."""

    channel: str
    to: str
    thread: str | None = None


class ButtonArgs(Struct, frozen=True):
    """A button as it is written: its label, and what comes back when it is pressed."""

    text: str
    callback_data: str = ""


def parse_target(text: str, channels: Collection[str]) -> Target:
    """`telegram:123`, `tg:123`, `123`, `@name`, `-100123:topic:42`, `!room:server:thread:$event`."""
    text = text.strip()
    prefix, _, rest = text.partition(":")
    channel = PREFIXES.get(prefix.lower(), prefix.lower())
    if rest and channel in channels:
        text = rest
    else:
        channel = ""
    for mark in (":topic:", ":thread:"):
        to, found, thread = text.rpartition(mark)
        if found and to:
            return Target(channel, to.strip(), thread.strip() or None)
    return Target(channel, text)


def rows_of(buttons: tuple[tuple[ButtonArgs, ...], ...]) -> tuple[tuple[Button, ...], ...]:
    """Rows of buttons; one without data stands for its label."""
    rows = tuple(tuple(Button(each.text, each.callback_data or each.text) for each in row) for row in buttons if row)
    every = [button for row in rows for button in row]
    if len(every) > MOST_BUTTONS:
        raise InvalidRequest(f"{len(every)} buttons; {MOST_BUTTONS} is the most")
    for button in every:
        if not button.label.strip() or len(button.data.encode(errors="replace")) > BUTTON_BYTES:
            raise InvalidRequest(f"a button needs a text, and callback_data of at most {BUTTON_BYTES} bytes")
    return rows


class Attachments:
    """Finds what may go along: files that the agent's own file tools could read, and addresses, fetched when sent."""

    def __init__(
        self,
        sandboxes: SandboxService,
        tools: Live[ToolsSettings],
        workspaces: Workspaces,
        voices: Path,
        commands: Live[CommandsSettings],
        clock: Clock,
    ) -> None:
        """`voices` is where voice notes are put that an answer may name."""
        self._commands = commands
        self._clock = clock
        self._sandboxes = sandboxes
        self._tools = tools
        self._workspaces = workspaces
        self._voices = voices

    def for_answer(self, raw: str, session_key: str) -> str:
        """A file that the answer of a session names: from its workspace on, as its tools read files.

        Nobody was asked about it as about a call of a tool: credentials do not go this way, and to others than the
        owner only what was made for them.
        """
        raw = raw.removeprefix("file://")
        if self._voices in Path(os.path.normpath(raw)).parents:
            return _file(Path(raw))
        key = parse_session_key(session_key)
        path = self.for_agent(raw, self._workspaces.of(key.agent), key)
        if is_address(path):
            return path
        if is_secret_path(os.path.realpath(path)):
            raise InvalidRequest(
                f"{quote_path(path)} usually holds credentials: the message tool can send it, and asks"
            )
        if is_shared(key, self._commands.current.owner_allow_from) and not self._is_new(Path(path)):
            raise InvalidRequest(f"{quote_path(path)} was not made for this conversation: the message tool can send it")
        return path

    def _is_new(self, path: Path) -> bool:
        return path.name not in BOOTSTRAP_FILES and self._clock.now() - path.stat().st_mtime < MADE_SECONDS

    def for_agent(self, raw: str, workspace: Path, key: SessionKey) -> str:
        if is_address(raw):
            return raw
        boxed = self._sandboxes.of(key)
        if boxed is not None:
            inside = os.path.normpath(f"{boxed.box.workdir}/{raw}" if not raw.startswith("/") else raw)
            host = to_host_path(boxed.box, inside)
            # A link made inside may point anywhere on the host.
            if host is None or to_sandbox_path(boxed.box, str(resolve_links(Path(host)))) is None:
                raise InvalidRequest(f"{quote_path(raw)} is not in the sandbox: put the file into {boxed.box.workdir}")
            return _file(Path(host))
        own = self._sandboxes.tool_settings(key.agent).fs.workspace_only
        confined = self._tools.current.fs.workspace_only if own is None else own
        return _file(resolve_path(_path(raw), workspace, workspace_only=confined))

    def for_operator(self, raw: str, workspace: Path, *, anywhere: bool) -> str:
        if is_address(raw):
            return raw
        path = resolve_path(_path(raw), workspace)
        if not anywhere:
            confine(path, workspace)
        return _file(path)


def _path(raw: str) -> str:
    if "://" in raw or raw.startswith("data:"):
        raise InvalidRequest(f"{quote_path(raw[:80])} is no file and no http address: save it and give its path")
    return raw


def _file(path: Path) -> str:
    if not path.is_file():
        raise missing_error(path)
    return str(path)


class MessageService:
    """Sends, edits, reacts and deletes through the accounts that some gateway speaks for."""

    def __init__(self, platforms: Mapping[AccountName, Platform], outbox: Outbox, run_hooks: RunHooks) -> None:
        self._platforms = platforms
        self._outbox = outbox
        self._run_hooks = run_hooks

    @property
    def facts(self) -> list[ChannelFacts]:
        return [platform.facts for platform in self._platforms.values()]

    @property
    def channels(self) -> list[str]:
        return sorted({channel for channel, _ in self._platforms})

    def address(
        self,
        target: str,
        *,
        channel: str = "",
        account: str = "",
        thread: str | None = None,
        own: Address | None = None,
    ) -> Address:
        """Whom a target means; without one, the conversation that it is said in (`own`)."""
        known = self.channels
        if not known:
            raise InvalidRequest(NO_CHANNEL)
        channel = PREFIXES.get(channel, channel)
        named = parse_target(target, {*known, *LABELS})
        if channel and named.channel and named.channel != channel:
            raise InvalidRequest(f"the target is on {named.channel}, and channel says {channel}: give one of them")
        if not named.to:
            if own is None or channel not in ("", own.channel):
                raise InvalidRequest(f"say to whom: target is a person or a group on {channel or ' or '.join(known)}")
            return structs.replace(own, account=account or own.account, thread=thread or own.thread)
        channel = channel or named.channel or (own.channel if own is not None else "")
        if not channel and len(known) == 1:
            channel = known[0]
        if channel not in known:
            names = ", ".join(known)
            raise InvalidRequest(
                f"no channel {channel}: there is {names}" if channel else f"say which channel: {names}"
            )
        account = self._account(channel, account, own)
        return Address(channel=channel, to=named.to, account=account, thread=thread or named.thread)

    def _account(self, channel: str, account: str, own: Address | None) -> str:
        there = sorted(name for on, name in self._platforms if on == channel)
        if account and account not in there:
            raise InvalidRequest(f"no account {account} of {channel} is connected: there is {', '.join(there)}")
        if account:
            return account
        if own is not None and own.channel == channel:
            return own.account
        if "default" in there:
            return "default"
        if len(there) > 1:
            raise InvalidRequest(f"say which account of {channel}: {', '.join(there)}")
        return there[0]

    def check(self, message: Outbound) -> None:
        """Raises when the platform cannot do this at all."""
        if message.action != "send" and not message.about:
            raise InvalidRequest(f"say which message to {message.action}: messageId")
        if message.action == "edit" and not message.text.strip():
            raise InvalidRequest("say what the message shall be: message")
        if message.action == "send" and not message.text.strip() and not message.media:
            raise InvalidRequest("there is nothing to send: give message or media")
        platform = self._platforms.get((message.to.channel, message.to.account))
        if platform is None:
            raise Unavailable(f"{message.to.channel} is not connected any more: openclaw channels status says why")
        facts, label = platform.facts, LABELS.get(message.to.channel, message.to.channel)
        if message.action not in facts.actions:
            raise InvalidRequest(f"{label} cannot {message.action} messages: it can {', '.join(facts.actions)}")
        if message.buttons and not facts.buttons:
            raise InvalidRequest(f"{label} has no buttons here: put the choices into the text")
        if message.media and not facts.media_bytes:
            raise InvalidRequest(f"{label} takes no files here: put the content into the text")
        if message.voice and not facts.voice:
            raise InvalidRequest(f"{label} has no voice notes here: leave asVoice out, and it goes as a file")

    async def deliver(self, message: Outbound, name: str) -> dict[str, Any]:
        """Puts a message into the outbox and waits a moment for its receipt; the same name is the same message."""
        self.check(message)
        hooks = self._run_hooks
        speaks = message.action in ("send", "edit") and message.text
        if speaks:
            merged = await hooks.messages.decided(message.to.to, message.text, hooks.errand("system"))
            if merged.cancelled is not None:
                raise Conflict(f"the plugin {merged.cancelled.plugin} cancelled it: {merged.cancelled.text}")
            message = structs.replace(message, text=merged.content)
        await self._outbox.put(message, name)
        entry = await self._outbox.settled(name, RECEIPT_SECONDS)
        if entry.state == "refused":
            raise Unavailable(entry.error)
        if entry.state == "held":
            return {"status": "held", "note": f"it may have arrived, and waits for a person to decide: {entry.error}"}
        if entry.state != "sent":
            return {"status": "queued", "note": f"not delivered yet, it is tried again: {entry.error or 'waiting'}"}
        if speaks:
            hooks.messages.tell_sent(message.to.to, message.text, hooks.errand("system"))
        return {"status": "sent", "messageId": entry.receipts[-1].id}
