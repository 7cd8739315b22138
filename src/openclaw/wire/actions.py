"""What the protocol tells whoever holds the socket to do."""

from msgspec import Struct

from openclaw.wire.frames import close_reason


class Send(Struct, frozen=True):
    """Write these bytes as one text message."""

    data: bytes


class Close(Struct, frozen=True):
    """Close the socket; what was to be sent before has been."""

    code: int
    reason: str = ""


def closing(code: int, message: str = "") -> Close:
    return Close(code, close_reason(message))
