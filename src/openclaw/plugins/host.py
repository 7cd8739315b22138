"""The program inside a plugin's process: `python -m openclaw.plugins.host`, which talks to the gateway by pipes."""

import asyncio
import contextlib
import importlib
import importlib.util
import inspect
import io
import logging
import os
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Mapping
from contextlib import AsyncExitStack, aclosing
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

import msgspec
from msgspec import Raw, Struct, structs

from openclaw.core import plugin
from openclaw.core.channel import Address, Channel, Outbound, ShowsTyping
from openclaw.core.embedder import EmbedderEndpoint, EmbedsQueries, HasTraits, Traits
from openclaw.core.errors import InvalidRequest, NotFound, OpenClawError
from openclaw.core.hook_points import POINTS
from openclaw.core.hooks import HookContext
from openclaw.core.plugin import Api, CommandCall, CommandReply, HttpAnswer, HttpRequest, PluginContributions
from openclaw.core.provider import Endpoint
from openclaw.core.tool import Effects, Tool, ToolContext
from openclaw.plugins import manifest, wire
from openclaw.plugins.wire import decode_payload, encode_payload
from openclaw.process.tasks import call_function

if sys.platform != "win32":
    import resource


Answer = Awaitable[Raw] | AsyncIterator[Raw]
T = TypeVar("T", bound=Struct)


class HostAnswers:
    """Answers each kind of call from what one plugin registered."""

    def __init__(self, brought: PluginContributions, pipe: "Pipe") -> None:
        self._brought = brought
        self._pipe = pipe
        self._tools = {tool.spec.name: tool for tool in brought.tools}
        self._commands = {command.name: command for command in brought.commands}
        self._methods = {method.name: method for method in brought.methods}
        self._routes = {route.path: route for route in brought.routes}
        self._channels: dict[str, Channel] = {channel.name: channel for channel in brought.channels}
        self._open: dict[tuple[str, str, bytes], Any] = {}
        """Providers and embedders that were called, by name and endpoint."""
        self._locks: dict[str, asyncio.Lock] = {}
        """One for each resource that a tool needs exclusively."""

    def to(self, call: wire.HostCall) -> Answer:
        """The answer to `call`: something to await, or a stream."""
        operation: Callable[[wire.HostCall], Answer] = getattr(self, f"_{call.op}")
        return operation(call)

    async def close(self) -> None:
        for each in self._open.values():
            await each.close()

    async def _tool(self, call: wire.HostCall) -> Raw:
        tool = _find(self._tools, call.name)
        asked = decode_payload(call.payload, wire.ToolInput)

        def report(text: object) -> None:
            self._pipe.write(wire.HostItem(call.id, encode_payload(str(text))))

        fields = structs.asdict(asked) | {"workspace": Path(asked.workspace), "report": report}
        del fields["args"]
        context = ToolContext(**fields)
        async with AsyncExitStack() as held:
            # Always in sorted order, so that two calls never deadlock.
            for name in sorted(tool.resources(asked.args, context)):
                await held.enter_async_context(self._locks.setdefault(name, asyncio.Lock()))
            if isinstance(tool, plugin.FunctionTool):
                output = plugin.output_of(await call_function(tool.run, asked.args, context))
            else:
                output = await tool.call(asked.args, context)
        return encode_payload(wire.copy_fields(output, wire.ToolOutput))

    async def _hook(self, call: wire.HostCall) -> Raw:
        hook = self._brought.hooks[int(call.name)]
        point = POINTS[hook.point]  # type: ignore[index]
        asked = decode_payload(call.payload, wire.HookInput)
        event, context = decode_payload(asked.event, point.event), decode_payload(asked.context, HookContext)
        answer = await call_function(hook.run, event, context)
        if answer is not None and point.answer is not None and not isinstance(answer, point.answer):
            answer = msgspec.convert(answer, point.answer)
        return encode_payload(answer if point.answer is not None else None)

    async def _command(self, call: wire.HostCall) -> Raw:
        found = await call_function(_find(self._commands, call.name).run, decode_payload(call.payload, CommandCall))
        return encode_payload(found if isinstance(found, CommandReply) else CommandReply(text=str(found)))

    async def _method(self, call: wire.HostCall) -> Raw:
        return encode_payload(
            await call_function(_find(self._methods, call.name).run, decode_payload(call.payload, dict))
        )

    async def _route(self, call: wire.HostCall) -> Raw:
        found = await call_function(_find(self._routes, call.name).run, decode_payload(call.payload, HttpRequest))
        if not isinstance(found, HttpAnswer):
            raise TypeError(f"the handler of {call.name} gave {type(found).__name__}, not HttpAnswer")
        return encode_payload(found)

    async def _listen(self, call: wire.HostCall) -> AsyncIterator[Raw]:
        async for message in _find(self._channels, call.name).listen():
            yield encode_payload(message)

    async def _send(self, call: wire.HostCall) -> Raw:
        return encode_payload(await _find(self._channels, call.name).send(decode_payload(call.payload, Outbound)))

    async def _typing(self, call: wire.HostCall) -> Raw:
        channel = _find(self._channels, call.name)
        if isinstance(channel, ShowsTyping):
            await channel.typing(decode_payload(call.payload, Address))
        return encode_payload(None)

    async def _stream(self, call: wire.HostCall) -> AsyncIterator[Raw]:
        asked = decode_payload(call.payload, wire.ProviderInput)
        events = self._opened(call, self._brought.providers, asked.endpoint).stream(asked.request)
        async with aclosing(events):
            async for event in events:
                yield encode_payload(wire.streamed(event))

    async def _embed(self, call: wire.HostCall) -> Raw:
        asked = decode_payload(call.payload, wire.EmbedInput)
        embedder = self._opened(call, self._brought.embedders, asked.endpoint)
        if asked.query and isinstance(embedder, EmbedsQueries):
            vectors = [await embedder.embed_query(text) for text in asked.texts]
        else:
            vectors = list(await embedder.embed(asked.texts)) if asked.texts else []
        return encode_payload(
            wire.EmbedOutput(
                vectors=tuple(tuple(vector) for vector in vectors),
                model=embedder.model,
                traits=embedder.traits if isinstance(embedder, HasTraits) else Traits(),
            )
        )

    def _opened(self, call: wire.HostCall, table: Mapping[str, Any], endpoint: Endpoint | EmbedderEndpoint) -> Any:
        key = (call.op, call.name, bytes(wire.encode_with_credentials(endpoint)))
        if key not in self._open:
            self._open[key] = _find(table, call.name)(endpoint)
        return self._open[key]


def declaration(brought: PluginContributions) -> wire.Ready:
    """What was registered, as a message to the gateway."""
    return wire.Ready(
        tools=tuple(
            wire.ToolDeclared(
                spec=tool.spec, effects=effects_of(tool).value, optional=tool.spec.name in brought.optional_tools
            )
            for tool in brought.tools
        ),
        hooks=_declared(brought.hooks),
        commands=_declared(brought.commands),
        methods=_declared(brought.methods),
        routes=_declared(brought.routes),
        channels=tuple(
            wire.ChannelDeclared(name=each.name, types=isinstance(each, ShowsTyping)) for each in brought.channels
        ),
        providers=tuple(brought.providers),
        embedders=tuple(brought.embedders),
        services=tuple(brought.services),
    )


def _declared(things: Iterable[T]) -> tuple[T, ...]:
    """`things` without the functions that only this process can call."""
    return tuple(structs.replace(each, run=None) for each in things)


def effects_of(tool: Tool) -> Effects:
    """The most that calls of a tool can do, as far as it says so before any call; every effect when it cannot say."""
    try:
        return tool.effects({})
    except Exception:  # the plugin's own code, asked without real arguments
        return ~Effects.NONE


def _find(table: Mapping[str, Any], name: str) -> Any:
    if name not in table:
        raise NotFound(f"the plugin has registered nothing called {name}")
    return table[name]


# Loading the plugin.


def register(api: Api, entry: str) -> PluginContributions:
    """Imports `entry` (`file.py:function` or `module:function`), calls it, and gives what it registered."""
    place, _, name = entry.partition(":")
    module = _import_file(api, place) if place.endswith(".py") else importlib.import_module(place)
    function = getattr(module, name or "register", None)
    if not callable(function):
        raise InvalidRequest(f"{place} has no function {name or 'register'}")
    given = function(api)
    if given is not None:
        if hasattr(given, "close"):
            given.close()
        raise InvalidRequest(f"{name or 'register'} must be a plain function that gives nothing back")
    return api.brought()


def _import_file(api: Api, place: str) -> Any:
    path = (api.directory / place).resolve()
    if not path.is_relative_to(api.directory.resolve()):
        raise InvalidRequest(f"{place} lies outside the plugin")
    if not path.is_file():
        raise InvalidRequest(f"there is no {place} in the plugin")
    # Its modules are dropped, so that a restarted plugin is read again.
    for known, loaded in list(sys.modules.items()):
        if str(getattr(loaded, "__file__", None) or "").startswith(f"{api.directory.resolve()}{os.sep}"):
            del sys.modules[known]
    importlib.invalidate_caches()
    name = f"openclaw_plugin_{api.id.replace('-', '_')}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def describe_error(error: BaseException, directory: Path) -> str:
    """An exception of a plugin's code as one line: what, and where in the plugin."""
    where = ""
    trace = error.__traceback__
    while trace is not None:
        file = Path(trace.tb_frame.f_code.co_filename)
        if file.is_relative_to(directory):
            where = f" ({file.relative_to(directory)}:{trace.tb_lineno})"
        trace = trace.tb_next
    text = " ".join(str(error).split())[:300]
    return f"{type(error).__name__}{': ' if text else ''}{text}{where}"


# Serving calls.

GONE = 98
GOODBYE_SECONDS = 3.0


class Pipe:
    """Both ends of the gateway connection; any thread may write."""

    def __init__(self, incoming: BinaryIO, outgoing: BinaryIO) -> None:
        self._in = incoming
        self._out = outgoing
        self._lock = threading.Lock()

    def read(self) -> wire.ToPlugin | None:
        """The next message of the gateway; None when its end is closed."""
        header = self._in.read(4)
        if len(header) < 4:
            return None
        size = wire.length(header)
        body = self._in.read(size)
        return wire.decode(body, wire.TO_PLUGIN) if len(body) == size else None

    def write(self, value: wire.FromPlugin) -> None:
        data = wire.frame(value)
        with self._lock:
            self._out.write(data)
            self._out.flush()


class HostReports(logging.Handler):
    """Sends the plugin's log records to the gateway."""

    def __init__(self, pipe: Pipe) -> None:
        super().__init__()
        self._pipe = pipe

    def emit(self, record: logging.LogRecord) -> None:
        with contextlib.suppress(OSError, wire.MalformedMessage):
            self._pipe.write(wire.HostNote(record.levelno, record.getMessage()[:4_000]))


class Host:
    """Answers calls until the gateway says stop or its end closes."""

    def __init__(
        self, pipe: Pipe, brought: PluginContributions, directory: Path, log: logging.Logger, services: Collection[str]
    ) -> None:
        self._pipe, self._brought = pipe, brought
        self._services = {name: each for name, each in brought.services.items() if name in services}
        self._directory = directory
        self._log = log
        self._answers = HostAnswers(brought, pipe)
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._room: dict[int, asyncio.Semaphore] = {}
        self._over = asyncio.Event()

    async def run(self) -> None:
        """Tells the gateway what was registered, answers its calls, and ends the process."""
        self._pipe.write(declaration(self._brought))
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
        os._exit(0)  # threads of the plugin that never end do not keep the process

    def _listen(self, loop: asyncio.AbstractEventLoop) -> None:
        """Reads in a thread: the end of the pipe is noticed even when the plugin blocks the loop."""
        try:
            while (said := self._pipe.read()) is not None:
                loop.call_soon_threadsafe(self._hear, said)
        except (OSError, wire.MalformedMessage):
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
                await self._stream(call.id, made, one_by_one=call.op == "listen")
                payload = encode_payload(None)
            else:
                assert isinstance(made, Awaitable)
                payload = await made
            self._pipe.write(wire.HostDone(call.id, payload))
        except asyncio.CancelledError:
            self._pipe.write(wire.HostFailed(call.id, "Cancelled", "the gateway stopped the call"))
        except MemoryError:
            os._exit(wire.OUT_OF_MEMORY)
        # The plugin's own code failed: that is an answer, and this process continues.
        except Exception as error:
            if isinstance(error, OpenClawError):
                message, code = error.message, error.code
            else:
                message, code = describe_error(error, self._directory), ""
                self._log.warning("%s %s failed: %s", call.op, call.name, message, exc_info=True)
            self._pipe.write(wire.HostFailed(call.id, type(error).__name__, message, code))

    async def _stream(self, number: int, items: Any, *, one_by_one: bool = False) -> None:
        """Sends the items; with `one_by_one` asks for more only when the last was taken, as a channel wants it."""
        room = self._room[number] = asyncio.Semaphore(0 if one_by_one else wire.WINDOW)
        try:
            async with aclosing(items):
                async for payload in items:
                    if not one_by_one:
                        await room.acquire()
                    assert isinstance(payload, Raw)
                    self._pipe.write(wire.HostItem(number, payload))
                    if one_by_one:
                        await room.acquire()
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
    """Starts the plugin that the first message names, and serves its calls until the end."""
    # Duplicated, because descriptors 0 and 1 are redirected: prints of the plugin must not reach the pipe.
    incoming, outgoing = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(line_buffering=True)  # flushed, however the process ends
    pipe = Pipe(incoming, outgoing)
    start = pipe.read()
    if not isinstance(start, wire.HostStart):
        os._exit(GONE)
    _limit(start.memory_bytes)
    logging.basicConfig(level=logging.INFO, handlers=[HostReports(pipe)], force=True)
    log = logging.getLogger(f"openclaw.plugin.{start.id}")
    directory = Path(start.directory)
    brought = _load(pipe, start, directory, log)
    if brought is not None:
        asyncio.run(Host(pipe, brought, directory, log, start.services).run())


def _load(pipe: Pipe, start: wire.HostStart, directory: Path, log: logging.Logger) -> PluginContributions | None:
    why = manifest.find_problem(start.config_schema, start.config, f"plugins.entries.{start.id}.config")
    if why:
        pipe.write(wire.HostRefused(why))
        return None
    # Compiled files in the plugin's directory were not reviewed at install, so they are not used.
    sys.pycache_prefix = str(Path(start.state) / "pycache")
    sys.path.insert(0, str(directory))
    api = Api(start.id, config=start.config, directory=directory, state=Path(start.state), log=log)
    try:
        return register(api, start.entry)
    except MemoryError:
        os._exit(wire.OUT_OF_MEMORY)
    # Whatever a plugin's import or `register` raises, `sys.exit` included, is the reason it cannot run.
    except BaseException as error:
        why = error.message if isinstance(error, OpenClawError) else describe_error(error, directory)
        pipe.write(wire.HostRefused(why))
        return None


def _limit(memory_bytes: int) -> None:
    """Limits the memory of this process, where the system can. The gateway watches as well."""
    if sys.platform == "win32":
        return
    for what, most in ((resource.RLIMIT_AS, memory_bytes), (resource.RLIMIT_CORE, 0)):
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(what, (most, most))


if __name__ == "__main__":
    main()
