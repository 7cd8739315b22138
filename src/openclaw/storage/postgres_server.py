"""Connections to a PostgreSQL server: where it is, how to connect, and what its errors mean to people."""

import hashlib
import secrets
from contextlib import suppress
from urllib.parse import urlsplit

import asyncpg

from openclaw.core.errors import StateError
from openclaw.core.secret import Secret
from openclaw.storage.database import LeaseLost

CONNECT_SECONDS = 10.0
ANSWER_SECONDS = 60.0
"""How long the server may think about one statement."""
RETRY_SECONDS = 0.1
CLOSE_SECONDS = 2.0
NAME = "openclaw"
"""What the server calls our connections; the one that holds leases has another name."""
SETTINGS = {
    "jit": "off",
    "standard_conforming_strings": "on",
    # A process that was stopped or cut off in the middle must not keep the others waiting.
    "idle_in_transaction_session_timeout": "15s",
    "lock_timeout": "30s",
    "client_connection_check_interval": "2s",
    "tcp_keepalives_idle": "5",
    "tcp_keepalives_interval": "5",
    "tcp_keepalives_count": "3",
}
LOST = (
    OSError,
    TimeoutError,
    asyncpg.PostgresConnectionError,
    asyncpg.AdminShutdownError,
    asyncpg.CrashShutdownError,
    asyncpg.CannotConnectNowError,
    asyncpg.IdleInTransactionSessionTimeoutError,
    asyncpg.InternalClientError,  # of the driver, when the server ends between two messages
)
"""What ends a connection and says nothing about the statement."""
_REGISTER = (
    "INSERT INTO store_connections (id, pid, started, process) "
    "SELECT $1, pid, backend_start, $2 FROM pg_stat_activity WHERE pid = pg_backend_pid()"
)
_FORGET = "DELETE FROM store_connections WHERE id = $1"


class PgConnection(asyncpg.Connection):  # type: ignore[misc]
    """A connection of the pool, and the name of its row in `store_connections`."""

    id = ""
    written = 0

    def get_reset_query(self) -> str:
        return ""  # nothing of a session is used on these connections, and asking would cost a trip


class ServerConnector:
    """Where the server is, how to connect to it, and what its errors mean."""

    def __init__(self, url: Secret) -> None:
        self.schema = ""
        self._url = url
        self.place = _place(url)
        self._process = secrets.token_hex(8)
        """What all our connections have in common."""

    async def connect(self, name: str = NAME) -> PgConnection:
        """A connection of its own. Session settings are not reset, so it is for one use."""
        made = await asyncpg.connect(
            self._url.reveal(),
            timeout=CONNECT_SECONDS,
            command_timeout=ANSWER_SECONDS,
            connection_class=PgConnection,
            server_settings={**SETTINGS, "application_name": name},
        )
        try:
            # Sums of BIGINT come as NUMERIC.
            await made.set_type_codec("numeric", schema="pg_catalog", encoder=str, decoder=_number, format="text")
        except BaseException:
            made.terminate()
            raise
        return made  # type: ignore[no-any-return]

    async def connect_writer(self, name: str = NAME) -> PgConnection:
        """A connection with its row in `store_connections`."""
        made = await self.connect(name)
        try:
            made.id = secrets.token_hex(8)
            await made.execute(_REGISTER, made.id, self._process)
        except BaseException:
            made.terminate()
            raise
        return made

    async def end(self, connection: PgConnection) -> None:
        """Closes a connection in order, and forgets it."""
        try:
            await connection.execute(_FORGET, connection.id, timeout=CLOSE_SECONDS)
            await connection.close(timeout=CLOSE_SECONDS)
        finally:
            connection.terminate()

    def away(self, what: str) -> StateError:
        return StateError(f"the database at {self.place}: {what}")

    def state_error(self, error: Exception) -> StateError:
        """What people can do about `error`. The address is told without its password."""
        where = self.place
        match error:
            case asyncpg.InvalidAuthorizationSpecificationError():
                return StateError(f"the database at {where} refuses the user: check user and password in store.url")
            case asyncpg.InvalidCatalogNameError():
                return StateError(f"there is no database {where}: create it (createdb), or correct store.url")
            case asyncpg.InsufficientPrivilegeError():
                return StateError(
                    f"the database at {where} does not allow it ({error}): the user in store.url must own the schema"
                )
            case asyncpg.ReadOnlySQLTransactionError():
                return StateError(
                    f"the database at {where} is read-only, perhaps a replica: give the primary in store.url"
                )
            case asyncpg.TooManyConnectionsError():
                return StateError(
                    f"the database at {where} has no connection left: raise max_connections or lower store.pool"
                )
            case asyncpg.DiskFullError():
                return StateError(f"the disk of the database at {where} is full: nothing was changed")
            case asyncpg.LockNotAvailableError() | asyncpg.DeadlockDetectedError():
                return StateError(f"the database at {where} is busy: another gateway has been writing for long")
            case asyncpg.RaiseError() if str(error).startswith("lease lost"):
                return LeaseLost(f"{error}: another gateway has it now, and nothing was written")
            case ValueError() | asyncpg.InterfaceError() if not isinstance(error, OSError):
                return StateError("store.url is not an address like postgresql://user:password@host:5432/database")
            case _ if isinstance(error, LOST):
                why = str(error) or type(error).__name__
                return StateError(f"the database at {where} cannot be reached ({why}): is it running? Check store.url")
            case _:
                return StateError(f"the database at {where}: {error}")


def lock_number(schema: str, kind: str, name: str) -> int:
    """The number of an advisory lock. Numbers are of the whole database, so the schema is part of it."""
    digest = hashlib.blake2b(f"{schema}\0{kind}\0{name}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big", signed=True)


def _number(text: str) -> int | float:
    return int(text) if text.lstrip("-").isdecimal() else float(text)


def _place(url: Secret) -> str:
    """Host and database of an address, without user and password."""
    with suppress(ValueError):
        parts = urlsplit(url.reveal())
        if parts.scheme in ("postgresql", "postgres"):
            host = parts.hostname or "the local socket"
            return f"{host}{f':{parts.port}' if parts.port else ''}{parts.path}"
    return "store.url"
