"""The sandbox of each session, as the configuration wants it."""

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from openclaw.config.schema import Config
from openclaw.core.errors import ConfigError, InvalidRequest
from openclaw.core.keys import SessionKey, normalise_agent
from openclaw.core.sandbox import AGENT_MOUNT, BOX_HOME, Mount, Sandbox, SandboxedRun, SandboxSpec, seen
from openclaw.policy import confine
from openclaw.policy.confine import SandboxRules
from openclaw.policy.elevation import LEVELS, Elevation, ElevationRequest, elevation, refuse_reason, speaker
from openclaw.policy.narrowing import AgentToolSettings
from openclaw.prompt.facts import Elevated, SandboxFacts
from openclaw.sandboxes.choose import build as open_sandbox

ATTACHMENTS = ".openclaw/attachments"


class SandboxService:
    """Knows who works in a sandbox, and in which one. Engines are asked for when they are first needed."""

    def __init__(
        self,
        config: Config,
        environ: Mapping[str, str],
        *,
        home: Path,
        state: Path,
        workspace: Callable[[str], Path],
        skills: Callable[[str], Sequence[tuple[str, str]]],
        build: Callable[[str, Mapping[str, str]], Sandbox] = open_sandbox,
    ) -> None:
        self._config = config
        self._environ = environ
        self._home = home
        self._state = state
        self._workspace = workspace
        self._skills = skills
        self._build = build
        self._engines: dict[str, Sandbox] = {}
        self._rules: dict[str, SandboxRules] = {}

    def rules(self, agent_id: str) -> SandboxRules:
        if agent_id not in self._rules:
            agents = self._config.agents
            own = next((entry.sandbox for entry in agents.list if normalise_agent(entry.id) == agent_id), None)
            self._rules[agent_id] = confine.resolve(agents.defaults.sandbox, own)
        return self._rules[agent_id]

    def is_boxed(self, key: SessionKey) -> bool:
        return confine.is_boxed(self.rules(key.agent).mode, key)

    def of(self, key: SessionKey) -> SandboxedRun | None:
        """The sandbox of a session; None when it has none."""
        rules = self.rules(key.agent)
        if not confine.is_boxed(rules.mode, key):
            return None
        return SandboxedRun(self.engine(rules), self.box(rules, key))

    def engine(self, rules: SandboxRules) -> Sandbox:
        if rules.backend not in self._engines:
            self._engines[rules.backend] = self._build(rules.backend, self._environ)
        return self._engines[rules.backend]

    def root(self, rules: SandboxRules) -> Path:
        """Where boxes keep their files."""
        return Path(rules.root).expanduser() if rules.root else self._state / "sandboxes"

    def box(self, rules: SandboxRules, key: SessionKey) -> SandboxSpec:
        name = confine.box_name(rules, key)
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
        """What the owner mounts, judged by its name and by where its links lead."""
        home, state = str(self._home), str(self._state)
        mounts = confine.mounts(rules.binds, home=home, state=state)
        for mount in mounts:
            real = os.path.realpath(mount.source)
            if why := confine.refused_source(real, home=os.path.realpath(home), state=os.path.realpath(state)):
                raise ConfigError(f"sandbox.docker.binds: {mount.source} leads to {real}, which {why}")
        return list(mounts)

    def _skill_mounts(self, agent_id: str) -> list[Mount]:
        """Skills are read where the prompt says they are; `~` is the box's home inside."""
        mounts = []
        for place, called in sorted(set(self._skills(agent_id))):
            under = Path(called).is_relative_to(self._home)
            target = f"{BOX_HOME}/{Path(called).relative_to(self._home)}" if under else called
            mounts.append(Mount(place, target))
        return mounts

    def tool_settings(self, agent_id: str) -> AgentToolSettings:
        agents = self._config.agents.list
        return next((entry.tools for entry in agents if normalise_agent(entry.id) == agent_id), AgentToolSettings())

    def elevation(self, key: SessionKey, said: ElevationRequest | None, now: int) -> Elevation:
        """Whether commands of a session may leave its sandbox."""
        defaults = self._config.agents.defaults
        return elevation(
            speaker(key, self._config.commands.owner_allow_from),
            self._config.tools.elevated,
            self.tool_settings(key.agent).elevated,
            defaults.elevated_default,
            defaults.acknowledge_elevated_default,
            said,
            now,
        )

    def facts(self, key: SessionKey, level: Elevation) -> SandboxFacts | None:
        """What the prompt says about the sandbox of a session."""
        rules = self.rules(key.agent)
        if not confine.is_boxed(rules.mode, key):
            return None
        who = speaker(key, self._config.commands.owner_allow_from)
        own = self.tool_settings(key.agent)
        exec_settings = self._config.tools.exec
        return SandboxFacts(
            container_workspace_dir=rules.workdir,
            workspace_access=rules.access,
            agent_workspace_mount={"none": "", "ro": AGENT_MOUNT, "rw": rules.workdir}[rules.access],
            elevated=Elevated(
                allowed=not refuse_reason(who, self._config.tools.elevated, own.elevated),
                default_level=level.level,
                full_access=(exec_settings.security, exec_settings.ask) == ("full", "off"),
            ),
        )

    def check_child(self, parent: SessionKey, child: SessionKey, *, required: bool) -> None:
        """Refuses a sub-agent that would get out of its starter's sandbox, or has none where one is demanded."""
        theirs, ours = self.rules(child.agent), self.rules(parent.agent)
        boxed = confine.is_boxed(theirs.mode, child)
        if required and not boxed:
            raise InvalidRequest(
                f"sandbox require: {child.agent} works in no sandbox (agents.defaults.sandbox.mode), "
                "so it is not started."
            )
        if why := confine.narrower(theirs, boxed, ours, confine.is_boxed(ours.mode, parent)):
            raise InvalidRequest(f"The sub-agent is not started: {why}.")

    def place(self, key: SessionKey, path: str) -> str:
        """What a file of this machine is called where the session works."""
        boxed = self.of(key)
        inside = seen(boxed.box, path) if boxed is not None else path
        if inside is None:
            raise InvalidRequest(f"The sub-agent's sandbox does not see {path}.")
        return inside


def said(preferences: Any) -> ElevationRequest | None:
    """What /elevated was set to in a session."""
    level = preferences.elevated_level
    return ElevationRequest(level, preferences.elevated_at) if level in LEVELS else None
