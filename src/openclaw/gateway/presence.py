"""Who is connected."""

import os
import platform
import socket
from typing import Any

from openclaw.core.clock import Clock, millis
from openclaw.version import __version__
from openclaw.wire.caller import Caller

UNLISTED = ("cli", "backend", "probe")
KEPT_AFTER_LEAVING = 20


class Presence:
    """The gateway itself and its clients; short-lived ones are not listed."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._rows: dict[str, dict[str, Any]] = {}
        self._gone: list[dict[str, Any]] = []
        self.version = 1
        self._own = {
            "host": socket.gethostname(),
            "version": __version__,
            "platform": platform.system().lower(),
            "mode": "gateway",
            "reason": "self",
            "instanceId": str(os.getpid()),
            "text": f"Gateway: {socket.gethostname()}",
        }

    def list(self) -> "list[dict[str, Any]]":
        own = {"ts": millis(self._clock), **self._own}
        return [own, *self._rows.values(), *self._gone]

    def joined(self, caller: Caller) -> bool:
        """Adds a client; whether anyone needs to know."""
        if caller.client_mode in UNLISTED:
            return False
        now = millis(self._clock)
        row = {
            "ts": now,
            "onlineSince": now,
            "clientId": caller.client_id,
            "mode": caller.client_mode,
            "version": caller.version,
            "platform": caller.platform,
            "ip": caller.remote_ip,
            "host": caller.display_name or caller.client_id,
            "roles": [caller.role],
            "scopes": list(caller.scopes),
            "reason": "connect",
            **({"deviceId": caller.device_id} if caller.device_id else {}),
            **({"instanceId": caller.instance_id} if caller.instance_id else {}),
        }
        self._rows[caller.conn_id] = row
        self.version += 1
        return True

    def left(self, caller: Caller) -> bool:
        row = self._rows.pop(caller.conn_id, None)
        if row is None:
            return False
        self._gone = [{**row, "reason": "disconnect", "ts": millis(self._clock)}, *self._gone][:KEPT_AFTER_LEAVING]
        self.version += 1
        return True
