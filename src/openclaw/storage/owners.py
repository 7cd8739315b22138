"""Rows in work, and the process that has each in its hands.

Several gateways may share a state directory, or a database. A table of work has a column `owner`; empty is nobody. What
belongs to a process that is gone is taken over in one transaction, so that of two that want it one gets it. A row that
is put down before its work is done belongs to nobody again.
"""

import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from msgspec import Struct

from openclaw.storage.database import Database, Owners, Row, Transaction, transact

NOBODY = ""


class Owner(Struct, frozen=True):
    """A process: its id, and when it began, because ids are used again."""

    pid: int
    started: str

    @classmethod
    def of_this_process(cls) -> "Owner":
        pid = os.getpid()
        return cls(pid, _started(pid) or "")

    @classmethod
    def parse(cls, text: str) -> "Owner | None":
        """What a row says; None for nobody, and for what no process of this machine wrote."""
        pid, _, started = text.partition("@")
        return cls(int(pid), started) if pid.isdecimal() and pid.isascii() else None

    def __str__(self) -> str:
        return f"{self.pid}@{self.started}"


def is_alive(owner: Owner | None) -> bool:
    """Whether the process is still there: the very one, not another that got its id."""
    return owner is not None and _started(owner.pid) == owner.started


def ended_in_order(owner: str) -> bool:
    """Whether whoever had a row has put it down, or went with the whole machine: it did not die of its work."""
    gone = Owner.parse(owner)
    boot, tick, _ = (gone.started if gone is not None else "").partition("/")
    return gone is None or bool(tick and boot != Owner.of_this_process().started.partition("/")[0])


class Processes:
    """The owners of rows on one machine: its processes."""

    @property
    def me(self) -> str:
        return str(Owner.of_this_process())

    async def gone(self, tx: Transaction, names: set[str]) -> set[str]:
        return {name for name in names if not self.is_alive(name)}

    def is_alive(self, name: str) -> bool:
        return is_alive(Owner.parse(name))

    def ended_in_order(self, name: str) -> bool:
        return ended_in_order(name)


class OwnedRows:
    """The rows of `table` for which `in_work` holds, each under its `key`, as `me` may take and release them."""

    def __init__(self, db: Database, table: str, *, key: str, in_work: str, me: Owner | None = None) -> None:
        self.owners: Owners = db.owners or Processes()
        self.me = str(me or self.owners.me)
        self._db = db
        self._key = key
        self._find = f"SELECT * FROM {table} WHERE {in_work} AND owner <> :me"  # noqa: S608
        self._give = f"UPDATE {table} SET owner = :new WHERE {key} = :key AND owner = :old AND {in_work}"  # noqa: S608

    async def take(self, key: str | None = None, fits: Callable[[Row], bool] = lambda row: True) -> list[Row]:
        """The rows of processes that are gone, ours from now on; or the one called `key`, if it is such a row.

        Those that do not `fit` are left to others.
        """
        only = ("", {}) if key is None else (f" AND {self._key} = :key", {"key": key})

        async def take(tx: Transaction) -> list[Row]:
            rows = await tx.read(self._find + only[0], {"me": self.me, **only[1]})
            gone = await self.owners.gone(tx, {row["owner"] for row in rows})
            left = [row for row in rows if row["owner"] in gone and fits(row)]
            return [
                row
                for row in left
                if await tx.write(self._give, {"new": self.me, "key": row[self._key], "old": row["owner"]})
            ]

        return await transact(self._db, take)

    async def release(self, keys: Sequence[str]) -> None:
        """Puts down what we have in our hands: whoever looks next may take it."""
        if keys:
            await self._db.write_all(*((self._give, {"new": NOBODY, "key": key, "old": self.me}) for key in keys))


if sys.platform == "linux":

    def _started(pid: int) -> str | None:
        """The boot and the tick at which a process began; None when it is gone. No clock that is set changes it."""
        try:
            # The name of the program stands in parentheses and may hold anything, also a parenthesis.
            state, *rest = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
            boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        except (OSError, ValueError):
            return None
        # One that has ended and was not waited for yet does no more work.
        return None if state in "ZX" else f"{boot}/{rest[18]}"

else:

    def _started(pid: int) -> str | None:
        """When a process began; None when it is gone."""
        import psutil  # type: ignore[import-untyped]

        try:
            process = psutil.Process(pid)
            return None if process.status() == psutil.STATUS_ZOMBIE else f"{process.create_time():.2f}"
        except psutil.Error:
            return None
