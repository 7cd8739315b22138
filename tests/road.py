"""Counts the functions and files that one warm chat message with one tool call passes, from the frame to the final."""

import asyncio
import sys
import tempfile
import uuid
from pathlib import Path
from types import FrameType
from typing import Any

import openclaw
from openclaw.gateway.local import local_gateway
from openclaw.process.environment import Environment
from openclaw.protocol.client import GatewayClient
from openclaw.protocol.frames import EventFrame
from openclaw.testing import TemporaryHome

HOUSE = str(Path(openclaw.__file__).parent)
COMPREHENSIONS = ("<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>", "<lambda>", "<module>")


class Road:
    """The functions of ours that are entered while it is looked at."""

    def __init__(self) -> None:
        self.functions: set[tuple[str, str, int]] = set()
        self.lambdas = 0

    @property
    def files(self) -> set[str]:
        return {name for name, _, _ in self.functions}

    def _enter(self, frame: FrameType, event: str, arg: Any) -> None:
        code = frame.f_code
        if event != "call" or not code.co_filename.startswith(HOUSE):
            return
        if code.co_name in COMPREHENSIONS:
            self.lambdas += code.co_name == "<lambda>"
            return
        self.functions.add((code.co_filename.removeprefix(HOUSE), code.co_qualname, code.co_firstlineno))

    def __enter__(self) -> "Road":
        sys.setprofile(self._enter)
        return self

    def __exit__(self, *ended: object) -> None:
        sys.setprofile(None)


async def _say(client: GatewayClient, text: str) -> None:
    """One chat message, until its final event."""
    run_id = uuid.uuid4().hex
    final = asyncio.Event()

    async def listen() -> None:
        async for event in client.events():
            if not isinstance(event, EventFrame):
                continue
            payload = event.payload or {}
            if event.event == "chat" and payload.get("runId") == run_id and payload.get("state") in ("final", "error"):
                final.set()
                return

    listening = asyncio.create_task(listen())
    await asyncio.sleep(0)
    await client.call("chat.send", {"sessionKey": "main", "message": text, "idempotencyKey": run_id})
    await asyncio.wait_for(final.wait(), 120)
    await listening


async def measured(home: TemporaryHome) -> Road:
    """The second turn of a conversation with the offline responder, which lists a directory."""
    environment = Environment(environ=home.environ, home_dir=home.root, cwd=home.workspace)
    async with local_gateway(environment) as client:
        await _say(client, "list the files here")
        with Road() as road:
            await _say(client, "list the files here")
    return road


def main() -> int:
    with tempfile.TemporaryDirectory() as root:
        road = asyncio.run(measured(TemporaryHome(Path(root))))
    print(f"| functions on the road of a warm chat message with one tool call | {len(road.functions)} |")
    print(f"| files on it | {len(road.files)} |")
    if "--list" in sys.argv[1:]:
        for name, function, line in sorted(road.functions):
            print(f"{name}:{line} {function}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
