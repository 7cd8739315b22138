"""RPC methods `channels.*`, `send` and `message.action`: accounts, held messages, people who ask, and sending."""

import asyncio
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec import structs

from openclaw.agent.settings import default_agent, resolve_agent
from openclaw.channels.accounts import LABELS, AccountName, configured_accounts
from openclaw.channels.manager import ChannelManager
from openclaw.channels.messages import Attachments, ButtonArgs, MessageService, rows_of
from openclaw.channels.pairing import MOST_WAITING, WAITS_MS, PairingRequest, SenderPairing
from openclaw.channels.setup import OWNER, SETUPS, add_account, disable_account, forget_account, remove_account
from openclaw.channels.status import ChannelReports
from openclaw.config.edit import Editor
from openclaw.config.live import LiveConfig
from openclaw.config.load import load
from openclaw.config.schema import BUILT_IN_CHANNELS
from openclaw.core.channel import Address, Outbound
from openclaw.core.clock import Clock, millis
from openclaw.core.errors import InvalidRequest, NotFound, OpenClawError, Unavailable
from openclaw.protocol.params import NonEmpty, NonNegative, NoParams, Params
from openclaw.protocol.rpc import Caller, RpcMethod
from openclaw.protocol.scopes import ADMIN, PAIRING, READ, WRITE
from openclaw.runs.outbox import Outbox, OutboxEntry
from openclaw.workspace.seed import Workspaces

NOT_RUNNING = (
    "channels are connected by the running gateway, and none runs, or it is in safe mode: openclaw gateway restart"
)
WELCOME = "You have been let in: write to me whenever you like."
MOST_PROBE_MS = 60_000


class ChannelsStatusParams(Params, frozen=True, kw_only=True):
    """Params of `channels.status`."""

    probe: bool | None = None
    timeout_ms: NonNegative | None = None
    channel: NonEmpty | None = None


class ChannelAccountParams(Params, frozen=True, kw_only=True):
    """Params of `channels.start`, `channels.stop` and `channels.logout`."""

    channel: NonEmpty
    account_id: str | None = None


class ChannelsAddParams(Params, frozen=True, kw_only=True):
    """Params of `channels.add`: an account and what opens it; what is not given stays as it is configured."""

    channel: NonEmpty
    account_id: str | None = None
    name: NonEmpty | None = None
    bot_token: NonEmpty | None = None
    app_token: NonEmpty | None = None
    signing_secret: NonEmpty | None = None
    account: NonEmpty | None = None
    http_url: NonEmpty | None = None
    cli_path: NonEmpty | None = None
    token: NonEmpty | None = None
    token_file: NonEmpty | None = None
    api_root: NonEmpty | None = None
    homeserver: NonEmpty | None = None
    user_id: NonEmpty | None = None
    access_token: NonEmpty | None = None
    password: NonEmpty | None = None
    address: NonEmpty | None = None
    imap: NonEmpty | None = None
    smtp: NonEmpty | None = None
    user: NonEmpty | None = None
    secret: NonEmpty | None = None
    url: NonEmpty | None = None
    phone_number_id: NonEmpty | None = None
    app_secret: NonEmpty | None = None
    verify_token: NonEmpty | None = None
    server: NonEmpty | None = None
    nick: NonEmpty | None = None
    server_password: NonEmpty | None = None
    owner: NonEmpty | None = None


class ChannelsRemoveParams(Params, frozen=True, kw_only=True):
    """Params of `channels.remove`: switched off, or with `delete` taken out of the configuration."""

    channel: NonEmpty
    account_id: str | None = None
    delete: bool | None = None


class HeldMessageParams(Params, frozen=True, kw_only=True):
    """Params of `channels.release` and `channels.drop`: a message of `channels.held`."""

    id: NonEmpty


class ChannelsPairingListParams(Params, frozen=True, kw_only=True):
    """Params of `channels.pairing.list`."""

    channel: NonEmpty | None = None
    account_id: NonEmpty | None = None


class ChannelsPairingApproveParams(Params, frozen=True, kw_only=True):
    """Params of `channels.pairing.approve`."""

    channel: NonEmpty
    account_id: NonEmpty
    request_id: NonEmpty
    notify: bool | None = None
    bootstrap_command_owner: bool | None = None


class ChannelsPairingDismissParams(Params, frozen=True, kw_only=True):
    """Params of `channels.pairing.dismiss`."""

    channel: NonEmpty
    account_id: NonEmpty
    request_id: NonEmpty


class SendParams(Params, frozen=True, kw_only=True):
    """Params of `send`."""

    to: NonEmpty
    message: str | None = None
    media_url: str | None = None
    media_urls: tuple[str, ...] | None = None
    buffer: str | None = None
    filename: str | None = None
    content_type: str | None = None
    as_voice: bool | None = None
    gif_playback: bool | None = None
    channel: str | None = None
    account_id: str | None = None
    agent_id: str | None = None
    reply_to_id: str | None = None
    thread_id: str | None = None
    force_document: bool | None = None
    silent: bool | None = None
    parse_mode: Literal["HTML"] | None = None
    session_key: str | None = None
    idempotency_key: NonEmpty


REFUSED = {
    **dict.fromkeys(("buffer", "filename", "content_type"), "save the content as a file and give its path as mediaUrl"),
    **dict.fromkeys(("gif_playback", "force_document", "silent"), "messages and files are sent plainly"),
    "parse_mode": "the text is Markdown on every channel",
    "session_key": "a message that is sent is not written into a conversation",
}


class MessageActionParams(Params, frozen=True, kw_only=True):
    """Params of `message.action`; `params` are those of the action."""

    channel: str = ""
    action: NonEmpty
    params: dict[str, Any]
    account_id: str | None = None
    idempotency_key: NonEmpty


class ActionArguments(Params, frozen=True, kw_only=True):
    """What an action on a message is told."""

    to: str = ""
    target: str = ""
    message_id: str = ""
    thread_id: str | None = None
    message: str = ""
    media: str = ""
    reply_to: str | None = None
    as_voice: bool = False
    emoji: str = ""
    remove: bool = False
    buttons: tuple[tuple[ButtonArgs, ...], ...] = ()
    dry_run: bool = False


def account_methods(reports: ChannelReports, manager: ChannelManager, outbox: Outbox, clock: Clock) -> list[RpcMethod]:
    """The methods that show accounts, start and stop them, and look after messages that are held."""

    def check_running() -> None:
        if not reports.runs:
            raise Unavailable(NOT_RUNNING)

    async def status(params: ChannelsStatusParams, caller: Caller) -> Any:
        seconds = min(params.timeout_ms or 10_000, MOST_PROBE_MS) / 1000
        found = await reports.document(params.channel, probe=bool(params.probe), seconds=seconds)
        return {"ts": millis(clock), **found}

    async def start(params: ChannelAccountParams, caller: Caller) -> Any:
        check_running()
        name = (params.channel, params.account_id or "default")
        await manager.start(name)
        return {"channel": name[0], "accountId": name[1], "started": True}

    async def stop(params: ChannelAccountParams, caller: Caller) -> Any:
        check_running()
        name = (params.channel, params.account_id or "default")
        await manager.stop(name)
        return {"channel": name[0], "accountId": name[1], "stopped": True}

    async def held(params: NoParams, caller: Caller) -> Any:
        return {"messages": [_held(entry) for entry in await outbox.held()]}

    async def release(params: HeldMessageParams, caller: Caller) -> Any:
        await outbox.release(params.id)
        return {"id": params.id, "released": True, "sends": reports.runs}

    async def drop(params: HeldMessageParams, caller: Caller) -> Any:
        await outbox.drop(params.id)
        return {"id": params.id, "dropped": True}

    return [
        RpcMethod("channels.status", ChannelsStatusParams, status, READ),
        RpcMethod("channels.start", ChannelAccountParams, start, ADMIN),
        RpcMethod("channels.stop", ChannelAccountParams, stop, ADMIN),
        RpcMethod("channels.held", NoParams, held, READ),
        RpcMethod("channels.release", HeldMessageParams, release, ADMIN),
        RpcMethod("channels.drop", HeldMessageParams, drop, ADMIN),
    ]


def setup_methods(
    reports: ChannelReports, manager: ChannelManager, live: LiveConfig, editor: Editor
) -> list[RpcMethod]:
    """The methods that add accounts and take them away."""

    async def available(params: NoParams, caller: Caller) -> Any:
        return {"channels": [msgspec.to_builtins(each) for each in SETUPS.values()]}

    async def add(params: ChannelsAddParams, caller: Caller) -> Any:
        given = {key: value.strip() for key, value in msgspec.to_builtins(params).items() if value}
        for key in ("channel", "accountId", OWNER):
            given.pop(key, None)
        name = (params.channel, params.account_id or "default")
        loaded = load(editor.home, editor.environ)
        added = await add_account(name, given, loaded, editor, manager.probe)
        owners = loaded.config.commands.owner_allow_from
        if params.owner:
            who = BUILT_IN_CHANNELS[name[0]].normalise_sender(params.owner.strip().removeprefix(f"{name[0]}:"))
            owners = (*owners, f"{name[0]}:{who}")
            await asyncio.to_thread(editor.set, "commands.ownerAllowFrom", list(dict.fromkeys(owners)))
        owned = any(each.startswith(f"{name[0]}:") for each in owners)
        setup, probe = SETUPS[name[0]], added.probe
        known_as = (probe.id if probe.id.startswith("@") else probe.name or probe.id) if probe else "it"
        then = setup.then.format(name=known_as)
        return {
            "channel": name[0],
            "accountId": name[1],
            "probe": msgspec.to_builtins(probe),
            "ownerConfigured": owned,
            "connects": reports.runs,
            "next": then if owned else f"{then} {setup.unowned}",
        }

    async def sign_out(name: AccountName) -> tuple[bool, str]:
        """Makes the credential worthless on the platform, where that can be done; and why it could not."""
        config = configured_accounts(live.config.channels, live.current.variables).get(name)
        try:
            return await manager.sign_out(name, config), ""
        except OpenClawError as error:  # the credential is forgotten here all the same
            return False, error.message

    async def logout(params: ChannelAccountParams, caller: Caller) -> Any:
        name = (params.channel, params.account_id or "default")
        loaded = load(editor.home, editor.environ)
        there = name in manager.platforms
        logged_out, problem = await sign_out(name)
        cleared = await asyncio.to_thread(forget_account, name, loaded, editor)
        if reports.runs and there:
            await manager.stop(name)
        if not (cleared or logged_out or there):
            raise NotFound(f"no account {':'.join(name)} has a credential to forget: openclaw channels list")
        told = {"channel": name[0], "accountId": name[1], "cleared": cleared, "loggedOut": logged_out}
        return {**told, **({"error": problem} if problem else {})}

    async def remove(params: ChannelsRemoveParams, caller: Caller) -> Any:
        name = (params.channel, params.account_id or "default")
        loaded = load(editor.home, editor.environ)
        if not params.delete:
            await asyncio.to_thread(disable_account, name, loaded, editor)
            return {"channel": name[0], "accountId": name[1], "disabled": True}
        logged_out, problem = await sign_out(name)
        await asyncio.to_thread(remove_account, name, loaded, editor)
        told = {"channel": name[0], "accountId": name[1], "deleted": True, "loggedOut": logged_out}
        return {**told, **({"error": problem} if problem else {})}

    return [
        RpcMethod("channels.available", NoParams, available, READ),
        RpcMethod("channels.add", ChannelsAddParams, add, ADMIN),
        RpcMethod("channels.logout", ChannelAccountParams, logout, ADMIN),
        RpcMethod("channels.remove", ChannelsRemoveParams, remove, ADMIN),
    ]


def _held(entry: OutboxEntry) -> dict[str, Any]:
    to = entry.message.to
    return {
        "id": entry.id,
        "number": entry.position,
        "state": entry.state,
        "channel": to.channel,
        "accountId": to.account,
        "to": to.to,
        "threadId": to.thread,
        "action": entry.message.action,
        "message": entry.message.text,
        "media": len(entry.message.media),
        "error": entry.error,
        "updatedAt": entry.updated_at,
    }


# People who ask to be heard.


def pairing_methods(
    reports: ChannelReports, outbox: Outbox, live: LiveConfig, editor: Editor, state_dir: Path, clock: Clock
) -> list[RpcMethod]:
    def people(channel: str) -> SenderPairing:
        return SenderPairing(state_dir, channel, clock)

    async def waiting(params: ChannelsPairingListParams, caller: Caller) -> Any:
        accounts = [
            each
            for each in await reports.accounts(params.channel)
            if each.settings.dm_policy == "pairing" and params.account_id in (None, each.account)
        ]
        channels = dict.fromkeys(each.channel for each in accounts)
        requests = [(channel, each) for channel in channels for each in people(channel).waiting()]
        return {
            "accounts": [
                {
                    "channel": each.channel,
                    "channelLabel": LABELS.get(each.channel, each.channel),
                    "accountId": each.account,
                    "notifySupported": True,
                }
                for each in accounts
            ],
            "requests": [
                _request(channel, each) for channel, each in requests if params.account_id in (None, each.account)
            ],
            "commandOwnerConfigured": bool(live.config.commands.owner_allow_from),
            "limits": {"pendingPerAccount": MOST_WAITING, "ttlMs": WAITS_MS},
        }

    async def approve(params: ChannelsPairingApproveParams, caller: Caller) -> Any:
        let_in = await asyncio.to_thread(people(params.channel).approve, params.request_id)
        owner = "not-requested"
        if params.bootstrap_command_owner:
            # The first who is let in may become the owner, and nobody after them.
            known = load(editor.home, editor.environ).config.commands.owner_allow_from
            owner = "already-configured" if known else "configured"
            if not known:
                name = f"{params.channel}:{let_in.id}"
                await asyncio.to_thread(editor.set, "commands.ownerAllowFrom", [name])
        if params.notify:
            address = Address(channel=params.channel, to=let_in.id, account=let_in.account)
            await outbox.put(Outbound(to=address, text=WELCOME), f"paired:{params.channel}:{let_in.code}")
        return {
            "requestId": params.request_id,
            "senderId": let_in.id,
            "notification": "sent" if params.notify else "not-requested",
            "commandOwnerBootstrap": owner,
        }

    async def dismiss(params: ChannelsPairingDismissParams, caller: Caller) -> Any:
        gone = await asyncio.to_thread(people(params.channel).dismiss, params.request_id)
        return {"requestId": params.request_id, "senderId": gone.id}

    return [
        RpcMethod("channels.pairing.list", ChannelsPairingListParams, waiting, PAIRING),
        RpcMethod("channels.pairing.approve", ChannelsPairingApproveParams, approve, PAIRING),
        RpcMethod("channels.pairing.dismiss", ChannelsPairingDismissParams, dismiss, PAIRING),
    ]


def _request(channel: str, each: PairingRequest) -> dict[str, Any]:
    asked = _iso(each.created_at)
    return {
        "requestId": each.code,
        "channel": channel,
        "channelLabel": LABELS.get(channel, channel),
        "accountId": each.account,
        "senderId": each.id,
        "senderLabel": each.name or each.id,
        "createdAt": asked,
        "lastSeenAt": asked,
        "expiresAt": _iso(each.created_at + WAITS_MS),
        "notifySupported": True,
    }


def _iso(milliseconds: int) -> str:
    return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat().replace("+00:00", "Z")


# Sending.


def sending_methods(
    messages: MessageService, attachments: Attachments, workspaces: Workspaces, live: LiveConfig, *, runs: bool
) -> list[RpcMethod]:
    async def send(params: SendParams, caller: Caller) -> Any:
        check_running()
        _refuse(params)
        to = messages.address(
            params.to, channel=params.channel or "", account=params.account_id or "", thread=params.thread_id or None
        )
        raw = dict.fromkeys(each for each in (params.media_url, *(params.media_urls or ())) if each)
        message = Outbound(
            to=to,
            text=params.message or "",
            media=tuple(find_file(each, params.agent_id, caller) for each in raw),
            reply_to=params.reply_to_id or None,
            voice=bool(params.as_voice),
        )
        return await deliver(message, f"send:{params.idempotency_key}", params.idempotency_key)

    async def act(params: MessageActionParams, caller: Caller) -> Any:
        check_running()
        try:
            told = msgspec.convert(params.params, ActionArguments)
        except msgspec.ValidationError as error:
            raise InvalidRequest(f"message.action {params.action}: {error}") from None
        to = messages.address(
            told.target or told.to, channel=params.channel, account=params.account_id or "", thread=told.thread_id
        )
        message = Outbound(to=to, text=told.message, about=told.message_id or None, buttons=rows_of(told.buttons))
        match params.action:
            case "send":
                media = (find_file(told.media, None, caller),) if told.media else ()
                message = structs.replace(
                    message, about=None, media=media, reply_to=told.reply_to or None, voice=told.as_voice
                )
            case "react":
                if not told.emoji.strip() and not told.remove:
                    raise InvalidRequest("say what to react with: emoji, or remove to take a reaction back")
                text = "" if told.remove else told.emoji.strip()
                message = structs.replace(message, action="react", text=text, buttons=())
            case "edit":
                message = structs.replace(message, action="edit")
            case "delete" | "unsend":
                message = structs.replace(message, action="delete", text="", buttons=())
            case other:
                raise InvalidRequest(f"no action {other!r}: there is send, edit, react and delete")
        if told.dry_run:
            messages.check(message)
            return {**_where(message.to, params.idempotency_key), "status": "ok", "dryRun": True}
        return await deliver(message, f"action:{params.idempotency_key}", params.idempotency_key)

    def check_running() -> None:
        if not runs:
            raise Unavailable(NOT_RUNNING)

    def find_file(raw: str, agent_id: str | None, caller: Caller) -> str:
        agents = live.config.agents
        agent = resolve_agent(agents, agent_id).id if agent_id else default_agent(agents)
        return attachments.for_operator(raw, workspace=workspaces.of(agent), anywhere=caller.may(ADMIN))

    async def deliver(message: Outbound, name: str, key: str) -> Any:
        return {**_where(message.to, key), **await messages.deliver(message, name)}

    return [
        RpcMethod("send", SendParams, send, WRITE),
        RpcMethod("message.action", MessageActionParams, act, WRITE),
    ]


def _where(to: Address, key: str) -> dict[str, str]:
    told = {"runId": key, "channel": to.channel, "accountId": to.account, "to": to.to}
    return {**told, "threadId": to.thread} if to.thread else told


def _refuse(params: SendParams) -> None:
    for field in structs.fields(SendParams):
        if field.name in REFUSED and getattr(params, field.name):
            raise InvalidRequest(f"send does not take {field.encode_name} here: {REFUSED[field.name]}")
