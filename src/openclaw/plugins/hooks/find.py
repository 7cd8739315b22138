"""Discovers hooks: reads each HOOK.md below the hook roots, and checks which may run. Runs and imports nothing."""

import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct, structs

from openclaw.agent.settings import AgentsSettings, agent_ids
from openclaw.extensions.find import expand_path, stays_inside, subdirectories
from openclaw.extensions.gate import look_at_machine
from openclaw.plugins.hooks import manifest
from openclaw.plugins.hooks.accepted import AcceptedHooks
from openclaw.plugins.hooks.manifest import (
    FoundHooks,
    HookDirectory,
    HookProblem,
    HookVerdict,
    UnusableHook,
)
from openclaw.plugins.settings import InternalHooksSettings
from openclaw.process.environment import Environment
from openclaw.storage.digests import Unverifiable, read_regular
from openclaw.workspace.seed import workspace_of

FILE = "HOOK.md"
FILE_BYTES = 65_536
MOST_CHILDREN = 200
PYTHON = ("handler.py", "hook.py")
SCRIPTS = ("handler.ts", "handler.js", "index.ts", "index.js")
NO_HANDLER = "it has no handler: add handler.py with `async def handler(event)`, or a program called handler"
BUNDLED = Path(__file__).parent / "bundled"


class HookRoot(Struct, frozen=True, kw_only=True):
    """A directory that is searched for hooks."""

    path: Path
    source: manifest.Source


class _Package(Struct, frozen=True):
    openclaw: dict[str, Any] = {}


# Searching the roots.


def find_hooks(roots: Iterable[HookRoot]) -> FoundHooks:
    """Every hook below `roots`. A later root replaces what an earlier one has, but a workspace only adds."""
    chosen: dict[str, HookDirectory] = {}
    diagnostics: list[HookProblem] = []
    for root in roots:
        for directory in _candidates(root, diagnostics):
            try:
                hook = _load(directory, root)
            except (UnusableHook, OSError) as error:
                why = error.strerror if isinstance(error, OSError) else str(error)
                diagnostics.append(HookProblem(str(directory / FILE), why or type(error).__name__))
                continue
            known = chosen.get(hook.name)
            if known is not None and (root.source == "openclaw-workspace" or known.source == root.source):
                why = f"{hook.name} is there already, from {known.directory}: rename this one"
                diagnostics.append(HookProblem(str(directory), why))
                continue
            chosen[hook.name] = hook
    return FoundHooks(hooks=tuple(chosen.values()), diagnostics=tuple(diagnostics))


def _candidates(root: HookRoot, diagnostics: list[HookProblem]) -> list[Path]:
    """The directories below a root that hold a HOOK.md, those of packs included, none outside the root."""
    try:
        children = subdirectories(root.path)
    except FileNotFoundError:
        return []
    except OSError as error:
        diagnostics.append(HookProblem(str(root.path), f"cannot be read: {error.strerror}"))
        return []
    if len(children) > MOST_CHILDREN:
        diagnostics.append(HookProblem(str(root.path), f"only the first {MOST_CHILDREN} directories are looked at"))
    real = os.path.realpath(root.path)
    found = []
    for child in children[:MOST_CHILDREN]:
        for directory in (child, *_packed(child, diagnostics)):
            inside = os.path.realpath(directory)
            if inside == real or not stays_inside(inside, (real,)):
                diagnostics.append(HookProblem(str(directory), "it leads out of its directory, and is not followed"))
            elif (directory / FILE).is_file():
                found.append(Path(inside))
    return found


def _packed(child: Path, diagnostics: list[HookProblem]) -> list[Path]:
    """The hooks a package.json names."""
    try:
        data = (child / "package.json").read_bytes()[:FILE_BYTES]
    except OSError:
        return []
    try:
        named = msgspec.json.decode(data, type=_Package).openclaw.get("hooks", [])
    except msgspec.DecodeError:
        diagnostics.append(HookProblem(str(child / "package.json"), "it is not JSON, so its hooks are unknown"))
        return []
    return [child / name for name in named if isinstance(name, str)][:MOST_CHILDREN] if isinstance(named, list) else []


def _load(directory: Path, root: HookRoot) -> HookDirectory:
    path = str(directory / FILE)
    try:
        found = manifest.parse(read_regular(path, FILE_BYTES)[0].decode(), directory.name)
    except Unverifiable as error:
        raise UnusableHook(str(error).replace(path, "it")) from None
    except UnicodeDecodeError:
        raise UnusableHook("it is not UTF-8 text") from None
    except ValueError as error:
        raise UnusableHook(str(error)) from None
    workspace = str(root.path.parent) if root.source == "openclaw-workspace" else ""
    hook = HookDirectory(manifest=found, source=root.source, directory=str(directory), workspace=workspace)
    if root.source == "openclaw-bundled":
        return structs.replace(hook, kind="bundled")
    handler, kind = _handler(directory)
    return structs.replace(hook, handler=handler, kind=kind, problem="" if handler else _no_handler(directory))


def _handler(directory: Path) -> tuple[str, manifest.Kind]:
    for name in PYTHON:
        if (directory / name).is_file():
            return str(directory / name), "python"
    for path in sorted(directory.glob("handler*")):
        if path.stem == "handler" and path.is_file() and os.access(path, os.X_OK) and path.name not in SCRIPTS:
            return str(path), "program"
    return "", "program"


def _no_handler(directory: Path) -> str:
    for name in SCRIPTS:
        if (directory / name).exists():
            return f"{name} is not run here: write handler.py with `async def handler(event)`, or a program"
    plain = next((path.name for path in sorted(directory.glob("handler*")) if path.is_file()), "")
    return f"{plain} may not be run: chmod +x {directory / plain}" if plain else NO_HANDLER


# Listing: each hook with the verdict of the settings and its acceptance.


class ListedHook(Struct, frozen=True, kw_only=True):
    """A hook with everything that decides whether it runs."""

    hook: HookDirectory
    verdict: HookVerdict
    objection: str = ""
    """Why it is not accepted as it is now."""

    @property
    def runs(self) -> bool:
        return self.verdict.runs and not self.objection

    @property
    def reasons(self) -> tuple[str, ...]:
        # A hook that the settings exclude need not be accepted first.
        held = (self.objection,) if self.objection and self.verdict.chosen else ()
        return (*self.verdict.reasons, *held)


class HookList(Struct, frozen=True, kw_only=True):
    """Every hook, and what was skipped."""

    items: tuple[ListedHook, ...]
    diagnostics: tuple[HookProblem, ...] = ()


class HookConfig(Struct, frozen=True, kw_only=True):
    """What of the configuration decides which hooks run."""

    settings: InternalHooksSettings
    agents: AgentsSettings
    variables: Mapping[str, str]
    is_set: Callable[[str], bool]
    """Whether the configuration sets a path, for `requires.config`."""


def agent_workspaces(agents: AgentsSettings, environment: Environment) -> dict[str, Path]:
    """By agent, the directory of its files."""
    return {agent: workspace_of(agents, agent, environment) for agent in agent_ids(agents)}


def list_all_hooks(config: HookConfig, environment: Environment, ledger: AcceptedHooks) -> HookList:
    """A look at all the places hooks come from. Nothing is run, and nothing is accepted by looking."""
    found = find_hooks(hook_roots(config, environment))
    machine = look_at_machine(config.variables, config.is_set)
    items = [
        ListedHook(hook=hook, verdict=manifest.judge(hook, config.settings, machine), objection=ledger.objection(hook))
        for hook in found.hooks
    ]
    return HookList(items=tuple(items), diagnostics=found.diagnostics)


def hook_roots(config: HookConfig, environment: Environment) -> list[HookRoot]:
    """Where hooks are looked for; what comes later replaces what came before, but a workspace only adds."""
    home = environment.home
    extra = [expand_path(text, environment.home_dir, home.state) for text in config.settings.load.extra_dirs]
    own = dict.fromkeys(path / "hooks" for path in agent_workspaces(config.agents, environment).values())
    return [
        HookRoot(path=BUNDLED, source="openclaw-bundled"),
        *(HookRoot(path=path, source="openclaw-extra") for path in extra),
        HookRoot(path=home.state / "hooks", source="openclaw-managed"),
        *(HookRoot(path=path, source="openclaw-workspace") for path in own),
    ]
