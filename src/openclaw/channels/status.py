"""How every account is doing: connection, last messages, outbox, and what a person should do about it."""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec
from msgspec import Struct

from openclaw.channels.accounts import (
    LABELS,
    AccountName,
    configured_accounts,
    probe_platform,
    read_credential,
)
from openclaw.channels.manager import AccountStatus, ChannelManager
from openclaw.channels.settings import ChannelSettings, CredentialFile
from openclaw.config.live import LiveConfig
from openclaw.config.schema import BUILT_IN_CHANNELS
from openclaw.core.channel import AccountClosed, Channel
from openclaw.core.errors import ConfigError, OpenClawError
from openclaw.runs.outbox import Outbox, OutboxCounts

STOPPED = "stopped"


class AccountReport(Struct, frozen=True, kw_only=True):
    """One account as it is configured and as it is doing."""

    channel: str
    account: str
    settings: ChannelSettings
    configured: bool
    enabled: bool
    source: str
    """Where its credential is: config, file, env, plugin or none."""
    status: AccountStatus
    counts: OutboxCounts
    running: bool
    probe: Mapping[str, Any] | None = None

    @property
    def state(self) -> str:
        status = self.status
        if not self.configured:
            return "not configured"
        if not self.enabled:
            return "disabled"
        if status.stopped:
            return STOPPED
        if status.closed:
            return "closed"
        if not self.running:
            return "not running"
        if not status.leased:
            return "taken"
        return "connected" if status.connected else "connecting"

    def to_json(self) -> dict[str, Any]:
        status = self.status
        lost = {"at": status.last_disconnect_at, "error": status.last_error} if status.last_disconnect_at else None
        return {
            "accountId": self.account,
            "name": self.settings.name or self.account,
            "enabled": self.enabled,
            "configured": self.configured,
            "running": self.running and not (status.stopped or status.closed),
            "connected": status.connected,
            "healthState": self.state,
            **({"node": status.node} if status.node else {}),
            "reconnectAttempts": status.attempts,
            "lastConnectedAt": status.last_connected_at or None,
            "lastDisconnect": lost,
            "lastInboundAt": status.last_inbound_at or None,
            "lastOutboundAt": self.counts.last_sent_at or None,
            "lastError": status.last_error or None,
            "dmPolicy": self.settings.dm_policy,
            "tokenSource": self.source,
            "outbox": msgspec.to_builtins(self.counts),
            **({"probe": self.probe} if self.probe is not None else {}),
        }


class ChannelReports:
    """Puts together what the configuration, the manager and the outbox know of the accounts."""

    def __init__(
        self,
        manager: ChannelManager,
        outbox: Outbox,
        live: LiveConfig,
        plugin_channels: Callable[[], Mapping[str, Channel]],
        *,
        runs: bool,
    ) -> None:
        self._manager = manager
        self._outbox = outbox
        self._live = live
        self._plugin_channels = plugin_channels
        self.runs = runs
        """Whether accounts are connected here; inside a command, and in safe mode, only their settings are known."""
        self.node = ""
        """The name of this gateway among several."""
        self.elsewhere: Callable[[], Mapping[AccountName, AccountStatus]] = dict
        """How the accounts are doing that other gateways speak for."""

    async def accounts(
        self, channel: str | None = None, *, probe: bool = False, seconds: float = 10.0
    ) -> list[AccountReport]:
        counts = await self._outbox.counts()
        statuses = self._statuses()
        found = [
            AccountReport(
                channel=name[0],
                account=name[1],
                settings=settings,
                configured=source != "none",
                enabled=enabled,
                source=source,
                status=statuses.get(name) or AccountStatus(channel=name[0], account=name[1], last_error=problem),
                counts=counts.get(name, OutboxCounts()),
                running=name in statuses,
            )
            for name, settings, enabled, source, problem in self._known()
            if channel in (None, name[0])
        ]
        if not probe:
            return found
        probes = await asyncio.gather(*(self._probe((each.channel, each.account), seconds) for each in found))
        return [msgspec.structs.replace(each, probe=said) for each, said in zip(found, probes, strict=True)]

    def _statuses(self) -> dict[AccountName, AccountStatus]:
        found = {(each.channel, each.account): each for each in self._manager.statuses()}
        for name in found.keys() & self._manager.platforms.keys():
            found[name] = msgspec.structs.replace(found[name], node=self.node)
        for name, status in self.elsewhere().items():
            own = found.get(name)
            if own is None or not (own.leased or own.stopped or own.closed):
                found[name] = status
        return found

    def _known(self) -> Iterator[tuple[AccountName, ChannelSettings, bool, str, str]]:
        loaded = self._live.current
        channels = dict(loaded.config.channels)
        for name, kind in BUILT_IN_CHANNELS.items():
            if name not in channels and loaded.variables.get(kind.VARIABLE):
                channels[name] = kind()
        for name in self._plugin_channels():
            yield (name, "default"), channels.pop(name, ChannelSettings()), True, "plugin", ""
        for channel, section in sorted(channels.items()):
            if channel not in BUILT_IN_CHANNELS:
                continue  # the section of a plugin that is not there; the configuration's warnings say so
            for account, settings in {"default": section, **section.accounts}.items():
                source, problem = _source(account, settings, loaded.variables)
                if account != "default" or source != "none" or not section.accounts:
                    yield (channel, account), settings, section.enabled and settings.enabled, source, problem

    async def _probe(self, name: AccountName, seconds: float) -> dict[str, Any] | None:
        """Who the platform says we are; None when it cannot be asked."""
        platform = self._manager.platforms.get(name)
        try:
            if platform is not None:
                said = await probe_platform(platform, seconds)
            else:
                loaded = self._live.current
                config = configured_accounts(loaded.config.channels, loaded.variables).get(name)
                said = await self._manager.probe(config, seconds) if config is not None else None
        except OpenClawError as error:
            return {"ok": False, "error": error.message, "auth": isinstance(error, AccountClosed)}
        return None if said is None else {"ok": True, "id": said.id, "name": said.name}

    async def document(
        self, channel: str | None = None, *, probe: bool = False, seconds: float = 10.0
    ) -> dict[str, Any]:
        """The answer to `channels.status`, without its time."""
        accounts = await self.accounts(channel, probe=probe, seconds=seconds)
        order = list(dict.fromkeys(each.channel for each in accounts))
        by_channel = {name: [each for each in accounts if each.channel == name] for name in order}
        labels = {name: LABELS.get(name, name) for name in order}
        return {
            "channelOrder": order,
            "channelLabels": labels,
            "channelMeta": [{"id": name, "label": labels[name], "detailLabel": labels[name]} for name in order],
            "channels": {
                name: {
                    "configured": any(each.configured for each in found),
                    "running": any(each.running for each in found),
                    "connected": any(each.status.connected for each in found),
                    "lastError": next((each.status.last_error for each in found if each.status.last_error), None),
                }
                for name, found in by_channel.items()
            },
            "channelAccounts": {name: [each.to_json() for each in found] for name, found in by_channel.items()},
            "channelDefaultAccountId": {name: found[0].account for name, found in by_channel.items()},
            "statusIssues": [issue for each in accounts for issue in issues(each)][:50],
        }

    async def summary(self) -> list[str]:
        """One line for each account."""
        return [render(each) for each in await self.accounts()]


def _source(account: str, settings: ChannelSettings, variables: Mapping[str, str]) -> tuple[str, str]:
    """Where the credential of an account is, and what is wrong with it."""
    try:
        if read_credential(settings.with_variables(variables), account, variables) is None:
            return "none", ""
    except ConfigError as error:
        return "file", error.message
    match settings.credential(account, {}):
        case None:
            return "env", ""
        case CredentialFile():
            return "file", ""
        case _:
            return "config", ""


def render(account: AccountReport) -> str:
    """One line about an account."""
    name = LABELS.get(account.channel, account.channel)
    where = "" if account.account == "default" else f" ({account.account})"
    counts = {
        "waiting": account.counts.waiting,
        "held": account.counts.held,
        "possibly doubled": account.counts.doubled,
    }
    on = f" on {account.status.node}" if account.status.node else ""
    told = [account.state + on, *(f"{count} {what}" for what, count in counts.items() if count)]
    if account.status.last_error and not account.status.connected and not account.status.stopped:
        told.append(account.status.last_error)
    return f"{name}{where}: {', '.join(told)}"


def issues(account: AccountReport) -> Iterator[dict[str, str]]:
    """What is wrong with an account, each with what to do about it."""
    status, probe = account.status, account.probe or {}
    which = "" if account.account == "default" else f" --account {account.account}"
    again = f"openclaw channels login --channel {account.channel}{which}"

    def issue(kind: str, message: str, fix: str) -> dict[str, str]:
        where = {"channel": account.channel, "accountId": account.account}
        return {**where, "kind": kind, "message": message, "fix": fix}

    if not account.configured:
        yield issue("config", "it has no credential", again.replace("login", "add"))
    elif account.enabled and not status.stopped:
        if status.closed or probe.get("auth"):
            yield issue("auth", status.last_error or str(probe.get("error")), again)
        elif not status.leased:
            yield issue("runtime", "another gateway on this home speaks for it", "stop the other one")
        elif status.last_error and not status.connected:
            yield issue("runtime", status.last_error, "it is tried again by itself; openclaw channels logs says more")
        elif probe.get("ok") is False:
            yield issue("runtime", str(probe.get("error")), "look whether this machine reaches the platform")
    if account.counts.held:
        yield issue("runtime", _count_held(account.counts.held), "openclaw channels held")


def _count_held(count: int) -> str:
    return "1 message is held" if count == 1 else f"{count} messages are held"
