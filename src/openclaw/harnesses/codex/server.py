"""One `codex app-server` process: JSON lines, requests both ways, and frames by thread."""

import asyncio
import re
from asyncio.subprocess import DEVNULL, Process
from collections.abc import Mapping
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from openclaw.core.errors import Unavailable
from openclaw.core.provider import Endpoint
from openclaw.core.secret import redact
from openclaw.process.child import end_orderly, start_subprocess
from openclaw.process.environment import find_executable
from openclaw.process.tasks import run_shielded
from openclaw.process.worker import PIPES
from openclaw.storage.atomic import private_directory
from openclaw.version import __version__

COMMAND = "OPENCLAW_CODEX_APP_SERVER_BIN"
LEAST_VERSION = (0, 149, 0)
INSTALL = (
    "The runtime codex needs the program `codex`: install it with: pip install 'openclaw-py[codex]' (or put `codex` on "
    f"the PATH, or name it in {COMMAND}), or choose agentRuntime.id openclaw."
)
START_SECONDS = 60.0
REQUEST_SECONDS = 60.0
STOP_SECONDS = 0.3
PROVIDER = "openclaw"
USAGE, CHILD_USAGE = "thread/tokenUsage/updated", "child/tokenUsage/updated"
KEY = "OPENCLAW_CODEX_KEY"
_INHERITED = ("HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER", "LANG", "LC_ALL", "TZ", "TMPDIR", "SSL_CERT_FILE")
SWITCHES = (
    "features.plugins=false",
    "features.apps=false",
    "features.goals=false",
    "agents.enabled=false",
    "analytics.enabled=false",
    "check_for_update_on_startup=false",
    'cli_auth_credentials_store="ephemeral"',
    'web_search="disabled"',
)
"""It calls nobody but the model, and starts no agents of its own: ours have budgets, labels and a transcript."""
NO_SHELL = "features.shell_tool=false"


class CodexRefused(Unavailable):
    """The server answered a request with an error."""


class CodexLaunch(Struct, frozen=True):
    """What a process is started with; another one is another process."""

    program: str
    home: Path
    endpoint: Endpoint
    native: bool = False
    """Whether it has its own shell."""

    @property
    def arguments(self) -> tuple[str, ...]:
        provider: dict[str, str | int] = {
            "name": PROVIDER,
            "base_url": self.endpoint.base_url,
            "wire_api": "responses",
            # Whether and where a failed request is made again is decided by our rules of failover.
            "request_max_retries": 0,
            "stream_max_retries": 0,
            **({"env_key": KEY} if self.endpoint.key is not None else {}),
        }
        fields = ",".join(f"{name}={_toml(value)}" for name, value in provider.items())
        headers = ",".join(f"{_toml(name)}={_toml(value)}" for name, value in self.endpoint.headers.items())
        more = f",http_headers={{{headers}}}" if headers else ""
        switches = SWITCHES if self.native else (*SWITCHES, NO_SHELL)
        chosen = (*switches, f"model_provider={_toml(PROVIDER)}", f"model_providers.{PROVIDER}={{{fields}{more}}}")
        return (*(word for each in chosen for word in ("-c", each)), "app-server")


def _toml(value: str | int) -> str:
    """A TOML value; the rules of JSON are a part of its own."""
    return msgspec.json.encode(value).decode()


def find_program(environ: Mapping[str, str]) -> str:
    """The Codex program: named, from its Python package, or on the path; raises when there is none."""
    named = environ.get(COMMAND, "")
    found = find_executable(named, environ.get("PATH")) if named else None
    if named and found is None:
        raise Unavailable(f"{COMMAND} names {named}, which is not a program that can be run.")
    package = find_spec("codex_cli_bin")
    if found is None and package is not None and package.origin:
        inside = Path(package.origin).parent / "bin" / "codex"
        found = str(inside) if inside.exists() else None
    found = found or find_executable("codex", environ.get("PATH"))
    if found is None:
        raise Unavailable(INSTALL)
    return found


def parse_version(agent: str) -> str:
    """The version in what the server calls itself; raises for one that is too old or cannot be read."""
    found = re.match(r"[^/]*/(\d+)\.(\d+)\.(\d+)", agent)
    least = ".".join(map(str, LEAST_VERSION))
    if found is None:
        raise Unavailable(f"The codex program does not tell its version; {least} or later is needed.")
    version = tuple(map(int, found.groups()))
    if version < LEAST_VERSION:
        raise Unavailable(f"The codex program is version {'.'.join(found.groups())}; {least} or later is needed.")
    return ".".join(found.groups())


class Frame(Struct, frozen=True):
    """Something the server says of a thread; with an `id` it waits for an answer."""

    method: str
    params: dict[str, Any]
    id: int | str | None = None


class CodexServer:
    """A running process. Frames of a thread go to whoever listens to it; None is the end of the process."""

    def __init__(self, launch: CodexLaunch, environ: Mapping[str, str]) -> None:
        self._launch = launch
        self._environ = {name: environ[name] for name in _INHERITED if name in environ}
        self._child: Process | None = None
        self._reader: asyncio.Task[None] | None = None
        self._starting = asyncio.Lock()
        self._answers: dict[int, asyncio.Future[Any]] = {}
        self._listeners: dict[str, asyncio.Queue[Any]] = {}
        self._parents: dict[str, str] = {}
        """The threads of agents that Codex started itself, and whose they are."""
        self._last = 0
        self.version = ""
        self.loaded: set[str] = set()
        """The threads this process knows."""
        self.idle_since: float | None = None

    @property
    def pid(self) -> int | None:
        return self._child.pid if self._child is not None and self._child.returncode is None else None

    @property
    def idle(self) -> bool:
        return not self._listeners

    async def ready(self) -> None:
        """Starts the process unless it runs."""
        async with self._starting:
            if self.pid is not None and self._reader is not None and not self._reader.done():
                return
            await self.close()
            await self._start()

    async def _start(self) -> None:
        launch = self._launch
        await asyncio.to_thread(private_directory, launch.home)
        environ = {**self._environ, "CODEX_HOME": str(launch.home)}
        if launch.endpoint.key is not None:
            environ[KEY] = launch.endpoint.key.reveal()
        try:
            self._child = await start_subprocess(
                launch.program, *launch.arguments, **PIPES, stderr=DEVNULL, env=environ, cwd=launch.home
            )
        except OSError as error:
            raise Unavailable(f"The codex program cannot be started: {error}. {INSTALL}") from error
        self._reader = asyncio.create_task(self._read(self._child), name="codex app-server")
        client = {"name": "openclaw", "title": "OpenClaw", "version": __version__}
        try:
            asked = {"clientInfo": client, "capabilities": {"experimentalApi": True}}
            self.version = parse_version((await self.request("initialize", asked, START_SECONDS))["userAgent"])
            await self._send({"method": "initialized"})
        except BaseException:
            await run_shielded(self.close())
            raise

    async def request(self, method: str, params: Mapping[str, Any], seconds: float = REQUEST_SECONDS) -> Any:
        """What the server answers; raises `CodexRefused` for an error, `Unavailable` when it has ended or is stuck."""
        self._last += 1
        number = self._last
        answer = self._answers[number] = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout(seconds):
                await self._send({"id": number, "method": method, "params": params})
                return await answer
        except TimeoutError as error:
            raise Unavailable(f"codex app-server gave no answer to {method} within {seconds:g} s.") from error
        finally:
            del self._answers[number]

    async def answer(self, frame: Frame, result: Mapping[str, Any]) -> None:
        with suppress(Unavailable):  # the turn ends with the process, and is told so
            await self._send({"id": frame.id, "result": result})

    async def refuse(self, frame: Frame) -> None:
        """Answers a request that there is nothing to say to."""
        with suppress(Unavailable):
            await self._send({"id": frame.id, "error": {"code": -32601, "message": f"{frame.method} is not served"}})

    def listen(self, thread_id: str, into: "asyncio.Queue[Any]") -> None:
        self._listeners[thread_id] = into

    def forget(self, thread_id: str) -> None:
        self._listeners.pop(thread_id, None)

    async def close(self) -> None:
        """Ends the process with everything it started."""
        child, reader, self._child, self._reader = self._child, self._reader, None, None
        self.loaded.clear()
        if child is not None:
            await end_orderly(child, reader, STOP_SECONDS)

    async def _send(self, document: Mapping[str, Any]) -> None:
        child = self._child
        try:
            if child is None or child.stdin is None:
                raise ConnectionError
            child.stdin.write(msgspec.json.encode(document) + b"\n")
            await child.stdin.drain()
        except (ConnectionError, RuntimeError) as error:
            raise Unavailable("codex app-server has just ended: try again.") from error

    async def _read(self, child: Process) -> None:
        """Hands out what the server says, until it ends."""
        assert child.stdout is not None
        try:
            with suppress(ValueError):  # a line without end
                async for line in child.stdout:
                    with suppress(msgspec.DecodeError):
                        await self._take(msgspec.json.decode(line))
        finally:
            self.loaded.clear()
            ended = Unavailable("codex app-server has ended unexpectedly.")
            for answer in self._answers.values():
                if not answer.done():
                    answer.set_exception(ended)
                    answer.exception()  # marks it as retrieved, since the caller may have stopped waiting
            for listener in self._listeners.values():
                listener.put_nowait(None)

    async def _take(self, said: Any) -> None:
        if not isinstance(said, dict):
            return
        if "method" not in said:
            answer = self._answers.get(said.get("id", 0))
            if answer is None or answer.done():
                return
            if "error" in said:
                why = redact(str(said["error"].get("message", said["error"])), *self._secrets)
                answer.set_exception(CodexRefused(f"codex app-server: {why}"))
            else:
                answer.set_result(said.get("result"))
            return
        params = said.get("params") or {}
        frame, thread = Frame(said["method"], params, said.get("id")), params.get("threadId", "")
        if child := (params.get("item") or {}).get("agentThreadId"):
            self._parents[child] = thread
        if frame.method == USAGE and thread in self._parents:  # they are off, and would not be free
            frame, thread = Frame(CHILD_USAGE, params), self._parents[thread]
        listener = self._listeners.get(thread)
        if listener is not None:
            listener.put_nowait(frame)
        elif frame.id is not None:  # nobody is there who could be asked
            await self._send({"id": frame.id, "error": {"code": -32600, "message": "this thread has no turn of ours"}})

    @property
    def _secrets(self) -> tuple[Any, ...]:
        key = self._launch.endpoint.key
        return (key,) if key is not None else ()
