"""Registers HOOK.md directories with the dispatcher: builds the handlers of those that run, and limits failures."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import tzinfo
from functools import partial
from pathlib import Path
from typing import Any

from msgspec import structs

from openclaw.agent.settings import AgentsSettings
from openclaw.core.clock import Clock, millis
from openclaw.core.errors import OpenClawError
from openclaw.core.hooks import HookContext
from openclaw.core.keys import SessionKey
from openclaw.core.settings import Live
from openclaw.plugins.hooks import events, handlers
from openclaw.plugins.hooks.dispatch import HookDispatcher
from openclaw.plugins.hooks.events import NOTHING, BootstrapContext, BootstrapFile, HookEvent, HookFileAnswer, Payload
from openclaw.plugins.hooks.find import AcceptedHooks, HookConfig, agent_workspaces, list_all_hooks
from openclaw.plugins.hooks.manifest import HookDirectory
from openclaw.plugins.hooks.points import HookPoint, HookRegistration, Merged
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


class HookFileHandler:
    """Calls one hook. One that was not accepted as it is, or failed too often, is held back; the others go on."""

    def __init__(self, name: str, handle: Handle, objection: Callable[[], str] = str) -> None:
        """`objection` says why it must not run as it is now; it is asked before every run."""
        self._name = name
        self._handle = handle
        self._objection = objection
        self._failures = 0
        self._held = ""
        """Why it was held back last: said once, not at every event."""

    async def __call__(self, event: HookEvent, context: HookContext) -> HookFileAnswer | None:
        why = self._objection()
        if why:
            self._failures = 0  # its files changed: failures are counted anew
        elif self._failures >= MOST_FAILURES:
            why = f"it failed {MOST_FAILURES} times in a row; it is tried again when the gateway or its settings reload"
        if why and why != self._held:
            log.warning("the hook %s is held back: %s", self._name, why)
        self._held = why
        if why:
            return None
        try:
            said = await self._handle(event)
        except OpenClawError as error:
            self._failures += 1
            log.warning("the hook %s failed on %s: %s", self._name, event.name, error.message)
            return None
        self._failures = 0
        return said


class HookFileMerged(Merged, frozen=True, kw_only=True):
    """The answers of the hooks so far."""

    context: Payload
    messages: tuple[str, ...] = ()
    replaced: tuple[tuple[str, tuple[BootstrapFile, ...]], ...] = ()
    """The files as each hook that changed them left them, with its name."""


def merge_file_answer(merged: HookFileMerged, by: HookRegistration, answer: HookFileAnswer) -> HookFileMerged:
    """Messages add up; files are as the last one left them."""
    merged = structs.replace(merged, messages=(*merged.messages, *answer.messages))
    files, context = answer.bootstrap_files, merged.context
    if files is None or not isinstance(context, BootstrapContext):
        return merged
    return structs.replace(
        merged,
        context=structs.replace(context, bootstrap_files=files),
        replaced=(*merged.replaced, (by.plugin.removeprefix(OWNER), files)),
    )


OWNER = "hook:"
"""What stands before a hook's name where its owner is named: among handlers, and in the audit."""


def event_point(event: HookEvent) -> HookPoint[HookEvent, HookFileAnswer, HookFileMerged]:
    """The point of an event: every handler sees the files as the one before it left them."""
    return HookPoint(name=event.name, merged=HookFileMerged, step=merge_file_answer, carried="context")


def registrations(hook: HookDirectory, handler: HookFileHandler) -> list[HookRegistration]:
    """A hook at every event it subscribes to."""
    return [
        HookRegistration(plugin=OWNER + hook.name, hook=name, handler=handler, workspace=hook.workspace, in_order=True)
        for name in hook.manifest.events
    ]


BRIEFLY = 5.0
"""Bootstrap files are gathered before every answer, so a handler of that event gets no longer than this."""

Own = Callable[[HookEvent, HookEntrySettings], Awaitable[HookFileAnswer]]
"""The handler of a bundled hook."""


# The handlers, by the settings.


def build(
    config: HookConfig, environment: Environment, clock: Clock, zone: tzinfo, enrolled: Mapping[str, Own]
) -> list[HookRegistration]:
    """The hooks that run by these settings. Reads files: call it in a thread."""
    state = environment.home.state
    ledger = AcceptedHooks(state)
    own: dict[str, Own] = {
        "session-memory": handlers.SessionMemory(zone),
        "command-logger": handlers.CommandLogger(state),
        "bootstrap-extra-files": handlers.extra_files,
        **enrolled,
    }
    hooks = [item.hook for item in list_all_hooks(config, environment, ledger).items if item.verdict.runs]
    for hook in hooks:
        _accept_first_use(hook, ledger, clock)
    if hooks:
        log.info("hooks: %s", ", ".join(hook.name for hook in hooks))
    return [each for hook in hooks for each in registrations(hook, _handler(hook, config, own, ledger))]


def _accept_first_use(hook: HookDirectory, ledger: AcceptedHooks, clock: Clock) -> None:
    """Accepts a hook of the managed and extra directories as it is at its first use."""
    if hook.source not in ("openclaw-managed", "openclaw-extra"):
        return
    try:
        if hook.directory not in ledger.read():
            ledger.accept(hook, "first-use", millis(clock))
    except OpenClawError as error:
        log.warning("%s", error.message)


def _handler(hook: HookDirectory, config: HookConfig, own: Mapping[str, Own], ledger: AcceptedHooks) -> HookFileHandler:
    entry = config.settings.entries.get(hook.manifest.key, HookEntrySettings())
    if hook.bundled:
        return HookFileHandler(hook.name, partial(_run_bundled, own.get(hook.name), hook.name, entry))
    env = handler_environment(hook, config.variables, {name: value.reveal() for name, value in entry.env.items()})
    limit = (entry.timeout_ms or config.settings.timeout_ms) / 1000

    async def handle(event: HookEvent) -> HookFileAnswer:
        shortest = min(limit, BRIEFLY) if event.name == "agent:bootstrap" else limit
        return await run(hook, event, options(entry), env=env, limit=shortest)

    return HookFileHandler(hook.name, handle, partial(ledger.objection, hook))


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


# The service the gateway holds.


class HookFiles:
    """The hooks of a running gateway, registered with `hooks`. `tell` needs `serving()`; `fire` works without it."""

    def __init__(
        self,
        hooks: HookDispatcher,
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
        self._hooks = hooks
        self._settings = settings
        self._agents = agents
        self._variables = variables
        self._is_set = is_set
        self._environment = environment
        self._clock = clock
        self._zone = zone
        self._enrolled: dict[str, Own] = {}
        self._serving = False
        self._owners: tuple[str, ...] = ()
        self._workspaces: dict[str, Path] = {}
        self._built_for: tuple[Any, ...] = ()
        self._building = asyncio.Lock()
        self._resting = resting
        """In safe mode nobody is told anything."""

    @property
    def on(self) -> bool:
        """Whether any hook can run; while none can, nobody searches for hooks or describes what happened."""
        settings = self._settings.current
        if self._resting or settings.enabled is not None:
            return bool(settings.enabled) and not self._resting
        if settings.load.extra_dirs or not settings.entries:  # most have none, and are asked several times in a turn
            return bool(settings.load.extra_dirs)
        return any(each.enabled is not False for each in settings.entries.values())

    async def hears(self, event: HookEvent) -> bool:
        """Whether any hook would be called with `event`."""
        if not self.on:
            return False
        await self._refresh()
        return self._hooks.hears(event.name, event, self._context(event))

    async def fire(self, event: HookEvent) -> HookFileMerged:
        """Calls the hooks one after another, each with the changes of the one before; gives their combined answer."""
        if not self.on:
            return HookFileMerged(context=event.context)
        await self._refresh()
        return await self._hooks.ask(event_point(event), event, self._context(event))

    def tell(self, event: HookEvent) -> None:
        """Queues the event for the hooks; does not wait."""
        if self.on and self._serving:
            what = f"the event {event.name}"
            self._hooks.keep(asyncio.create_task(supervise_once(self._spread(event), what), name=what))

    def session_patched(self, key: SessionKey, row: SessionRow | None, patch: Mapping[str, Any]) -> None:
        """Tells which settings of a session changed."""
        if self.on:
            self.tell(events.patch_event(self._clock, key, row, patch))

    async def _spread(self, event: HookEvent) -> None:
        await self._refresh()
        if self._serving:
            self._hooks.tell(event.name, event, self._context(event))

    def _context(self, event: HookEvent) -> HookContext:
        workspace = self._workspaces.get(event.agent_id, "")
        return HookContext(agent_id=event.agent_id, session_key=event.session_key, workspace_dir=str(workspace))

    @asynccontextmanager
    async def serving(self, own: Mapping[str, Own]) -> AsyncIterator[HookFiles]:
        """`own` are the handlers of bundled hooks that only a running gateway can carry out."""
        self._enrolled, self._built_for, self._serving = dict(own), (), True
        try:
            yield self
        finally:
            self._serving = False
            self._hooks.drop_waiting()

    async def settle(self, event: HookEvent, seconds: float) -> None:
        """Delivers one of the last events at shutdown: queued ones go first, all within `seconds`."""
        if not self.on:
            return
        try:
            async with asyncio.timeout(seconds):
                await self._refresh()
                await self._hooks.drain(but=[OWNER + name for name in self._enrolled])
                await self.fire(event)
        except TimeoutError:
            log.warning("hooks were not done with %s after %g s", event.name, seconds)

    async def _refresh(self) -> None:
        """Registers the hooks by the present settings."""
        # The lock is fair: events that arrive while hooks are searched for keep their order.
        async with self._building:
            settings, agents, variables = now = (self._settings.current, self._agents.current, self._variables.current)
            if self._built_for and all(one is other for one, other in zip(now, self._built_for, strict=True)):
                return
            config = HookConfig(settings=settings, agents=agents, variables=variables, is_set=self._is_set)
            self._workspaces = agent_workspaces(agents, self._environment)
            found = await asyncio.to_thread(
                build, config, self._environment, self._clock, self._zone, dict(self._enrolled)
            )
            for owner in self._owners:
                self._hooks.remove(owner)
            for each in found:
                self._hooks.add(each)
            self._owners = tuple(dict.fromkeys(each.plugin for each in found))
            self._built_for = now


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
    context = events.BootstrapContext(agent_id=key.agent, workspace_dir=str(workspace), session_id=session_id)
    event = events.make_event(clock, "agent", "bootstrap", context, str(key))
    if not await hooks.hears(event):
        return None, []
    loaded = budget.select_files(files.load(workspace, cache=cache), budget.kind_of(key, group=shared))
    left = tuple(_to_bootstrap(file) for file in loaded)
    merged = await hooks.fire(structs.replace(event, context=structs.replace(context, bootstrap_files=left)))
    if not merged.replaced:
        return None, []
    done, text = list[AuditChange](), partial(_text, workspace=workspace, cache=cache)
    for name, after in merged.replaced:
        done += audit_changes(name, left, after, text)
        left = after
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
                plugin=OWNER + hook,
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
