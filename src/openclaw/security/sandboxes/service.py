"""The sandboxes of sessions: builds them from the configuration, prunes, explains and lists them."""

import asyncio
import logging
import secrets
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from msgspec import Struct

from openclaw.agent.settings import AgentsSettings, agent_ids
from openclaw.core.clock import Clock
from openclaw.core.deferred import Deferred, shutil
from openclaw.core.errors import ConfigError, InvalidRequest, Unavailable
from openclaw.core.keys import SessionKey, normalise_agent, parse_session_key
from openclaw.core.sandbox import (
    AGENT_MOUNT,
    SANDBOX_HOME,
    BoundSandbox,
    Mount,
    RunningSandbox,
    Sandbox,
    SandboxLaunch,
    SandboxSpec,
    to_sandbox_path,
)
from openclaw.core.settings import Live
from openclaw.security import tool_policy
from openclaw.security.sandboxes import policy
from openclaw.security.sandboxes.policy import PruneRules, SandboxRules, merge_prune_rules, prune_reason
from openclaw.security.settings import AgentToolSettings, CommandsSettings
from openclaw.security.tool_policy import (
    LEVELS,
    MOST_KNOWN,
    Elevation,
    ElevationRequest,
    identify_speaker,
    resolve_elevation,
    tool_settings,
)
from openclaw.storage.links import real_path
from openclaw.tools.settings import ToolsSettings

if TYPE_CHECKING:
    from openclaw.security.sandboxes import bubblewrap, docker
else:
    bubblewrap = Deferred("openclaw.security.sandboxes.bubblewrap")
    docker = Deferred("openclaw.security.sandboxes.docker")

# Engines.


def open_sandbox(backend: str, environ: Mapping[str, str]) -> Sandbox:
    """The engine called `backend`."""
    match backend:
        case "process" | "bubblewrap" | "bwrap":
            return bubblewrap.Bubblewrap(environ)
        case "docker" | "podman":
            return docker.Docker(environ, backend)
    return AutoEngine([bubblewrap.Bubblewrap(environ), docker.Docker(environ), docker.Docker(environ, "podman")])


class AutoEngine:
    """Tries engines in order, once; when none works it says what to install."""

    def __init__(self, engines: Sequence[Sandbox]) -> None:
        self._engines = engines
        self._chosen: Sandbox | None = None

    @property
    def name(self) -> str:
        return self._chosen.name if self._chosen else "auto"

    async def problem(self, box: SandboxSpec) -> str:
        if self._chosen is not None:
            return await self._chosen.problem(box)
        whys = []
        for engine in self._engines:
            why = await engine.problem(box)
            if not why:
                self._chosen = engine
                return ""
            whys.append(f"{engine.name}: {why}")
        return f"No sandbox works here, so nothing is run. To mend it, {bubblewrap.INSTALL}. ({' '.join(whys)})"

    async def launch(
        self, box: SandboxSpec, argv: Sequence[str], *, cwd: str, env: Mapping[str, str], terminal: bool = False
    ) -> SandboxLaunch:
        return await (await self._engine(box)).launch(box, argv, cwd=cwd, env=env, terminal=terminal)

    async def python(self, box: SandboxSpec) -> str:
        return await (await self._engine(box)).python(box)

    async def _engine(self, box: SandboxSpec) -> Sandbox:
        if self._chosen is None and (why := await self.problem(box)):
            raise Unavailable(why)
        assert self._chosen is not None
        return self._chosen

    async def standing(self, prefix: str) -> tuple[RunningSandbox, ...]:
        return tuple([each for engine in self._engines for each in await engine.standing(prefix)])

    async def discard(self, name: str) -> None:
        for engine in self._engines:
            await engine.discard(name)


ATTACHMENTS = ".openclaw/attachments"


class ElevationPreferences(Protocol):
    """The /elevated setting of a session, and when it was set."""

    @property
    def elevated_level(self) -> str | None: ...

    @property
    def elevated_at(self) -> int: ...


class SandboxService:
    """Knows which sessions are sandboxed, and how. Engines are created on first use."""

    def __init__(
        self,
        agents: Live[AgentsSettings],
        tools: Live[ToolsSettings],
        commands: Live[CommandsSettings],
        variables: Live[Mapping[str, str]],
        *,
        home: Path,
        state: Path,
        workspace: Callable[[str], Path],
        skills: Callable[[str, Path], Sequence[tuple[str, str]]],
        build: Callable[[str, Mapping[str, str]], Sandbox] = open_sandbox,
    ) -> None:
        self._agents = agents
        self._tools = tools
        self._commands = commands
        self._variables = variables
        self._home = home
        self._state = state
        self._workspace = workspace
        self._skills = skills
        self._build = build
        self._engines: dict[str, Sandbox] = {}
        self._engines_for: Mapping[str, str] | None = None
        self._rules: dict[str, SandboxRules] = {}
        self._rules_for: AgentsSettings | None = None
        self._usual: dict[SessionKey, Elevation] = {}
        """The elevation of sessions without a setting of their own, under one configuration."""
        self._usual_for: tuple[object, ...] = (None, None, None)

    def rules(self, agent_id: str) -> SandboxRules:
        agents = self._agents.current
        if agents is not self._rules_for:
            self._rules, self._rules_for = {}, agents
        if agent_id not in self._rules:
            own = next((entry.sandbox for entry in agents.list if normalise_agent(entry.id) == agent_id), None)
            self._rules[agent_id] = policy.resolve(agents.defaults.sandbox, own)
        return self._rules[agent_id]

    def is_boxed(self, key: SessionKey) -> bool:
        mode = self.rules(key.agent).mode
        return mode != "off" and policy.is_sandboxed(mode, key)

    def of(self, key: SessionKey) -> BoundSandbox | None:
        """The sandbox of a session; None when it has none."""
        rules = self.rules(key.agent)
        boxed = rules.mode != "off" and policy.is_sandboxed(rules.mode, key)
        return BoundSandbox(self.engine(rules), self.box(rules, key)) if boxed else None

    def engine(self, rules: SandboxRules) -> Sandbox:
        environ = self._variables.current
        if environ is not self._engines_for:
            self._engines, self._engines_for = {}, environ
        if rules.backend not in self._engines:
            self._engines[rules.backend] = self._build(rules.backend, environ)
        return self._engines[rules.backend]

    def root(self, rules: SandboxRules) -> Path:
        """The directory with the sandboxes' files."""
        return Path(rules.root).expanduser() if rules.root else self._state / "sandboxes"

    def box(self, rules: SandboxRules, key: SessionKey) -> SandboxSpec:
        name = policy.sandbox_name(rules, key)
        root = self.root(rules) / name
        return SandboxSpec(
            name=name,
            root=str(root),
            workdir=rules.workdir,
            access=rules.access,
            mounts=(*self._files(rules, key, root), *self._binds(rules), *self._skill_mounts(key.agent)),
            network=rules.network,
            env=rules.env,
            limits=rules.limits,
            image=rules.image,
            user=rules.user,
            setup=rules.setup,
        )

    def _files(self, rules: SandboxRules, key: SessionKey, root: Path) -> list[Mount]:
        workspace = self._workspace(key.agent)
        if rules.access == "rw":
            return [Mount(str(workspace), rules.workdir, True)]
        mounts = [Mount(str(root / "workspace"), rules.workdir, True)]
        if rules.access == "ro":
            mounts.append(Mount(str(workspace), AGENT_MOUNT))
        handed = workspace / ATTACHMENTS
        if handed.is_dir():
            mounts.append(Mount(str(handed), f"{rules.workdir}/{ATTACHMENTS}"))
        return mounts

    def _binds(self, rules: SandboxRules) -> list[Mount]:
        """The owner's mounts, checked by name and by link target."""
        home, state = str(self._home), str(self._state)
        mounts = policy.mounts(rules.binds, home=home, state=state)
        for mount in mounts:
            real = real_path(mount.source)
            if why := policy.refused_source(real, home=real_path(home), state=real_path(state)):
                raise ConfigError(f"sandbox.docker.binds: {mount.source} leads to {real}, which {why}")
        return list(mounts)

    def _skill_mounts(self, agent_id: str) -> list[Mount]:
        """Skills are mounted where the prompt says they are; `~` is the sandbox's home."""
        mounts = []
        for place, called in sorted(set(self._skills(agent_id, self._workspace(agent_id)))):
            under = Path(called).is_relative_to(self._home)
            target = f"{SANDBOX_HOME}/{Path(called).relative_to(self._home)}" if under else called
            mounts.append(Mount(place, target))
        return mounts

    def tool_settings(self, agent_id: str) -> AgentToolSettings:
        return tool_settings(self._agents.current, agent_id)

    def elevation(self, key: SessionKey, preferences: ElevationPreferences, now: int) -> Elevation:
        """Whether commands of a session may leave its sandbox."""
        agents, tools, commands = self._agents.current, self._tools.current, self._commands.current
        if any(one is not other for one, other in zip((agents, tools, commands), self._usual_for, strict=True)):
            self._usual, self._usual_for = {}, (agents, tools, commands)
        level = preferences.elevated_level
        said = ElevationRequest(level, preferences.elevated_at) if level in LEVELS else None
        # What somebody said expires; without it the configuration alone decides.
        if said is None and key in self._usual:
            return self._usual[key]
        found = resolve_elevation(
            identify_speaker(key, commands.owner_allow_from),
            tools.elevated,
            tool_settings(agents, key.agent).elevated,
            agents.defaults.elevated_default,
            agents.defaults.acknowledge_elevated_default,
            said,
            now,
        )
        if said is None:
            if len(self._usual) >= MOST_KNOWN:
                self._usual.clear()
            self._usual[key] = found
        return found

    def check_child(self, parent: SessionKey, child: SessionKey, *, required: bool) -> None:
        """Refuses a sub-agent that would escape its parent's sandbox, or lacks one where it is required."""
        theirs, ours = self.rules(child.agent), self.rules(parent.agent)
        boxed = policy.is_sandboxed(theirs.mode, child)
        if required and not boxed:
            raise InvalidRequest(
                f"sandbox require: {child.agent} works in no sandbox (agents.defaults.sandbox.mode), "
                "so it is not started."
            )
        if why := policy.escape_reason(theirs, boxed, ours, policy.is_sandboxed(ours.mode, parent)):
            raise InvalidRequest(f"The sub-agent is not started: {why}.")

    def place(self, key: SessionKey, path: str) -> str:
        """The path of a host file where the session works."""
        boxed = self.of(key)
        inside = to_sandbox_path(boxed.box, path) if boxed is not None else path
        if inside is None:
            raise InvalidRequest(f"The sub-agent's sandbox does not see {path}.")
        return inside


# Pruning.

log = logging.getLogger(__name__)


class _SandboxDirectory(Struct, frozen=True):
    path: Path
    made: float
    used: float


async def prune(boxes: SandboxService, agents: list[str], busy: set[str], clock: Clock) -> int:
    """Empties sandboxes past `sandbox.prune`, except those of the sessions in `busy`; returns how many."""
    kept = {boxed.box.name for key in busy if (boxed := boxes.of(parse_session_key(key))) is not None}
    shared: dict[tuple[Path, str], PruneRules] = {}
    engines: dict[str, Sandbox] = {}
    for agent in agents:
        rules = boxes.rules(agent)
        where = (boxes.root(rules), rules.prefix)
        # Agents may share a directory: the more lenient rules win.
        shared[where] = merge_prune_rules(shared[where], rules.prune) if where in shared else rules.prune
        if rules.mode != "off":
            engines[rules.backend] = boxes.engine(rules)
    gone = 0
    for (root, prefix), limits in shared.items():
        for place in await asyncio.to_thread(_places, root, prefix):
            why = prune_reason(place.made, place.used, clock.now(), limits)
            if not why or place.path.name in kept:
                continue
            for engine in engines.values():
                await engine.discard(place.path.name)
            await asyncio.to_thread(_empty, place.path)
            log.info("the sandbox %s was emptied: %s", place.path.name, why)
            gone += 1
    return gone


def _places(root: Path, prefix: str) -> list[_SandboxDirectory]:
    found = []
    for path in sorted(root.glob(f"{prefix}*")) if root.is_dir() else ():
        if not (path / "home").is_dir():
            continue  # it was emptied before
        made, used = ((path / name if (path / name).exists() else path / "home") for name in ("made", "used"))
        with suppress(FileNotFoundError):  # it is being recreated
            found.append(_SandboxDirectory(path, made.stat().st_mtime, used.stat().st_mtime))
    return found


def _empty(place: Path) -> None:
    """Renames directories before deleting them, so that a sandbox used again at this moment gets new ones."""
    for name in ("home", "tmp"):
        aside = place / f"{name}.gone-{secrets.token_hex(4)}"
        with suppress(OSError):
            (place / name).rename(aside)
            shutil.rmtree(aside, ignore_errors=True)
    for name in ("made", "used"):
        (place / name).unlink(missing_ok=True)
    with suppress(OSError):  # not empty: files in the workspace stay
        (place / "workspace").rmdir()
        shutil.rmtree(place)


# What people see: the image recipe, explaining, listing, recreating.

RECIPE = """\
FROM debian:bookworm-slim
RUN apt-get update \\
 && apt-get install -y --no-install-recommends bash ca-certificates curl git jq python3 python3-pip ripgrep \\
 && pip3 install --break-system-packages --no-cache-dir msgspec \\
 && rm -rf /var/lib/apt/lists/*
"""
"""The Dockerfile of the image: a small system, and Python with msgspec for our file tools."""


async def explain_sandbox(boxes: SandboxService, tools: ToolsSettings, key: SessionKey) -> dict[str, Any]:
    """A session's sandbox, as facts that name the setting behind each."""
    rules = boxes.rules(key.agent)
    boxed = policy.is_sandboxed(rules.mode, key)
    document: dict[str, Any] = {
        "session": str(key),
        "sandboxed": _why(rules.mode, key, boxed),
        "mode": f"{rules.mode} (agents.defaults.sandbox.mode)",
    }
    if not boxed:
        return document
    box = boxes.box(rules, key)
    engine = boxes.engine(rules)
    problem = await engine.problem(box)
    own = boxes.tool_settings(key.agent)
    asked = tool_policy.ToolRequest(agent=key.agent, boxed=True, read_only=rules.access == "ro")
    layers = [layer for layer in tool_policy.build_layers(tools, own, asked) if layer.name.startswith("sandbox")]
    return {
        **document,
        "engine": engine.name,
        "works": f"no: {problem}" if problem else "yes",
        "box": box.name,
        "scope": f"{rules.scope} (agents.defaults.sandbox.scope)",
        "files": box.root,
        "workspace": f"{rules.access} (agents.defaults.sandbox.workspaceAccess)",
        "sees": [f"{mount.target} = {mount.source} ({'rw' if mount.writable else 'ro'})" for mount in box.mounts],
        "network": _network(rules.network, engine.name),
        "limits": f"{box.limits.processes or 'any number of'} processes, {_memory(box.limits.memory, engine.name)}, "
        + (f"files of {box.limits.disk} bytes" if box.limits.disk else "files of any size"),
        "tools": [f"{layer.name}: only {', '.join(layer.allow)} ({layer.key})" for layer in layers if layer.allow],
        "never": [f"{', '.join(layer.deny)} ({layer.key})" for layer in layers if layer.deny],
    }


def _why(mode: str, key: SessionKey, boxed: bool) -> str:
    if mode == "off":
        return "no: the mode is off"
    if boxed:
        return "yes: the mode is all" if mode == "all" else "yes: it is not the main session"
    return "no: it is the main session and the mode is non-main"


def _network(network: str, engine: str) -> str:
    if network == "none":
        return "none (agents.defaults.sandbox.docker.network)"
    shared = ": this machine's, its loopback included" if engine in ("process", "auto") else ""
    return f"{network}{shared} (agents.defaults.sandbox.docker.network)"


def _memory(memory: int, engine: str) -> str:
    if not memory:
        return "no limit on memory"
    return f"{memory} bytes of memory" + (" each" if engine in ("process", "auto") else "")


async def list_sandboxes(boxes: SandboxService, agents: AgentsSettings) -> list[dict[str, Any]]:
    """Every box with files or a container, the last used first."""
    found: dict[str, dict[str, Any]] = {}
    for agent_id in agent_ids(agents):
        rules = boxes.rules(agent_id)
        for place in await asyncio.to_thread(_directories, boxes.root(rules), rules.prefix):
            found[place.name] = {
                "name": place.name,
                "engine": "process",
                "state": "idle",
                "usedAt": round((place / "used").stat().st_mtime * 1000) if (place / "used").exists() else 0,
                "path": str(place),
            }
        for standing in await boxes.engine(rules).standing(rules.prefix):
            row = found.setdefault(standing.name, {"name": standing.name, "usedAt": 0, "path": ""})
            row.update(engine=standing.engine, state=standing.state)
    return sorted(found.values(), key=itemgetter("usedAt"), reverse=True)


def _directories(root: Path, prefix: str) -> list[Path]:
    return sorted(place for place in root.glob(f"{prefix}*") if place.is_dir()) if root.is_dir() else []


async def recreate_sandbox(boxes: SandboxService, agents: AgentsSettings, row: dict[str, Any]) -> None:
    """Ends what runs in a box and empties its home and /tmp."""
    for agent_id in agent_ids(agents):
        await boxes.engine(boxes.rules(agent_id)).discard(row["name"])
    if row["path"]:
        for name in ("home", "tmp"):
            await asyncio.to_thread(shutil.rmtree, Path(row["path"], name), ignore_errors=True)
        await asyncio.to_thread(Path(row["path"], "made").unlink, True)
