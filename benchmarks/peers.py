"""Ours and its peers in one run, against the same model: OpenClaw (npm), nanobot-ai and hermes-agent (PyPI).

Run: python benchmarks/peers.py [--install DIR] [--rounds N] [--only NAME]

`--install` puts the peers, and a Node that is new enough for OpenClaw, into directories of their own below DIR, or uses
what is there. A peer that is not installed, or does not answer, says so; what it does not have is a dash.

Ours and OpenClaw are asked over the gateway's WebSocket, by the same client; the others over their HTTP interface,
which streams as well. CPU is of a program and all its children. Every round measures each of them once, so that what
else the machine does falls on all, and the middle of the rounds is shown.
"""

import argparse
import asyncio
import json
import os
import platform
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from lean import WORDS, ModelProcess, Turn, lean_client
from msgspec import Struct, field

from openclaw.core.secret import Secret
from tests.e2e.gateway_process import descendants, pss

PATIENCE = 120
TOKEN = "a-token-for-the-benchmark-alone"
READS = "BENCH-READ 10 note.txt"
OPENCLAW = "openclaw/node_modules/.bin/openclaw"
NODE = f"node-linux-{ {'x86_64': 'x64', 'aarch64': 'arm64'}.get(platform.machine(), platform.machine()) }"
SAID = " ".join(WORDS.split()[:4])
"""How the model's answer begins."""

START, IDLE, FIRST, FIRST_CPU = "start to ready, CPU ms", "idle, PSS MiB", "first turn, ms", "first turn, CPU ms"
TURN, TURN_CPU, DELTA = "a turn, ms", "a turn, CPU ms", "first delta, ms"
READING, READING_CPU = "ten reads, ms", "ten reads, CPU ms"
RATE, RATE_CPU = "32 sessions, turns/s", "32 sessions, CPU ms a turn"
STATUS, COMMAND = "`status`, daemon up, CPU ms", "a turn by command, CPU ms"
ROWS = (START, IDLE, FIRST, FIRST_CPU, TURN, TURN_CPU, DELTA, READING, READING_CPU, RATE, RATE_CPU, STATUS, COMMAND)

Say = Callable[[str, str], Awaitable[Turn]]


class Peer(Struct):
    """A program, in a home of its own, and what was measured of it."""

    name: str
    root: Path
    program: list[str]
    environ: dict[str, str]
    serve: list[str]
    status: list[str]
    ask: list[str]
    open: Callable[[int], AbstractAsyncContextManager[Say]]
    port: int
    problem: str = ""
    figures: dict[str, list[float]] = field(default_factory=dict)

    def note(self, name: str, value: float) -> None:
        self.figures.setdefault(name, []).append(value)

    def run(self, words: list[str], expected: str) -> float:
        """The CPU of a command and its children in milliseconds."""
        before = os.times()
        command = [*self.program, *words]
        done = subprocess.run(
            command, env=self.environ, cwd=self.root, capture_output=True, text=True, timeout=PATIENCE, check=False
        )
        after = os.times()
        if done.returncode or expected not in " ".join(done.stdout.split()):
            raise RuntimeError(f"{' '.join(words)}: {(done.stderr or done.stdout).strip()[-300:]!r}")
        spent = after.children_user + after.children_system - before.children_user - before.children_system
        return spent * 1000

    def measure(self) -> None:
        """Measures once; a failure is kept as `problem`, beside what was measured before it."""
        if self.problem:
            return
        try:
            with (self.root / "serve.log").open("ab") as log:
                server = subprocess.Popen(
                    [*self.program, *self.serve], env=self.environ, cwd=self.root, stdout=log, stderr=log
                )
                try:
                    asyncio.run(self._measure(server))
                finally:
                    end(server)
            self.note(COMMAND, self.run(self.ask, SAID))
        except (OSError, RuntimeError, TimeoutError, AssertionError, subprocess.TimeoutExpired) as error:
            self.problem = f"{type(error).__name__}: {error}"

    async def _measure(self, server: "subprocess.Popen[bytes]") -> None:
        async with self._ready(server) as say:
            self.note(START, tree_cpu(server.pid))
            await settled(server.pid)
            self.note(IDLE, sum(map(pss, tree(server.pid))))
            used = tree_cpu(server.pid)
            self.note(FIRST, (await say("first", "hello")).took)
            self.note(FIRST_CPU, tree_cpu(server.pid) - used)
            await turns(say, ["warm"], 5)
            done, cpu, _ = await measured(server.pid, turns(say, ["one"], 30))
            self.note(TURN, statistics.median(turn.took for turn in done))
            self.note(DELTA, statistics.median(turn.first for turn in done))
            self.note(TURN_CPU, cpu / len(done))
            await say("reading", READS)
            done, cpu, _ = await measured(server.pid, turns(say, ["reads"], 3, READS))
            self.note(READING, statistics.median(turn.took for turn in done))
            self.note(READING_CPU, cpu / len(done))
            many = [f"many{number}" for number in range(32)]
            await turns(say, many, 1)
            done, cpu, took = await measured(server.pid, turns(say, many, 3))
            self.note(RATE, len(done) / took)
            self.note(RATE_CPU, cpu / len(done))
        self.note(STATUS, await asyncio.to_thread(self.run, self.status, ""))

    @asynccontextmanager
    async def _ready(self, server: "subprocess.Popen[bytes]") -> AsyncIterator[Say]:
        """The first connection that is let in."""
        deadline = time.monotonic() + PATIENCE
        async with AsyncExitStack() as stack:
            say: Say | None = None
            while say is None:
                assert server.poll() is None and time.monotonic() < deadline, self.output()
                try:
                    say = await stack.enter_async_context(self.open(self.port))
                except ConnectionError:
                    await asyncio.sleep(0.1)
            yield say

    def output(self) -> str:
        return (self.root / "serve.log").read_text(errors="replace")[-600:]


# What a process and its children use.


def tree(pid: int) -> list[int]:
    return [pid, *descendants(pid)]


def tree_cpu(pid: int) -> float:
    """CPU milliseconds of a process and its children, those that ended included."""
    ticks = 0
    for each in tree(pid):
        with suppress(FileNotFoundError, ProcessLookupError):
            fields = Path(f"/proc/{each}/stat").read_text().rpartition(")")[2].split()
            ticks += sum(map(int, fields[11:15]))
    return ticks * 1000 / os.sysconf("SC_CLK_TCK")


async def settled(pid: int) -> None:
    """Waits until a program does next to nothing for two seconds, or half a minute."""
    for _ in range(15):
        used = tree_cpu(pid)
        await asyncio.sleep(2)
        if tree_cpu(pid) - used <= 20:
            return


async def measured(pid: int, work: Awaitable[list[Turn]]) -> tuple[list[Turn], float, float]:
    """What was done, its CPU in milliseconds and its seconds."""
    used, began = tree_cpu(pid), time.perf_counter()
    done = await work
    return done, tree_cpu(pid) - used, time.perf_counter() - began


async def turns(say: Say, sessions: list[str], times: int, message: str = "hello") -> list[Turn]:
    """`times` turns of each session, the sessions side by side."""

    async def work(session: str) -> list[Turn]:
        return [await say(session, message) for _ in range(times)]

    return [turn for each in await asyncio.gather(*map(work, sessions)) for turn in each]


def end(server: "subprocess.Popen[bytes]") -> None:
    left = tree(server.pid)
    server.terminate()
    try:
        server.wait(20)
    except subprocess.TimeoutExpired:
        server.kill()
        server.wait()
    for child in left[1:]:
        with suppress(ProcessLookupError):
            os.kill(child, 9)


# How they are asked.


@asynccontextmanager
async def by_websocket(port: int) -> AsyncIterator[Say]:
    async with lean_client(port, Secret(TOKEN)) as client:
        yield client.say


@asynccontextmanager
async def by_http(port: int) -> AsyncIterator[Say]:
    """`/v1/chat/completions`; the session is named in a header (hermes-agent) and in the body (nanobot-ai)."""
    (await asyncio.open_connection("127.0.0.1", port))[1].close()

    async def say(session: str, message: str) -> Turn:
        asked = {"model": "mock", "stream": True, "messages": [{"role": "user", "content": message}]}
        body = json.dumps({**asked, "session_id": session}).encode()
        head = (
            f"POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/json\r\n"
            f"Authorization: Bearer {TOKEN}\r\nX-Hermes-Session-Id: {session}\r\nContent-Length: {len(body)}\r\n"
            "Connection: close\r\n\r\n"
        )
        turn = Turn()
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(head.encode() + body)
        heard = b""
        async with asyncio.timeout(PATIENCE):
            while data := await reader.read(65536):
                heard += data
                if not turn.first and b'"content":' in heard:
                    turn.heard("delta")
                if b"data: [DONE]" in heard:
                    break
        turn.heard("final")
        writer.close()
        if b" 200 " not in heard[:20] or SAID.split()[-1].encode() not in heard:
            raise RuntimeError(f"no answer: {heard[-300:]!r}")
        return turn

    yield say


# Who they are.


def _environ(home: Path, *paths: Path, **more: str) -> dict[str, str]:
    path = os.pathsep.join([*map(str, paths), os.environ.get("PATH", os.defpath)])
    return {"HOME": str(home), "PATH": path, "LANG": "C.UTF-8", "NO_COLOR": "1", "TERM": "dumb", **more}


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _gateway(root: Path, model: ModelProcess, port: int) -> None:
    """The configuration ours and OpenClaw share."""
    auth = {"mode": "token", "token": TOKEN}
    gateway = {"mode": "local", "port": port, "bind": "loopback", "auth": auth}
    _write(root / ".openclaw/openclaw.json", json.dumps({**model.settings(), "gateway": gateway}))
    _write(root / ".openclaw/workspace/note.txt", "a line of a note\n" * 20)


def _ours(root: Path, model: ModelProcess, installed: Path | None) -> Peer:
    port = _free_port()
    _gateway(root, model, port)
    return Peer(
        name="ours",
        root=root,
        program=[sys.executable, "-m", "openclaw"],
        environ=_environ(root, PYTHONPATH=str(Path(__file__).parent.parent / "src")),
        serve=["gateway", "run"],
        status=["status"],
        ask=["agent", "--local", "--message", "hello"],
        open=by_websocket,
        port=port,
    )


def _openclaw(root: Path, model: ModelProcess, installed: Path | None) -> Peer:
    port = _free_port()
    _gateway(root, model, port)
    node = [installed / "node/node_modules" / NODE / "bin"] if installed else []
    return Peer(
        name="OpenClaw",
        root=root,
        program=_found(installed / OPENCLAW if installed else None, "openclaw"),
        environ=_environ(root, *node),
        serve=["gateway", "run"],
        status=["status"],
        ask=["agent", "--local", "--session-id", "bench", "--message", "hello"],
        open=by_websocket,
        port=port,
    )


def _nanobot(root: Path, model: ModelProcess, installed: Path | None) -> Peer:
    providers = {"custom": {"apiKey": "mock-key-123456", "apiBase": model.url}}
    agents = {"defaults": {"model": "mock", "provider": "custom", "workspace": str(root / "workspace")}}
    _write(root / ".nanobot/config.json", json.dumps({"providers": providers, "agents": agents}))
    _write(root / "workspace/note.txt", "a line of a note\n" * 20)
    port = _free_port()
    return Peer(
        name="nanobot-ai",
        root=root,
        program=_found(installed / "nanobot/bin/nanobot" if installed else None, "nanobot"),
        environ=_environ(root),
        serve=["serve", "--port", str(port)],
        status=["status"],
        ask=["agent", "-m", "hello"],
        open=by_http,
        port=port,
    )


def _hermes(root: Path, model: ModelProcess, installed: Path | None) -> Peer:
    settings = {
        "model": {"default": "mock", "provider": "custom", "base_url": model.url},
        "gateway": {"api_server": {"max_concurrent_runs": 0}},  # it refuses the eleventh session otherwise
    }
    _write(root / ".hermes/config.yaml", json.dumps(settings))  # JSON is YAML
    _write(root / "note.txt", "a line of a note\n" * 20)
    port = _free_port()
    served = {"API_SERVER_ENABLED": "1", "API_SERVER_KEY": TOKEN, "API_SERVER_PORT": str(port)}
    return Peer(
        name="hermes-agent",
        root=root,
        program=_found(installed / "hermes/bin/hermes" if installed else None, "hermes"),
        environ=_environ(root, OPENAI_BASE_URL=model.url, OPENAI_API_KEY="mock-key-123456", **served),
        serve=["gateway", "run"],
        status=["status"],
        ask=["chat", "-Q", "-q", "hello"],
        open=by_http,
        port=port,
    )


PEERS = {"ours": _ours, "openclaw": _openclaw, "nanobot": _nanobot, "hermes": _hermes}


def _found(installed: Path | None, name: str) -> list[str]:
    """The program of a peer: in the directory given, or on the PATH outside of our own environment."""
    if installed is not None and installed.exists():
        return [str(installed)]
    own = str(Path(sys.executable).parent)
    path = os.pathsep.join(part for part in os.environ.get("PATH", "").split(os.pathsep) if part != own)
    found = shutil.which(name, path=path)
    return [found] if found else []


def install(directory: Path) -> None:
    """Installs the peers, each in a directory of its own; one that cannot be installed is left out."""
    for package, name in (("nanobot-ai", "nanobot"), ("hermes-agent", "hermes")):
        if not (directory / name).exists():
            made = subprocess.run([sys.executable, "-m", "venv", str(directory / name)], check=False)
            # Both serve HTTP with aiohttp, which neither requires.
            pip = [str(directory / name / "bin/pip"), "install", "--quiet", package, "aiohttp"]
            if made.returncode or subprocess.run(pip, check=False, stderr=subprocess.DEVNULL).returncode:
                print(f"{package} cannot be installed here")
    node = directory / "node/node_modules" / NODE / "bin"
    for name, package in (("node", f"{NODE}@24"), ("openclaw", "openclaw")):
        if not (directory / name).exists() and shutil.which("npm") is not None:
            (directory / name).mkdir(parents=True)
            npm = ["npm", "install", "--silent", "--no-fund", "--no-audit", "--prefix", ".", package]
            path = os.pathsep.join([str(node), os.environ.get("PATH", os.defpath)])
            subprocess.run(npm, cwd=directory / name, env={**os.environ, "PATH": path}, check=False)
    if not (directory / OPENCLAW).exists():
        print("openclaw cannot be installed here: it needs npm and a newer node")


def show(peers: list[Peer]) -> None:
    print(f"{'':<30}" + "".join(f"{peer.name:>22}" for peer in peers))
    for row in ROWS:
        cells = []
        for peer in peers:
            found, ours = peer.figures.get(row), peers[0].figures.get(row)
            if not found:
                cells.append("–")
                continue
            middle = statistics.median(found)
            times = middle / statistics.median(ours) if ours and peer is not peers[0] else 0.0
            digits = 0 if times >= 10 else 1 if times >= 1 else 2
            cells.append(f"{middle:,.1f}" + (f" ({times:.{digits}f}x)" if times else ""))
        print(f"{row:<30}" + "".join(f"{cell:>22}" for cell in cells), flush=True)
    for peer in peers:
        if peer.problem:
            print(f"{peer.name}: {peer.problem}")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--install", type=Path)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", choices=[name for name in PEERS if name != "ours"], help="ours and this one")
    chosen = parser.parse_args()
    if chosen.install is not None:
        install(chosen.install.absolute())
    names = [name for name in PEERS if chosen.only in (None, name) or name == "ours"]
    with tempfile.TemporaryDirectory() as root, ModelProcess() as model:
        peers: list[Peer] = []
        for name in names:
            place = Path(root) / name
            place.mkdir()
            peer = PEERS[name](place, model, chosen.install and chosen.install.absolute())
            peer.problem = "" if peer.program else "it is not installed (--install DIR)"
            peers.append(peer)
        for number in range(chosen.rounds + 1):
            for peer in peers:
                if number == 0:  # what a first start makes is made once
                    warm_up(peer)
                else:
                    peer.measure()
    show(peers)


def warm_up(peer: Peer) -> None:
    """Asks once by command."""
    if not peer.problem:
        try:
            peer.run(peer.ask, SAID)
        except (OSError, RuntimeError, subprocess.TimeoutExpired) as error:
            peer.problem = f"it did not answer: {error}"


if __name__ == "__main__":
    main()
