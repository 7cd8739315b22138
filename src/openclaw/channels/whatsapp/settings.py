"""Settings of `channels.whatsapp`."""

import re
from collections.abc import Mapping
from typing import Annotated, ClassVar

from msgspec import Meta, field

from openclaw.channels.settings import ChannelSettings
from openclaw.core.errors import ConfigError
from openclaw.core.secret import Secret
from openclaw.core.settings import SecretInput


class WhatsAppSettings(ChannelSettings, frozen=True):
    """`channels.whatsapp`: numbers of Meta's Cloud API."""

    LABEL: ClassVar[str] = "WhatsApp"
    OWN: ClassVar[tuple[str, ...]] = ("phoneNumberId", "accessToken")
    CREDENTIALS: ClassVar[tuple[str, ...]] = ("accessToken",)
    MISSING: ClassVar[str] = "give phoneNumberId, accessToken, appSecret and verifyToken, from the app's page WhatsApp"

    phone_number_id: str | None = None
    """the number's id at Meta, which is not the number itself"""
    access_token: SecretInput | None = None
    """the token of a system user of the business"""
    app_secret: SecretInput | None = None
    """the app's secret, with which Meta signs its calls"""
    verify_token: SecretInput | None = None
    """a word of your own, which Meta repeats when you enter the gateway's address there"""
    api_root: str | None = None
    """the address of another server that speaks the Cloud API"""
    api_version: Annotated[str, Meta(pattern=r"^v\d+\.\d+$")] = "v24.0"
    """the version of Meta's API"""
    webhook_path: Annotated[
        str,
        Meta(pattern="^(/[A-Za-z0-9_.-]+)*$"),
    ] = ""
    """the path of the gateway that Meta calls; /whatsapp-webhook when empty"""
    media_max_mb: Annotated[int, Meta(ge=1, le=100)] = 50
    """the largest file that is sent or opened"""
    accounts: Mapping[str, "WhatsAppSettings"] = field(default_factory=dict)
    """several numbers, by name; each is as the channel where it says nothing"""

    @property
    def identity(self) -> str:
        return self.phone_number_id or ""

    @staticmethod
    def normalise_sender(name: str) -> str:
        digits = re.sub(r"[\s()./-]", "", name).removeprefix("+")
        return f"+{digits}" if digits.isdecimal() else name.strip()

    def credential(self, account: str, variables: Mapping[str, str]) -> Secret | None:
        if self.access_token is None:
            return None
        needed = {
            "phoneNumberId": self.phone_number_id,
            "appSecret": self.app_secret,
            "verifyToken": self.verify_token,
        }
        if missing := [name for name, value in needed.items() if not value]:
            raise ConfigError(f"channels.whatsapp needs {', '.join(missing)} beside the accessToken")
        return self.access_token
