"""The composition root: reads the configuration and builds every part, each from those before it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from openclaw.budget.service import BudgetService
from openclaw.config.live import LiveConfig
from openclaw.config.load import LoadedConfig, load, save_last_good
from openclaw.core.channel import Platform
from openclaw.core.clock import Clock, zone_of
from openclaw.core.keys import SessionKey
from openclaw.core.provider import OpenProvider
from openclaw.core.tool import Approver
from openclaw.gateway.state import open_state
from openclaw.memory.service import MemoryService
from openclaw.models.providers import ProviderPool
from openclaw.models.service import ModelService
from openclaw.plugins.hooks.files import HookFiles
from openclaw.plugins.registry import PluginRegistry
from openclaw.process.environment import Environment, local_timezone
from openclaw.prompt.archive import PromptArchive
from openclaw.prompt.machine import detect_machine
from openclaw.protocol.events import EventBus
from openclaw.protocol.rpc import MethodRegistry
from openclaw.runs.hooks.runs import RunHooks
from openclaw.runs.prepare import TurnPreparer
from openclaw.runs.route import ModelRoutes
from openclaw.runs.toolset import MachineTools, NoSessionTools, SessionTools, Toolset
from openclaw.runs.turn import AutoReset, TurnRunner
from openclaw.security.approvals import ApprovalFile
from openclaw.security.audit_log import AuditLog
from openclaw.security.effects.consent import SessionAllowlist
from openclaw.security.label_service import LabelService
from openclaw.security.sandboxes.service import SandboxService
from openclaw.sessions.files import WriteLocks
from openclaw.sessions.index import SessionIndex, SessionRow
from openclaw.sessions.lifecycle import EndReason, SessionLifecycle
from openclaw.sessions.service import resolve_key
from openclaw.sessions.system_events import SystemEvents
from openclaw.skills.service import SkillService
from openclaw.storage.database import Database
from openclaw.storage.keys import StateKeys
from openclaw.workspace.seed import Workspaces


class App:
    """Everything that can answer, built in dependency order: a part is handed what it needs and nothing else."""

    def __init__(
        self,
        environment: Environment,
        live: LiveConfig,
        db: Database,
        index: SessionIndex,
        clock: Clock,
        approver: Approver,
        bus: EventBus,
        open_provider: OpenProvider | None = None,
        *,
        methods: MethodRegistry | None = None,
        safe: bool = False,
    ) -> None:
        """No plugin takes the name of one of `methods`; in `safe` mode neither plugins nor hooks run."""
        home, config, user_home = environment.home, live.config, environment.home_dir
        state = home.state
        self.environment = environment
        self.home = home
        self.live = live
        self.db = db
        self.index = index
        self.clock = clock
        self.bus = bus
        self.archive = PromptArchive(db)
        self.audit = AuditLog(state, clock)
        self.approvals = ApprovalFile(state / "exec-approvals.json")
        self.workspaces = Workspaces(live.agents, environment, clock)
        keys = StateKeys(state)
        self.machine = detect_machine(
            local_timezone(environment.environ),
            environment.environ.get("SHELL", "/bin/sh"),
            keys.fence() if config.security.prompt_boundaries else "",
        )
        zone = zone_of(config.agents.defaults.user_timezone or self.machine.timezone)
        self.budget = BudgetService(db, clock, zone, live.budget, live.record, live.commands)
        self.label_service = LabelService(state, user_home, live.security, clock, home.config)
        self.run_hooks = RunHooks(self.audit, approver, clock, self.machine.fence_id)
        hooks = self.run_hooks.hooks
        self.hook_files = HookFiles(
            hooks, live.internal_hooks, live.agents, live.variables, live.is_set, environment, clock, zone, resting=safe
        )
        self.plugins = plugins = PluginRegistry(
            state,
            user_home,
            clock,
            hooks,
            live.plugins,
            bus,
            methods or MethodRegistry(),
            off="safe mode" if safe else "",
        )
        self._providers = ProviderPool(plugins.provider)
        self.skills = SkillService(
            live.skills, live.agents, live.variables, live.is_set, state, user_home, clock.now, plugins=plugins.skills
        )
        self.sandboxes = SandboxService(
            live.agents,
            live.tools,
            live.commands,
            live.variables,
            home=user_home,
            state=state,
            workspace=self.workspaces.of,
            skills=self.skills.directories,
        )
        self.memories = MemoryService(
            environment,
            clock,
            self.workspaces,
            plugins,
            agents=live.agents,
            settings=live.memory,
            models=live.models,
            slots=live.plugins,
            variables=live.variables,
        )
        self.models = ModelService(
            environment, self.audit, agents=live.agents, models=live.models, auth=live.auth, variables=live.variables
        )
        self.open_provider = open_provider or self._providers
        self.accounts: dict[tuple[str, str], Platform] = {}
        """The accounts on channels that we or another gateway speak for; what is in the outbox for them is sent."""
        self.routes = self._build_routes(approver)
        self.machine_tools = MachineTools(
            live, state, clock, self.sandboxes, self.workspaces, approver, self.memories, plugins, self.routes.look_at
        )
        self._settled = SessionAllowlist()
        self.locks = WriteLocks(clock, config.session.write_lock.acquire_timeout_ms / 1000, index.lines)
        self.lifecycle = SessionLifecycle(
            db, index, self.locks, clock, live.agents, self._session_ended, self.run_hooks.session_resets
        )
        self.system_events = SystemEvents(db, clock)
        self.preparer = self._build_preparer(keys, approver)
        renewal = AutoReset(
            index, self.lifecycle, self.system_events, clock, settings=live.session, zone=zone_of(self.machine.timezone)
        )
        self.turns = TurnRunner(
            index, self.locks, clock, self.workspaces.of, self.preparer, self.system_events, renewal
        )

    def _build_routes(self, approver: Approver) -> ModelRoutes:
        live = self.live
        return ModelRoutes(
            self.models,
            self.budget,
            self.open_provider,
            self.workspaces,
            self.clock,
            agents=live.agents,
            acp=live.acp,
            state=self.home.state,
            variables=live.variables,
            approver=approver,
        )

    def _build_preparer(self, keys: StateKeys, approver: Approver) -> TurnPreparer:
        return TurnPreparer(
            live=self.live,
            environment=self.environment,
            machine=self.machine,
            keys=keys,
            archive=self.archive,
            workspaces=self.workspaces,
            lifecycle=self.lifecycle,
            models=self.models,
            routes=self.routes,
            skills=self.skills,
            sandboxes=self.sandboxes,
            plugins=self.plugins,
            hooks=self.run_hooks,
            hook_files=self.hook_files,
            label_service=self.label_service,
            approvals=self.approvals,
            approver=approver,
            settled=self._settled,
            audit=self.audit,
            platforms=self.accounts,
            clock=self.clock,
        )

    def toolset(self, session_tools: SessionTools | None = None) -> Toolset:
        """The tools of every session, with those that a running gateway adds."""
        added = session_tools or NoSessionTools()
        return Toolset(self.machine_tools, added, self.plugins, self.sandboxes, self.live)

    def key(self, text: str | None, agent_id: str | None) -> SessionKey:
        """The session meant by a key, an agent, both or neither."""
        return resolve_key(text, agent_id, self.live.agents.current, self.live.session.current)

    def _session_ended(self, row: SessionRow, why: EndReason) -> None:
        self._settled.forget(row.session_key)
        self.run_hooks.session_ended(row, why)

    async def close(self) -> None:
        self.locks.close()
        await self.memories.close()  # before the plugins, which may make their vectors
        await self.plugins.close()
        await self.run_hooks.hooks.close()
        await self.routes.close()
        await self.machine_tools.close()
        await self._providers.close()


@asynccontextmanager
async def open_app(
    environment: Environment,
    *,
    clock: Clock,
    approver: Approver,
    open_provider: OpenProvider | None = None,
    loaded: LoadedConfig | None = None,
    bus: EventBus | None = None,
    methods: MethodRegistry | None = None,
    safe: bool = False,
) -> AsyncIterator[App]:
    """The parts of this process, with its state; closed with the block."""
    loaded = loaded or load(environment.home, environment.environ)
    async with (
        open_state(environment.home, clock, loaded.config.store) as (db, index),
        build_app(
            environment,
            loaded,
            db,
            index,
            clock,
            approver,
            bus or EventBus(),
            open_provider,
            methods=methods,
            safe=safe,
        ) as app,
    ):
        yield app


@asynccontextmanager
async def build_app(
    environment: Environment,
    loaded: LoadedConfig,
    db: Database,
    index: SessionIndex,
    clock: Clock,
    approver: Approver,
    bus: EventBus,
    open_provider: OpenProvider | None = None,
    *,
    methods: MethodRegistry | None = None,
    safe: bool = False,
) -> AsyncIterator[App]:
    """The parts of this process on its state; closed with the block."""
    app = App(
        environment, LiveConfig(loaded), db, index, clock, approver, bus, open_provider, methods=methods, safe=safe
    )
    try:
        yield app
    finally:
        await app.close()
    save_last_good(environment.home, loaded)
