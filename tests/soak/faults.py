"""Attacks the port and the machine of a running gateway: scripts/soak faults [CONNECTIONS [SECONDS]].

While each fault lasts, a client that was there before asks the model something, and a new client comes and asks too;
when it is over, the first asks again. Without arguments: 5,000 connections, each fault for a minute.
"""

import asyncio
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path

from msgspec import Struct

from openclaw.core.secret import Secret
from openclaw.gateway.process import ask_health
from openclaw.gateway.running import own_token, running_gateway
from openclaw.protocol.client import GatewayClient
from openclaw.protocol.connect_request import CallFailed, ConnectOptions
from openclaw.protocol.scopes import SCOPES
from openclaw.protocol.websocket import connect
from openclaw.testing import Says, TemporaryHome
from openclaw.testing.server import MockModelServer, Reply
from tests.commandline import PATIENCE

DESCRIPTORS = 512
"""Open files that the gateway is allowed: far fewer than there are connections."""


class Fault(Struct, kw_only=True):
    """What came of one fault."""

    name: str
    before: str = ""
    during: str = ""
    new_client: str = ""
    after: str = ""
    figures: str = ""

    @property
    def good(self) -> bool:
        return (self.before, self.during, self.new_client, self.after) == ("answered",) * 4


class Answers(MockModelServer):
    """Answers everything."""

    def _next(self, request: dict[str, object]) -> tuple[Reply, ...]:
        self.requests.append({})
        return (Says("here"),)


class LimitedGateway:
    """`openclaw gateway run` behind a command that limits it."""

    def __init__(self, home: TemporaryHome, *wrapper: str, inside: bool = False) -> None:
        """`inside`: the home is in a namespace that only the gateway's processes see."""
        self.home = home
        self.port = 0
        self._inside = inside
        command = (*wrapper, sys.executable, "-m", "openclaw", "gateway", "run", "--port", "0")
        with (home.root.parent / "gateway.out").open("ab") as log:
            self._process = subprocess.Popen(
                command, env=home.environ, cwd=home.root.parent, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )

    def ready(self) -> None:
        deadline = time.monotonic() + PATIENCE
        while True:
            assert self._process.poll() is None and time.monotonic() < deadline, self.output()
            with suppress(OSError):
                found = running_gateway(self.seen(self.home.state))
                if found is not None and found.port and ask_health(found).ready:
                    self.port = found.port
                    return
            time.sleep(0.05)

    def seen(self, path: Path) -> Path:
        """A path of the gateway, as we reach it."""
        return Path(f"/proc/{self.pid}/root{path}") if self._inside else path

    @property
    def pid(self) -> int:
        pid = self._process.pid
        while self._inside:
            children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
            if not children:
                break
            pid = int(children[0])
        return pid

    def output(self) -> str:
        return (self.home.root.parent / "gateway.out").read_text(errors="replace")[-3_000:]

    def descriptors(self) -> int:
        return len(list(Path(f"/proc/{self.pid}/fd").iterdir()))

    def log_bytes(self) -> int:
        return sum(path.stat().st_size for path in self.seen(self.home.state / "logs").glob("*"))

    @asynccontextmanager
    async def client(self) -> AsyncIterator[GatewayClient]:
        token = own_token(self.seen(self.home.state)) or Secret("")
        card = ConnectOptions(version="0", platform="test", scopes=SCOPES, token=token)
        async with asyncio.timeout(PATIENCE), connect(f"ws://127.0.0.1:{self.port}", card) as client:
            yield client

    def close(self) -> None:
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


async def ask(client: GatewayClient, key: str) -> str:
    """`answered`, or what went wrong."""
    try:
        async with asyncio.timeout(PATIENCE):
            done = await client.call("agent", {"message": "are you there?", "idempotencyKey": key}, final=True)
    except CallFailed as failed:
        return f"refused: {failed}"
    except TimeoutError:
        return "no answer"
    return "answered" if done.get("status") == "ok" else f"failed: {str(done)[:300]}"


async def come_and_ask(gateway: LimitedGateway, key: str) -> str:
    async with gateway.client() as client:
        return await ask(client, key)


@contextmanager
def connections(gateway: LimitedGateway, count: int, first: bytes) -> Iterator[list[socket.socket]]:
    """Connections that send `first` and then keep the gateway waiting; those it closes stay closed."""
    made: list[socket.socket] = []
    try:
        for _ in range(count):
            one = socket.create_connection(("127.0.0.1", gateway.port), timeout=PATIENCE)
            made.append(one)
            with suppress(OSError):
                one.sendall(first)
        yield made
    finally:
        for one in made:
            one.close()


def open_ones(made: list[socket.socket]) -> int:
    """How many of them the gateway has not closed."""
    count = 0
    for one in made:
        one.setblocking(False)
        try:
            while one.recv(1 << 16):
                pass
        except BlockingIOError:
            count += 1
        except OSError:
            pass
    return count


async def suffer(
    gateway: LimitedGateway, name: str, count: int, first: bytes, drip: bytes = b"", seconds: float = 0.0
) -> Fault:
    """One flood, asked through."""
    fault = Fault(name=name)
    async with gateway.client() as client:
        fault.before = await ask(client, f"{name}-before")
        with_them = connections(gateway, count, first)
        made = await asyncio.to_thread(with_them.__enter__)
        try:
            until = time.monotonic() + seconds
            while True:
                fault.during = await ask(client, f"{name}-during-{time.monotonic_ns()}")
                fault.new_client = await come_and_ask(gateway, f"{name}-new-{time.monotonic_ns()}")
                if (fault.during, fault.new_client) != ("answered", "answered") or time.monotonic() >= until:
                    break
                for one in made:
                    with suppress(OSError):
                        one.sendall(drip)
            used = gateway.descriptors()
            fault.figures = f"{count} made, {open_ones(made)} still open, {used} descriptors in use"
        finally:
            with_them.__exit__(None, None, None)
        began = time.monotonic()
        fault.after = await ask(client, f"{name}-after")
        fault.figures += f", answered {time.monotonic() - began:.2f} s after it, {gateway.log_bytes()} bytes of log"
    return fault


HALF = b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n"
FLOODS: tuple[tuple[str, bytes, bytes], ...] = (
    ("half-open", HALF, b""),
    ("nothing sent", b"", b""),
    ("slow headers", HALF, b"x-a: b\r\n"),
    ("header flood", HALF + b"x-flood: " + b"a" * 60_000, b""),
    (
        "slow bodies",
        b"POST /v1/responses HTTP/1.1\r\nHost: 127.0.0.1\r\ncontent-length: 100000\r\n\r\n{",
        b" ",
    ),
    (
        "sockets without a word",
        b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        b"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Version: 13\r\n\r\n",
        b"",
    ),
)


async def floods(gateway: LimitedGateway, count: int, seconds: float) -> list[Fault]:
    found = [await suffer(gateway, name, count, first, drip, seconds) for name, first, drip in FLOODS]
    return [*found, await no_descriptors(gateway)]


async def full_disk(gateway: LimitedGateway) -> Fault:
    """Fills the disk, asks, and frees it again."""
    fault = Fault(name="full disk")
    filler = gateway.seen(gateway.home.root / "filler")
    async with gateway.client() as client:
        fault.before = await ask(client, "disk-before")
        with filler.open("wb", buffering=0) as file, suppress(OSError):
            while True:
                file.write(b"\0" * (1 << 16))
        with filler.open("ab", buffering=0) as file, suppress(OSError):
            while True:
                file.write(b"\0")
        said = await ask(client, "disk-during")
        # Nothing can be put on record, so nothing is promised; but it says so, and the connection stands.
        fault.during = "answered" if "disk" in said or "space" in said or said == "answered" else said
        health = await client.call("health", {})
        fault.new_client = "answered" if health.get("ok") else str(health)
        fault.figures = f"it said: {said}"
        filler.unlink()
        fault.after = await ask(client, "disk-after")
    return fault


async def no_descriptors(gateway: LimitedGateway) -> Fault:
    """Takes every further descriptor from the gateway, asks, and gives them back."""
    fault = Fault(name="no descriptors")
    async with gateway.client() as client:
        fault.before = await ask(client, "files-before")
        used = gateway.descriptors()
        limit_descriptors(gateway.pid, used)
        with connections(gateway, 20, HALF):
            said = await ask(client, "files-during")
            fault.during = "answered" if said == "answered" or "open files" in said else said
            health = await client.call("health", {})
            fault.figures = f"it said: {said}; health: {health.get('ok')}"
            limit_descriptors(gateway.pid, DESCRIPTORS)
            fault.new_client = await come_and_ask(gateway, "files-new")
        fault.after = await ask(client, "files-after")
    return fault


def limit_descriptors(pid: int, count: int) -> None:
    subprocess.run(["prlimit", "--pid", str(pid), f"--nofile={count}:{DESCRIPTORS}"], check=True)


@contextmanager
def prepared(root: Path) -> Iterator[TemporaryHome]:
    with Answers([]) as server:
        home = TemporaryHome(root)
        home.configure(server.settings())
        yield home


def run_floods(root: Path, count: int, seconds: float = 0.0, descriptors: int = DESCRIPTORS) -> list[Fault]:
    with prepared(root / "home") as home:
        gateway = LimitedGateway(home, "prlimit", f"--nofile={descriptors}:{descriptors}", "--")
        return _asked(gateway, lambda: floods(gateway, count, seconds))


def run_full_disk(root: Path, megabytes: int = 48) -> list[Fault]:
    """In a namespace whose home is a file system of its own, so that nobody else runs out of room."""
    with prepared(root / "seed") as home:
        seed = root / "kept"
        home.root.rename(seed)
        home.root.mkdir()
        small = ("--size", str(megabytes << 20), "--tmpfs", str(home.root))
        copy = f'cp -r {seed}/. {home.root}/ && exec "$@"'
        gateway = LimitedGateway(
            home, "bwrap", "--die-with-parent", "--dev-bind", "/", "/", *small, "sh", "-c", copy, "sh", inside=True
        )
        return _asked(gateway, lambda: _one(full_disk(gateway)))


async def _one(fault: Awaitable[Fault]) -> list[Fault]:
    return [await fault]


def _asked(gateway: LimitedGateway, what: Callable[[], Awaitable[list[Fault]]]) -> list[Fault]:
    async def all_of_it() -> list[Fault]:
        return await what()

    try:
        gateway.ready()
        return asyncio.run(all_of_it())
    finally:
        gateway.close()


def show(faults: list[Fault]) -> str:
    rows = (
        f"{'held  ' if each.good else 'FAILED'} {each.name}: {each.figures}"
        + ("" if each.good else f" {(each.before, each.during, each.new_client, each.after)}")
        for each in faults
    )
    return "\n".join(rows)


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 5_000
    seconds = float(sys.argv[2]) if len(sys.argv) > 2 else 60.0
    with tempfile.TemporaryDirectory() as root:
        found = run_floods(Path(root) / "floods", count, seconds) + run_full_disk(Path(root) / "disk")
    print(show(found))
    sys.exit(not all(each.good for each in found))


if __name__ == "__main__":
    main()
