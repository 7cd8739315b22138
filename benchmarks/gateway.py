"""The gateway against a model server on loopback: start, memory, cost a turn, turns a second.

Run: python benchmarks/gateway.py [--quick]
"""

import asyncio
import os
import sys
import tempfile
import time
import uuid
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from openclaw.testing import TemporaryHome, says
from openclaw.testing_server import MockModelServer
from openclaw.wire.client import Client
from tests.e2e.gateway_process import GatewayProcess

TICKS = os.sysconf("SC_CLK_TCK")


def cpu(pid: int) -> float:
    """CPU seconds of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def pss(pid: int) -> float:
    """Resident memory in MiB, shared pages counted by their share."""
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) / 1024
    return 0.0


async def turn(client: Client, key: str) -> float:
    """One turn; gives the milliseconds until its end."""
    began = time.perf_counter()
    params = {"message": "hello", "sessionKey": key, "idempotencyKey": str(uuid.uuid4())}
    await client.call("agent", params, final=True, timeout=120)
    return (time.perf_counter() - began) * 1000


async def first_delta(client: Client, key: str) -> float:
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


def main() -> None:
    with (
        tempfile.TemporaryDirectory() as root,
        MockModelServer([says("an answer of ten words or so, to be fair")]) as model,
    ):
        home = TemporaryHome(Path(root))
        home.configure(model.settings())
        with GatewayProcess(home) as gateway:
            asyncio.run(measure(gateway, "--quick" in sys.argv))


if __name__ == "__main__":
    main()
