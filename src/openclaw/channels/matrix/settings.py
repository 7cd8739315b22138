"""Settings of `channels.matrix`."""

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

from msgspec import field, structs

from openclaw.channels.settings import ChannelSettings
from openclaw.core.secret import Secret
from openclaw.core.settings import SecretInput, doc


class MatrixSettings(ChannelSettings, frozen=True):
    """`channels.matrix`: an account on a Matrix server."""

    LABEL: ClassVar[str] = "Matrix"
    OWN: ClassVar[tuple[str, ...]] = ("userId", "accessToken", "password")
    CREDENTIALS: ClassVar[tuple[str, ...]] = ("accessToken", "password")
    MISSING: ClassVar[str] = "give homeserver and an accessToken, or homeserver, userId and password"
    VARIABLE: ClassVar[str] = "MATRIX_HOMESERVER"

    homeserver: Annotated[str | None, doc("the address of the server, for instance https://matrix.org")] = None
    user_id: Annotated[str | None, doc("the account, for instance @claw:matrix.org; needed with a password")] = None
    access_token: Annotated[SecretInput | None, doc("the account's access token")] = None
    password: Annotated[SecretInput | None, doc("its password, instead of an access token")] = None
    device_name: Annotated[str, doc("what the account's list of devices calls us, when we sign in by password")] = (
        "OpenClaw"
    )
    auto_join: Annotated[
        Literal["allowlist", "always", "off"],
        doc("whose invitations are accepted: the owner's and of those who are let in, everybody's, or nobody's"),
    ] = "allowlist"
    thread_replies: Annotated[
        Literal["off", "inbound", "always"],
        doc("answers in threads: never, to what was said in one, or always in groups"),
    ] = "inbound"
    read_receipts: Annotated[bool, doc("show people that their messages were read")] = True
    media_max_mb: Annotated[int, doc("the largest file that is sent or opened", ge=1, le=1000)] = 50
    accounts: Annotated[
        Mapping[str, "MatrixSettings"], doc("several accounts, by name; each is as the channel where it says nothing")
    ] = field(default_factory=dict)

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
