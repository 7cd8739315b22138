"""The gateway against a model server on loopback: start, memory, cost a turn, turns a second.

Run: python benchmarks/gateway.py [--quick] [--fan-out]
"""

import asyncio
import sys
import tempfile
import time
import uuid
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from openclaw.protocol.client import GatewayClient
from openclaw.protocol.scopes import WRITE
from openclaw.testing import TemporaryHome, says
from openclaw.testing.server import MockModelServer
from tests.e2e.crowd import Crowd
from tests.e2e.gateway_process import GatewayProcess, cpu, pss

FAN_OUT = ((200, 1, 20), (1000, 1, 20), (1000, 32, 2))
"""Listeners, sessions at once, turns of each."""


async def turn(client: GatewayClient, key: str) -> float:
    """One turn; gives the milliseconds until its end."""
    began = time.perf_counter()
    params = {"message": "hello", "sessionKey": key, "idempotencyKey": str(uuid.uuid4())}
    await client.call("agent", params, final=True, timeout=120)
    return (time.perf_counter() - began) * 1000


async def first_delta(client: GatewayClient, key: str) -> float:
    began = time.perf_counter()
    params = {"sessionKey": key, "message": "hello", "idempotencyKey": str(uuid.uuid4())}
    await client.call("chat.send", params)
    async for event in client.events():
        if getattr(event, "event", "") == "chat" and event.payload["state"] == "delta":  # type: ignore[union-attr]
            took = (time.perf_counter() - began) * 1000
        if getattr(event, "event", "") == "chat" and event.payload["state"] == "final":  # type: ignore[union-attr]
            return took
    return 0.0


async def measure(gateway: GatewayProcess, quick: bool) -> None:
    assert gateway.process is not None
    pid = gateway.process.pid
    print(f"ready after {cpu(pid):.2f} s CPU; idle {pss(pid):.1f} MiB PSS")
    async with gateway.client() as client:
        print(f"first delta after {await first_delta(client, 'delta'):.1f} ms")
        marks = {1, 50, 200} if not quick else {1, 20}
        used = cpu(pid)
        window: list[float] = []
        for number in range(1, max(marks) + 1):
            window.append(await turn(client, "long"))
            if number in marks:
                spent = (cpu(pid) - used) / len(window) * 1000
                print(f"turn {number:>4}: {window[-1]:6.1f} ms wall, {spent:5.1f} ms CPU a turn since the last mark")
                used, window = cpu(pid), []
        for sessions in (1, 8, 32, 128) if not quick else (1, 8):
            rounds = max(1, 128 // sessions)
            began, used = time.perf_counter(), cpu(pid)

            async def work(name: str, times: int) -> None:
                for _ in range(times):
                    await turn(client, name)

            await asyncio.gather(*(work(f"s{sessions}-{number}", rounds) for number in range(sessions)))
            count = sessions * rounds
            took = time.perf_counter() - began
            each = (cpu(pid) - used) / count * 1000
            print(f"{sessions:>4} sessions: {count / took:6.1f} turns/s, {each:5.1f} ms CPU a turn")
    print(f"after the load {pss(pid):.1f} MiB PSS")


async def fan_out(gateway: GatewayProcess, listeners: int, sessions: int, rounds: int) -> None:
    """What an event costs for each client that hears it."""
    assert gateway.process is not None
    pid = gateway.process.pid
    async with gateway.client(scopes=(WRITE,)) as client:

        async def work(name: str) -> None:
            for _ in range(rounds):
                await turn(client, name)

        async def everyone(prefix: str) -> float:
            used = cpu(pid)
            await asyncio.gather(*(work(f"{prefix}{number}") for number in range(sessions)))
            return cpu(pid) - used

        alone = await everyone("alone")
        before = pss(pid)
        with Crowd(gateway, listeners) as crowd:
            each = (pss(pid) - before) * 1024 / listeners
            began = time.perf_counter()
            together = await everyone("heard")
            took = time.perf_counter() - began
    deliveries = sum(crowd.heard)
    print(
        f"{listeners:>4} listeners, {sessions} sessions: {(together - alone) / deliveries * 1e6:5.1f} us CPU an event"
        f" and connection, {deliveries / took:,.0f} deliveries/s, {each:.0f} KiB PSS a connection,"
        f" {crowd.closed} closed, {crowd.gaps} gaps"
    )


def main() -> None:
    with (
        tempfile.TemporaryDirectory() as root,
        MockModelServer([says("an answer of ten words or so, to be fair")]) as model,
    ):
        home = TemporaryHome(Path(root))
        home.configure(model.settings())
        with GatewayProcess(home, fresh=True) as gateway:
            quick = "--quick" in sys.argv
            if "--fan-out" not in sys.argv:
                asyncio.run(measure(gateway, quick))
            for listeners, sessions, rounds in ((100, 1, 10), (100, 32, 2)) if quick else FAN_OUT:
                asyncio.run(fan_out(gateway, listeners, sessions, rounds))


if __name__ == "__main__":
    main()
