"""Settings of `channels.webhook`."""

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

from msgspec import Meta, field

from openclaw.channels.settings import ChannelSettings
from openclaw.core.errors import ConfigError
from openclaw.core.secret import Secret
from openclaw.core.settings import SecretInput

LEAST_SECRET = 16


class WebhookChannelSettings(ChannelSettings, frozen=True):
    """`channels.webhook`: programs that talk to the assistant over signed HTTP calls."""

    LABEL: ClassVar[str] = "Webhook"
    OWN: ClassVar[tuple[str, ...]] = ("secret", "url", "webhookPath")
    CREDENTIALS: ClassVar[tuple[str, ...]] = ("secret",)
    MISSING: ClassVar[str] = "give a secret that both sides know, of 16 characters or more: openssl rand -hex 24"

    secret: SecretInput | None = None
    """what calls are signed with, both ways; whsec_… or any long text"""
    url: str | None = None
    """the address that is called with what the assistant says"""
    webhook_path: Annotated[
        str,
        Meta(
            pattern="^(/[A-Za-z0-9_.-]+)*$",
        ),
    ] = ""
    """the path of the gateway that is called; /webhook, with /ACCOUNT behind it for another account"""
    actions: tuple[Literal["edit", "react", "delete"], ...] = ()
    """what the other side can do beside showing a message; with edit it sees answers while they are written"""
    buttons: bool = False
    """the other side can show buttons"""
    media_max_mb: Annotated[int, Meta(ge=1, le=100)] = 5
    """the largest file that is sent or opened"""
    accounts: Mapping[str, "WebhookChannelSettings"] = field(default_factory=dict)
    """several programs, by name; each is as the channel where it says nothing"""

    @property
    def identity(self) -> str:
        return self.url or ""

    def credential(self, account: str, variables: Mapping[str, str]) -> Secret | None:
        if self.secret is not None and len(self.secret.reveal()) < LEAST_SECRET:
            raise ConfigError(
                f"channels.webhook.secret is shorter than {LEAST_SECRET} characters: openssl rand -hex 24"
            )
        return self.secret
