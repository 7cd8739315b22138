"""Settings of `channels.irc`."""

import re
from collections.abc import Mapping
from typing import ClassVar

from msgspec import Struct, field

from openclaw.channels.settings import ChannelSettings, GroupSettings
from openclaw.core.errors import ConfigError
from openclaw.core.secret import Secret
from openclaw.core.settings import SecretInput

_SERVER = re.compile(r"(?:(ircs?)://)?([A-Za-z0-9.-]+|\[[0-9A-Fa-f:]+\])(?::(\d{1,5}))?/?\Z")
_NICK = re.compile(r"[A-Za-z_\[\]\\`^{}|][A-Za-z0-9_\[\]\\`^{}|-]{0,29}\Z")
_LOOPBACK = ("127.0.0.1", "[::1]", "localhost")


class IrcServer(Struct, frozen=True):
    host: str
    port: int
    tls: bool

    @property
    def keeps_secrets(self) -> bool:
        """Whether a password may be sent: encrypted, or to this very machine."""
        return self.tls or self.host in _LOOPBACK


class IrcSettings(ChannelSettings, frozen=True):
    """`channels.irc`: a nick on an IRC server; it joins the channels that `groups` names."""

    LABEL: ClassVar[str] = "IRC"
    OWN: ClassVar[tuple[str, ...]] = ("server", "nick", "password", "saslUser")
    CREDENTIALS: ClassVar[tuple[str, ...]] = ("password",)
    MISSING: ClassVar[str] = "give server and nick, and the password of a registered account where there is one"

    server: str | None = None
    """HOST, HOST:PORT (with TLS, usually 6697), or irc://HOST:PORT for one without TLS"""
    nick: str | None = None
    """the name to be known by"""
    password: SecretInput | None = None
    """the password of the registered account, for SASL"""
    sasl_user: str | None = None
    """the name of that account, when it is not the nick"""
    server_password: SecretInput | None = None
    """the password of the server itself, where it has one"""
    accounts: Mapping[str, "IrcSettings"] = field(default_factory=dict)
    """several servers, by name; each is as the channel where it says nothing"""

    @staticmethod
    def normalise_sender(name: str) -> str:
        return name.strip().lower() if "!" in name else name.strip()

    @property
    def identity(self) -> str:
        return f"{self.nick}@{self.server}"

    def credential(self, account: str, variables: Mapping[str, str]) -> Secret | None:
        if not self.server or not self.nick:
            return None
        if not _NICK.match(self.nick):
            raise ConfigError(f"channels.irc.nick: {self.nick!r} is no nick: letters, digits, - and _, no digit first")
        where = self.place
        if not where.keeps_secrets and (self.password or self.server_password):
            raise ConfigError(
                "channels.irc.server is without TLS, and a password is not sent that way: use ircs://HOST"
            )
        # Without a password the nick itself is what opens the account.
        return self.password or Secret(self.identity)

    @property
    def place(self) -> IrcServer:
        found = _SERVER.match((self.server or "").strip())
        if found is None:
            raise ConfigError(
                f"channels.irc.server: {self.server!r} is no server: give HOST, HOST:PORT or irc://HOST:PORT"
            )
        tls = found[1] == "ircs" or (not found[1] and found[3] != "6667")
        return IrcServer(found[2].lower(), int(found[3] or (6697 if tls else 6667)), tls)

    def rules_of(self, group: str, space: str | None) -> GroupSettings | None:
        """What holds in a channel, whose name is the same in capitals."""
        return {name.lower(): rules for name, rules in self.groups.items()}.get(group.lower()) or self.groups.get("*")

    @property
    def joins(self) -> tuple[str, ...]:
        return tuple(name for name, rules in self.groups.items() if name.startswith(("#", "&")) and rules.enabled)
