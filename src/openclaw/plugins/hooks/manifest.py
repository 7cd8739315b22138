"""Parses HOOK.md and decides whether a hook can run here. Lenient about spelling, strict about meaning. Pure."""

import re
from typing import Literal

from msgspec import Struct

from openclaw.extensions.front_matter import (
    Requirements,
    one_line,
    openclaw_fields,
    parse_flag,
    parse_requirements,
    parse_systems,
    read,
    split_words,
)
from openclaw.extensions.gate import MachineFacts, find_missing
from openclaw.plugins.hooks.events import FAMILIES, NAMES, SILENT_HERE
from openclaw.plugins.settings import HookEntrySettings, InternalHooksSettings

Source = Literal["openclaw-bundled", "openclaw-plugin", "openclaw-extra", "openclaw-managed", "openclaw-workspace"]
Kind = Literal["python", "program", "bundled"]


class HookManifest(Struct, frozen=True, kw_only=True):
    """What a HOOK.md says of its hook."""

    name: str
    description: str = ""
    homepage: str = ""
    emoji: str = ""
    hook_key: str = ""
    events: tuple[str, ...] = ()
    export: str = "handler"
    os: tuple[str, ...] = ()
    always: bool = False
    requires: Requirements = Requirements()
    notes: tuple[str, ...] = ()
    """Oddities that did not keep it from being read."""

    @property
    def key(self) -> str:
        """Its name under `hooks.internal.entries`."""
        return self.hook_key or self.name


class HookDirectory(Struct, frozen=True, kw_only=True):
    """One directory with a HOOK.md."""

    manifest: HookManifest
    source: Source
    directory: str
    """Its real path."""
    handler: str = ""
    """The file that is run; empty for a bundled hook, whose handler is part of OpenClaw."""
    kind: Kind = "program"
    problem: str = ""
    """Why it cannot be run, whatever the settings say."""
    workspace: str = ""
    """For a hook of a workspace: that workspace."""

    @property
    def name(self) -> str:
        return self.manifest.name

    @property
    def bundled(self) -> bool:
        return self.source == "openclaw-bundled"


class HookProblem(Struct, frozen=True):
    """Something that was skipped, and why."""

    path: str
    message: str


class FoundHooks(Struct, frozen=True, kw_only=True):
    """Everything one search found."""

    hooks: tuple[HookDirectory, ...] = ()
    diagnostics: tuple[HookProblem, ...] = ()


class HookVerdict(Struct, frozen=True, kw_only=True):
    """Whether a hook can run here, whether it is enabled, and every reason when it does not run."""

    eligible: bool
    chosen: bool
    reasons: tuple[str, ...] = ()

    @property
    def runs(self) -> bool:
        return self.eligible and self.chosen


def judge(hook: HookDirectory, settings: InternalHooksSettings, machine: MachineFacts) -> HookVerdict:
    """The verdict on one hook, its acceptance aside."""
    entry = settings.entries.get(hook.manifest.key, HookEntrySettings())
    lacking = [hook.problem] if hook.problem else _missing(hook, entry, machine)
    refusal = _refusal(hook, settings)
    return HookVerdict(eligible=not lacking, chosen=not refusal, reasons=(*lacking, *([refusal] if refusal else [])))


def _refusal(hook: HookDirectory, settings: InternalHooksSettings) -> str:
    """Why the settings exclude a hook; empty when they do not."""
    key = hook.manifest.key
    entry = settings.entries.get(key)
    enable = f"openclaw hooks enable {hook.name}"
    if settings.enabled is False:
        return "hooks.internal.enabled is false"
    if entry is not None and entry.enabled is False:
        return f"switched off: {enable}"
    if hook.source == "openclaw-workspace" and (entry is None or entry.enabled is not True):
        return f"a workspace's hook runs only after you say so: {enable}"
    if entry is not None:
        return ""
    if any(each.enabled is not False for each in settings.entries.values()):
        return f"not among hooks.internal.entries: {enable}"
    if settings.enabled is None and not (settings.load.extra_dirs and hook.source == "openclaw-extra"):
        return f"off unless you switch it on: {enable}"
    return ""


def _missing(hook: HookDirectory, entry: HookEntrySettings, machine: MachineFacts) -> list[str]:
    given = {name for name, value in entry.env.items() if value}
    manifest = hook.manifest
    return find_missing(manifest.requires, manifest.os, manifest.always, given, machine).sentences()


# Parsing.

MAX_NAME = 64
MAX_LINE = 500

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}\Z")
_EXPORT = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}\Z")


class UnusableHook(ValueError):
    """The file describes no usable hook; the text says why."""


def parse(text: str, directory: str) -> HookManifest:
    """The manifest in the front matter of a HOOK.md, which is read as that of a skill. Raises `ValueError`."""
    matter = read(text)
    fields, notes = matter.fields, list(matter.notes)
    ours = openclaw_fields(fields, notes)
    name = one_line(fields.get("name"), MAX_LINE) or directory
    if not _NAME.match(name):
        raise UnusableHook(f"the name {name[:MAX_NAME]!r} cannot be used: take letters, digits, '-', '_' and '.'")
    events = split_words(ours.get("events"))
    if not events:
        raise UnusableHook("it names no events: add metadata.openclaw.events, for example [command:new]")
    notes += [line for event in events if (line := _doubt(event))]
    export = one_line(ours.get("export"), MAX_LINE) or "handler"
    if export != "default" and not _EXPORT.match(export):
        raise UnusableHook(f"export {export[:MAX_NAME]!r} is not the name of a function")
    return HookManifest(
        name=name,
        description=one_line(fields.get("description"), MAX_LINE),
        homepage=one_line(fields.get("homepage") or ours.get("homepage"), MAX_LINE),
        emoji=one_line(ours.get("emoji"), 8),
        hook_key=one_line(ours.get("hookKey"), MAX_NAME),
        events=events,
        export="handler" if export == "default" else export,
        os=parse_systems(ours.get("os"), notes),
        always=parse_flag(ours.get("always"), False),
        requires=parse_requirements(ours, notes),
        notes=tuple(notes),
    )


def _doubt(event: str) -> str:
    """A warning about an event name; empty when there is none."""
    if event in SILENT_HERE:
        return f"the event {event} never comes here: {SILENT_HERE[event]}"
    if event not in NAMES and event not in FAMILIES and not event.startswith("command:"):
        return f"there is no event {event[:60]!r}: it will never be told of it"
    return ""
