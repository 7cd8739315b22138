"""Settings of `store`: where the state is kept."""

from typing import Annotated

from msgspec import Meta

from openclaw.core.settings import SecretInput, Settings, doc


class StoreSettings(Settings, frozen=True):
    """`store`: the database. Without an address it is a file in the state directory."""

    url: Annotated[
        SecretInput | None,
        doc("a PostgreSQL server for several gateways: postgresql://user:password@host:5432/database"),
    ] = None
    pool: Annotated[int, Meta(ge=2), doc("the most connections this gateway makes to that server")] = 10
