"""Starts, supervises, quarantines and restarts the plugins of this process, independently of each other."""

import asyncio
import logging
import sys
from collections.abc import AsyncIterator, Awaitable, Container, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, Literal, Protocol

import msgspec
from msgspec import Struct, structs

from openclaw.core.clock import Clock, millis
from openclaw.core.errors import NotFound, OpenClawError, Unavailable
from openclaw.core.hook_points import POINTS
from openclaw.core.hooks import HookContext
from openclaw.core.plugin import Api, Hook, PluginContributions, PluginFailed, Service
from openclaw.core.secret import Secret
from openclaw.extensions.find import expand_path
from openclaw.plugins import manifest, proxies, wire
from openclaw.plugins.admit import admit, judge, memory_slot_problem
from openclaw.plugins.find import AcceptedPlugins, FoundPlugin, digest_of, discover_plugins
from openclaw.plugins.host import describe_error, register
from openclaw.plugins.process import GOODBYE_SECONDS, SLACK, PluginLaunch, PluginProcess
from openclaw.plugins.settings import PluginEntry, PluginLimits, PluginsSettings
from openclaw.storage.atomic import private_directory

log = logging.getLogger("openclaw.plugins")


# Plugins inside this process, which the operator trusts.


@asynccontextmanager
async def run_inprocess(
    plugin: FoundPlugin, config: Mapping[str, Any], data: Path, seconds: float
) -> AsyncIterator[PluginContributions | str]:
    """Runs the plugin and its services for as long as the block; yields what it brings, or why it cannot run."""
    why = manifest.find_problem(plugin.manifest.config_schema, config, f"plugins.entries.{plugin.id}.config")
    if why:
        yield why
        return
    if str(plugin.directory) not in sys.path:
        sys.path.append(str(plugin.directory))
    api = Api(plugin.id, config=config, directory=plugin.directory, state=data)
    async with AsyncExitStack() as started:
        brought: PluginContributions | str
        # A plugin's own code: whatever it raises while starting is the reason it cannot run.
        try:
            brought = register(api, plugin.entry)
            for name, service in brought.services.items():
                await _run_with_timeout(seconds, service.start(), f"the service {name} did not start")
                started.push_async_callback(_stop_service, plugin, name, service)
        except Exception as error:
            brought = error.message if isinstance(error, OpenClawError) else describe_error(error, plugin.directory)
        yield brought


async def _run_with_timeout(seconds: float, work: Awaitable[None], otherwise: str) -> None:
    try:
        async with asyncio.timeout(seconds) as limit:
            await work
    except TimeoutError as error:
        if not limit.expired():
            raise  # raised by the plugin itself
        raise Unavailable(f"{otherwise} within {seconds:g} s") from error


async def _stop_service(plugin: FoundPlugin, name: str, service: Service) -> None:
    try:
        await _run_with_timeout(GOODBYE_SECONDS, service.stop(), "it did not end")
    # A plugin's own code: its failure to stop does not stop us.
    except Exception as error:
        log.warning(
            "plugin %s: the service %s did not stop: %s", plugin.id, name, describe_error(error, plugin.directory)
        )


# All plugins.

State = Literal["off", "held", "starting", "running", "quarantined", "broken"]


class PluginStatus(Struct, frozen=True, kw_only=True):
    """State of one plugin."""

    id: str
    state: State
    why: str = ""
    """Why it does not run; one line that says what to do."""
    notes: tuple[str, ...] = ()
    """What it registered and does not get."""
    pid: int | None = None
    brings: Mapping[str, tuple[str, ...]] = msgspec.field(default_factory=dict)
    since: int = 0
    plugin: FoundPlugin | None = None


class PluginContext(Protocol):
    """Receives what plugins bring; `PluginRegistry` is the real one."""

    def taken(self, plugin: str) -> Mapping[str, Iterable[str]]:
        """Names that `plugin` cannot have, by kind."""
        ...

    def join(self, plugin: FoundPlugin, entry: PluginEntry, brought: PluginContributions) -> tuple[str, ...]:
        """Adds what a plugin brings; gives a line about each thing that could not be used."""
        ...

    def leave(self, plugin: str) -> None:
        """Removes everything of a plugin."""
        ...


class _Wanted(Struct, frozen=True):
    """A plugin with everything whose change restarts it."""

    plugin: FoundPlugin
    entry: PluginEntry
    limits: PluginLimits
    digest: str | None


class _Started:
    """A plugin that runs, or ran."""

    def __init__(self, wanted: _Wanted, status: PluginStatus) -> None:
        self.wanted = wanted
        self.status = status
        self.settled = asyncio.Event()
        self.stopping = False
        self.process: PluginProcess | None = None
        self.task: asyncio.Task[None] | None = None


class PluginManager:
    """All plugins of the process. `apply` makes what runs agree with the settings; `close` ends all of it."""

    def __init__(self, state: Path, home: Path, clock: Clock) -> None:
        self.installed = state / "extensions"
        self._data = state / "plugins"
        self._accepted = AcceptedPlugins(state)
        self._home = home
        self._clock = clock
        self._registry: PluginContext | None = None
        self._ones: dict[str, _Started] = {}
        self._others: tuple[PluginStatus, ...] = ()
        self._turn = asyncio.Lock()
        self._slot_problem = ""

    async def apply(self, settings: PluginsSettings, registry: PluginContext) -> None:
        """Starts and stops until the plugins that run are those the settings want; `settled` waits for them."""
        async with self._turn:
            await self._apply(settings, registry)

    async def _apply(self, settings: PluginsSettings, registry: PluginContext, again: str | None = None) -> None:
        self._registry = registry
        wanted, self._others = await asyncio.to_thread(self._look, settings)
        gone = [one for name, one in self._ones.items() if name == again or wanted.get(name) != one.wanted]
        await self._stop(gone, wanted)
        for name, each in wanted.items():
            if name not in self._ones:
                status = PluginStatus(id=name, state="starting", plugin=each.plugin, since=millis(self._clock))
                one = self._ones[name] = _Started(each, status)
                one.task = asyncio.create_task(self._live(one), name=f"plugin:{name}")

    async def reload(self, name: str, settings: PluginsSettings, registry: PluginContext) -> PluginStatus:
        """Restarts one plugin, also a quarantined one."""
        async with self._turn:  # the answer is about this start, not about one that a change of settings begins
            await self._apply(settings, registry, name)
            await self.settled()
            return self.status(name)

    async def settled(self) -> None:
        """Returns when no plugin is starting."""
        for one in list(self._ones.values()):
            await one.settled.wait()

    async def close(self) -> None:
        async with self._turn:
            await self._stop(list(self._ones.values()))

    def statuses(self) -> tuple[PluginStatus, ...]:
        known = {status.id: status for status in self._others}
        for name, one in self._ones.items():
            known[name] = structs.replace(one.status, pid=one.process.pid if one.process else None)
        return tuple(status for _, status in sorted(known.items()))

    def status(self, name: str) -> PluginStatus:
        for status in self.statuses():
            if status.id == name:
                return status
        raise NotFound(f"there is no plugin {name}: openclaw plugins list shows those there are")

    def found(self) -> tuple[FoundPlugin, ...]:
        """The plugins that are meant to run."""
        return tuple(one.wanted.plugin for one in self._ones.values() if not one.stopping)

    def _look(self, settings: PluginsSettings) -> tuple[dict[str, _Wanted], tuple[PluginStatus, ...]]:
        """Which plugins are to run, and the status of the rest. Reads files."""
        if not settings.enabled:
            self._log_once(memory_slot_problem((), {}, settings))
            return {}, ()
        found, broken = discover_plugins(
            [expand_path(each, self._home, self._home) for each in settings.load.paths], self.installed
        )
        accepted = {name: each.tree_sha256 for name, each in self._accepted.read().items()}
        digests = {each.id: digest_of(each.directory) for each in found if each.source == "installed"}
        verdicts = judge(found, settings, accepted, digests)
        self._log_once(memory_slot_problem(found, verdicts, settings))
        wanted = {
            each.id: _Wanted(each, settings.entries.get(each.id, PluginEntry()), settings.limits, digests.get(each.id))
            for each in found
            if verdicts[each.id].runs
        }
        rest = [
            PluginStatus(id=each.id, state="held" if verdict.held else "off", why=verdict.why, plugin=each)
            for each in found
            if not (verdict := verdicts[each.id]).runs
        ]
        rest += [
            PluginStatus(id=each.directory.name, state="broken", why=f"{each.why} ({each.directory})")
            for each in broken
        ]
        return wanted, tuple(rest)

    def _log_once(self, slot_problem: str) -> None:
        if slot_problem and slot_problem != self._slot_problem:
            log.error("%s", slot_problem)
        self._slot_problem = slot_problem

    async def _stop(self, ones: list[_Started], back: Container[str] = ()) -> None:
        """Ends these plugins; each is listed until all have ended. Those in `back` are started again afterwards."""
        try:
            await asyncio.gather(*(self._stop_one(one, again=one.wanted.plugin.id in back) for one in ones))
        finally:
            for one in ones:
                del self._ones[one.wanted.plugin.id]

    async def _stop_one(self, one: _Started, *, again: bool) -> None:
        assert one.task is not None and self._registry is not None
        one.stopping = True
        # First, so that nothing more is asked of it while it ends. Its fail-closed points stay closed until it is back.
        self._guarded(one, "is being started again") if again else self._registry.leave(one.wanted.plugin.id)
        try:
            if one.process is not None:
                await one.process.stop()
        finally:  # also when our caller is cancelled: nobody else knows of this process
            one.task.cancel()
            one.settled.set()
            await asyncio.gather(one.task, return_exceptions=True)

    async def _live(self, one: _Started) -> None:
        """Runs one plugin until it ends; its end is a status and one line in the log."""
        try:
            inside = one.wanted.entry.isolation == "inprocess"
            why = await (self._run_inside(one) if inside else self._run_process(one))
        except OpenClawError as error:
            why = error.message
        except OSError as error:
            why = f"its process cannot be started: {error.strerror or error}"
        finally:
            one.settled.set()
        if not one.stopping:
            self._put_away(one, why or "it ended by itself")

    async def _run_process(self, one: _Started) -> str:
        """Runs it in a process of its own; gives why that ended."""
        launch = await asyncio.to_thread(self._launch, one.wanted)
        process = one.process = PluginProcess(launch, logging.getLogger(f"openclaw.plugin.{one.wanted.plugin.id}"))
        ready: asyncio.Future[wire.Ready] = asyncio.get_running_loop().create_future()
        ending = asyncio.create_task(process.run(ready))
        try:
            either: set[asyncio.Future[Any]] = {ready, ending}
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            if ready.done() and not ready.cancelled():
                self._join(one, proxies.make_proxies(process, ready.result()), ready.result().services)
            return await ending
        finally:
            ending.cancel()
            await asyncio.gather(ending, return_exceptions=True)

    def _launch(self, wanted: _Wanted) -> PluginLaunch:
        plugin, entry, limits = wanted.plugin, wanted.entry, wanted.limits
        data = self._data / plugin.id
        private_directory(data)
        return PluginLaunch(
            start=wire.HostStart(
                id=plugin.id,
                directory=str(plugin.directory),
                entry=plugin.entry,
                state=str(data),
                config=reveal_secrets(entry.config),
                config_schema=dict(plugin.manifest.config_schema),
                services=plugin.manifest.contracts.services,
                memory_bytes=((entry.memory_mb or limits.memory_mb) << 20) + SLACK,
            ),
            limits=limits,
            env=entry.env,
            cwd=str(data),
        )

    async def _run_inside(self, one: _Started) -> str:
        """Runs it in this process, because the operator trusts it, until it is stopped."""
        plugin, entry = one.wanted.plugin, one.wanted.entry
        data = self._data / plugin.id
        private_directory(data)
        seconds = one.wanted.limits.start_seconds
        async with run_inprocess(plugin, reveal_secrets(entry.config), data, seconds) as brought:
            if isinstance(brought, str):
                return brought
            self._join(one, brought, tuple(brought.services))
            forever: asyncio.Future[str] = asyncio.get_running_loop().create_future()
            return await forever

    def _join(self, one: _Started, brought: PluginContributions, services: tuple[str, ...]) -> None:
        assert self._registry is not None
        plugin = one.wanted.plugin
        if one.stopping:
            return
        taken = {kind: frozenset(names) for kind, names in self._registry.taken(plugin.id).items()}
        admitted, notes = admit(brought, plugin.manifest, taken)
        self._registry.leave(plugin.id)  # the refusing hooks of its last quarantine
        notes = (*notes, *self._registry.join(plugin, one.wanted.entry, admitted))
        for note in notes:
            log.warning("plugin %s: %s", plugin.id, note)
        one.status = structs.replace(
            one.status,
            state="running",
            notes=notes,
            brings={**admitted.names(), "services": services},
            since=millis(self._clock),
        )
        log.info("plugin %s is running", plugin.id)
        one.settled.set()

    def _put_away(self, one: _Started, why: str) -> None:
        """Quarantines a plugin: nothing of it is used, and its fail-closed hook points refuse."""
        plugin = one.wanted.plugin
        guards = self._guarded(one, f"was put away: {why}")
        one.status = structs.replace(one.status, state="quarantined", why=why, brings={}, since=millis(self._clock))
        guarding = "; what it guards is refused until it runs again or is disabled" if guards else ""
        log.error("plugin %s was put away: %s%s", plugin.id, why, guarding)

    def _guarded(self, one: _Started, why: str) -> tuple[str, ...]:
        """Replaces the plugin's fail-closed hooks by ones that refuse; gives their points."""
        assert self._registry is not None
        plugin = one.wanted.plugin
        guards = tuple(point for point in plugin.manifest.hooks if point in POINTS and POINTS[point].fails == "closed")
        self._registry.leave(plugin.id)

        async def refuse(event: Any, context: HookContext) -> Any:
            raise PluginFailed(f"the plugin {plugin.id} {why}")

        closed = PluginContributions(hooks=tuple(Hook(point=point, run=refuse) for point in guards))
        self._registry.join(plugin, one.wanted.entry, closed)
        return guards


def reveal_secrets(value: Any) -> Any:
    """Settings with credentials revealed, for the plugin they belong to."""
    match value:
        case Secret():
            return value.reveal()
        case Mapping():
            return {str(name): reveal_secrets(inner) for name, inner in value.items()}
        case list() | tuple():
            return [reveal_secrets(inner) for inner in value]
        case _:
            return value
