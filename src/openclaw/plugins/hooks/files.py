"""Dispatches events to HOOK.md handlers: builds the list of those that run, calls them in order, limits failures."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from datetime import tzinfo
from functools import partial
from pathlib import Path
from typing import Any

from msgspec import Struct, structs

from openclaw.agent.settings import AgentsSettings
from openclaw.core.clock import Clock, millis
from openclaw.core.errors import OpenClawError
from openclaw.core.keys import SessionKey
from openclaw.core.settings import Live
from openclaw.plugins.hooks import events, handlers
from openclaw.plugins.hooks.accepted import AcceptedHooks
from openclaw.plugins.hooks.discover import HookConfig, agent_workspaces, list_all_hooks
from openclaw.plugins.hooks.events import NOTHING, BootstrapFile, HookEvent, HookFileAnswer
from openclaw.plugins.hooks.manifest import HookDirectory
from openclaw.plugins.hooks.runner import HandlerFailed, handler_environment, run
from openclaw.plugins.settings import HookEntrySettings, InternalHooksSettings
from openclaw.process.environment import Environment
from openclaw.process.tasks import supervise_once
from openclaw.security.audit import AuditChange
from openclaw.sessions.index import SessionRow
from openclaw.workspace import budget, files
from openclaw.workspace.files import MAX_BYTES, FileCache, WorkspaceFile

log = logging.getLogger(__name__)

MOST_FAILURES = 3
"""After so many failures in a row a hook is paused, so that one that hangs does not slow down every turn."""

Handle = Callable[[HookEvent], Awaitable[HookFileAnswer]]


class HookListener(Struct, frozen=True, kw_only=True):
    """A hook that runs, and the function that calls it."""

    hook: HookDirectory
    handle: Handle
    objection: Callable[[], str] = str
    """Why it must not run as it is now; checked before every run."""


class HookFileDispatcher:
    """The listeners, in the order they were found."""

    def __init__(self, listeners: Sequence[HookListener], workspaces: Mapping[str, str]) -> None:
        self._listeners = tuple(listeners)
        self._workspaces = workspaces
        """By agent."""
        self._failures: dict[str, int] = {}
        self._told: dict[str, str] = {}
        """What was said last of a hook that is held back: said once, not at every event."""

    def listening(self, event: HookEvent) -> list[HookListener]:
        """The listeners for `event`: those of its family first, then those that named it."""
        # A workspace's hook receives only events of agents in that workspace.
        places = ("", self._workspaces.get(event.agent_id, "")) if event.agent_id else None
        found = [
            (events.match_level(each.hook.manifest.events, event), each)
            for each in self._listeners
            if places is None or each.hook.workspace in places
        ]
        return [each for wanted in (1, 2) for rank, each in found if rank == wanted]

    async def fire(self, event: HookEvent) -> HookFileAnswer:
        """Calls the listeners one after another; gives their combined answer."""
        messages: list[str] = []
        files = None
        async with aclosing(self.answers(event)) as answers:
            async for _, said in answers:
                messages += said.messages
                files = files if said.bootstrap_files is None else said.bootstrap_files
        return HookFileAnswer(messages=tuple(messages), bootstrap_files=files)

    async def answers(self, event: HookEvent) -> AsyncGenerator[tuple[str, HookFileAnswer]]:
        """Calls the listeners one after another, each with the changes of the one before; yields who answered what."""
        for listener in self.listening(event):
            said = await self.tell(listener, event)
            if said is not None:
                event = events.apply_answer(event, said)
                yield listener.hook.name, said

    async def tell(self, listener: HookListener, event: HookEvent) -> HookFileAnswer | None:
        """One hook's answer; None when it was not accepted or failed, which is logged in one line."""
        name = listener.hook.name
        why = listener.objection()
        if why:
            self._failures.pop(name, None)  # its files changed: failures are counted anew
        elif self._failures.get(name, 0) >= MOST_FAILURES:
            why = f"it failed {MOST_FAILURES} times in a row; it is tried again when the gateway or its settings reload"
        if why:
            if self._told.get(name) != why:
                log.warning("the hook %s is held back: %s", name, why)
            self._told[name] = why
            return None
        self._told.pop(name, None)
        try:
            said = await listener.handle(event)
        except OpenClawError as error:
            self._failures[name] = self._failures.get(name, 0) + 1
            log.warning("the hook %s failed on %s: %s", name, event.name, error.message)
            return None
        self._failures.pop(name, None)
        return said


BRIEFLY = 5.0
"""Bootstrap files are gathered before every answer, so a handler of that event gets no longer than this."""

Own = Callable[[HookEvent, HookEntrySettings], Awaitable[HookFileAnswer]]
"""The handler of a bundled hook."""


# Building the dispatcher from the settings.


def build(
    config: HookConfig, environment: Environment, clock: Clock, zone: tzinfo, enrolled: Mapping[str, Own]
) -> HookFileDispatcher:
    """Builds the dispatcher from the present settings. Reads files: call it in a thread."""
    state = environment.home.state
    ledger = AcceptedHooks(state)
    own: dict[str, Own] = {
        "session-memory": handlers.SessionMemory(zone),
        "command-logger": handlers.CommandLogger(state),
        "bootstrap-extra-files": handlers.extra_files,
        **enrolled,
    }
    places = {agent: str(path) for agent, path in agent_workspaces(config.agents, environment).items()}
    listeners = []
    for item in list_all_hooks(config, environment, ledger).items:
        if item.verdict.runs:
            _accept_first_use(item.hook, ledger, clock)
            listeners.append(_listener(item.hook, config, own, ledger))
    if listeners:
        log.info("hooks: %s", ", ".join(listener.hook.name for listener in listeners))
    return HookFileDispatcher(listeners, places)


def _accept_first_use(hook: HookDirectory, ledger: AcceptedHooks, clock: Clock) -> None:
    """Accepts a hook of the managed and extra directories as it is at its first use."""
    if hook.source not in ("openclaw-managed", "openclaw-extra"):
        return
    try:
        if hook.directory not in ledger.read():
            ledger.accept(hook, "first-use", millis(clock))
    except OpenClawError as error:
        log.warning("%s", error.message)


def _listener(hook: HookDirectory, config: HookConfig, own: Mapping[str, Own], ledger: AcceptedHooks) -> HookListener:
    entry = config.settings.entries.get(hook.manifest.key, HookEntrySettings())
    if hook.bundled:
        return HookListener(hook=hook, handle=partial(_run_bundled, own.get(hook.name), hook.name, entry))
    env = handler_environment(hook, config.variables, {name: value.reveal() for name, value in entry.env.items()})
    limit = (entry.timeout_ms or config.settings.timeout_ms) / 1000

    async def handle(event: HookEvent) -> HookFileAnswer:
        shortest = min(limit, BRIEFLY) if event.name == "agent:bootstrap" else limit
        return await run(hook, event, options(entry), env=env, limit=shortest)

    return HookListener(hook=hook, handle=handle, objection=partial(ledger.objection, hook))


def options(entry: HookEntrySettings) -> dict[str, Any]:
    """The options that a hook's entry sets for its handler."""
    named = {"messages": entry.messages, "paths": entry.paths, "patterns": entry.patterns, "files": entry.files}
    return {**{name: value for name, value in named.items() if value}, **entry.config}


async def _run_bundled(own: Own | None, name: str, entry: HookEntrySettings, event: HookEvent) -> HookFileAnswer:
    """A bundled handler's answer. A bug in one is logged with its traceback, and is a failure like any other."""
    try:
        return await own(event, entry) if own is not None else NOTHING
    except OpenClawError:
        raise
    except Exception as error:
        log.exception("the hook %s failed", name)
        raise HandlerFailed("something went wrong inside OpenClaw; the log has the details") from error


MOST_WAITING = 500


# The service the gateway holds.


class HookFiles:
    """The hooks of a running gateway. `tell` needs `serving()`; `fire` works without it."""

    def __init__(
        self,
        settings: Live[InternalHooksSettings],
        agents: Live[AgentsSettings],
        variables: Live[Mapping[str, str]],
        is_set: Callable[[str], bool],
        environment: Environment,
        clock: Clock,
        zone: tzinfo,
        *,
        resting: bool = False,
    ) -> None:
        self._settings = settings
        self._agents = agents
        self._variables = variables
        self._is_set = is_set
        self._environment = environment
        self._clock = clock
        self._zone = zone
        self._enrolled: dict[str, Own] = {}
        self._built: HookFileDispatcher | None = None
        self._built_for: tuple[Any, ...] = ()
        self._building = asyncio.Lock()
        self._group: asyncio.TaskGroup | None = None
        self._lanes: dict[str, asyncio.Queue[tuple[HookFileDispatcher, HookListener, HookEvent]]] = {}
        """What each hook has yet to hear."""
        self._workers: set[asyncio.Task[None]] = set()
        self._resting = resting
        """In safe mode nobody is told anything."""

    @property
    def on(self) -> bool:
        """Whether any hook can run; while none can, nobody searches for hooks or describes what happened."""
        settings = self._settings.current
        if self._resting or settings.enabled is not None:
            return bool(settings.enabled) and not self._resting
        return bool(settings.load.extra_dirs) or any(each.enabled is not False for each in settings.entries.values())

    async def fire(self, event: HookEvent) -> HookFileAnswer:
        """Calls the listeners and waits for their combined answer."""
        return await (await self.dispatcher()).fire(event) if self.on else NOTHING

    def tell(self, event: HookEvent) -> None:
        """Queues the event for the listeners; does not wait."""
        if self.on and self._group is not None:
            self._start(self._spread(event), f"the event {event.name}")

    def session_patched(self, key: SessionKey, row: SessionRow | None, patch: Mapping[str, Any]) -> None:
        """Tells which settings of a session changed."""
        if self.on:
            self.tell(events.patch_event(self._clock, key, row, patch))

    async def _spread(self, event: HookEvent) -> None:
        dispatcher = await self.dispatcher()
        for listener in dispatcher.listening(event):
            lane = self._lane(listener.hook.name)
            if lane.full():
                log.warning("the hook %s is too slow: it is not told of %s", listener.hook.name, event.name)
            else:
                lane.put_nowait((dispatcher, listener, event))

    @asynccontextmanager
    async def serving(self, own: Mapping[str, Own]) -> AsyncIterator[HookFiles]:
        """`own` are the handlers of bundled hooks that only a running gateway can carry out."""
        self._enrolled, self._built = dict(own), None
        async with asyncio.TaskGroup() as group:
            self._group = group
            try:
                yield self
            finally:
                self._group = None
                self._lanes.clear()
                for task in self._workers:
                    task.cancel()

    async def settle(self, event: HookEvent, seconds: float) -> None:
        """Delivers one of the last events at shutdown: queued ones go first, all within `seconds`."""
        if not self.on:
            return
        try:
            async with asyncio.timeout(seconds):
                await asyncio.gather(*(lane.join() for name, lane in self._lanes.items() if name not in self._enrolled))
                await self.fire(event)
        except TimeoutError:
            log.warning("hooks were not done with %s after %g s", event.name, seconds)

    def _lane(self, name: str) -> asyncio.Queue[tuple[HookFileDispatcher, HookListener, HookEvent]]:
        """The queue of one hook: its events stay in order, whatever other hooks do."""
        if name not in self._lanes:
            self._lanes[name] = asyncio.Queue(MOST_WAITING)
            self._start(self._work(self._lanes[name]), f"the hook {name}")
        return self._lanes[name]

    async def _work(self, lane: asyncio.Queue[tuple[HookFileDispatcher, HookListener, HookEvent]]) -> None:
        while True:
            dispatcher, listener, event = await lane.get()
            try:
                await dispatcher.tell(listener, event)
            finally:
                lane.task_done()

    def _start(self, work: Awaitable[None], what: str) -> None:
        if self._group is None:
            raise RuntimeError("nobody is told outside serving()")
        task = self._group.create_task(supervise_once(work, what), name=what)
        self._workers.add(task)
        task.add_done_callback(self._workers.discard)

    async def dispatcher(self) -> HookFileDispatcher:
        """The listeners by the present settings."""
        # The lock is fair: events that arrive while hooks are searched for keep their order.
        async with self._building:
            now = (self._settings.current, self._agents.current, self._variables.current)
            if self._built is None or any(one is not other for one, other in zip(now, self._built_for, strict=True)):
                self._built_for = now
                settings, agents, variables = now
                config = HookConfig(settings=settings, agents=agents, variables=variables, is_set=self._is_set)
                self._built = await asyncio.to_thread(
                    build, config, self._environment, self._clock, self._zone, dict(self._enrolled)
                )
            return self._built


BY_HOOK = "put there by a hook"


# The `agent:bootstrap` event: hooks may add, remove and replace files of the prompt.


async def bootstrap_files(
    hooks: HookFiles,
    clock: Clock,
    key: SessionKey,
    workspace: Path,
    cache: FileCache,
    session_id: str = "",
    *,
    shared: bool = False,
) -> tuple[tuple[WorkspaceFile, ...] | None, list[AuditChange]]:
    """The files of a prompt as hooks leave them, None when none changed any; and the audit entries for the changes."""
    if not hooks.on:
        return None, []
    context = events.BootstrapContext(agent_id=key.agent, workspace_dir=str(workspace), session_id=session_id)
    event = events.make_event(clock, "agent", "bootstrap", context, str(key))
    dispatcher = await hooks.dispatcher()
    if not dispatcher.listening(event):
        return None, []
    loaded = budget.select_files(files.load(workspace, cache=cache), budget.kind_of(key, group=shared))
    before = left = tuple(_to_bootstrap(file) for file in loaded)
    event, done = events.apply_answer(event, HookFileAnswer(bootstrap_files=before)), list[AuditChange]()
    async with aclosing(dispatcher.answers(event)) as answers:
        async for name, said in answers:
            if said.bootstrap_files is not None:
                text = partial(_text, workspace=workspace, cache=cache)
                done += audit_changes(name, left, said.bootstrap_files, text)
                left = said.bootstrap_files
    if left is before:
        return None, []
    given, warnings = budget.merge((), [_from_bootstrap(each, loaded, workspace, cache) for each in left])
    for line in warnings:
        log.warning("%s", line)
    # Our own files come first when space is short.
    ours = {file.path: place for place, file in enumerate(loaded)}
    ordered = sorted(given, key=lambda file: (ours.get(file.path, len(ours)), Path(file.path).name, file.path))
    return tuple(ordered), done


def audit_changes(
    hook: str, before: Sequence[BootstrapFile], after: Sequence[BootstrapFile], text: Callable[[BootstrapFile], str]
) -> list[AuditChange]:
    """The audit entries for one hook: one for every file it added, removed or replaced."""
    was, now = {file.path: file for file in before}, {file.path: file for file in after}
    found = []
    for path in dict.fromkeys((*was, *now)):
        old, new = was.get(path), now.get(path)
        if old == new:
            continue
        verb = "put in" if old is None else "taken out" if new is None else "replaced"
        found.append(
            AuditChange(
                plugin=f"hook:{hook}",
                hook="agent:bootstrap",
                field="bootstrapFiles",
                before=text(old) if old else "",
                after=text(new) if new else "",
                note=f"{Path(path).name} {verb}",
            )
        )
    return found


def _text(file: BootstrapFile, workspace: Path, cache: FileCache) -> str:
    """The text a file adds to the prompt; one without content is read."""
    if file.content is not None or file.missing or not file.path.strip():
        return file.content or ""
    return files.read(workspace, _place(file, workspace), cache=cache).content


def _place(file: BootstrapFile, workspace: Path) -> Path:
    path = Path(file.path).expanduser()
    return path if path.is_absolute() else workspace / path


def _to_bootstrap(file: WorkspaceFile) -> BootstrapFile:
    content = None if file.missing or file.problem else file.content
    return BootstrapFile(name=file.name, path=file.path, content=content, missing=file.missing)


def _from_bootstrap(
    given: BootstrapFile, loaded: Sequence[WorkspaceFile], workspace: Path, cache: FileCache
) -> WorkspaceFile:
    """One file of a hook's answer. An unchanged one stays as it was loaded."""
    if not given.path.strip():
        return WorkspaceFile(name=given.name, path="")
    path = _place(given, workspace)
    known = next((file for file in loaded if file.path == str(path)), None)
    if known is not None and given == _to_bootstrap(known):
        return known
    name = given.name.strip() or path.name
    if given.missing:
        return WorkspaceFile(name=name, path=str(path), missing=True, note=BY_HOOK)
    if given.content is None:
        found = files.read(workspace, path, cache=cache)
        return structs.replace(found, name=name, note=f"{BY_HOOK}; {found.note}" if found.note else BY_HOOK)
    return WorkspaceFile(
        name=name,
        path=str(path),
        content=given.content[:MAX_BYTES],
        note=BY_HOOK,
        inode=known.inode if known is not None else "",
    )
