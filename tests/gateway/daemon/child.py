"""A gateway in a process of its own that serves an echo and tells on standard output what happens to it."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from openclaw.core.errors import OpenClawError
from openclaw.core.keys import SessionKey
from openclaw.gateway import daemon
from openclaw.gateway.connections import Transport
from openclaw.gateway.launch import GatewayLaunch, GatewayParts
from openclaw.gateway.logs import log_context
from openclaw.gateway.reload import Reload
from openclaw.process.environment import Environment
from openclaw.runs.request import RunRequest

GIVEN: dict[str, Any] = json.loads(sys.argv[1])


def say(event: str, **facts: Any) -> None:
    print(json.dumps({"event": event, **facts}), flush=True)


@asynccontextmanager
async def compose(launch: GatewayLaunch) -> AsyncIterator[GatewayParts]:
    assert launch.server is not None
    say("composed", port=launch.server.port, safe=launch.safe, mode=launch.exposure.mode)
    if GIVEN.get("dies"):
        raise RuntimeError("a part that cannot start")

    async def connection(transport: Transport) -> None:
        while True:
            with log_context(RunRequest(run_id="run-1", key=SessionKey("main", "main"), text="")):
                daemon.log.info("heard something")
            heard = await transport.receive()
            await transport.send(heard.encode() if isinstance(heard, str) else heard)

    async def reload(change: Reload) -> None:
        say("reloaded", changed=change.changed, kind=change.kind)

    async def drain(seconds: float) -> None:
        say("draining", seconds=seconds)
        await asyncio.sleep(GIVEN.get("drain", 0))
        say("drained")

    yield GatewayParts(connection=connection, reload=reload, drain=drain)
    say("closed")


def main() -> None:
    options = msgspec.convert(GIVEN.get("options", {}), daemon.DaemonOptions)
    try:
        daemon.run(options, Environment.of_process(), compose)
    except OpenClawError as error:
        say("refused", message=error.message)
        sys.exit(1)


if __name__ == "__main__":
    main()
