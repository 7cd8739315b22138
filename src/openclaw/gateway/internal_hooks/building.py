"""From hooks on disk to listeners: who runs, with which variables and limits, carried out by whom."""

import logging
from collections.abc import Awaitable, Callable, Mapping
from datetime import tzinfo
from functools import partial
from typing import Any

from openclaw.config.load import LoadedConfig
from openclaw.core.clock import Clock, millis
from openclaw.core.errors import OpenClawError
from openclaw.gateway.internal_hooks import bundled
from openclaw.gateway.internal_hooks.looking import look, workspaces
from openclaw.gateway.surroundings import Environment
from openclaw.hooks.internal.dispatch import HookFileDispatcher, HookListener
from openclaw.hooks.internal.events import NOTHING, HookEvent, HookFileAnswer
from openclaw.hooks.internal.lock import AcceptedHooks
from openclaw.hooks.internal.process import HandlerFailed, environment, run
from openclaw.hooks.internal.record import HookDirectory
from openclaw.hooks.internal.settings import HookEntrySettings, InternalHooksSettings
from openclaw.turns.guarding import supervise_once

log = logging.getLogger(__name__)

BRIEFLY = 5.0
"""Before every answer the files of the prompt are gathered: longer than this nobody should wait for it."""

Own = Callable[[HookEvent, HookEntrySettings], Awaitable[HookFileAnswer]]
"""A handler that is part of OpenClaw."""


def build(
    loaded: LoadedConfig, surroundings: Environment, clock: Clock, zone: tzinfo, enrolled: Mapping[str, Own]
) -> HookFileDispatcher:
    """Everyone who is to be told, as things are now. Reads files: call it in a thread."""
    state = surroundings.home.state
    ledger = AcceptedHooks(state)
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
    return HookFileDispatcher(listeners, lambda agent: places.get(agent, ""))


def _meet(hook: HookDirectory, ledger: AcceptedHooks, clock: Clock) -> None:
    """A hook in a place that is its owner's alone is accepted as it is when it is first used."""
    if hook.source not in ("openclaw-managed", "openclaw-extra"):
        return
    try:
        if hook.directory not in ledger.read():
            ledger.accept(hook, "first-use", millis(clock))
    except OpenClawError as error:
        log.warning("%s", error.message)


def _listener(
    hook: HookDirectory,
    settings: InternalHooksSettings,
    variables: Mapping[str, str],
    own: Mapping[str, Own],
    ledger: AcceptedHooks,
) -> HookListener:
    entry = settings.entries.get(hook.manifest.key, HookEntrySettings())
    if hook.bundled:
        return HookListener(hook=hook, handle=partial(_carried_out, own.get(hook.name), hook.name, entry))
    env = environment(hook, variables, {name: value.reveal() for name, value in entry.env.items()})
    limit = (entry.timeout_ms or settings.timeout_ms) / 1000

    async def handle(event: HookEvent) -> HookFileAnswer:
        shortest = min(limit, BRIEFLY) if event.name == "agent:bootstrap" else limit
        return await run(hook, event, options(entry), env=env, limit=shortest)

    return HookListener(hook=hook, handle=handle, objection=partial(ledger.objection, hook))


def options(entry: HookEntrySettings) -> dict[str, Any]:
    """What a hook's entry sets for its handler."""
    named = {"messages": entry.messages, "paths": entry.paths, "patterns": entry.patterns, "files": entry.files}
    return {**{name: value for name, value in named.items() if value}, **entry.config}


async def _carried_out(own: Own | None, name: str, entry: HookEntrySettings, event: HookEvent) -> HookFileAnswer:
    """A bundled handler's answer. A bug in one is logged with its traceback, and is a failure like any other."""
    if own is None:
        return NOTHING
    said: list[HookFileAnswer] = []
    failed: list[OpenClawError] = []

    async def work() -> None:
        try:
            said.append(await own(event, entry))
        except OpenClawError as error:
            failed.append(error)

    await supervise_once(work(), f"the hook {name}")
    if not said:
        raise failed[0] if failed else HandlerFailed("something went wrong inside OpenClaw; the log has the details")
    return said[0]
