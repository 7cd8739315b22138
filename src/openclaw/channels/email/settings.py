"""Settings of `channels.email`."""

import re
from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

from msgspec import Meta, Struct, field

from openclaw.channels.settings import ChannelSettings
from openclaw.core.errors import ConfigError
from openclaw.core.secret import Secret
from openclaw.core.settings import SecretInput, Settings

_SERVER = re.compile(r"(?:(imaps?|smtps?)://)?([A-Za-z0-9.-]+|\[[0-9A-Fa-f:]+\])(?::(\d{1,5}))?/?\Z")
_ADDRESS = re.compile(r"[^@\s<>]+@[^@\s<>]+\Z")
_PORTS = {"imaps": 993, "imap": 143, "smtps": 465, "smtp": 587}
LOOPBACK = ("127.0.0.1", "[::1]", "::1", "localhost")


class MailServer(Struct, frozen=True):
    """Where a server is, and whether its connections begin with TLS; where they do not, it is asked for TLS."""

    host: str
    port: int
    tls: bool

    @property
    def is_here(self) -> bool:
        """Only to this very machine a password may go unencrypted."""
        return self.host in LOOPBACK


class MailProvider(Struct, frozen=True):
    """A provider whose servers are known."""

    imap: str
    smtp: str
    authserv: str


_GOOGLE = MailProvider("imap.gmail.com", "smtp.gmail.com", "mx.google.com")
_FASTMAIL = MailProvider("imap.fastmail.com", "smtp.fastmail.com", "*.messagingengine.com")
_ICLOUD = MailProvider("imap.mail.me.com", "smtp://smtp.mail.me.com:587", "dmarc.icloud.com")
_YAHOO = MailProvider("imap.mail.yahoo.com", "smtp.mail.yahoo.com", "*.yahoo.com")
PROVIDERS = {
    "gmail.com": _GOOGLE,
    "googlemail.com": _GOOGLE,
    "fastmail.com": _FASTMAIL,
    "icloud.com": _ICLOUD,
    "me.com": _ICLOUD,
    "yahoo.com": _YAHOO,
}


class SenderAuthSettings(Settings, frozen=True):
    """`channels.email.senderAuth`: how far a mail's From is believed, which anybody can write."""

    min: Literal["verified", "unverified"] = "verified"
    """hear only senders that your mail server has verified, or others too, as unverified:ADDRESS"""
    trusted_authserv_ids: tuple[str, ...] = ()
    """the name by which your mail server signs its header Authentication-Results; *.NAME for all below NAME"""


class EmailSettings(ChannelSettings, frozen=True):
    """`channels.email`: mailboxes."""

    LABEL: ClassVar[str] = "Email"
    OWN: ClassVar[tuple[str, ...]] = ("address", "user", "password")
    CREDENTIALS: ClassVar[tuple[str, ...]] = ("password",)
    MISSING: ClassVar[str] = "give the address and its password (many providers want an app password)"
    ONE_ANSWER: ClassVar[bool] = True

    address: str | None = None
    """the assistant's address"""
    password: SecretInput | None = None
    """the password of the mailbox; an app password where there are"""
    user: str | None = None
    """the name to sign in with, when it is not the address"""
    imap: str | None = None
    """the server mail is read from: HOST, HOST:PORT, or imap://HOST for one that begins without TLS"""
    smtp: str | None = None
    """the server mail is sent with: HOST, HOST:PORT, or smtp://HOST for one that begins without TLS"""
    mailbox: Annotated[str, Meta(min_length=1)] = "INBOX"
    """the folder that is read"""
    poll_seconds: Annotated[int, Meta(ge=15)] = 60
    """how often to look, where the server does not tell of new mail"""
    sender_auth: SenderAuthSettings = SenderAuthSettings()
    """whose From is believed"""
    # Whoever writes to an address is not asked to: an answer to each would tell spammers that somebody is there.
    dm_policy: Literal["pairing", "allowlist", "open", "disabled"] = "allowlist"
    """mail of strangers: it is ignored, gets a code for you to approve, is heard, or nobody is heard"""
    accounts: Mapping[str, "EmailSettings"] = field(default_factory=dict)
    """several mailboxes, by name; each is as the channel where it says nothing"""

    def credential(self, account: str, variables: Mapping[str, str]) -> Secret | None:
        if self.address and not _ADDRESS.match(self.address):
            raise ConfigError(f"channels.email.address: {self.address!r} is no address, such as claw@example.com")
        return self.password if self.address else None

    @property
    def identity(self) -> str:
        return self.address or ""

    @staticmethod
    def normalise_sender(name: str) -> str:
        return name.strip().lower()

    @property
    def domain(self) -> str:
        return (self.address or "").rpartition("@")[2].lower()

    @property
    def reads_from(self) -> MailServer:
        known = PROVIDERS.get(self.domain)
        return parse_server(self.imap or (known.imap if known else f"imap.{self.domain}"), "imap")

    @property
    def sends_with(self) -> MailServer:
        known = PROVIDERS.get(self.domain)
        return parse_server(self.smtp or (known.smtp if known else f"smtp.{self.domain}"), "smtp")

    @property
    def authserv_ids(self) -> tuple[str, ...]:
        """Whose word about senders counts; empty when nobody's is known."""
        known = [each.authserv for each in PROVIDERS.values() if each.imap == self.reads_from.host]
        return self.sender_auth.trusted_authserv_ids or tuple(known[:1])


def parse_server(text: str, kind: Literal["imap", "smtp"]) -> MailServer:
    """`HOST`, `HOST:PORT`, `imaps://HOST:PORT` or `imap://HOST:PORT`; raises `ConfigError`."""
    found = _SERVER.match(text.strip())
    if found is None or not (found[1] or kind).startswith(kind):
        raise ConfigError(f"{text!r} is no {kind.upper()} server: give HOST, HOST:PORT, or {kind}://HOST:PORT")
    scheme = found[1] or f"{kind}s"
    if not found[1] and found[3] == str(_PORTS[kind]):  # the port that begins without TLS
        scheme = kind
    port = int(found[3] or _PORTS[scheme])
    return MailServer(found[2].lower(), port, scheme.endswith("s"))
