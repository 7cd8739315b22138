"""`openclaw hooks`: list, inspect, install and enable HOOK.md hooks."""

import os
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any

import click
import msgspec

from openclaw.cli.extensions.verbs import ExtensionView, Installed, add_verbs, finding_to_json, print_findings
from openclaw.cli.render import JSON, facts, note, now_ms, require_yes, say, shorten, show, table
from openclaw.config.live import LiveConfig
from openclaw.core.errors import InvalidRequest, NotFound
from openclaw.plugins.hooks.find import AcceptedHooks, HookConfig, HookList, ListedHook, list_all_hooks
from openclaw.plugins.install import StagedHook


@click.group("hooks")
def hooks_command() -> None:
    """Small programs of your own that are told what happens inside (HOOK.md directories)."""


@hooks_command.command("list")
@click.option("--eligible", is_flag=True, help="Only those that run.")
@JSON
def list_hooks(eligible: bool, as_json: bool) -> None:
    """Every hook: whether it runs, or why not."""
    here = HookView()
    items = [item for item in here.hooks.items if item.runs or not eligible]
    rows = []
    for item in items:
        about = shorten("; ".join(item.reasons) or item.hook.manifest.description, 80)
        events, source = ", ".join(item.hook.manifest.events), item.hook.source.removeprefix("openclaw-")
        rows.append((item.hook.name, "yes" if item.runs else "no", source, events, about))
    document = {"managedHooksDir": str(here.root), "hooks": [_hook_to_json(item) for item in items]}
    show(document, table(rows, ("hook", "runs", "from", "events", ""), empty="No hooks."), as_json)
    if here.hooks.diagnostics and not as_json:
        note(f"{len(here.hooks.diagnostics)} more to know: openclaw hooks check")


@hooks_command.command("info")
@click.argument("name")
@JSON
def info(name: str, as_json: bool) -> None:
    """All about one hook: what it hears, what it needs, which file it runs."""
    item = HookView().get(name)
    hook, manifest = item.hook, item.hook.manifest
    pairs = [
        ("runs", "yes" if item.runs else "no: " + "; ".join(item.reasons)),
        ("events", ", ".join(manifest.events)),
        ("from", hook.source),
        ("directory", hook.directory),
        ("handler", hook.handler or ("part of OpenClaw" if hook.bundled else "none")),
        ("settings", f"hooks.internal.entries.{manifest.key}"),
        ("homepage", manifest.homepage),
        *(("note", line) for line in manifest.notes),
    ]
    about = [manifest.description] if manifest.description else []
    title = f"{manifest.emoji} {manifest.name}".strip()
    show(_hook_to_json(item, full=True), [title, *about, "", *facts(pairs, 11)], as_json)


@hooks_command.command("check")
@JSON
def check(as_json: bool) -> int:
    """Everything that keeps a hook from running. Exit code 1 when one that is switched on does not run."""
    found = HookView().hooks
    broken = [item for item in found.items if item.verdict.chosen and not item.runs]
    problems = [{"path": each.path, "message": each.message} for each in found.diagnostics]
    for item in found.items:
        problems += [{"path": item.hook.directory, "message": line} for line in item.hook.manifest.notes]
    running = [item.hook.name for item in found.items if item.runs]
    held = [_hook_to_json(item) for item in broken]
    document = {"total": len(found.items), "running": running, "held": held, "problems": problems}
    lines = [
        f"{len(running)} of {len(found.items)} hooks run{': ' if running else ''}{', '.join(running)}",
        *(f"{item.hook.name}: {'; '.join(item.reasons)}" for item in found.items if not item.runs),
        *(f"{problem['path']}: {problem['message']}" for problem in problems),
    ]
    show(document, lines, as_json)
    return 1 if broken else 0


class HookView(ExtensionView[StagedHook]):
    """The hooks of this home, as one command needs them."""

    kind = StagedHook
    entries = "hooks.internal.entries"

    def __init__(self) -> None:
        super().__init__()
        self.root = self.environment.home.state / "hooks"
        self.settings = self.loaded.config.hooks.internal
        agents, is_set = self.loaded.config.agents, LiveConfig(self.loaded).is_set
        config = HookConfig(settings=self.settings, agents=agents, variables=self.loaded.variables, is_set=is_set)
        self.hooks: HookList = list_all_hooks(config, self.environment, self.ledger)

    @cached_property
    def ledger(self) -> AcceptedHooks:
        return AcceptedHooks(self.environment.home.state)

    def get(self, name: str) -> ListedHook:
        for item in self.hooks.items:
            if name in (item.hook.name, item.hook.manifest.key):
                return item
        for broken in self.hooks.diagnostics:
            if f"/{name}/" in broken.path:
                raise NotFound(f"the hook {name} cannot be read: {broken.message} ({broken.path})")
        raise NotFound(f"no hook is called {name}: openclaw hooks list shows them all")

    def put(self, ready: StagedHook, move: Callable[[], None]) -> None:
        move()
        self.ledger.record(ready.manifest.name, os.path.realpath(ready.target), "install", now_ms(), ready.spec)

    def report(self, ready: StagedHook) -> dict[str, Any]:
        manifest = ready.manifest
        return {
            "name": manifest.name,
            "description": manifest.description,
            "target": str(ready.target),
            "files": ready.files,
            "treeSha256": ready.tree_sha256,
            "events": manifest.events,
            "requires": msgspec.to_builtins(manifest.requires),
            "findings": [finding_to_json(finding) for finding in ready.findings],
            "blocked": ready.critical,
        }

    def show_report(self, ready: StagedHook, report: dict[str, Any]) -> None:
        say(f"{report['name']}: {report['description']}", err=True)
        say(f"{ready.files} files, {ready.tree_sha256}, to {ready.target}", err=True)
        say(f"it runs on {', '.join(report['events'])}", err=True)
        print_findings(ready.findings, err=True)

    def question(self, ready: StagedHook, report: dict[str, Any]) -> str:
        return f"A hook is a program that runs as you. Install {ready.name}?"

    def installed(self) -> list[Installed]:
        managed = [item.hook.name for item in self.hooks.items if item.hook.source == "openclaw-managed"]
        return [one for name in managed if (one := self.find(name)).spec]

    def find(self, name: str) -> Installed:
        hook = self.get(name).hook
        if hook.source != "openclaw-managed":
            where = "part of OpenClaw" if hook.bundled else hook.directory
            raise InvalidRequest(f"{hook.name} is not kept by this program ({where}): disable it, or remove it there")
        known = self.ledger.read().get(hook.directory)
        target, spec = Path(hook.directory), known.spec if known else ""
        return Installed(name=hook.name, target=target, record=hook.directory, spec=spec)

    def entry(self, name: str) -> tuple[str, str]:
        hook = self.get(name).hook
        return hook.name, hook.manifest.key

    def reasons(self, name: str) -> tuple[str, ...]:
        return self.get(name).reasons

    def accept(self, name: str, yes: bool) -> None:
        hook = self.get(name).hook
        if hook.problem:
            raise InvalidRequest(f"{hook.name} cannot be switched on: {hook.problem}")
        if not hook.bundled:
            say(f"{hook.name} runs {hook.handler} on {', '.join(hook.manifest.events)}.")
            require_yes("Accept it as it is now?", yes, "not accepted")
            self.ledger.accept(hook, "owner", now_ms())

    def switch(self, key: str, on: bool) -> dict[str, Any]:
        patch: dict[str, Any] = {"entries": {key: {"enabled": on}}}
        if on and self.settings.enabled is False:
            patch["enabled"] = True
        return {"hooks": {"internal": patch}}


add_verbs(hooks_command, HookView)


def _hook_to_json(item: ListedHook, full: bool = False) -> dict[str, Any]:
    hook, manifest = item.hook, item.hook.manifest
    document: dict[str, Any] = {
        "name": hook.name,
        "description": manifest.description,
        "emoji": manifest.emoji or None,
        "eligible": item.verdict.eligible,
        "enabled": item.verdict.chosen,
        "accepted": not item.objection,
        "runs": item.runs,
        "source": hook.source,
        "events": manifest.events,
        "reasons": item.reasons,
    }
    if full:
        document |= {
            "hookKey": manifest.key,
            "directory": hook.directory,
            "handler": hook.handler or None,
            "kind": hook.kind,
            "export": manifest.export,
            "homepage": manifest.homepage or None,
            "os": manifest.os,
            "always": manifest.always,
            "requires": msgspec.to_builtins(manifest.requires),
            "notes": manifest.notes,
        }
    return document
