"""Counts starts that ended badly; after several in a row the gateway starts with less, so that it can be repaired."""

import time
from pathlib import Path

import msgspec
from msgspec import Struct

from openclaw.store.atomic import replace

CRASHES = 3
WINDOW_MS = 5 * 60_000


class CrashRecord(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """What is kept between starts."""

    crashed: tuple[int, ...] = ()
    """When the starts that ended badly were made, in milliseconds."""
    running: int | None = None
    """When the present one was made; still there after a crash."""


class SafeModeVerdict(Struct, frozen=True):
    """How to start."""

    safe: bool
    crashes: int
    after_crash: bool
    record: CrashRecord


def judge(record: CrashRecord, now: int) -> SafeModeVerdict:
    """How to start at `now` after what `record` tells."""
    crashed = (*record.crashed, record.running) if record.running is not None else record.crashed
    recent = tuple(at for at in crashed if 0 <= now - at <= WINDOW_MS)
    return SafeModeVerdict(
        safe=len(recent) >= CRASHES,
        crashes=len(recent),
        after_crash=record.running is not None,
        record=CrashRecord(crashed=recent, running=now),
    )


class Starts:
    """The record on disk."""

    def __init__(self, state: Path) -> None:
        self.path = state / "state" / "gateway-starts.json"

    def read(self) -> CrashRecord:
        try:
            return msgspec.json.decode(self.path.read_bytes(), type=CrashRecord)
        except (OSError, ValueError):
            return CrashRecord()

    def begin(self) -> SafeModeVerdict:
        """To be called when everything that a person can get wrong has been checked."""
        verdict = judge(self.read(), round(time.time() * 1000))
        replace(self.path, msgspec.json.encode(verdict.record))
        return verdict

    def finish(self) -> None:
        """The run came to a good end: what went before is forgiven."""
        replace(self.path, msgspec.json.encode(CrashRecord()))
