"""Commands that show something: status, context, tools, tasks, agents, who is asking."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from operator import attrgetter

import msgspec

from openclaw.agent.settings import AgentsSettings, agent_ids, default_agent
from openclaw.budget.service import BudgetService
from openclaw.core.clock import Clock, millis
from openclaw.core.errors import InvalidRequest
from openclaw.core.keys import SessionKey
from openclaw.core.settings import Live
from openclaw.core.text import sanitize_line
from openclaw.models.service import ModelService
from openclaw.plugins.registry import PluginRegistry
from openclaw.prompt.archive import PromptArchive
from openclaw.prompt.builder import entry_to_change
from openclaw.prompt.report import ChangeLine, PromptReport, render_detail, render_list
from openclaw.runs.commands.catalog import SHORT, CommandHandler, CommandRequest, CommandResult, catalog
from openclaw.runs.prepare import TurnPreparer
from openclaw.runs.queue import QueuePolicy
from openclaw.runs.request import RunRequest
from openclaw.runs.subagents import SubagentStore
from openclaw.runs.toolset import Toolset
from openclaw.runs.worker import RunService
from openclaw.security.audit_log import AuditLog
from openclaw.security.tool_policy import GROUPS
from openclaw.sessions.compaction.plan import compactions
from openclaw.sessions.index import SessionIndex
from openclaw.sessions.lifecycle import SessionLifecycle
from openclaw.sessions.service import SessionService
from openclaw.sessions.transcript import path_to_leaf
from openclaw.version import __version__

MODEL_FIELDS = ("modelOverride", "providerOverride")


class StatusCommands:
    """Answers questions about a session and the agent behind it; changes nothing."""

    def __init__(
        self,
        sessions: SessionService,
        lifecycle: SessionLifecycle,
        runs: RunService,
        models: ModelService,
        index: SessionIndex,
        plugins: PluginRegistry,
        clock: Clock,
        preparer: TurnPreparer,
        budget: BudgetService,
        archive: PromptArchive,
        audit: AuditLog,
        toolset: Toolset,
        queue: QueuePolicy,
        roster: SubagentStore,
        agents_settings: Live[AgentsSettings],
        describe_agent: Callable[[str], Awaitable[Sequence[str]]],
    ) -> None:
        self._sessions = sessions
        self._lifecycle = lifecycle
        self._runs = runs
        self._models = models
        self._index = index
        self._plugins = plugins
        self._clock = clock
        self._preparer = preparer
        self._budget = budget
        self._archive = archive
        self._audit = audit
        self._toolset = toolset
        self._queue = queue
        self._roster = roster
        self._agents_settings = agents_settings
        self._describe_agent = describe_agent
        """What an agent can do, in lines for `/capabilities`."""
        self.handlers: dict[str, CommandHandler] = {
            "help": self._help,
            "commands": self._commands,
            "status": self._status,
            "context": self._context,
            "whoami": self._whoami,
            "tools": self._tools,
            "agents": self._agents,
            "session": self._session,
            "tasks": self._tasks,
            "capabilities": self._capabilities,
        }

    async def _help(self, call: CommandRequest) -> CommandResult:
        entries = {entry.name: entry for entry in catalog(self._plugins)}
        return CommandResult("\n".join(entries[name].line for name in SHORT))

    async def _commands(self, call: CommandRequest) -> CommandResult:
        return CommandResult("\n".join(entry.line for entry in catalog(self._plugins)))

    async def _whoami(self, call: CommandRequest) -> CommandResult:
        who = f"{call.source}:{call.sender}" if call.sender else "a client of the gateway"
        right = "You are the owner." if call.owner else "You may give commands; settings are the owner's."
        return CommandResult(f"You are {who}. {right} Session {call.key}, agent {call.key.agent}.")

    async def _status(self, call: CommandRequest) -> CommandResult:
        if call.args == "plugins":
            lines = [
                f"{each.id}: {each.state}{f' ({each.why})' if each.why else ''}" for each in self._plugins.statuses()
            ]
            return CommandResult("\n".join(lines) or "No plugins.")
        if call.args:
            raise InvalidRequest("write: /status, or /status plugins")
        key = call.key
        row = await self._index.get(key)
        chosen = await self._lifecycle.preferences(key)
        situation = self._models.model_set(key.agent)
        ref = situation.resolve(chosen.model) if chosen.model else situation.default
        model = situation.model(ref)
        waiting = len(self._runs.active(key))
        used = f"{row.context_tokens if row else 0:,} of {model.context_window:,} tokens"
        lines = [
            f"OpenClaw {__version__}",
            f"Model: {ref}" + ("" if chosen.model else f" ({situation.pick.why})") + await self._overridden(key),
            f"Runtime: {self._models.runtime(key.agent, model, chosen.agent_runtime).line}",
            f"Session: {key}" + (f", {row.messages} messages" if row else ", nothing said yet"),
            f"Context: {used}{await self._passes(key)}",
        ]
        report = await self._archive.latest_report(str(key))
        cut = [file for file in report.injected_workspace_files if file.truncated] if report else []
        lines += [f"{file.name}: {file.injected_chars:,} of {file.raw_chars:,} characters are sent" for file in cut]
        if row and row.total_tokens:
            cost = f", ${row.cost_usd:.4f}" if row.cost_usd is not None else ", price unknown"
            lines.append(f"Used: {row.total_tokens:,} tokens{cost}")
        lines += await self._budget.standing(key)
        queue = await self._queue.of(key)
        lines.append(f"Thinking: {chosen.thinking_level or 'default'}. Queue: {queue.mode}.")
        if chosen.reasoning_level or chosen.verbose_level:
            lines.append(f"Reasoning: {chosen.reasoning_level or 'off'}. Verbose: {chosen.verbose_level or 'off'}.")
        if chosen.send_policy:
            lines.append(f"Answers to the channel: {'on' if chosen.send_policy == 'allow' else 'off'} (/send).")
        lines.append(f"Running: {'yes' if self._runs.is_running(key) else 'no'}, {waiting} in this conversation.")
        return CommandResult("\n".join(lines))

    async def _overridden(self, key: SessionKey) -> str:
        """Who chose another model for the last answer, if anyone did."""
        report = await self._archive.latest_report(str(key))
        chosen = [each for each in report.changes if each.field in MODEL_FIELDS and not each.refused] if report else []
        if not chosen or report is None:
            return ""
        names = ", ".join(dict.fromkeys(each.plugin for each in chosen))
        return f"; the last answer came from {report.provider}/{report.model}, chosen by plugin {names}"

    async def _passes(self, key: SessionKey) -> str:
        """How often the conversation was compacted, if it was."""
        _, loaded = await self._sessions.load(key)
        count = compactions(path_to_leaf(loaded.entries)) if loaded else 0
        return f", compacted {count} time{'s' if count > 1 else ''}" if count else ""

    async def _context(self, call: CommandRequest) -> CommandResult:
        key, how = call.key, call.args.strip().lower() or "list"
        if how not in ("list", "detail", "json"):
            raise InvalidRequest("write: /context list, detail or json")
        chosen, models = await self._lifecycle.preferences(key), self._models.model_set(key.agent)
        model = models.model(models.resolve(chosen.model) if chosen.model else models.default)
        runtime = self._models.runtime(key.agent, model, chosen.agent_runtime)
        if runtime.id == "acp":
            return CommandResult(f"Runtime: {runtime.line}. It is sent the conversation and nothing of our prompt.")
        report = await self._archive.latest_report(str(key))
        if report is None:
            turn = RunRequest(run_id="", key=key, text="")
            report = (await self._preparer.preview(turn, self._toolset)).built.report
        if how == "json":
            return CommandResult(msgspec.json.format(msgspec.json.encode(report), indent=1).decode())
        row = await self._index.get(key)
        used = row.context_tokens if row else None
        situation = self._models.model_set(key.agent)
        window = situation.model(situation.resolve(f"{report.provider}/{report.model}")).context_window
        if how == "list":
            told = render_list(report, session_tokens=used, window=window)
        else:
            later = await self._later(key, report)
            told = render_detail(report, session_tokens=used, window=window, later=later)
        return CommandResult(f"{told}\nRuntime: {runtime.line}")

    async def _later(self, key: SessionKey, report: PromptReport) -> list[ChangeLine]:
        """What plugins changed in the last run, after its prompt was built."""
        run_id = await self._archive.last_run(str(key))
        entries = await asyncio.to_thread(self._audit.entries, run_id) if run_id else []
        if not entries:
            return []

        told = {change.seq for change in report.changes}
        return [entry_to_change(entry) for entry in reversed(entries) if entry.seq not in told]

    async def _tools(self, call: CommandRequest) -> CommandResult:
        how = call.args.lower() or "compact"
        if how not in ("compact", "verbose"):
            raise InvalidRequest("write: /tools, or /tools verbose")
        await self._toolset.ready()
        situation = self._models.model_set(call.key.agent)
        chosen = (await self._lifecycle.preferences(call.key)).model
        ref = str(situation.resolve(chosen) if chosen else situation.default)
        specs = sorted((tool.spec for tool in self._toolset.of(call.key, model=ref)), key=attrgetter("name"))
        if not specs:
            return CommandResult("This conversation has no tools.")
        if how == "verbose":
            return CommandResult("\n".join(f"{spec.name}: {sanitize_line(spec.summary)}" for spec in specs))
        left = {spec.name for spec in specs}
        lines = []
        for group, names in GROUPS.items():
            here = sorted(left.intersection(names))
            left.difference_update(here)
            if here:
                lines.append(f"{group}: {', '.join(here)}")
        return CommandResult("\n".join((*lines, *([f"others: {', '.join(sorted(left))}"] if left else ()))))

    async def _agents(self, call: CommandRequest) -> CommandResult:
        settings = self._agents_settings.current
        usual = default_agent(settings)
        lines = []
        for name in agent_ids(settings):
            notes = [
                *(["default"] if name == usual else ()),
                *(["this conversation"] if name == call.key.agent else ()),
            ]
            models = self._models.model_set(name)
            about = f" ({', '.join(notes)})" if notes else ""
            lines.append(f"{name}: {models.default}{about}")
        return CommandResult("\n".join(lines))

    async def _session(self, call: CommandRequest) -> CommandResult:
        if call.args.split()[:1] and call.args.split()[0].lower() in ("idle", "max-age", "unbind"):
            raise InvalidRequest(
                "threads are not bound to other sessions here: session.reset says when one starts over"
            )
        if call.args:
            raise InvalidRequest("write: /session; /name renames it, /new starts another one")
        row = await self._index.get(call.key)
        lines = [f"Session: {call.key}"]
        if row is None or not row.messages:
            return CommandResult("\n".join((*lines, "Nothing was said yet.")))
        chosen = await self._lifecycle.preferences(call.key)
        lines += [
            f"Id: {row.session_id}",
            f"Title: {chosen.label or row.title or 'none'}",
            f"Messages: {row.messages}",
            f"File: {self._index.path(row.agent_id, row.session_id)}",
        ]
        return CommandResult("\n".join(lines))

    async def _tasks(self, call: CommandRequest) -> CommandResult:
        runs, now = self._runs.active(call.key), millis(self._clock)
        running = self._runs.is_running(call.key)
        lines = [f"{'running' if running and not at else 'waiting'}: run {run_id}" for at, run_id in enumerate(runs)]
        for child in self._roster.below(str(call.key)):
            if child.status == "running":
                lines.append(f"sub-agent: {sanitize_line(child.name)}, {(now - child.created_at) // 1000} s")
        return CommandResult("\n".join(lines) or "Nothing runs for this conversation.")

    async def _capabilities(self, call: CommandRequest) -> CommandResult:
        return CommandResult("\n".join(await self._describe_agent(call.key.agent)))
