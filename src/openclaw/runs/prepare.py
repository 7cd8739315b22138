"""Prepares a turn: live facts of the request become its models, its tools after policy and its prompt."""

import asyncio
import os
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from openclaw.agent import settings as agent_settings
from openclaw.agent.loop import ModelAsker
from openclaw.agent.repeats import RepeatDetector, RepeatLimits, result_cap
from openclaw.agent.settings import AgentDefaults
from openclaw.agent.tool_runner import NO_TOOLS, ToolRunner
from openclaw.budget.meter import RunMeter
from openclaw.config.live import LiveConfig
from openclaw.config.load import LoadedConfig
from openclaw.core.clock import Clock, millis
from openclaw.core.errors import InvalidRequest
from openclaw.core.harness import ModelRouter
from openclaw.core.keys import SessionKey
from openclaw.core.provider import Model, System
from openclaw.core.sandbox import AGENT_MOUNT
from openclaw.core.text import PromptText
from openclaw.core.tool import Approver, Tool, ToolContext, ToolSpec
from openclaw.models.service import ModelService
from openclaw.plugins.hooks.files import HookFiles, bootstrap_files
from openclaw.plugins.registry import PluginRegistry
from openclaw.process.environment import Environment
from openclaw.prompt.archive import PromptArchive
from openclaw.prompt.builder import BuiltPrompt, PromptBuilder, PromptMachine, PromptRequest, with_audit_entries
from openclaw.prompt.facts import Elevated, Mode, SandboxFacts
from openclaw.runs.hooks import RunHooks
from openclaw.runs.request import ClientToolCall, RunRequest
from openclaw.runs.route import FailoverRoute, ModelRoutes
from openclaw.runs.toolset import Toolset, exec_policies, exec_policy
from openclaw.runs.turn import OpenedSession, PreparedTurn
from openclaw.security.approvals import ApprovalFile
from openclaw.security.audit import AuditChange
from openclaw.security.audit_log import AuditLog
from openclaw.security.gates import ExecGate, SessionAllowlist
from openclaw.security.label_service import LabelService
from openclaw.security.redaction import secret_variables, secrets_in
from openclaw.security.run_labels import RunLabels
from openclaw.security.sandboxes import policy
from openclaw.security.sandboxes.service import SandboxService, read_elevation
from openclaw.security.tool_policy import (
    NOT_ELEVATED,
    Elevation,
    Level,
    ToolLayer,
    apply_layers,
    identify_speaker,
    is_shared,
    refuse_reason,
)
from openclaw.sessions.compaction.manager import CompactionManager
from openclaw.sessions.compaction.summarise import MemoryFlush, Summariser
from openclaw.sessions.lifecycle import SessionLifecycle, SessionPreferences
from openclaw.sessions.reply_text import ReplyOptions
from openclaw.sessions.transcript import path_origins
from openclaw.skills.catalog import shorten_path
from openclaw.skills.gate import SkillList
from openclaw.skills.invoke import SkillCall, Unknown, instruction
from openclaw.skills.invoke import parse as parse_call
from openclaw.skills.service import SkillGate, SkillService
from openclaw.storage.keys import StateKeys
from openclaw.workspace.files import FileCache, WorkspaceFile
from openclaw.workspace.seed import Workspaces

AsideRoute = Callable[[str | None, str | None], Awaitable[ModelRouter]]
"""The models for a question aside: one that is named, or the conversation's; and how hard they think."""
SUMMARY_THINKING = "low"


class CompactionInputs(Struct, frozen=True, kw_only=True):
    """A turn, as far as its upkeep is concerned."""

    key: SessionKey
    model: Model
    system: System
    specs: Sequence[ToolSpec]
    tools: Sequence[Tool]
    """What policy leaves of the tools."""
    workspace: Path
    timezone: str


def upkeep(
    kept: CompactionInputs,
    defaults: AgentDefaults,
    summarising: Model,
    route: AsideRoute,
    box: Callable[[Sequence[Tool]], ToolRunner],
    clock: Clock,
) -> CompactionManager:
    """Builds what keeps a conversation within its model's window. `summarising` is the model that writes summaries."""
    settings = defaults.compaction
    level = settings.thinking_level or SUMMARY_THINKING
    thinking = None if level == "inherit" else level
    return CompactionManager(
        settings=settings,
        pruning=defaults.context_pruning,
        model=kept.model,
        system=kept.system,
        tools=kept.specs,
        compactor=Summariser(
            settings,
            ModelAsker(lambda: route(settings.model, thinking), clock),
            NO_TOOLS,
            clock,
            window=summarising.context_window,
        ),
        flush=_flush(kept, defaults, route, box, clock),
        clock=clock,
    )


def _flush(
    kept: CompactionInputs,
    defaults: AgentDefaults,
    route: AsideRoute,
    box: Callable[[Sequence[Tool]], ToolRunner],
    clock: Clock,
) -> MemoryFlush | None:
    """Notes before a compaction; not where the assistant may not write, nor in errands without a person."""
    settings = defaults.compaction.memory_flush
    allowed = {tool.spec.name: tool for tool in kept.tools}
    if not settings.enabled or "write" not in allowed or kept.key.is_cron or kept.key.is_subagent:
        return None
    reading = [allowed["read"]] if "read" in allowed else []
    return MemoryFlush(
        settings,
        ModelAsker(lambda: route(settings.model, None), clock),
        lambda writing: box([*reading, writing]),
        clock,
        workspace=kept.workspace,
        timezone=kept.timezone,
    )


LARGEST_WINDOW = 200_000
"""The context window a tool result is cut for when no model is going to read it."""


class TurnPreparer:
    """Gathers the live facts of a turn: its models, its tools after policy, its prompt."""

    def __init__(
        self,
        *,
        live: LiveConfig,
        environment: Environment,
        machine: PromptMachine,
        keys: StateKeys,
        archive: PromptArchive,
        workspaces: Workspaces,
        lifecycle: SessionLifecycle,
        models: ModelService,
        routes: ModelRoutes,
        skills: SkillService,
        sandboxes: SandboxService,
        plugins: PluginRegistry,
        hooks: RunHooks,
        hook_files: HookFiles,
        label_service: LabelService,
        approvals: ApprovalFile,
        approver: Approver,
        settled: SessionAllowlist,
        audit: AuditLog,
        clock: Clock,
    ) -> None:
        self._live = live
        self._home_dir = environment.home_dir
        self._machine = machine
        self._keys = keys
        self._archive = archive
        self._workspaces = workspaces
        self._lifecycle = lifecycle
        self._models = models
        self._routes = routes
        self._skills = skills
        self._sandboxes = sandboxes
        self._plugins = plugins
        self._hooks = hooks
        self._hook_files = hook_files
        self._label_service = label_service
        self._approvals = approvals
        self._approver = approver
        self._settled = settled
        self._audit = audit
        self._clock = clock
        self._files = FileCache()
        self._prompts = PromptBuilder(machine, self._files)
        self._gate_for: LoadedConfig | None = None
        self._hidden: tuple[Any, ...] = ()
        """Whose credentials the tools keep to themselves by now."""

    async def prepare(self, turn: RunRequest, session: OpenedSession, toolset: Toolset) -> PreparedTurn:
        """Model, tools and prompt for a turn; the prompt goes on record."""
        await self._plugins.ready()
        agent = agent_settings.resolve_agent(self._live.config.agents, turn.key.agent)
        chosen = await self._lifecycle.preferences(turn.key)
        session_id = session.row.session_id
        spending = self._routes.meter(turn.run_id, turn.key, session_id, chosen.response_usage)
        hooks = self._hooks.turn(turn, session_id, self._workspaces.of(agent.id)) if self._hooks.any else None
        other = await hooks.model(turn, chosen.model, self._models.model_set(agent.id)) if hooks else None
        route = await self._routes.open(other or turn, agent, chosen, spending, picked=other is None)
        model = route.attempt.model
        caps = await hooks.prompt(turn, session.context.messages) if hooks else ()
        await toolset.ready()
        place = Path(turn.place) if turn.place else self._workspaces.of(agent.id)
        shelf = self._skills.known(agent.id, self._workspaces.of(agent.id), place, first_use=True, here=True)
        if shelf is None:
            shelf = await asyncio.to_thread(self._skills_of, agent.id, turn.place, first_use=True)
        elevated = self._sandboxes.elevation(turn.key, read_elevation(chosen), millis(self._clock))
        labels = self._labels(turn.key, shelf, turn, session)
        toolbox = self._toolbox(toolset, turn, model, shelf, labels, caps, elevated.level)
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
        briefing = self._prompts.make(what, self._live.config.agents.defaults)
        told = await self._audit.record(deeds, run_id=turn.run_id, session_key=str(turn.key)) if deeds else ()
        if hooks is not None:
            hooks.entries += told
            briefing = await hooks.applied(briefing, toolbox.specs)
        elif told:
            briefing = with_audit_entries(briefing, told, toolbox.specs)
        await self._archive.keep(turn.run_id, str(turn.key), what.now, briefing.prompt, briefing.report)
        system = briefing.prompt.system
        upkeep = self._upkeep(turn, agent, chosen, route, system, toolbox, shelf, spending, labels)
        return PreparedTurn(system=system, route=route, tools=toolbox, spending=spending, upkeep=upkeep, hooks=hooks)

    def _upkeep(
        self,
        turn: RunRequest,
        agent: agent_settings.ResolvedAgent,
        chosen: SessionPreferences,
        route: FailoverRoute,
        system: System,
        toolbox: ToolRunner,
        shelf: SkillList,
        spending: RunMeter,
        labels: "RunLabels",
    ) -> CompactionManager:
        """What keeps the conversation of a turn within its model's window."""
        defaults, model = self._live.config.agents.defaults, route.attempt.model
        model_set, named = self._models.model_set(agent.id), self._live.config.agents.defaults.compaction.model

        async def aside(ref: str | None, level: str | None) -> FailoverRoute:
            asked = msgspec.structs.replace(turn, model=ref or turn.model, thinking=None if level else turn.thinking)
            prefer = msgspec.structs.replace(chosen, thinking_level=level or chosen.thinking_level)
            return await self._routes.open(asked, agent, prefer, spending)

        return upkeep(
            CompactionInputs(
                key=turn.key,
                model=model,
                system=system,
                specs=toolbox.specs,
                tools=toolbox.tools,
                workspace=self._workspaces.of(agent.id),
                timezone=defaults.user_timezone or self._machine.timezone,
            ),
            defaults,
            model_set.model(model_set.resolve(named)) if named else model,
            aside,
            lambda tools: self._box(
                turn.key, tools, shelf, sees_images=False, cap=result_cap(model.context_window), labels=labels
            ),
            self._clock,
        )

    async def options_of(self, request: RunRequest) -> ReplyOptions:
        """How much of a run its conversation wants to see."""
        return await self.reply_options(request.key, request.model)

    async def reply_options(self, key: SessionKey, model: str | None = None) -> ReplyOptions:
        """How much a conversation wants to see besides answers, and how its model marks them."""
        chosen = await self._lifecycle.preferences(key)
        wanted = model or chosen.model
        model_set = self._routes.model_set(key.agent, wanted)
        found = model_set.model(model_set.resolve(wanted) if wanted else model_set.default)
        return ReplyOptions.of(
            chosen.reasoning_level, chosen.verbose_level, enforce_final=bool(found.compat.reasoning_tags)
        )

    async def _last_truncation(self, key: SessionKey) -> tuple[str, ...]:
        """The cuts of workspace files that a session's model was told of; only `once` needs to know."""
        if self._live.config.agents.defaults.bootstrap_prompt_truncation_warning != "once":
            return ()
        last = await self._archive.latest_report(str(key))
        return last.bootstrap_truncation.warning_signatures_seen if last and last.bootstrap_truncation else ()

    def preview(
        self,
        toolset: Toolset,
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
        agent = agent_settings.resolve_agent(self._live.config.agents, key.agent)
        model_set = self._models.model_set(agent.id)
        chosen = model_set.model(model_set.resolve(model) if model else model_set.default)
        specs = tuple(sorted((tool.spec for tool in toolset.of(key, model=chosen.ref)), key=lambda spec: spec.name))
        shelf = self._skills_of(agent.id, terminal, first_use=False)
        what = msgspec.structs.replace(
            self._brief(key, agent, chosen, specs, shelf),
            mode=mode,
            channel=channel,
            terminal=terminal,
            files=files,
            thinking=self._models.thinking(chosen, None, agent),
            source="estimate",
        )
        return self._prompts.make(what, self._live.config.agents.defaults)

    async def bootstrap_files(self, key: SessionKey) -> tuple[WorkspaceFile, ...] | None:
        """The files of a prompt as hooks leave them; None when no hook has a say."""
        return (await self._bootstrap(key))[0]

    async def _bootstrap(
        self, key: SessionKey, session_id: str = ""
    ) -> "tuple[tuple[WorkspaceFile, ...] | None, Sequence[AuditChange]]":
        """The same, with what the hooks did to them."""
        if not self._live.config.hooks.internal.wanted:
            return None, ()
        return await bootstrap_files(
            self._hook_files,
            self._clock,
            key,
            self._workspaces.of(key.agent),
            self._files,
            session_id,
            shared=is_shared(key, self._live.config.commands.owner_allow_from),
        )

    def tool_runner(self, toolset: Toolset, key: SessionKey, *, without: Sequence[str] = ()) -> ToolRunner:
        """The tools of a session for a call outside a run, less those called `without`."""
        tools = toolset.of(key)
        kept, _ = apply_layers([tool.spec.name for tool in tools], [ToolLayer(name="caller", deny=tuple(without))])
        tools = [tool for tool in tools if tool.spec.name in kept]
        shelf = self._skills_of(key.agent, "", first_use=False)
        return self._box(key, tools, shelf, sees_images=True, cap=result_cap(LARGEST_WINDOW))

    def _labels(
        self, key: SessionKey, shelf: SkillList, turn: RunRequest | None = None, session: OpenedSession | None = None
    ) -> "RunLabels":
        """What follows text from elsewhere through a run, or through a call outside one."""
        stored = self._models.model_set(key.agent).keyring.stored
        if not (self._hidden and self._hidden[0] is self._live.current and self._hidden[1] is stored):
            self._hidden = (self._live.current, stored)
            secrets = (
                secrets_in(self._live.config),
                secrets_in(stored),
                secret_variables(self._live.current.variables),
            )
            self._label_service.know(secret for group in secrets for secret in group)
        return self._label_service.labels(
            str(key),
            self._workspaces.of(key.agent),
            place=turn.place if turn else "",
            boxes=self._sandboxes.root(self._sandboxes.rules(key.agent)) if self._sandboxes.is_boxed(key) else None,
            skills=self._skills.labels(shelf),
            origins=(*path_origins(session.path), *turn.origins) if turn and session else (),
            said=session.context.messages if session else (),
        )

    def _toolbox(
        self,
        toolset: Toolset,
        turn: RunRequest,
        model: Model,
        shelf: SkillList,
        labels: "RunLabels",
        caps: Sequence[ToolLayer] = (),
        level: Level = "off",
    ) -> ToolRunner:
        # Ours come last: a caller's function never takes the place of a tool that policy looks after.
        layer = ToolLayer(name="turn", allow=turn.tools_allow, deny=turn.tools_deny)
        ours = toolset.of(turn.key, (layer, *caps), model=model.ref, level=level)
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
        shelf = self._skills_of(agent_id, "", first_use=True)
        match parse_call(text, shelf.items, taken):
            case SkillCall() as call:
                location = shorten_path(str(call.item.skill.file_path), str(self._home_dir))
                return instruction(call, location)
            case Unknown(name, why):
                raise InvalidRequest(f"{name}: {why}")
            case _:
                return None

    def skills_of(self, agent_id: str) -> SkillList:
        """The skills of an agent as they are now, without accepting new ones."""
        return self._skills_of(agent_id, "", first_use=False)

    def _skills_of(self, agent_id: str, place: str, *, first_use: bool) -> SkillList:
        """The skills of an agent, those of the project the person is in included."""
        workspace = self._workspaces.of(agent_id)
        return self._skills.look(agent_id, workspace, Path(place) if place else workspace, first_use=first_use)

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
        repeats = self._live.config.tools.loop_detection
        labels = labels or self._labels(key, shelf)
        return ToolRunner(
            tools,
            ToolContext(
                call_id="",
                workspace=self._workspaces.of(key.agent),
                session_key=str(key),
                run_id=run_id,
                tools=tuple(tool.spec.name for tool in tools),
                agent_id=key.agent,
                accepts_images=sees_images,
                env=self._skills.environment(shelf).revealed(),
            ),
            SkillGate(
                self._label_service.gate(key.agent, self._exec_gate(), labels),
                self._skills.guard(shelf),
                self._approver,
            ),
            self._clock,
            repeats=RepeatDetector(
                RepeatLimits(
                    enabled=repeats.enabled,
                    history=repeats.history_size,
                    warn=repeats.warning_threshold,
                    block=repeats.critical_threshold,
                    breaker=repeats.global_circuit_breaker_threshold,
                )
            ),
            cap=cap,
            interceptor=self._hooks.tools if self._hooks.any else None,
            labels=labels,
        )

    def _exec_gate(self) -> ExecGate:
        """The gate for commands under the configuration in force."""
        loaded = self._live.current
        if self._gate_for is not loaded:
            settings = loaded.config.tools.exec
            security, ask = exec_policy(settings)
            self._gate_for = loaded
            self._gate = ExecGate(
                security=security,
                ask=ask,
                agents=exec_policies(settings, loaded.config.agents.list),
                safe_bins=settings.safe_bins,
                strict=settings.strict_inline_eval,
                settled=self._settled,
                approvals=self._approvals,
                approver=self._approver,
                clock=self._clock,
                path=os.pathsep.join((*settings.path_prepend, loaded.variables.get("PATH", os.defpath))),
            )
        return self._gate

    def _brief(
        self,
        key: SessionKey,
        agent: agent_settings.ResolvedAgent,
        model: Model,
        specs: tuple[ToolSpec, ...],
        shelf: SkillList,
        elevated: Elevation = NOT_ELEVATED,
    ) -> PromptRequest:
        return PromptRequest(
            key=key,
            shared=is_shared(key, self._live.config.commands.owner_allow_from),
            sandbox=self._sandbox_facts(key, elevated),
            sandbox_mode=self._sandboxes.rules(key.agent).mode,
            external_agents=self._live.config.acp.enabled and bool(self._live.config.acp.agents),
            workspace=self._workspaces.of(agent.id),
            skills=self._skills.snapshot(agent.id, shelf).text,
            model=model,
            default_model=str(self._models.model_set(agent.id).default),
            tools=specs,
            options=self._prompts.options(
                agent,
                self._live.config.agents.defaults,
                self._live.config.commands,
                self._keys.owners,
                self._live.config.memory.citations,
            ),
            now=millis(self._clock),
        )

    def _sandbox_facts(self, key: SessionKey, level: Elevation) -> SandboxFacts | None:
        """What the prompt says about the sandbox of a session."""
        rules = self._sandboxes.rules(key.agent)
        if not policy.is_sandboxed(rules.mode, key):
            return None
        config = self._live.config
        who = identify_speaker(key, config.commands.owner_allow_from)
        own = self._sandboxes.tool_settings(key.agent)
        return SandboxFacts(
            container_workspace_dir=rules.workdir,
            workspace_access=rules.access,
            agent_workspace_mount={"none": "", "ro": AGENT_MOUNT, "rw": rules.workdir}[rules.access],
            elevated=Elevated(
                allowed=not refuse_reason(who, config.tools.elevated, own.elevated),
                default_level=level.level,
                full_access=(config.tools.exec.security, config.tools.exec.ask) == ("full", "off"),
            ),
        )


def _handed_over(turn: RunRequest) -> list[Tool]:
    """The functions a caller carries out itself, as tools; few turns have any."""
    if not turn.client_tools:
        return []
    return [ClientToolCall(each) for each in turn.client_tools]
