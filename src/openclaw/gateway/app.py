"""The composition root: reads the configuration, builds every part, owns their lifetimes."""

import asyncio
import logging
import os
import uuid
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from openclaw.agent import settings as agent_views
from openclaw.agent.loop import ModelAsker
from openclaw.agent.repeats import RepeatLimits, Repeats, result_cap
from openclaw.agent.tool_runner import ToolRunner
from openclaw.budget.metering import RunMeter
from openclaw.budget.service import BudgetService, zone_of
from openclaw.config.load import LoadedConfig, load, remember_good
from openclaw.core.clock import Clock, millis
from openclaw.core.embedder import Vector
from openclaw.core.errors import InvalidRequest
from openclaw.core.harness import OpenProvider, RunJob
from openclaw.core.keys import MAIN, SessionKey, parse
from openclaw.core.messages import Image, Text, User
from openclaw.core.provider import Model, System
from openclaw.core.text import PromptText
from openclaw.core.tool import Approver, Tool, ToolContext, ToolSpec
from openclaw.gateway.process import state as state
from openclaw.models.providers import Providers
from openclaw.models.service import ModelService
from openclaw.process.environment import Environment as Surroundings
from openclaw.process.environment import local_timezone as local_timezone
from openclaw.prompt import brief
from openclaw.prompt.archive import PromptArchive
from openclaw.prompt.brief import BuiltPrompt, PromptBuilder, PromptRequest, machine
from openclaw.prompt.facts import Mode
from openclaw.runs import prepare, tool_settings
from openclaw.runs.request import RunRequest
from openclaw.runs.route import FailoverRoute
from openclaw.runs.toolset import Toolset
from openclaw.runs.turn import OpenedSession, PendingEvents, PreparedTurn, SessionRenewal, TurnRunner
from openclaw.security.approvals import ApprovalFile
from openclaw.security.gates import AllowedExactly, ExecGate
from openclaw.security.sandboxes.service import SandboxService, said
from openclaw.security.tool_policy import NOT_ELEVATED, Elevation, Level, ToolLayer, is_shared, remaining
from openclaw.sessions.compaction.manager import CompactionManager
from openclaw.sessions.files import WriteLocks
from openclaw.sessions.index import SessionIndex, SessionRow
from openclaw.sessions.lifecycle import Ending, SessionLifecycle, SessionPreferences
from openclaw.sessions.reply_text import ReplyOptions
from openclaw.sessions.system_events import SystemEvents
from openclaw.skills.catalog import shortened
from openclaw.skills.gate import SkillList
from openclaw.skills.invoke import SkillCall, Unknown, instruction
from openclaw.skills.invoke import parse as parse_call
from openclaw.skills.roots import PluginDirectory
from openclaw.skills.service import SkillGate, SkillService
from openclaw.storage.database import Database
from openclaw.storage.keys import StateKeys
from openclaw.workspace.files import FileCache, WorkspaceFile
from openclaw.workspace.seed import ensure
from openclaw.workspace.seed import workspace_of as workspace_of

if TYPE_CHECKING:
    from openclaw.memory.index import MemoryIndex
    from openclaw.memory.service import MemoryService
    from openclaw.plugins.hooks.dispatch import HookDispatcher
    from openclaw.plugins.hooks.files import HookFiles
    from openclaw.plugins.registry import PluginRegistry
    from openclaw.runs.hooks import RunHooks
    from openclaw.security.audit import AuditChange
    from openclaw.security.audit_log import AuditLog
    from openclaw.security.label_service import LabelService
    from openclaw.security.run_labels import RunLabels

log = logging.getLogger(__name__)

LARGEST_WINDOW = 200_000
"""The context window a tool result is cut for when no model is going to read it."""


class App:
    """The assistant in this process: configured, with its sessions open."""

    def __init__(
        self,
        surroundings: Surroundings,
        loaded: LoadedConfig,
        index: SessionIndex,
        clock: Clock,
        approver: Approver,
        open_provider: OpenProvider,
        db: Database,
    ) -> None:
        self.home = surroundings.home
        self.loaded = loaded
        self.config = loaded.config
        self.index = index
        self.clock = clock
        self.db = db
        self.archive = PromptArchive(db)
        self._surroundings = surroundings
        self._keys = StateKeys(self.home.state)
        self.machine = machine(
            local_timezone(surroundings.environ),
            surroundings.environ.get("SHELL", "/bin/sh"),
            self._keys.fence() if self.config.security.prompt_boundaries else "",
        )
        zone = zone_of(self.config.agents.defaults.user_timezone or self.machine.timezone)
        self.accounts = BudgetService(db, clock, zone, lambda: self.config)
        self.remembers: Callable[[MemoryIndex], None] = lambda memory: None
        """Hears of every memory that is opened."""
        self._workspaces: dict[str, Path] = {}
        self._seeded: set[Path] = set()
        self._cache = FileCache()
        self._briefings = PromptBuilder(self.machine, self._cache)
        self._approver = approver
        self.approvals = ApprovalFile(self.home.state / "exec-approvals.json")
        self._settled = AllowedExactly()
        self._gate = self._make_gate()
        self.skills = self._make_skills()
        self.boxes = self._make_boxes()
        self.models = ModelService(
            surroundings,
            clock,
            lambda: self.loaded,
            self.accounts,
            self.workspace,
            open_provider,
            approver,
            lambda: self.audit,
        )
        self.tools = Toolset(
            self.home.state,
            clock,
            lambda: self.loaded,
            lambda: self.boxes,
            self.workspace,
            approver,
            lambda agent_id: self.memories.tools(agent_id),  # noqa: PLW0108 (made at its first use)
            self._look,
            lambda: self._added,
        )
        self.locks = WriteLocks(clock, self.config.session.write_lock.acquire_timeout_ms / 1000)
        self.lifecycle = SessionLifecycle(db, index, self.locks, clock, self._session_ended)
        self.events = SystemEvents(db, clock)
        self._zone = zone
        self._hidden: tuple[Any, ...] = ()
        """Whose credentials the tools keep to themselves by now."""
        self.plugged: RunHooks | None = None
        """The plugins that listen, once there are any."""
        self.renewal = SessionRenewal(
            index,
            self.lifecycle,
            self.events,
            clock,
            settings=lambda: self.config.session,
            zone=lambda: zone_of(self.machine.timezone),
        )
        self.turns = TurnRunner(index, self.locks, clock, self.workspace, self.prepare, self._news, self.renewal)

    async def _news(self, turn: RunRequest) -> PendingEvents:
        """What happened in the meantime, told with the next thing that is said in a conversation."""
        return PendingEvents(*await self.events.take(turn.key, turn.run_id))

    def _session_ended(self, row: SessionRow, why: Ending) -> None:
        self._settled.forget(row.session_key)
        if self.plugged is not None:
            self.plugged.session_ended(row, why)

    def reconfigure(self, loaded: LoadedConfig) -> None:
        """From the next turn on another configuration holds."""
        self.loaded = loaded
        self.config = loaded.config
        self._workspaces.clear()
        self.models.reconfigured()
        self.tools.reconfigured()
        self._gate = self._make_gate()
        if "labelling" in self.__dict__:
            self.labelling.configure(self.config.security)
        self.skills = self._make_skills()
        self.boxes = self._make_boxes()
        self.internal_hooks.reload(loaded)

    @cached_property
    def internal_hooks(self) -> "HookFiles":
        """Who is told what happens here: the owner's HOOK.md directories."""
        from openclaw.plugins.hooks.files import HookFiles

        return HookFiles(self.loaded, self._surroundings, self.clock, self._zone)

    async def bootstrap_files(self, key: SessionKey) -> tuple[WorkspaceFile, ...] | None:
        """The files of a prompt as hooks leave them; None when no hook has a say."""
        return (await self._bootstrap(key))[0]

    async def _bootstrap(
        self, key: SessionKey, session_id: str = ""
    ) -> "tuple[tuple[WorkspaceFile, ...] | None, Sequence[AuditChange]]":
        """The same, with what the hooks did to them."""
        if not self.config.hooks.internal.wanted:
            return None, ()
        from openclaw.plugins.hooks.files import bootstrap_files

        return await bootstrap_files(
            self.internal_hooks,
            self.clock,
            key,
            self.workspace(key.agent),
            self._cache,
            session_id,
            shared=is_shared(key, self.config.commands.owner_allow_from),
        )

    def _make_skills(self) -> SkillService:
        state, home = self.home.state, self._surroundings.home_dir
        return SkillService(self.loaded, state, home, self.clock.now, plugins=self._plugin_skills)

    def _plugin_skills(self) -> tuple[PluginDirectory, ...]:
        return self._added.skills() if self._added else ()

    @cached_property
    def extensions(self) -> "PluginRegistry":
        """What plugins have added."""
        from openclaw.plugins.registry import PluginRegistry

        home = self._surroundings.home_dir
        return PluginRegistry(self.home.state, home, self.clock, lambda: self.hooks, lambda: self.config.plugins)

    @property
    def _added(self) -> "PluginRegistry | None":
        """The same, unless nobody has needed it yet."""
        return self.__dict__.get("extensions")

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
        path = self._workspaces.get(agent_id)
        if path is None:
            path = self._workspaces[agent_id] = workspace_of(self.config.agents, agent_id, self._surroundings)
        if path not in self._seeded and not self.config.agents.defaults.skip_bootstrap:
            ensure(path, self.clock.now())
            self._seeded.add(path)
        return path

    @cached_property
    def audit(self) -> "AuditLog":
        """What plugins changed."""
        from openclaw.security.audit_log import AuditLog

        return AuditLog(self.home.state, self.clock)

    @property
    def hooks(self) -> "HookDispatcher":
        """Where plugins listen; nothing of it is loaded before the first of them comes."""
        if self.plugged is None:
            from openclaw.runs.hooks import RunHooks

            self.plugged = RunHooks(self.audit, self._approver, self.clock, self.machine.fence_id)
        return self.plugged.hooks

    @cached_property
    def labelling(self) -> "LabelService":
        """What follows text from elsewhere; made with the first tools."""
        from openclaw.security.label_service import LabelService

        return LabelService(self.home.state, self._surroundings.home_dir, self.config.security, self.clock)

    @cached_property
    def memories(self) -> "MemoryService":
        """What agents have written down; nothing of it is loaded before somebody asks."""
        from openclaw.memory.service import MemoryService

        return MemoryService(
            self._surroundings,
            self.clock,
            lambda: self.loaded,
            self.workspace,
            lambda: self.extensions,
            lambda memory: self.remembers(memory),  # noqa: PLW0108 (set after this)
        )

    def memory(self, agent_id: str) -> "MemoryIndex | None":
        """The notes of an agent, searchable; None when it is switched off."""
        return self.memories.of(agent_id)

    def proofread(self, key: SessionKey, text: str) -> str:
        """An answer without sources that do not exist."""
        return self.memories.proofread(key.agent, text) if "#" in text else text

    async def embed(self, texts: Sequence[str]) -> Sequence[Vector]:
        """Texts as vectors."""
        return await self.memories.embed(texts)

    async def close(self) -> None:
        if "memories" in self.__dict__:  # before the plugins, which may make their vectors
            await self.memories.close()
        if self._added:
            await self._added.close()
        if self.plugged is not None:
            await self.plugged.hooks.close()
        await self.models.close()
        await self.tools.close()

    async def _look(self, agent_id: str, prompt: str, images: Sequence[Image]) -> str:
        """What the image model says about `images`."""
        named = agent_views.image_model(self.config.agents)
        if named is None:
            raise InvalidRequest(
                "The current model cannot see images, and agents.defaults.imageModel names no model that can."
            )
        turn = RunRequest(run_id=f"look-{uuid.uuid4()}", key=SessionKey(agent_id, MAIN), text=prompt, model=named)
        agent = agent_views.view(self.config.agents, agent_id)
        spending = self.models.spending(turn.run_id, turn.key)
        try:
            aside = ModelAsker(lambda: self.models.route(turn, agent, SessionPreferences(), spending), self.clock)
            question = User(content=(Text(prompt), *images), timestamp=millis(self.clock))
            shelf = self._shelf(agent_id, "", first_use=False)
            nothing = self._box(turn.key, (), shelf, sees_images=True, cap=result_cap(LARGEST_WINDOW))
            return (await aside.ask(RunJob(system=System(), messages=(question,)), nothing)).text
        finally:
            await spending.settle()

    async def prepare(self, turn: RunRequest, session: OpenedSession) -> PreparedTurn:
        """Model, tools and prompt for a turn; the prompt goes on record."""
        await self.extensions.ready()
        agent = agent_views.view(self.config.agents, turn.key.agent)
        chosen = await self.lifecycle.preferences(turn.key)
        session_id = session.row.session_id
        spending = self.models.spending(turn.run_id, turn.key, session_id, chosen.response_usage)
        hooks = self.plugged.turn(turn, session_id, self.workspace(agent.id)) if self.plugged else None
        other = await hooks.model(turn, chosen.model, self.models.situation(agent.id)) if hooks else None
        route = await self.models.route(other or turn, agent, chosen, spending, picked=other is None)
        model = route.attempt.model
        caps = await hooks.prompt(turn, session.context.messages) if hooks else ()
        await self.tools.ready()
        place = Path(turn.place) if turn.place else self.workspace(agent.id)
        shelf = self.skills.known(agent.id, self.workspace(agent.id), place, first_use=True, here=True)
        if shelf is None:
            shelf = await asyncio.to_thread(self._shelf, agent.id, turn.place, first_use=True)
        elevated = self.boxes.elevation(turn.key, said(chosen), millis(self.clock))
        labels = self._labels(turn.key, shelf, turn, session)
        toolbox = self._toolbox(turn, model, shelf, labels, caps, elevated.level)
        last = await self._last_truncation(turn.key)
        what = self._brief(turn.key, agent, model, toolbox.specs, shelf, elevated)
        files, deeds = await self._bootstrap(turn.key, session_id)
        what = msgspec.structs.replace(
            what,
            thinking=route.attempt.thinking,
            reasoning=ReplyOptions.of(chosen.reasoning_level, None).reasoning,
            terminal=turn.place,
            channel=turn.channel,
            extra=PromptText(turn.extra, "the caller", "owner") if turn.extra.strip() else None,
            session_id=session.row.session_id,
            files=files,
            warned=last,
        )
        briefing = self._render(what)
        told = await self.audit.record(deeds, run_id=turn.run_id, session_key=str(turn.key)) if deeds else ()
        if hooks is not None:
            hooks.entries += told
            briefing = await hooks.applied(briefing, toolbox.specs)
        elif told:
            from openclaw.prompt.brief import recorded

            briefing = recorded(briefing, told, toolbox.specs)
        await self.archive.keep(turn.run_id, str(turn.key), what.now, briefing.prompt, briefing.report)
        system = briefing.prompt.system
        upkeep = self._upkeep(turn, agent, chosen, route, system, toolbox, shelf, spending, labels)
        return PreparedTurn(system=system, route=route, tools=toolbox, spending=spending, upkeep=upkeep, hooks=hooks)

    def _upkeep(
        self,
        turn: RunRequest,
        agent: agent_views.AgentView,
        chosen: SessionPreferences,
        route: FailoverRoute,
        system: System,
        toolbox: ToolRunner,
        shelf: SkillList,
        spending: RunMeter,
        labels: "RunLabels",
    ) -> CompactionManager:
        """What keeps the conversation of a turn within its model's window."""
        defaults, model = self.config.agents.defaults, route.attempt.model
        situation, named = self.models.situation(agent.id), self.config.agents.defaults.compaction.model

        async def aside(ref: str | None, level: str | None) -> FailoverRoute:
            asked = msgspec.structs.replace(turn, model=ref or turn.model, thinking=None if level else turn.thinking)
            prefer = msgspec.structs.replace(chosen, thinking_level=level or chosen.thinking_level)
            return await self.models.route(asked, agent, prefer, spending)

        return prepare.upkeep(
            prepare.CompactionInputs(
                key=turn.key,
                model=model,
                system=system,
                specs=toolbox.specs,
                tools=toolbox.tools,
                workspace=self.workspace(agent.id),
                timezone=defaults.user_timezone or self.machine.timezone,
            ),
            defaults,
            situation.model(situation.resolve(named)) if named else model,
            aside,
            lambda tools: self._box(
                turn.key, tools, shelf, sees_images=False, cap=result_cap(model.context_window), labels=labels
            ),
            self.clock,
        )

    async def manner(self, key: SessionKey, model: str | None = None) -> ReplyOptions:
        """How much a conversation wants to see besides answers, and how its model marks them."""
        chosen = await self.lifecycle.preferences(key)
        wanted = model or chosen.model
        situation = self.models.seen(key.agent, wanted)
        found = situation.model(situation.resolve(wanted) if wanted else situation.default)
        return ReplyOptions.of(
            chosen.reasoning_level, chosen.verbose_level, enforce_final=bool(found.compat.reasoning_tags)
        )

    async def _last_truncation(self, key: SessionKey) -> tuple[str, ...]:
        """The cuts of workspace files that a session's model was told of; only `once` needs to know."""
        if self.config.agents.defaults.bootstrap_prompt_truncation_warning != "once":
            return ()
        last = await self.archive.latest_report(str(key))
        return last.bootstrap_truncation.warning_signatures_seen if last and last.bootstrap_truncation else ()

    def preview(
        self,
        key: SessionKey,
        *,
        model: str | None = None,
        mode: Mode | None = None,
        channel: str = "",
        terminal: str = "",
        files: tuple[WorkspaceFile, ...] | None = None,
    ) -> BuiltPrompt:
        """The prompt a turn of `key` would get now; no model is called and none needs a key.

        `files` are the workspace files as hooks leave them: see `bootstrap_files`.
        """
        agent = agent_views.view(self.config.agents, key.agent)
        situation = self.models.situation(agent.id)
        chosen = situation.model(situation.resolve(model) if model else situation.default)
        specs = tuple(sorted((tool.spec for tool in self.tools.of(key, model=chosen.ref)), key=lambda spec: spec.name))
        shelf = self._shelf(agent.id, terminal, first_use=False)
        what = msgspec.structs.replace(
            self._brief(key, agent, chosen, specs, shelf),
            mode=mode,
            channel=channel,
            terminal=terminal,
            files=files,
            thinking=self.models.thinking(chosen, None, agent),
            source="estimate",
        )
        return self._render(what)

    def toolbox(self, key: SessionKey, *, without: Sequence[str] = ()) -> ToolRunner:
        """The tools of a session for a call outside a run, less those called `without`."""
        tools = self.tools.of(key)
        kept, _ = remaining([tool.spec.name for tool in tools], [ToolLayer(name="caller", deny=tuple(without))])
        tools = [tool for tool in tools if tool.spec.name in kept]
        shelf = self._shelf(key.agent, "", first_use=False)
        return self._box(key, tools, shelf, sees_images=True, cap=result_cap(LARGEST_WINDOW))

    def _labels(
        self, key: SessionKey, shelf: SkillList, turn: RunRequest | None = None, session: OpenedSession | None = None
    ) -> "RunLabels":
        """What follows text from elsewhere through a run, or through a call outside one."""
        from openclaw.security.redaction import secret_variables, secrets_in
        from openclaw.sessions.transcript import path_origins

        stored = self.models.situation(key.agent).keyring.stored
        if not (self._hidden and self._hidden[0] is self.loaded and self._hidden[1] is stored):
            self._hidden = (self.loaded, stored)
            secrets = (secrets_in(self.config), secrets_in(stored), secret_variables(self.loaded.variables))
            self.labelling.know(secret for group in secrets for secret in group)
        return self.labelling.labels(
            str(key),
            self.workspace(key.agent),
            place=turn.place if turn else "",
            boxes=self.boxes.root(self.boxes.rules(key.agent)) if self.boxes.is_boxed(key) else None,
            skills=self.skills.labels(shelf),
            origins=(*path_origins(session.path), *turn.origins) if turn and session else (),
            said=session.context.messages if session else (),
        )

    def _toolbox(
        self,
        turn: RunRequest,
        model: Model,
        shelf: SkillList,
        labels: "RunLabels",
        caps: Sequence[ToolLayer] = (),
        level: Level = "off",
    ) -> ToolRunner:
        # Ours come last: a caller's function never takes the place of a tool that policy looks after.
        layer = ToolLayer(name="turn", allow=turn.tools_allow, deny=turn.tools_deny)
        ours = self.tools.of(turn.key, (layer, *caps), model=model.ref, level=level)
        tools = [*_handed_over(turn), *ours]
        return self._box(
            turn.key,
            tools,
            shelf,
            sees_images=model.sees_images,
            cap=result_cap(model.context_window),
            run_id=turn.run_id,
            labels=labels,
        )

    def called_skill(self, agent_id: str, text: str, taken: Sequence[str]) -> str | None:
        """The message a call of a skill (`/skill:name`, `/name`) stands for; None when it calls none."""
        shelf = self._shelf(agent_id, "", first_use=True)
        match parse_call(text, shelf.items, taken):
            case SkillCall() as call:
                location = shortened(str(call.item.skill.file_path), str(self._surroundings.home_dir))
                return instruction(call, location)
            case Unknown(name, why):
                raise InvalidRequest(f"{name}: {why}")
            case _:
                return None

    def shelf(self, agent_id: str) -> SkillList:
        """The skills of an agent as they are now, without accepting new ones."""
        return self._shelf(agent_id, "", first_use=False)

    def _shelf(self, agent_id: str, place: str, *, first_use: bool) -> SkillList:
        """The skills of an agent, those of the project the person is in included."""
        workspace = self.workspace(agent_id)
        return self.skills.look(agent_id, workspace, Path(place) if place else workspace, first_use=first_use)

    def _box(
        self,
        key: SessionKey,
        tools: Sequence[Tool],
        shelf: SkillList,
        *,
        sees_images: bool,
        cap: int,
        run_id: str = "",
        labels: "RunLabels | None" = None,
    ) -> ToolRunner:
        repeats = self.config.tools.loop_detection
        labels = labels or self._labels(key, shelf)
        return ToolRunner(
            tools,
            ToolContext(
                call_id="",
                workspace=self.workspace(key.agent),
                session_key=str(key),
                run_id=run_id,
                tools=tuple(tool.spec.name for tool in tools),
                agent_id=key.agent,
                accepts_images=sees_images,
                env=self.skills.environment(shelf).revealed(),
            ),
            SkillGate(self.labelling.gate(key.agent, self._gate, labels), self.skills.guard(shelf), self._approver),
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
            cap=cap,
            interceptor=self.plugged.tools if self.plugged else None,
            labels=labels,
        )

    def _brief(
        self,
        key: SessionKey,
        agent: agent_views.AgentView,
        model: Model,
        specs: tuple[ToolSpec, ...],
        shelf: SkillList,
        elevated: Elevation = NOT_ELEVATED,
    ) -> PromptRequest:
        return PromptRequest(
            key=key,
            shared=is_shared(key, self.config.commands.owner_allow_from),
            sandbox=self.boxes.facts(key, elevated),
            sandbox_mode=self.boxes.rules(key.agent).mode,
            external_agents=self.config.acp.enabled and bool(self.config.acp.agents),
            workspace=self.workspace(agent.id),
            skills=self.skills.snapshot(agent.id, shelf).text,
            model=model,
            default_model=str(self.models.situation(agent.id).default),
            tools=specs,
            knobs=brief.resolve(
                agent.entry,
                self.config.agents.defaults,
                self.config.commands,
                is_default=agent.is_default,
                secret=self._keys.owners,
                citations=self.config.memory.citations,
            ),
            now=millis(self.clock),
        )

    def _render(self, what: PromptRequest) -> BuiltPrompt:
        return self._briefings.make(what, self.config.agents.defaults)

    def _make_boxes(self) -> SandboxService:
        return SandboxService(
            self.config,
            self.loaded.variables,
            home=self._surroundings.home_dir,
            state=self.home.state,
            workspace=self.workspace,
            skills=lambda agent: [
                (item.skill.base_dir, str(Path(item.skill.file_path).parent)) for item in self.shelf(agent).usable
            ],
        )

    def _make_gate(self) -> ExecGate:
        settings = self.config.tools.exec
        security, ask = tool_settings.exec_policy(settings)
        return ExecGate(
            security=security,
            ask=ask,
            agents=tool_settings.exec_policies(settings, self.config.agents.list),
            safe_bins=settings.safe_bins,
            strict=settings.strict_inline_eval,
            settled=self._settled,
            approvals=self.approvals,
            approver=self._approver,
            clock=self.clock,
            path=os.pathsep.join((*settings.path_prepend, self.loaded.variables.get("PATH", os.defpath))),
        )


def _handed_over(turn: RunRequest) -> list[Tool]:
    """The functions a caller carries out itself, as tools; few turns have any."""
    if not turn.client_tools:
        return []
    from openclaw.runs.request import ClientToolCall

    return [ClientToolCall(each) for each in turn.client_tools]


@asynccontextmanager
async def assistant(
    surroundings: Surroundings,
    *,
    clock: Clock,
    approver: Approver,
    open_provider: OpenProvider | None = None,
    warn: Callable[[str], None] = lambda line: None,
    loaded: LoadedConfig | None = None,
) -> AsyncIterator[App]:
    """An assistant for this process; closed with the block. `warn` hears what the configuration gets wrong."""
    home = surroundings.home
    loaded = loaded or load(home, surroundings.environ)
    for problem in (*loaded.issues, *loaded.warnings):
        warn(str(problem))
    providers = Providers()
    try:
        async with state(home, clock) as (db, index):
            app = App(surroundings, loaded, index, clock, approver, open_provider or providers, db)
            providers.foreign = lambda name: app.extensions.provider(name)  # noqa: PLW0108 (made at its first use)
            try:
                yield app
            finally:
                await app.close()
            remember_good(home, loaded)
    finally:
        await providers.close()
