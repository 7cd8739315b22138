"""What starting costs: modules, CPU time and memory of commands and of a gateway, beside another version in one run.

    python benchmarks/start.py [--rounds 7] [--against OTHER/src] [--long]

With `--against` the sources of another checkout are measured in turn with ours, so that both meet the same machine.
"""

import argparse
import asyncio
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from contextlib import ExitStack
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from openclaw.testing import TemporaryHome, says
from openclaw.testing.server import MockModelServer
from tests.e2e.gateway_process import GatewayProcess, cpu, pss

OURS = Path(__file__).parent.parent / "src"
ALONE: dict[str, tuple[str, ...]] = {
    "--version": ("--version",),
    "--help": ("--help",),
    "status": ("status",),
    "sessions list": ("sessions", "list"),
    "one turn in its own process": ("agent", "--local", "--message", "hello"),
}
BESIDE: dict[str, tuple[str, ...]] = {
    "status, gateway up": ("status",),
    "sessions list, gateway up": ("sessions", "list"),
    "cron list, gateway up": ("cron", "list"),
    "one turn, gateway up": ("agent", "--message", "hello"),
}
COUNT = (
    "import sys, runpy; sys.argv = {argv!r}\n"
    "try: runpy.run_module('openclaw', run_name='__main__', alter_sys=True)\n"
    "except SystemExit: pass\n"
    "sys.stderr.write('@@%d' % len(sys.modules))"
)


class HomeOf(TemporaryHome):
    """A home whose programs are those of `source`."""

    source: Path

    @property
    def environ(self) -> dict[str, str]:
        return {**super().environ, "PYTHONPATH": str(self.source)}


class Side:
    """One version of the sources, with a home of its own."""

    def __init__(self, source: Path, root: Path, settings: dict[str, object]) -> None:
        self.home = HomeOf(root)
        self.home.source = source
        self.home.configure(settings)
        self.gateway = GatewayProcess(self.home, fresh=True)

    def run(self, *command: str) -> tuple[float, str]:
        """CPU milliseconds of a command, and what it wrote to standard error."""
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run(
            [sys.executable, *command],
            env=self.home.environ,
            cwd=self.home.root,
            capture_output=True,
            check=False,
            text=True,
        )
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        assert done.returncode == 0, done.stderr
        return (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) * 1000, done.stderr

    def modules(self, words: tuple[str, ...]) -> int:
        return int(json.loads(self.run("-c", COUNT.format(argv=["openclaw", *words]))[1].rpartition("@@")[2]))


def compare(name: str, sides: list[Side], words: tuple[str, ...], rounds: int) -> None:
    taken: list[list[float]] = [[] for _ in sides]
    for _ in range(rounds):
        for side, times in zip(sides, taken, strict=True):
            times.append(side.run("-m", "openclaw", *words)[0])
    print_row(name, [f"{side.modules(words):>7} {show(times)}" for side, times in zip(sides, taken, strict=True)])


def print_row(name: str, cells: list[str]) -> None:
    print(f"{name:<30}{'   '.join(cells)}")


def show(values: list[float]) -> str:
    """The least, which the machine's load disturbs least, and the middle."""
    return f"{min(values):>7.1f} {statistics.median(values):>7.1f}"


def starts(sides: list[Side], rounds: int) -> None:
    """Starts gateways in turn; the last ones stay."""
    ready: list[list[float]] = [[] for _ in sides]
    idle: list[list[float]] = [[] for _ in sides]
    for number in range(rounds):
        for side, times, memory in zip(sides, ready, idle, strict=True):
            side.gateway.start()
            assert side.gateway.process is not None
            times.append(cpu(side.gateway.process.pid) * 1000)
            settle(side)
            memory.append(pss(side.gateway.process.pid))
            if number + 1 < rounds:
                side.gateway.stop()
    for name, figures in (("gateway ready, CPU ms", ready), ("gateway idle, PSS MiB", idle)):
        print_row(name, [" " * 8 + show(each) for each in figures])


def turns(sides: list[Side], long: bool) -> None:
    """Turns over a socket: what the first costs, and what stays in memory after so many."""
    shown = [asyncio.run(footprint(side, long)) for side in sides]
    for name in shown[0]:
        print_row(name, [f"{'':>8}{figures[name]:>7.1f}{'':>8}" for figures in shown])


async def footprint(side: Side, long: bool) -> dict[str, float]:
    assert side.gateway.process is not None
    pid = side.gateway.process.pid
    found: dict[str, float] = {}
    async with side.gateway.client() as client:

        async def turn(key: str) -> None:
            params = {"message": "hello", "sessionKey": key, "idempotencyKey": str(uuid.uuid4())}
            await client.call("agent", params, final=True, timeout=120)

        used, began = cpu(pid), time.perf_counter()
        await turn("main")
        found["first turn, ms"] = (time.perf_counter() - began) * 1000
        found["first turn, CPU ms"] = (cpu(pid) - used) * 1000
        found["PSS after it, MiB"] = pss(pid)
        for _ in range(199):
            await turn("main")
        found["PSS after 200 turns, MiB"] = pss(pid)
        for total in (2_000, 4_000) if long else ():
            for _ in range(10):
                await asyncio.gather(*(turn(f"s{number}") for number in range(200)))
            found[f"PSS after {total:,} in 200 sessions"] = pss(pid)
    return found


def settle(side: Side) -> None:
    """Waits until the gateway does nothing any more: a second without a tick of CPU time."""
    assert side.gateway.process is not None
    used = -1.0
    while used != (used := cpu(side.gateway.process.pid)):
        time.sleep(1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--against", type=Path, help="the src folder of another checkout")
    parser.add_argument("--long", action="store_true", help="also 4,000 turns in 200 sessions")
    arguments = parser.parse_args()
    if arguments.against is not None and not (arguments.against / "openclaw").is_dir():
        parser.error(f"{arguments.against} holds no openclaw")
    sources = [OURS] if arguments.against is None else [arguments.against.resolve(), OURS]
    with ExitStack() as stack:
        model = stack.enter_context(MockModelServer([says("an answer of ten words or so, to be fair")]))
        roots = [Path(stack.enter_context(tempfile.TemporaryDirectory())) for _ in sources]
        sides = [Side(source, root, model.settings()) for source, root in zip(sources, roots, strict=True)]
        print_row("", [f"{source.parent.name:<23}" for source in sources])
        print_row("", ["modules   least  middle"] * len(sides))
        for name, words in ALONE.items():
            compare(name, sides, words, arguments.rounds)
        for side in sides:
            stack.push(side.gateway)
        starts(sides, arguments.rounds)
        turns(sides, arguments.long)
        for name, words in BESIDE.items():
            compare(name, sides, words, arguments.rounds)


if __name__ == "__main__":
    main()
