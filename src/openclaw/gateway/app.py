"""The composition root: reads the configuration, builds every part, owns their lifetimes."""

import os
import random
import secrets
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec

from openclaw.agent.limits import result_cap
from openclaw.agent.loop import Steering
from openclaw.agent.repeats import RepeatLimits, Repeats
from openclaw.agent.toolrun import Toolbox
from openclaw.approvals.grants import ApprovalFile
from openclaw.config.load import Loaded, load, remember_good
from openclaw.config.paths import Home, locate
from openclaw.core.approval import Approver
from openclaw.core.clock import Clock
from openclaw.core.errors import InvalidRequest
from openclaw.core.keys import SessionKey, parse
from openclaw.core.provider import Model, ThinkingLevel
from openclaw.core.tool import Tool, ToolContext
from openclaw.gateway import wings
from openclaw.models import catalog, discover, thinking
from openclaw.models.profilestore import ProfileStore
from openclaw.models.situation import Situation, assess
from openclaw.policy.layers import Layer, profile_layer, remaining
from openclaw.sessions.index import SessionIndex
from openclaw.sessions.lock import WriteLocks
from openclaw.store.migrations import STATE
from openclaw.store.sqlite import Sqlite
from openclaw.turns import agents as agent_views
from openclaw.turns.briefing import Brief, Machine, brief, machine
from openclaw.turns.gate import ExecGate
from openclaw.turns.patience import patience
from openclaw.turns.route import ModelRoute, OpenProvider
from openclaw.turns.turn import Opened, Prepared, Turn, Turns
from openclaw.workspace import locate as workspaces
from openclaw.workspace.files import FileCache
from openclaw.workspace.seed import ensure


class Surroundings(msgspec.Struct, frozen=True, kw_only=True):
    """What the process was started with."""

    environ: Mapping[str, str]
    home_dir: Path
    cwd: Path

    @classmethod
    def of_process(cls) -> "Surroundings":
        return cls(environ=dict(os.environ), home_dir=Path.home(), cwd=Path.cwd())

    @property
    def home(self) -> Home:
        return locate(self.environ, self.home_dir, self.cwd)


class Assistant:
    """The assistant in this process: configured, with its sessions open."""

    def __init__(
        self,
        surroundings: Surroundings,
        loaded: Loaded,
        index: SessionIndex,
        clock: Clock,
        approver: Approver,
        open_provider: OpenProvider,
        machine: Machine,
    ) -> None:
        self.home = surroundings.home
        self.loaded = loaded
        self.config = loaded.config
        self.index = index
        self.clock = clock
        self.machine = machine
        self._surroundings = surroundings
        self._open_provider = open_provider
        self._situations: dict[str, Situation] = {}
        self._seeded: set[Path] = set()
        self._cache = FileCache()
        self._gate = self._make_gate(approver)
        lock = self.config.session.write_lock
        self.turns = Turns(
            index, WriteLocks(clock, lock.acquire_timeout_ms / 1000), clock, self.workspace, self.prepare
        )

    def key(self, text: str | None, agent_id: str | None) -> SessionKey:
        """The session meant by a key, an agent, both or neither."""
        default = agent_views.default_agent(self.config.agents)
        key = parse(text or "main", agent_id or default, self.config.session.main_key)
        if agent_id is not None and key.agent != agent_views.view(self.config.agents, agent_id).id:
            raise InvalidRequest(f"{text} belongs to the agent {key.agent}, not to {agent_id}")
        agent_views.view(self.config.agents, key.agent)
        return key

    def workspace(self, agent_id: str) -> Path:
        """The directory of the agent's files, with its starter files in it."""
        agent = agent_views.view(self.config.agents, agent_id)
        environ = self._surroundings.environ
        path = Path(
            workspaces.locate(
                workspaces.AgentPlace(id=agent.id, workspace=agent.workspace, default=agent.is_default),
                workspaces.Places(
                    home=str(self._surroundings.home_dir),
                    state_dir=str(self.home.state),
                    profile=environ.get("OPENCLAW_PROFILE", "") if "OPENCLAW_STATE_DIR" in environ else "",
                    override=environ.get("OPENCLAW_WORKSPACE_DIR", ""),
                ),
                default_workspace=self.config.agents.defaults.workspace,
                exists=os.path.isdir,
            )
        )
        if path not in self._seeded and not self.config.agents.defaults.skip_bootstrap:
            ensure(path, self.clock.now())
            self._seeded.add(path)
        return path

    def situation(self, agent_id: str) -> Situation:
        """The models as this agent sees them."""
        if agent_id not in self._situations:
            agent = agent_views.view(self.config.agents, agent_id)
            self._situations[agent_id] = assess(
                self.config.models,
                catalog.load(),
                environ=self.loaded.variables,
                probe=self._probe,
                auth=self.config.auth,
                stored=ProfileStore.of_agent(self.home.state / "agents" / agent_id / "agent").load(),
                primary=agent.primary,
                fallbacks=agent.fallbacks,
                aliases=agent.aliases,
            )
        return self._situations[agent_id]

    def tools(self) -> list[Tool]:
        """The tools that remain after policy."""
        settings = self.config.tools
        built = wings.tools(
            {
                "workspace_only": settings.fs.workspace_only,
                "patch_workspace_only": settings.exec.apply_patch.workspace_only,
                "exec_timeout": settings.exec.timeout_seconds,
                "shell": self.loaded.variables.get("SHELL", "/bin/sh"),
                "env": self.loaded.variables,
                "path_prepend": settings.exec.path_prepend,
            }
        )
        layers = [Layer(name="tools.allow/deny", allow=settings.allow or None, deny=settings.deny)]
        if settings.profile:
            layers.insert(0, profile_layer(settings.profile, settings.also_allow))
        if not settings.exec.apply_patch.enabled:
            layers.append(Layer(name="tools.exec.applyPatch.enabled", deny=("apply_patch",)))
        kept, _ = remaining([tool.spec.name for tool in built], layers)
        return [tool for tool in built if tool.spec.name in kept]

    def prepare(self, turn: Turn, session: Opened) -> Prepared:
        """Model, tools and prompt for a turn."""
        agent = agent_views.view(self.config.agents, turn.key.agent)
        situation = self.situation(agent.id)
        requested = situation.resolve(turn.model) if turn.model else None
        defaults = self.config.agents.defaults
        route = ModelRoute(
            situation,
            situation.chain(requested, strict=requested is not None),
            open_provider=self._open_provider,
            clock=self.clock,
            thinking=lambda model: self._thinking(model, turn, agent),
            patience=lambda model: patience(model, run_timeout=turn.timeout),
            jitter=random.random,
        )
        model = route.attempt.model
        workspace = self.workspace(agent.id)
        context = ToolContext(
            call_id="",
            workspace=workspace,
            session_key=str(turn.key),
            agent_id=agent.id,
            accepts_images=model.sees_images,
        )
        repeats = self.config.tools.loop_detection
        toolbox = Toolbox(
            self.tools(),
            context,
            self._gate,
            self.clock,
            repeats=Repeats(
                RepeatLimits(
                    enabled=repeats.enabled,
                    history=repeats.history_size,
                    warn=repeats.warning_threshold,
                    block=repeats.critical_threshold,
                    breaker=repeats.global_circuit_breaker_threshold,
                )
            ),
            cap=result_cap(model.context_window),
        )
        briefing = brief(
            Brief(
                key=turn.key,
                workspace=workspace,
                model=model,
                default_model=str(situation.default),
                tools=toolbox.specs,
                aliases=tuple(f"- {alias}: {ref}" for ref, alias in sorted(agent.aliases.items()) if alias),
                thinking=route.attempt.thinking,
                terminal=turn.place,
            ),
            self.machine,
            defaults,
            self._cache,
        )
        return Prepared(system=briefing.prompt.system, route=route, tools=toolbox, steering=Steering())

    def _thinking(self, model: Model, turn: Turn, agent: agent_views.AgentView) -> ThinkingLevel:
        stored = agent.params.get("thinking")
        return thinking.choose(
            model,
            inline=thinking.parse(turn.thinking) if turn.thinking else None,
            agent_model=thinking.parse(stored) if isinstance(stored, str) else None,
            defaults=self.config.agents.defaults.thinking_default,
        )

    def _probe(self) -> tuple[discover.Served, ...]:
        if self._surroundings.environ.get("OPENCLAW_NO_LOCAL_MODELS"):
            return ()
        return discover.probe_servers()

    def _make_gate(self, approver: Approver) -> ExecGate:
        settings = self.config.tools.exec
        return ExecGate(
            security=settings.security,
            ask=settings.ask,
            safe_bins=settings.safe_bins,
            approvals=ApprovalFile(self.home.state / "exec-approvals.json"),
            approver=approver,
            clock=self.clock,
            path=os.pathsep.join((*settings.path_prepend, self.loaded.variables.get("PATH", os.defpath))),
        )


@asynccontextmanager
async def session_index(home: Home, clock: Clock) -> AsyncIterator[SessionIndex]:
    """The list of sessions, rebuilt from the transcripts when it is new."""
    db = await Sqlite.open(home.state / "state" / "openclaw.sqlite", STATE)
    try:
        index = SessionIndex(db, home.state, clock)
        if not await db.read("SELECT 1 FROM transcripts LIMIT 1"):
            await index.rebuild()
        yield index
    finally:
        await db.close()


@asynccontextmanager
async def assistant(
    surroundings: Surroundings,
    *,
    clock: Clock,
    approver: Approver,
    open_provider: OpenProvider | None = None,
    warn: Callable[[str], None] = lambda line: None,
) -> AsyncIterator[Assistant]:
    """An assistant for this process; closed with the block. `warn` hears what the configuration gets wrong."""
    home = surroundings.home
    loaded = load(home, surroundings.environ)
    for problem in (*loaded.issues, *loaded.warnings):
        warn(str(problem))
    environ = surroundings.environ
    about = machine(local_timezone(environ), environ.get("SHELL", "/bin/sh"), secrets.token_hex(8))
    providers = wings.Providers()
    try:
        async with session_index(home, clock) as index:
            yield Assistant(surroundings, loaded, index, clock, approver, open_provider or providers, about)
            remember_good(home, loaded)
    finally:
        await providers.close()


def local_timezone(environ: Mapping[str, str]) -> str:
    """The machine's IANA time zone, or nothing when it does not say."""
    named = environ.get("TZ", "").lstrip(":")
    if named and "/" in named and not named.startswith("/"):
        return named
    try:
        target = os.path.realpath("/etc/localtime")
    except OSError:
        return ""
    return target.partition("/zoneinfo/")[2]
