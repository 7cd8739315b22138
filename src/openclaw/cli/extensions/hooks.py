"""`openclaw hooks`: list, inspect, enable and disable HOOK.md hooks."""

import sys
from typing import Any

import click
import msgspec

from openclaw.cli.home import open_editor, read_home
from openclaw.cli.render import JSON, YES, facts, note, now_ms, say, shorten, show, table
from openclaw.config.live import LiveConfig
from openclaw.core.errors import InvalidRequest, NotFound
from openclaw.plugins.hooks.accepted import AcceptedHooks
from openclaw.plugins.hooks.discover import HookConfig, HookList, ListedHook, list_all_hooks


@click.group("hooks")
def hooks_command() -> None:
    """Small programs of your own that are told what happens inside (HOOK.md directories)."""


@hooks_command.command("list")
@click.option("--eligible", is_flag=True, help="Only those that run.")
@JSON
def list_hooks(eligible: bool, as_json: bool) -> None:
    """Every hook: whether it runs, or why not."""
    here = _HookView()
    items = [item for item in here.hooks.items if item.runs or not eligible]
    rows = []
    for item in items:
        about = shorten("; ".join(item.reasons) or item.hook.manifest.description, 80)
        events, source = ", ".join(item.hook.manifest.events), item.hook.source.removeprefix("openclaw-")
        rows.append((item.hook.name, "yes" if item.runs else "no", source, events, about))
    document = {"managedHooksDir": str(here.state / "hooks"), "hooks": [_hook_to_json(item) for item in items]}
    show(document, table(rows, ("hook", "runs", "from", "events", ""), empty="No hooks."), as_json)
    if here.hooks.diagnostics and not as_json:
        note(f"{len(here.hooks.diagnostics)} more to know: openclaw hooks check")


@hooks_command.command("info")
@click.argument("name")
@JSON
def info(name: str, as_json: bool) -> None:
    """All about one hook: what it hears, what it needs, which file it runs."""
    item = _HookView().get(name)
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
    found = _HookView().hooks
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


@hooks_command.command("enable")
@click.argument("name")
@YES
def enable(name: str, yes: bool) -> None:
    """Switch NAME on, and accept its files as they are now. A hook is a program: look at it first."""
    here = _HookView()
    hook = here.get(name).hook
    if hook.problem:
        raise InvalidRequest(f"{hook.name} cannot be switched on: {hook.problem}")
    if not hook.bundled:
        say(f"{hook.name} runs {hook.handler} on {', '.join(hook.manifest.events)}.")
        if not yes and not (sys.stdin.isatty() and click.confirm("Accept it as it is now?")):
            raise InvalidRequest("not accepted: answer yes at a terminal, or give --yes")
        here.ledger.accept(hook, "owner", now_ms())
    patch: dict[str, Any] = {"entries": {hook.manifest.key: {"enabled": True}}}
    if here.settings.enabled is False:
        patch["enabled"] = True
    open_editor().patch({"hooks": {"internal": patch}})
    left = _HookView().get(name).reasons
    say(f"{hook.name} is on." if not left else f"{hook.name} is on, but does not run yet: {'; '.join(left)}")


@hooks_command.command("disable")
@click.argument("name")
def disable(name: str) -> None:
    """Switch NAME off."""
    hook = _HookView().get(name).hook
    open_editor().patch({"hooks": {"internal": {"entries": {hook.manifest.key: {"enabled": False}}}}})
    click.echo(f"{hook.name} is off.")


class _HookView:
    """The hooks of this home, as one command needs them."""

    def __init__(self) -> None:
        environment, loaded = read_home()
        self.state = environment.home.state
        self.settings = loaded.config.hooks.internal
        self.ledger = AcceptedHooks(self.state)
        agents, is_set = loaded.config.agents, LiveConfig(loaded).is_set
        config = HookConfig(settings=self.settings, agents=agents, variables=loaded.variables, is_set=is_set)
        self.hooks: HookList = list_all_hooks(config, environment, self.ledger)

    def get(self, name: str) -> ListedHook:
        for item in self.hooks.items:
            if name in (item.hook.name, item.hook.manifest.key):
                return item
        for broken in self.hooks.diagnostics:
            if f"/{name}/" in broken.path:
                raise NotFound(f"the hook {name} cannot be read: {broken.message} ({broken.path})")
        raise NotFound(f"no hook is called {name}: openclaw hooks list shows them all")


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
