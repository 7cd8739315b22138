"""Settings of `commands`: who may command the assistant."""

from typing import Annotated, Literal

from openclaw.core.secret import Secret
from openclaw.core.settings import Settings, doc


class CommandsSettings(Settings, frozen=True):
    """`commands`: who may command the assistant, and how they appear in the prompt."""

    owner_allow_from: Annotated[tuple[str, ...], doc("ids of the owner, for example telegram:123456789")] = ()
    owner_display: Annotated[
        Literal["hash", "raw"], doc("show owner ids to the model as keyed hashes, or as they are")
    ] = "hash"
    owner_display_secret: Annotated[
        Secret | None, doc("key of those hashes; made by itself and kept in the state directory when absent")
    ] = None
