"""Many clients of a gateway that only listen, in a process of their own so that they cost the test nothing.

    with Crowd(gateway, 900) as crowd: …
    crowd.heard   # [events, one number a connection]

Each speaks raw frames over its own socket, answers pings, and checks that its events are numbered without a gap.
"""

import asyncio
import json
import os
import subprocess
import sys

from openclaw.core.secret import Secret
from tests.e2e.gateway_process import GatewayProcess
from tests.e2e.raw_client import RawClient

AT_ONCE = 50
"""How many shake hands at the same time: the handshakes of a thousand would time out behind each other."""


class Crowd:
    """`count` connections for the length of the block; what they heard is known after it."""

    def __init__(self, gateway: GatewayProcess, count: int) -> None:
        self._command = [sys.executable, "-m", "tests.e2e.crowd", str(gateway.port), str(count)]
        self._token = gateway.token
        self.heard: list[int] = []
        self.closed = 0
        self.gaps = 0

    def __enter__(self) -> "Crowd":
        environ = {**os.environ, "CROWD_TOKEN": self._token.reveal()}
        self._process = subprocess.Popen(
            self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environ
        )
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == "ready\n"
        return self

    def __exit__(self, *_: object) -> None:
        told = self._process.communicate("over\n", timeout=60)[0]
        report = json.loads(told)
        self.heard, self.closed, self.gaps = report["heard"], report["closed"], report["gaps"]


class Listener(RawClient):
    """One connection that counts."""

    def __init__(self, port: int, token: Secret) -> None:
        super().__init__(port, token)
        self.count = 0
        self.gaps = 0

    def heard(self, data: bytes) -> None:
        self.count += 1
        if not data.startswith(b'"seq":%d' % self.count, data.rfind(b'"seq":')):
            self.gaps += 1


async def _listen(port: int, count: int, token: Secret) -> None:
    loop = asyncio.get_running_loop()
    listeners: list[Listener] = []
    for begun in range(0, count, AT_ONCE):
        some = [
            (await loop.create_connection(lambda: Listener(port, token), "127.0.0.1", port))[1]
            for _ in range(min(AT_ONCE, count - begun))
        ]
        await asyncio.gather(*(listener.ready for listener in some))
        listeners += some
    print("ready", flush=True)
    await asyncio.to_thread(sys.stdin.readline)
    report = {
        "heard": [listener.count for listener in listeners],
        "closed": sum(listener.closed for listener in listeners),
        "gaps": sum(listener.gaps for listener in listeners),
    }
    print(json.dumps(report))


if __name__ == "__main__":
    asyncio.run(_listen(int(sys.argv[1]), int(sys.argv[2]), Secret(os.environ["CROWD_TOKEN"])))
