"""The process of one plugin: `python -m openclaw.plugins.host`. It speaks through the pipes it was started with.

What the plugin prints goes to standard error, which the gateway reads and limits; the pipes are put where print cannot
reach them. When the gateway is gone, however it went, this process ends too.
"""

import asyncio
import contextlib
import inspect
import io
import logging
import os
import sys
import threading
from collections.abc import Awaitable, Collection
from contextlib import aclosing
from pathlib import Path
from typing import Any, BinaryIO

from msgspec import Raw

from openclaw.core.errors import OpenClawError
from openclaw.core.plugin import Api, Brought
from openclaw.plugins import schema, wire
from openclaw.plugins.answers import HostAnswers, declaration
from openclaw.plugins.child import OUT_OF_MEMORY
from openclaw.plugins.load import describe_error, register
from openclaw.plugins.wire import packed

GONE = 98
GOODBYE_SECONDS = 3.0


class Pipe:
    """The gateway's end and ours; anybody's thread may write."""

    def __init__(self, incoming: BinaryIO, outgoing: BinaryIO) -> None:
        self._in = incoming
        self._out = outgoing
        self._lock = threading.Lock()

    def read(self) -> wire.ToPlugin | None:
        """The next thing the gateway says; None when it is gone."""
        header = self._in.read(4)
        if len(header) < 4:
            return None
        size = wire.length(header)
        body = self._in.read(size)
        return wire.heard_by_plugin(body) if len(body) == size else None

    def write(self, value: wire.FromPlugin) -> None:
        data = wire.frame(value)
        with self._lock:
            self._out.write(data)
            self._out.flush()


class HostReports(logging.Handler):
    """Log lines of the plugin, for the gateway's log."""

    def __init__(self, pipe: Pipe) -> None:
        super().__init__()
        self._pipe = pipe

    def emit(self, record: logging.LogRecord) -> None:
        with contextlib.suppress(OSError, wire.Garbled):
            self._pipe.write(wire.HostNote(record.levelno, record.getMessage()[:4_000]))


class Host:
    """Takes calls until the gateway says stop or is gone."""

    def __init__(
        self, pipe: Pipe, brought: Brought, directory: Path, log: logging.Logger, services: Collection[str]
    ) -> None:
        self._pipe = pipe
        self._services = {name: each for name, each in brought.services.items() if name in services}
        self._directory = directory
        self._log = log
        self._answers = HostAnswers(brought, lambda number, payload: pipe.write(wire.HostItem(number, payload)))
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._room: dict[int, asyncio.Semaphore] = {}
        self._over = asyncio.Event()

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        threading.Thread(target=self._listen, args=(loop,), daemon=True, name="gateway").start()
        started = [name for name, service in self._services.items() if await self._served(name, service.start)]
        await self._over.wait()
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)
        for name in reversed(started):
            await self._served(name, self._services[name].stop)
        await self._answers.close()

    def _listen(self, loop: asyncio.AbstractEventLoop) -> None:
        """In a thread: whatever the plugin does to the loop, the end of the pipe is noticed."""
        try:
            while (said := self._pipe.read()) is not None:
                loop.call_soon_threadsafe(self._hear, said)
        except (OSError, wire.Garbled):
            pass
        threading.Timer(GOODBYE_SECONDS, os._exit, (GONE,)).start()
        with contextlib.suppress(RuntimeError):  # the loop is closed already
            loop.call_soon_threadsafe(self._over.set)

    def _hear(self, said: wire.ToPlugin) -> None:
        match said:
            case wire.HostCall():
                task = asyncio.get_running_loop().create_task(self._answer(said))
                self._tasks[said.id] = task
                task.add_done_callback(lambda _: self._tasks.pop(said.id, None))
            case wire.Cancel(id=number):
                if number in self._tasks:
                    self._tasks[number].cancel()
            case wire.Taken(id=number, count=count):
                for _ in range(count if number in self._room else 0):
                    self._room[number].release()
            case wire.Ping(number=number):
                self._pipe.write(wire.Pong(number))
            case wire.HostStop():
                self._over.set()

    async def _answer(self, call: wire.HostCall) -> None:
        try:
            made = self._answers.to(call)
            if inspect.isasyncgen(made):
                await self._stream(call.id, made)
                payload = packed(None)
            else:
                assert isinstance(made, Awaitable)
                payload = await made
            self._pipe.write(wire.HostDone(call.id, payload))
        except asyncio.CancelledError:
            self._pipe.write(wire.HostFailed(call.id, "Cancelled", "the gateway stopped the call"))
        except MemoryError:
            os._exit(OUT_OF_MEMORY)
        # The plugin's own code failed: that is an answer, and this process goes on.
        except Exception as error:
            if isinstance(error, OpenClawError):
                failed = wire.HostFailed(call.id, type(error).__name__, error.message, error.code)
            else:
                self._log.warning(
                    "%s %s failed: %s", call.op, call.name, describe_error(error, self._directory), exc_info=True
                )
                failed = wire.HostFailed(call.id, type(error).__name__, describe_error(error, self._directory))
            self._pipe.write(failed)

    async def _stream(self, number: int, items: Any) -> None:
        room = self._room[number] = asyncio.Semaphore(wire.WINDOW)
        try:
            async with aclosing(items):
                async for payload in items:
                    await room.acquire()
                    assert isinstance(payload, Raw)
                    self._pipe.write(wire.HostItem(number, payload))
        finally:
            del self._room[number]

    async def _served(self, name: str, act: Any) -> bool:
        try:
            await act()
        # One service that cannot start or stop does not keep the others from it.
        except Exception as error:
            self._log.error("the service %s failed: %s", name, describe_error(error, self._directory))
            return False
        return True


def main() -> None:
    """Starts the plugin that the first message names, and serves it to its end."""
    # Copies of the descriptors: what the plugin prints or reads goes elsewhere from now on.
    incoming, outgoing = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(line_buffering=True)  # what was printed is told, however the process ends
    pipe = Pipe(incoming, outgoing)
    start = pipe.read()
    if not isinstance(start, wire.HostStart):
        os._exit(GONE)
    _limit(start.memory_bytes)
    log = _logging(pipe, start.id)
    directory = Path(start.directory)
    brought = _load(pipe, start, directory, log)
    if brought is not None:
        asyncio.run(_serve(pipe, brought, directory, log, start.services))


async def _serve(pipe: Pipe, brought: Brought, directory: Path, log: logging.Logger, services: Collection[str]) -> None:
    host = Host(pipe, brought, directory, log, services)
    pipe.write(declaration(brought))
    await host.run()
    # Threads of the plugin that never end do not keep the process.
    os._exit(0)


def _load(pipe: Pipe, start: wire.HostStart, directory: Path, log: logging.Logger) -> Brought | None:
    why = schema.problem(start.config_schema, start.config, f"plugins.entries.{start.id}.config")
    if why:
        pipe.write(wire.HostRefused(why))
        return None
    # Compiled files in the plugin's directory are not what was looked through, so they are not used.
    sys.pycache_prefix = str(Path(start.state) / "pycache")
    sys.path.insert(0, str(directory))
    api = Api(start.id, config=start.config, directory=directory, state=Path(start.state), log=log)
    try:
        return register(api, start.entry)
    except MemoryError:
        os._exit(OUT_OF_MEMORY)
    # Whatever a plugin's import or `register` raises, `sys.exit` included, is the reason it cannot run.
    except BaseException as error:
        why = error.message if isinstance(error, OpenClawError) else describe_error(error, directory)
        pipe.write(wire.HostRefused(why))
        return None


def _limit(memory_bytes: int) -> None:
    """Bounds what this process can use, where the system can do that. The gateway watches as well."""
    try:
        import resource
    except ImportError:
        return
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _logging(pipe: Pipe, plugin: str) -> logging.Logger:
    logging.basicConfig(level=logging.INFO, handlers=[HostReports(pipe)], force=True)
    return logging.getLogger(f"openclaw.plugin.{plugin}")


if __name__ == "__main__":
    main()
