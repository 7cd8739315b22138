"""Discovers hooks: reads each HOOK.md below the hook roots, and checks which may run. Runs and imports nothing."""

import hashlib
import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec import Struct, structs

from openclaw.agent.settings import AgentsSettings, agent_ids
from openclaw.core.errors import StateError
from openclaw.extensions.find import expand_path, stays_inside, subdirectories
from openclaw.extensions.gate import look_at_machine
from openclaw.plugins.hooks import manifest
from openclaw.plugins.hooks.manifest import (
    FoundHooks,
    HookDirectory,
    HookProblem,
    HookVerdict,
    UnusableHook,
)
from openclaw.plugins.settings import InternalHooksSettings
from openclaw.process.environment import Environment
from openclaw.storage.accepted import AcceptedStore
from openclaw.storage.atomic import Identity, identity_of
from openclaw.storage.digests import Unverifiable, read_regular, walk
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


# What was accepted: a handler runs only while its files are as they were.

ACCEPTED = "hooks-trust.json"
MAX_FILES = 500
MAX_BYTES = 32 << 20
UNCOUNTED = frozenset({".git", ".DS_Store"})

Approver = Literal["owner", "first-use", "install"]


class AcceptedHook(Struct, frozen=True, kw_only=True, rename="camel"):
    """What was accepted, when and by whom."""

    name: str
    sha256: str
    approved_at: int
    approved_by: Approver
    spec: str = ""
    """Where it was installed from."""


class AcceptedHooks(AcceptedStore[AcceptedHook]):
    """Accepted hooks by directory."""

    def __init__(self, state: Path) -> None:
        otherwise = "mend it, or move it away and enable your hooks again"
        super().__init__(state / ACCEPTED, "hooks", AcceptedHook, otherwise)
        self._digests: dict[str, tuple[tuple[tuple[str, Identity], ...], str]] = {}

    def accept(self, hook: HookDirectory, by: Approver, now: int) -> None:
        """Records a hook as it is now; raises `StateError` when it cannot be digested."""
        self.record(hook.name, hook.directory, by, now)

    def record(self, name: str, directory: str, by: Approver, now: int, spec: str = "") -> None:
        """Records the hook in `directory`; one that was installed stays installed from where it came."""
        try:
            sha256 = self.digest(directory)
        except Unverifiable as error:
            raise StateError(f"{name} cannot be accepted: {error}") from error
        with self.changing() as entries:
            known = entries.get(directory)
            spec = spec or (known.spec if known else "")
            entries[directory] = AcceptedHook(name=name, sha256=sha256, approved_at=now, approved_by=by, spec=spec)

    def objection(self, hook: HookDirectory) -> str:
        """Why a hook must not run as it is now; empty when it may. Checked before every run."""
        if hook.bundled:
            return ""
        try:
            known = self.read().get(hook.directory)
            if known is None:
                return f"nobody has accepted it yet: look at its files, then openclaw hooks enable {hook.name}"
            if self.digest(hook.directory) != known.sha256:
                return f"its files changed since it was accepted: look at them, then openclaw hooks enable {hook.name}"
        except Unverifiable as error:
            return str(error)
        except StateError as error:
            return error.message
        return ""

    def digest(self, directory: str) -> str:
        """One digest over everything in `directory`, cached until a file changes."""
        try:
            entries = walk(directory, UNCOUNTED, most_files=MAX_FILES, most_bytes=MAX_BYTES, private=True)
            files = [(path, about) for path, about in entries if about is not None]
            signature = tuple((path, identity_of(about)) for path, about in files)
            known = self._digests.get(directory)
            if known is not None and known[0] == signature:
                return known[1]
            whole = hashlib.sha256()
            for path, about in files:
                content = hashlib.sha256((Path(directory) / path).read_bytes()).hexdigest()
                whole.update(f"{path}\0{about.st_mode & 0o111:o}\0{content}\n".encode())
        except OSError as error:
            raise Unverifiable(f"{error.filename or directory} cannot be read: {error.strerror}") from error
        self._digests[directory] = (signature, whole.hexdigest())
        return whole.hexdigest()


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
