"""Prepares a turn: live facts of the request become its models, its tools after policy and its prompt."""

import asyncio
import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from openclaw.agent import settings as agent_settings
from openclaw.agent.loop import ModelAsker
from openclaw.agent.repeats import RepeatDetector, RepeatLimits, result_cap
from openclaw.agent.settings import ResolvedAgent
from openclaw.agent.tool_runner import NO_TOOLS, ToolCatalog, ToolCatalogs, ToolRunner
from openclaw.budget.meter import RunMeter
from openclaw.config.live import LiveConfig
from openclaw.config.load import LoadedConfig
from openclaw.core.clock import Clock, millis
from openclaw.core.errors import InvalidRequest
from openclaw.core.harness import Resumes
from openclaw.core.keys import SessionKey
from openclaw.core.provider import Model, System
from openclaw.core.sandbox import AGENT_MOUNT
from openclaw.core.text import Origin, PromptText, sanitize_line
from openclaw.core.tool import Approver, Tool, ToolContext, ToolSpec
from openclaw.models.service import ModelService
from openclaw.plugins.hooks.files import HookFiles, bootstrap_files
from openclaw.plugins.registry import PluginRegistry
from openclaw.process.environment import Environment
from openclaw.prompt.archive import PromptArchive
from openclaw.prompt.builder import PromptBuilder, PromptOptions, PromptPreview, PromptRequest, with_audit_entries
from openclaw.prompt.facts import NO_CONTRIBUTION, Elevated, Mode, SandboxFacts
from openclaw.prompt.machine import PromptMachine
from openclaw.runs.chat_facts import Platforms, gather_chat
from openclaw.runs.hooks.calls import ModelHooks
from openclaw.runs.hooks.messages import hook_context
from openclaw.runs.hooks.runs import RunHooks
from openclaw.runs.request import ClientToolCall, RunRequest, TurnOptions, reaches_person, with_options
from openclaw.runs.route import FailoverRoute, ModelRoutes
from openclaw.runs.toolset import Toolset, exec_policies, exec_policy
from openclaw.runs.turn import OpenedSession, PreparedTurn
from openclaw.security.approvals import ApprovalFile
from openclaw.security.audit import AuditChange
from openclaw.security.audit_log import AuditLog
from openclaw.security.effects.consent import SessionAllowlist
from openclaw.security.gates import ExecGate
from openclaw.security.label_service import LabelService
from openclaw.security.redaction import secret_variables, secrets_in
from openclaw.security.run_labels import RunLabels
from openclaw.security.sandboxes.service import SandboxService
from openclaw.security.tool_policy import (
    Elevation,
    ToolLayer,
    apply_layers,
    identify_speaker,
    is_shared,
    refuse_reason,
)
from openclaw.sessions.compaction.manager import CompactionManager
from openclaw.sessions.compaction.summarise import MemoryFlush, Summariser
from openclaw.sessions.compaction.summary import sections_of
from openclaw.sessions.lifecycle import SessionLifecycle, SessionPreferences
from openclaw.sessions.reply_text import ReplyOptions
from openclaw.skills.catalog import shorten_path
from openclaw.skills.invoke import SkillCall, Unknown, commands, instruction
from openclaw.skills.invoke import parse as parse_call
from openclaw.skills.service import AgentSkills, SkillGate, SkillService
from openclaw.storage.keys import StateKeys
from openclaw.tools.ask import NAME as ASK_USER
from openclaw.workspace.files import FileCache, WorkspaceFile, read
from openclaw.workspace.pins import BootstrapPins
from openclaw.workspace.seed import Workspaces

SUMMARY_THINKING = "low"
LARGEST_WINDOW = 200_000
"""The context window a tool result is cut for when no model is going to read it."""


class AgentFacts(Struct, frozen=True, kw_only=True):
    """What the configuration in force says of one agent; made anew when it is replaced."""

    loaded: LoadedConfig
    agent: ResolvedAgent
    workspace: Path
    prompt_options: PromptOptions
    exec_gate: ExecGate
    repeats: RepeatLimits


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
        platforms: Platforms,
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
        self._platforms = platforms
        self._clock = clock
        self._files = FileCache()
        self._pins = BootstrapPins(environment.home.state, live.security)
        self._prompts = PromptBuilder(machine, self._files, self._pins)
        self._facts: dict[str, AgentFacts] = {}
        self._catalogs = ToolCatalogs()
        self._hidden: tuple[Any, ...] = ()
        """Whose credentials the tools keep to themselves by now."""

    async def prepare(self, turn: RunRequest, session: OpenedSession, toolset: Toolset) -> PreparedTurn:
        """Model, tools and prompt for a turn; the prompt goes on record."""
        await self._plugins.ready()
        key, session_id, config = turn.key, session.row.session_id, self._live.current.config
        facts = self._facts_of(key.agent)
        chosen = await self._lifecycle.preferences(key)
        if turn.options is not None:
            chosen = with_options(chosen, turn.options, millis(self._clock))
        spending = self._routes.meter(turn.run_id, key, session_id, chosen.response_usage)
        hooks = self._hooks.turn(turn, session_id, facts.workspace) if self._hooks.hooks.any else None
        other = await hooks.model(turn, chosen.model, self._models.model_set(facts.agent.id)) if hooks else None
        route = await self._routes.open(
            other or turn, facts.agent, chosen, spending, picked=other is None, carried=True
        )
        model = route.attempt.model
        caps = await hooks.prompt(turn, session.known.context.messages) if hooks else ()
        await toolset.ready()
        place = Path(turn.place) if turn.place else facts.workspace
        given = tuple(map(Path, turn.skills))
        skills = self._skills.known(facts.agent.id, facts.workspace, place, first_use=True, here=True, given=given)
        if skills is None:
            skills = await asyncio.to_thread(self._skills_of, facts.agent.id, turn.place, first_use=True, given=given)
        elevated = self._sandboxes.elevation(key, chosen, millis(self._clock))
        labels = self._labels(key, skills, turn, session)
        # Ours come last: a caller's function never takes the place of a tool that policy looks after.
        layer = ToolLayer(name="turn", allow=turn.tools_allow, deny=turn.tools_deny)
        person = turn.trigger == "user" and not (key.is_cron or key.is_hook or key.is_subagent)
        if not person and not reaches_person(turn):
            caps = (*caps, ToolLayer(name="nobody answers here", deny=(ASK_USER,)))
        ours = toolset.of(key, (layer, *caps), model=model.ref, level=elevated.level)
        tools = [*(ClientToolCall(each) for each in turn.client_tools), *ours]
        runner = self._runner(
            key,
            tools,
            skills,
            model,
            labels=labels,
            run_id=turn.run_id,
            chosen=turn.options,
            searches=True,
        )
        chat = gather_chat(turn, self._platforms, config, {spec.name for spec in runner.all_specs})
        options = ReplyOptions.of(
            chosen.reasoning_level,
            chosen.verbose_level,
            enforce_final=bool(model.compat.reasoning_tags),
            by_tool=chat.message_tool_only,
        )
        files, changes = await self._bootstrap(key, session_id) if self._hook_files.on else (None, ())
        theirs, said = await hooks.models.contribution(model) if hooks else (NO_CONTRIBUTION, ())
        once = self._live.config.agents.defaults.bootstrap_prompt_truncation_warning == "once"
        warned = await self._last_truncation(key) if once else ()
        what = self._prompt_request(
            turn,
            facts,
            model,
            (runner.all_specs, runner.specs),
            skills,
            elevated,
            thinking=route.attempt.thinking,
            reasoning=options.reasoning,
            session_id=session_id,
            chat=chat,
            files=files,
            warned=warned,
            contribution=theirs,
        )
        built = self._prompts.make(what, config.agents.defaults)
        changes = (*changes, *said)
        told = await self._audit.record(changes, run_id=turn.run_id, session_key=str(key)) if changes else ()
        if hooks is not None:
            hooks.entries += told
            built = await hooks.applied(built, runner.specs)
        elif told:
            built = with_audit_entries(built, told, runner.specs)
        system = System(stable=built.prompt.stable, dynamic=built.prompt.dynamic)
        harness, built = self._routes.harness(turn, chosen, route, built, session_id, facts.exec_gate, runner.specs)
        if model.api != "acp":  # an external agent is sent nothing of it
            await self._archive.keep(turn.run_id, str(key), what.now, built.prompt, built.report)
        if chosen.resume_session_id is not None and session.transcript is None:
            if not isinstance(harness, Resumes):
                raise InvalidRequest("resumeSessionId: the runtime of this conversation cannot resume: use acp.")
            harness.resume(chosen.resume_session_id)
        return PreparedTurn(
            system=system,
            route=route,
            harness=harness,
            tools=runner,
            spending=spending,
            upkeep=self._upkeep(turn, facts, chosen, model, system, runner, skills, spending, labels),
            options=options,
            hooks=hooks,
            trace=chosen.trace_level == "on",
            notices=await self._tell_edits(turn, skills, built.changed)
            if person and (skills.edited or built.changed)
            else (),
        )

    async def _tell_edits(self, turn: RunRequest, skills: AgentSkills, changed: Sequence[str]) -> tuple[str, ...]:
        """Tells the owner that skills or pinned files of theirs were edited, where nobody else reads it."""
        if turn.origins or is_shared(turn.key, self._live.config.commands.owner_allow_from):
            return ()
        await asyncio.to_thread(self._skills.told, skills)
        files = self._pins.tell(self._workspaces.of(turn.key.agent), changed)
        told = (
            f"The skill {skill.name} was edited and is used as it is now ({skill.version}). If that was not you:"
            f" openclaw skills untrust {skill.name}"
            for skill in skills.edited
        )
        return (*files, *told)

    def _facts_of(self, agent_id: str) -> AgentFacts:
        loaded = self._live.current
        facts = self._facts.get(agent_id)
        if facts is not None and facts.loaded is loaded:
            return facts
        config = loaded.config
        agent = agent_settings.resolve_agent(config.agents, agent_id)
        settings, repeats = config.tools.exec, config.tools.loop_detection
        security, ask = exec_policy(settings)
        facts = self._facts[agent_id] = AgentFacts(
            loaded=loaded,
            agent=agent,
            workspace=self._workspaces.of(agent.id),
            prompt_options=self._prompts.options(
                agent, config.agents.defaults, config.commands, self._keys.owners, config.memory.citations
            ),
            exec_gate=ExecGate(
                security=security,
                ask=ask,
                agents=exec_policies(settings, config.agents.list),
                safe_bins=settings.safe_bins,
                strict=settings.strict_inline_eval,
                settled=self._settled,
                approvals=self._approvals,
                approver=self._approver,
                clock=self._clock,
                path=os.pathsep.join((*settings.path_prepend, loaded.variables.get("PATH", os.defpath))),
            ),
            repeats=RepeatLimits(
                enabled=repeats.enabled,
                history=repeats.history_size,
                warn=repeats.warning_threshold,
                block=repeats.critical_threshold,
                breaker=repeats.global_circuit_breaker_threshold,
            ),
        )
        return facts

    def _upkeep(
        self,
        turn: RunRequest,
        facts: AgentFacts,
        chosen: SessionPreferences,
        model: Model,
        system: System,
        runner: ToolRunner,
        skills: AgentSkills,
        spending: RunMeter,
        labels: RunLabels,
    ) -> CompactionManager:
        """Builds what keeps the conversation of a turn within its model's window."""
        defaults = facts.loaded.config.agents.defaults
        settings, flushing = defaults.compaction, defaults.compaction.memory_flush

        async def aside(ref: str | None, level: str | None) -> FailoverRoute:
            asked = msgspec.structs.replace(turn, model=ref or turn.model, thinking=None if level else turn.thinking)
            prefer = msgspec.structs.replace(chosen, thinking_level=level or chosen.thinking_level)
            return await self._routes.open(asked, facts.agent, prefer, spending)

        def note_tools(writing: Tool) -> ToolRunner:
            reading = [tool for tool in runner.tools if tool.spec.name == "read"]
            return self._runner(turn.key, [*reading, writing], skills, model, sees_images=False, labels=labels)

        level = settings.thinking_level or SUMMARY_THINKING
        thinking = None if level == "inherit" else level
        summarising = model
        if settings.model:
            models = self._models.model_set(facts.agent.id)
            summarising = models.model(models.resolve(settings.model))
        # Notes are not written where the assistant may not write, nor in errands without a person.
        may_write = any(tool.spec.name == "write" for tool in runner.tools)
        flush = None
        if flushing.enabled and may_write and not (turn.key.is_cron or turn.key.is_subagent):
            flush = MemoryFlush(
                flushing,
                ModelAsker(partial(aside, flushing.model, None), self._clock),
                note_tools,
                self._clock,
                workspace=facts.workspace,
                timezone=defaults.user_timezone or self._machine.timezone,
            )
        asker = ModelAsker(partial(aside, settings.model, thinking), self._clock)

        def sections() -> str:
            if not settings.post_compaction_sections:
                return ""
            file = read(facts.workspace, facts.workspace / "AGENTS.md")
            return sections_of(file.content, settings.post_compaction_sections, facts.agent.post_compaction_chars)

        return CompactionManager(
            settings=settings,
            pruning=defaults.context_pruning,
            model=model,
            system=system,
            tools=runner.specs,
            compactor=Summariser(settings, asker, NO_TOOLS, self._clock, window=summarising.context_window),
            flush=flush,
            clock=self._clock,
            sections=sections,
        )

    async def _last_truncation(self, key: SessionKey) -> tuple[str, ...]:
        """The cuts of workspace files that a session's model was told of, where it is told of each once."""
        last = await self._archive.latest_report(str(key))
        return last.bootstrap_truncation.warning_signatures_seen if last and last.bootstrap_truncation else ()

    async def preview(self, turn: RunRequest, toolset: Toolset, mode: Mode | None = None) -> PromptPreview:
        """The prompt that `turn` would get now, built as `prepare` builds it; no model is called, none needs a key.

        What hooks add depends on the message, so it is not in it.
        """
        await self._plugins.ready()
        key, once = turn.key, self._live.config.agents.defaults.bootstrap_prompt_truncation_warning == "once"
        facts, chosen = self._facts_of(key.agent), await self._lifecycle.preferences(key)
        model_set = self._models.model_set(facts.agent.id)
        wanted = turn.model or chosen.model
        model = model_set.model(model_set.resolve(wanted) if wanted else model_set.default)
        await toolset.ready()
        skills = await asyncio.to_thread(self._skills_of, facts.agent.id, turn.place, first_use=False)
        elevated = self._sandboxes.elevation(key, chosen, millis(self._clock))
        tools = toolset.of(key, model=model.ref, level=elevated.level)
        runner = self._runner(key, tools, skills, model, labels=self._labels(key, skills), searches=True)
        chat = gather_chat(turn, self._platforms, self._live.config, {spec.name for spec in runner.all_specs})
        options = ReplyOptions.of(chosen.reasoning_level, chosen.verbose_level, by_tool=chat.message_tool_only)
        what = self._prompt_request(
            turn,
            facts,
            model,
            (runner.all_specs, runner.specs),
            skills,
            elevated,
            thinking=self._models.thinking(model, turn.thinking, facts.agent, chosen.thinking_level),
            reasoning=options.reasoning,
            chat=chat,
            files=(await self._bootstrap(key))[0] if self._hook_files.on else None,
            warned=await self._last_truncation(key) if once else (),
            contribution=(await ModelHooks(self._hooks.hooks, hook_context(turn), self._clock).contribution(model))[0],
        )
        what = msgspec.structs.replace(what, mode=mode, source="estimate")
        built = self._prompts.make(what, self._live.config.agents.defaults)
        built = self._routes.carried(turn, chosen, model, built, facts.exec_gate, runner.specs)
        return PromptPreview(built=built, tools=runner.specs, window=model.context_window)

    async def _bootstrap(
        self, key: SessionKey, session_id: str = ""
    ) -> tuple[tuple[WorkspaceFile, ...] | None, Sequence[AuditChange]]:
        """The files of a prompt as hooks leave them, None when no hook has a say; and what the hooks did to them."""
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
        """The tools of a session for a call outside a run, less those called `without`; a question needs a run."""
        tools = toolset.of(key)
        kept, _ = apply_layers(
            [tool.spec.name for tool in tools], [ToolLayer(name="caller", deny=(*without, ASK_USER))]
        )
        tools = [tool for tool in tools if tool.spec.name in kept]
        skills = self._skills_of(key.agent, "", first_use=False)
        return self._runner(key, tools, skills, None, labels=self._labels(key, skills))

    async def runner_of_run(
        self, toolset: Toolset, key: SessionKey, run_id: str, turn: RunRequest | None, origins: Sequence[Origin]
    ) -> ToolRunner:
        """The tools of a run that went on, for a call of it that was allowed since; `origins` is what it had read."""
        await self._plugins.ready()
        await toolset.ready()
        layers = (ToolLayer(name="turn", allow=turn.tools_allow, deny=turn.tools_deny),) if turn is not None else ()
        chosen = await self._lifecycle.preferences(key)
        level = self._sandboxes.elevation(key, chosen, millis(self._clock)).level
        place = turn.place if turn is not None else ""
        skills = await asyncio.to_thread(self._skills_of, key.agent, place, first_use=False)
        labels = self._labels(key, skills, turn, read=origins)
        return self._runner(key, toolset.of(key, layers, level=level), skills, None, labels=labels, run_id=run_id)

    def _labels(
        self,
        key: SessionKey,
        skills: AgentSkills,
        turn: RunRequest | None = None,
        session: OpenedSession | None = None,
        read: Sequence[Origin] = (),
    ) -> RunLabels:
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
            self._facts_of(key.agent).workspace,
            trusted=self._workspaces.trust(key.agent).trusted,
            place=turn.place if turn and turn.place and self._workspaces.trusts(turn.place) else "",
            boxes=self._sandboxes.root(self._sandboxes.rules(key.agent)) if self._sandboxes.is_boxed(key) else None,
            skills=skills.labels,
            origins=turn.origins if turn and session else read,
            earlier=session.known.origins if turn and session else (),
            said=session.known.context.messages if session else (),
            path=self._facts_of(key.agent).exec_gate.path,
            egress=self._live.config.tools.web.egress_budget,
            agent_id=key.agent,
            fresh=turn is not None and turn.trigger == "user" and not (key.is_subagent or key.is_cron or key.is_hook),
            begins=str(key) if turn is not None and session is not None and turn.trigger != "system" else "",
        )

    def called_skill(self, agent_id: str, text: str, taken: Sequence[str], given: Sequence[str] = ()) -> str | None:
        """The message a call of a skill (`/skill:name`, `/name`) stands for; None when it calls none."""
        skills = self._skills_of(agent_id, "", first_use=True, given=tuple(map(Path, given)))
        match parse_call(text, skills.items, taken):
            case SkillCall() as call:
                location = shorten_path(str(call.item.skill.file_path), str(self._home_dir))
                return instruction(call, location)
            case Unknown(name, why):
                raise InvalidRequest(f"{name}: {why}")
            case _:
                return None

    def skills_of(self, agent_id: str) -> AgentSkills:
        """The skills of an agent as they are now, without accepting new ones."""
        return self._skills_of(agent_id, "", first_use=False)

    def skill_commands(self, agent_id: str, taken: Sequence[str]) -> dict[str, str]:
        """The commands that call skills, with what each skill is for."""
        found = commands(self.skills_of(agent_id).items, taken)
        return {name: sanitize_line(item.skill.manifest.description) for name, item in found.items()}

    def _skills_of(self, agent_id: str, place: str, *, first_use: bool, given: tuple[Path, ...] = ()) -> AgentSkills:
        """The skills of an agent, those of the project the person is in included."""
        workspace = self._workspaces.of(agent_id)
        cwd = Path(place) if place else workspace
        return self._skills.look(agent_id, workspace, cwd, first_use=first_use, given=given)

    def _runner(
        self,
        key: SessionKey,
        tools: Sequence[Tool],
        skills: AgentSkills,
        model: Model | None,
        *,
        labels: RunLabels,
        sees_images: bool = True,
        run_id: str = "",
        chosen: TurnOptions | None = None,
        searches: bool = False,
    ) -> ToolRunner:
        """Runs calls of `tools` for a session; `model` reads their results, and `searches` for tools without schema."""
        facts = self._facts_of(key.agent)
        exec_gate = facts.exec_gate
        if chosen is not None and (chosen.exec_security or chosen.exec_ask):
            security, ask = exec_gate.agents.get(key.agent, (exec_gate.security, exec_gate.ask))
            own = (chosen.exec_security or security, chosen.exec_ask or ask)
            exec_gate = msgspec.structs.replace(exec_gate, agents={**exec_gate.agents, key.agent: own})
        gate = self._label_service.gate(key.agent, exec_gate, labels)
        window = model.context_window if model is not None and self._live.config.tools.tool_search else 0
        catalog = self._catalogs.get(key.agent, tools, window, ClientToolCall) if searches else ToolCatalog(tools)
        return ToolRunner(
            catalog,
            ToolContext(
                call_id="",
                workspace=facts.workspace,
                session_key=str(key),
                run_id=run_id,
                tools=catalog.names,
                agent_id=key.agent,
                accepts_images=sees_images and (model is None or "image" in model.input),
                env={name: value.reveal() for name, value in skills.variables.items()},
            ),
            (SkillGate(self._skills.guard(skills), self._approver), gate),
            self._clock,
            repeats=RepeatDetector(facts.repeats),
            cap=result_cap(model.context_window if model else LARGEST_WINDOW),
            interceptor=self._hooks.tools if self._hooks.hooks.any else None,
            labels=labels,
        )

    def _prompt_request(
        self,
        turn: RunRequest,
        facts: AgentFacts,
        model: Model,
        tools: tuple[Sequence[ToolSpec], Sequence[ToolSpec]],
        skills: AgentSkills,
        elevated: Elevation,
        **more: Any,
    ) -> PromptRequest:
        """All a prompt is made from; `tools` are those there are, and those that are sent."""
        config, key = facts.loaded.config, turn.key
        return PromptRequest(
            key=key,
            shared=is_shared(key, config.commands.owner_allow_from),
            light=turn.light or (turn.alert is not None and turn.alert.light),
            sandbox=self._sandbox_facts(key, elevated) if self._sandboxes.is_boxed(key) else None,
            sandbox_mode=self._sandboxes.rules(key.agent).mode,
            external_agents=config.acp.enabled and bool(config.acp.agents),
            completion_wake=config.tools.exec.notify_on_exit,
            workspace=facts.workspace,
            untrusted=not self._workspaces.trust(key.agent).trusted,
            skills=skills.prompt,
            model=model,
            default_model=self._models.model_set(facts.agent.id).default_name,
            tools=tools[0],
            sent=tools[1],
            options=facts.prompt_options,
            terminal=turn.place,
            extra=PromptText(turn.extra, "the caller", "owner") if turn.extra.strip() else None,
            now=millis(self._clock),
            **more,
        )

    def _sandbox_facts(self, key: SessionKey, level: Elevation) -> SandboxFacts:
        """What the prompt says about the sandbox of a session."""
        rules = self._sandboxes.rules(key.agent)
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
