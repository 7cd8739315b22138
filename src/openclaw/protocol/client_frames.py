"""A client's side of a WebSocket without I/O: what comes in, and what has to be answered to it."""

from collections import deque

from openclaw.protocol.connect_request import ConnectionLost
from openclaw.protocol.framing import (
    CLOSE,
    PING,
    PONG,
    BrokenFrame,
    FrameReader,
    encode_close,
    encode_frame,
    parse_close,
)


class ClientFrames:
    """Messages from the gateway, in order; `replies` are bytes to send back, `lost` says why there are no more."""

    def __init__(self) -> None:
        self.messages: deque[bytes] = deque()
        self.replies = b""
        self.lost: ConnectionLost | None = None
        self._reader = FrameReader(masked=False)

    def feed(self, data: bytes) -> None:
        """Takes what was read; nothing is the end."""
        if not data:
            self.lost = self.lost or ConnectionLost("the connection to the gateway broke")
        try:
            for kind, payload in self._reader.feed(data):
                if kind == PING:
                    self.replies += encode_frame(PONG, payload, masked=True)
                elif kind == CLOSE:
                    code, reason = parse_close(payload)
                    self.replies += encode_close(code, masked=True)
                    self.lost = ConnectionLost(f"the gateway closed the connection: {reason or code}", close_code=code)
                    return
                elif kind != PONG:
                    self.messages.append(payload)
        except BrokenFrame as error:
            self.replies += encode_close(error.code, masked=True)
            self.lost = ConnectionLost(f"the gateway sent {error}", close_code=error.code)

    def take_replies(self) -> bytes:
        taken, self.replies = self.replies, b""
        return taken
