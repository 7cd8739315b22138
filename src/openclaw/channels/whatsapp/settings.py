"""Settings of `channels.whatsapp`."""

import re
from collections.abc import Mapping
from typing import Annotated, ClassVar

from msgspec import field

from openclaw.channels.settings import ChannelSettings
from openclaw.core.errors import ConfigError
from openclaw.core.secret import Secret
from openclaw.core.settings import SecretInput, doc


class WhatsAppSettings(ChannelSettings, frozen=True):
    """`channels.whatsapp`: numbers of Meta's Cloud API."""

    LABEL: ClassVar[str] = "WhatsApp"
    OWN: ClassVar[tuple[str, ...]] = ("phoneNumberId", "accessToken")
    CREDENTIALS: ClassVar[tuple[str, ...]] = ("accessToken",)
    MISSING: ClassVar[str] = "give phoneNumberId, accessToken, appSecret and verifyToken, from the app's page WhatsApp"

    phone_number_id: Annotated[str | None, doc("the number's id at Meta, which is not the number itself")] = None
    access_token: Annotated[SecretInput | None, doc("the token of a system user of the business")] = None
    app_secret: Annotated[SecretInput | None, doc("the app's secret, with which Meta signs its calls")] = None
    verify_token: Annotated[
        SecretInput | None, doc("a word of your own, which Meta repeats when you enter the gateway's address there")
    ] = None
    api_root: Annotated[str | None, doc("the address of another server that speaks the Cloud API")] = None
    api_version: Annotated[str, doc("the version of Meta's API", pattern=r"^v\d+\.\d+$")] = "v24.0"
    webhook_path: Annotated[
        str,
        doc("the path of the gateway that Meta calls; /whatsapp-webhook when empty", pattern="^(/[A-Za-z0-9_.-]+)*$"),
    ] = ""
    media_max_mb: Annotated[int, doc("the largest file that is sent or opened", ge=1, le=100)] = 50
    accounts: Annotated[
        Mapping[str, "WhatsAppSettings"], doc("several numbers, by name; each is as the channel where it says nothing")
    ] = field(default_factory=dict)

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
