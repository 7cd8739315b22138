"""What we and a helper process say to each other: a JSON document per line."""

from typing import Any

import msgspec
from msgspec import Struct

LONGEST_LINE = 24 * 1024 * 1024


class WorkerRequest(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A line down. The first has id 0 and says what the helper is to hold; credentials travel here and nowhere else."""

    id: int
    body: Any = None
    stop: bool = False
    """Takes an earlier question back."""


class RpcEvent(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A line up. Without an id it is about the helper itself: ready, news, or failed with an `error`."""

    id: int = 0
    body: Any = None
    ready: bool = False
    error: str = ""
    over: bool = False
    """It cannot go on: whoever asks next starts another process."""
    progress: str = ""


def line(document: WorkerRequest | RpcEvent) -> bytes:
    return msgspec.json.encode(document) + b"\n"
