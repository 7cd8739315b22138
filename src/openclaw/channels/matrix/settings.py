"""Settings of `channels.matrix`."""

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

from msgspec import Meta, field, structs

from openclaw.channels.settings import ChannelSettings
from openclaw.core.secret import Secret
from openclaw.core.settings import SecretInput


class MatrixSettings(ChannelSettings, frozen=True):
    """`channels.matrix`: an account on a Matrix server."""

    LABEL: ClassVar[str] = "Matrix"
    OWN: ClassVar[tuple[str, ...]] = ("userId", "accessToken", "password")
    CREDENTIALS: ClassVar[tuple[str, ...]] = ("accessToken", "password")
    MISSING: ClassVar[str] = "give homeserver and an accessToken, or homeserver, userId and password"
    VARIABLE: ClassVar[str] = "MATRIX_HOMESERVER"

    homeserver: str | None = None
    """the address of the server, for instance https://matrix.org"""
    user_id: str | None = None
    """the account, for instance @claw:matrix.org; needed with a password"""
    access_token: SecretInput | None = None
    """the account's access token"""
    password: SecretInput | None = None
    """its password, instead of an access token"""
    device_name: str = "OpenClaw"
    """what the account's list of devices calls us, when we sign in by password"""
    auto_join: Literal["allowlist", "always", "off"] = "allowlist"
    """whose invitations are accepted: the owner's and of those who are let in, everybody's, or nobody's"""
    thread_replies: Literal["off", "inbound", "always"] = "inbound"
    """answers in threads: never, to what was said in one, or always in groups"""
    read_receipts: bool = True
    """show people that their messages were read"""
    media_max_mb: Annotated[int, Meta(ge=1, le=1000)] = 50
    """the largest file that is sent or opened"""
    accounts: Mapping[str, "MatrixSettings"] = field(default_factory=dict)
    """several accounts, by name; each is as the channel where it says nothing"""

    def credential(self, account: str, variables: Mapping[str, str]) -> Secret | None:
        if self.homeserver is None:
            return None
        return self.access_token or (self.password if self.user_id else None)

    def with_variables(self, variables: Mapping[str, str]) -> "MatrixSettings":
        """What is not set comes from MATRIX_HOMESERVER, MATRIX_USER_ID, MATRIX_ACCESS_TOKEN and MATRIX_PASSWORD."""

        def secret(name: str) -> Secret | None:
            return Secret(variables[name]) if variables.get(name) else None

        return structs.replace(
            self,
            homeserver=self.homeserver or variables.get("MATRIX_HOMESERVER"),
            user_id=self.user_id or variables.get("MATRIX_USER_ID"),
            access_token=self.access_token or secret("MATRIX_ACCESS_TOKEN"),
            password=self.password or secret("MATRIX_PASSWORD"),
        )
