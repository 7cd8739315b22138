"""From hooks on disk to listeners: who runs, with which variables and limits, carried out by whom."""

import logging
from collections.abc import Awaitable, Callable, Mapping
from datetime import tzinfo
from functools import partial
from typing import Any

from openclaw.config.load import Loaded
from openclaw.core.clock import Clock, millis
from openclaw.core.errors import OpenClawError
from openclaw.gateway.internal_hooks import bundled
from openclaw.gateway.internal_hooks.looking import look, workspaces
from openclaw.gateway.surroundings import Surroundings
from openclaw.hooks.internal.dispatch import Dispatcher, Listener
from openclaw.hooks.internal.events import NOTHING, Answer, Event
from openclaw.hooks.internal.lock import Ledger
from openclaw.hooks.internal.process import HookFailed, environment, run
from openclaw.hooks.internal.record import Hook
from openclaw.hooks.internal.settings import EntrySettings, InternalHooksSettings
from openclaw.turns.guarding import guarded

log = logging.getLogger(__name__)

BRIEFLY = 5.0
"""Before every answer the files of the prompt are gathered: longer than this nobody should wait for it."""

Own = Callable[[Event, EntrySettings], Awaitable[Answer]]
"""A handler that is part of OpenClaw."""


def build(
    loaded: Loaded, surroundings: Surroundings, clock: Clock, zone: tzinfo, enrolled: Mapping[str, Own]
) -> Dispatcher:
    """Everyone who is to be told, as things are now. Reads files: call it in a thread."""
    state = surroundings.home.state
    ledger = Ledger(state)
    own: dict[str, Own] = {
        "session-memory": bundled.SessionMemory(zone),
        "command-logger": bundled.CommandLogger(state),
        "bootstrap-extra-files": bundled.extra_files,
        **enrolled,
    }
    settings = loaded.config.hooks.internal
    places = {agent: str(path) for agent, path in workspaces(loaded, surroundings).items()}
    listeners = []
    for item in look(loaded, surroundings, ledger).items:
        if item.verdict.runs:
            _meet(item.hook, ledger, clock)
            listeners.append(_listener(item.hook, settings, loaded.variables, own, ledger))
    if listeners:
        log.info("hooks: %s", ", ".join(listener.hook.name for listener in listeners))
    return Dispatcher(listeners, lambda agent: places.get(agent, ""))


def _meet(hook: Hook, ledger: Ledger, clock: Clock) -> None:
    """A hook in a place that is its owner's alone is accepted as it is when it is first used."""
    if hook.source not in ("openclaw-managed", "openclaw-extra"):
        return
    try:
        if hook.directory not in ledger.read():
            ledger.accept(hook, "first-use", millis(clock))
    except OpenClawError as error:
        log.warning("%s", error.message)


def _listener(
    hook: Hook,
    settings: InternalHooksSettings,
    variables: Mapping[str, str],
    own: Mapping[str, Own],
    ledger: Ledger,
) -> Listener:
    entry = settings.entries.get(hook.manifest.key, EntrySettings())
    if hook.bundled:
        return Listener(hook=hook, handle=partial(_carried_out, own.get(hook.name), hook.name, entry))
    env = environment(hook, variables, {name: value.reveal() for name, value in entry.env.items()})
    limit = (entry.timeout_ms or settings.timeout_ms) / 1000

    async def handle(event: Event) -> Answer:
        shortest = min(limit, BRIEFLY) if event.name == "agent:bootstrap" else limit
        return await run(hook, event, options(entry), env=env, limit=shortest)

    return Listener(hook=hook, handle=handle, objection=partial(ledger.objection, hook))


def options(entry: EntrySettings) -> dict[str, Any]:
    """What a hook's entry sets for its handler."""
    named = {"messages": entry.messages, "paths": entry.paths, "patterns": entry.patterns, "files": entry.files}
    return {**{name: value for name, value in named.items() if value}, **entry.config}


async def _carried_out(own: Own | None, name: str, entry: EntrySettings, event: Event) -> Answer:
    """A bundled handler's answer. A bug in one is logged with its traceback, and is a failure like any other."""
    if own is None:
        return NOTHING
    said: list[Answer] = []
    failed: list[OpenClawError] = []

    async def work() -> None:
        try:
            said.append(await own(event, entry))
        except OpenClawError as error:
            failed.append(error)

    await guarded(work(), f"the hook {name}")
    if not said:
        raise failed[0] if failed else HookFailed("something went wrong inside OpenClaw; the log has the details")
    return said[0]
