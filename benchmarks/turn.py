"""A turn by a client over the socket, with a model that costs nothing: what the gateway itself takes.

Run: python benchmarks/turn.py [--quick] [--source DIR]

CPU is of the gateway's process. The rest of the machine shows in the wall times: each is the median of many, beside it
stands the best. `--source` measures another tree's `src`, to compare two in one sitting.
"""

import argparse
import asyncio
import statistics
import sys
import tempfile
import time
import uuid
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

import msgspec
from lean import LeanClient, ModelProcess, Turn, cpu_ms, lean_client

from openclaw.testing import TemporaryHome
from tests.e2e.gateway_process import GatewayProcess

READS = "BENCH-READ 10 note.txt"


class SourceHome(TemporaryHome):
    """A home whose gateway is that of another tree."""

    source = ""

    @property
    def environ(self) -> dict[str, str]:
        return super().environ | ({"PYTHONPATH": self.source} if self.source else {})


class Gateway:
    """A running gateway and one client of it."""

    def __init__(self, process: GatewayProcess, client: LeanClient, home: TemporaryHome) -> None:
        assert process.process is not None
        self.pid = process.process.pid
        self.client = client
        self.home = home

    async def turns(self, sessions: Sequence[str], times: int, message: str = "hello") -> tuple[list[Turn], float]:
        """`times` turns of each session side by side; gives them and the CPU of each, in milliseconds."""
        used = cpu_ms(self.pid)

        async def work(session: str) -> list[Turn]:
            return [await self.client.say(session, message) for _ in range(times)]

        done = [turn for each in await asyncio.gather(*map(work, sessions)) for turn in each]
        return done, (cpu_ms(self.pid) - used) / len(done)


@asynccontextmanager
async def gateway(source: str = "", wait: float = 0.0) -> AsyncIterator[Gateway]:
    """A gateway that was ready `wait` seconds ago."""
    with tempfile.TemporaryDirectory() as root, ModelProcess() as model:
        home = SourceHome(Path(root))
        home.source = source
        home.configure(model.settings())
        (home.workspace / "note.txt").write_text("a line of a note\n" * 20)
        with GatewayProcess(home, fresh=True) as process:
            await asyncio.sleep(wait)
            async with lean_client(process.port, process.token) as client:
                yield Gateway(process, client, home)


def wall(turns: Sequence[Turn]) -> str:
    took = [turn.took for turn in turns]
    return f"{statistics.median(took):6.1f} ms (best {min(took):.1f})"


async def first_turns(source: str, rounds: int) -> None:
    for name, wait in (("at once", 0.0), ("one second after ready", 1.0)):
        took = []
        for _ in range(rounds):
            async with gateway(source, wait) as one:
                took.append((await one.client.say("first")).took)
        print(f"first turn, {name:<24} {statistics.median(took):6.1f} ms (best {min(took):.1f})")


SETTLED = 2.0
"""Seconds until the files of a new home count as settled: in the first, each turn reads all of them again."""


async def one_session(source: str, quick: bool) -> None:
    async with gateway(source, SETTLED) as one:
        await one.turns(["warm"], 5)
        for start, end in ((0, 10), (40, 50), (190, 200)) if not quick else ((0, 10), (40, 50)):
            if start:
                await one.turns(["long"], start - (10 if start == 40 else 50))
            done, cpu = await one.turns(["long"], end - start)
            first = statistics.median(turn.first for turn in done)
            print(f"turns {start + 1:>3} to {end:>3} of a session:     {wall(done)}, {cpu:.2f} ms CPU; ", end="")
            print(f"first delta {first:.1f} ms (best {min(turn.first for turn in done):.1f})")


async def many_sessions(source: str, quick: bool) -> None:
    async with gateway(source, SETTLED) as one:
        for count in (32, 128) if not quick else (32,):
            names = [f"of{count}-{number}" for number in range(count)]
            await one.turns(names, 2)
            began = time.perf_counter()
            done, cpu = await one.turns(names, max(4, 640 // count))
            rate = len(done) / (time.perf_counter() - began)
            print(f"{count:>4} sessions at once: {rate:18.0f} turns/s, {cpu:.2f} ms CPU a turn")


async def reads(source: str, quick: bool) -> None:
    async with gateway(source, SETTLED) as one:
        await one.turns(["warm"], 3, READS)
        done: list[Turn] = []
        used = 0.0
        rounds = 10 if quick else 30
        for _ in range(rounds):
            some, cpu = await one.turns([uuid.uuid4().hex], 1, READS)
            done, used = [*done, *some], used + cpu
        print(f"ten reads, one after another:     {wall(done)}, {used / rounds:.1f} ms CPU")


def write_session(home: TemporaryHome, session_id: str, messages: int) -> None:
    """Makes the conversation of a session one of so many messages."""
    path = home.state / "agents" / "main" / "sessions" / f"{session_id}.jsonl"
    lines = path.read_bytes().splitlines()
    last = msgspec.json.decode(lines[-1])
    pair = [msgspec.json.decode(line) for line in lines if b'"type":"message"' in line][:2]
    above, added = last["id"], []
    for number in range(messages):
        entry = {**pair[number % 2], "id": f"e{number:07x}", "parentId": above}
        if number % 2 == 0:
            entry["message"] = {**entry["message"], "idempotencyKey": f"made-{number}:user"}
        above = entry["id"]
        added.append(msgspec.json.encode(entry))
    with path.open("ab") as file:
        file.writelines(line + b"\n" for line in added)


async def long_history(source: str, messages: int) -> None:
    """A session of many messages, written by hand because talking would take a minute."""
    async with gateway(source) as one:
        await one.client.say("huge")
        listed = await one.client.call("sessions.list", {})
        rows = msgspec.json.decode(listed)["payload"]["sessions"]
        session_id = next(row["sessionId"] for row in rows if row["key"].endswith(":huge"))
        write_session(one.home, session_id, messages)
        for number in range(3):
            began = time.perf_counter()
            used = cpu_ms(one.pid)
            size = len(await one.client.call("chat.history", {"sessionKey": "huge"}))
            took, used = (time.perf_counter() - began) * 1000, cpu_ms(one.pid) - used
            print(
                f"{messages:,} messages, page opened {number + 1}: {took:10.1f} ms, {used:.1f} ms CPU, {size:,} bytes"
            )
        first, cpu = await one.turns(["huge"], 1)
        print(f"{messages:,} messages, the next turn:  {wall(first)}, {cpu:.1f} ms CPU (reads all of it)")
        done, cpu = await one.turns(["huge"], 10)
        print(f"{messages:,} messages, one more:       {wall(done)}, {cpu:.1f} ms CPU")


async def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--source", default="")
    parser.add_argument("--only", choices=("first", "one", "many", "reads", "history"))
    chosen = parser.parse_args()
    only = chosen.only
    if only in (None, "first"):
        await first_turns(chosen.source, 1 if chosen.quick else 5)
    if only in (None, "one"):
        await one_session(chosen.source, chosen.quick)
    if only in (None, "many"):
        await many_sessions(chosen.source, chosen.quick)
    if only in (None, "reads"):
        await reads(chosen.source, chosen.quick)
    if only in (None, "history"):
        await long_history(chosen.source, 1_000 if chosen.quick else 10_000)


if __name__ == "__main__":
    asyncio.run(main())
