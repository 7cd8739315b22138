"""Slash commands: typed into any chat and answered by the gateway; no model sees them."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Literal

from msgspec import Struct

from openclaw.budget.service import BudgetService
from openclaw.core.clock import Clock, millis
from openclaw.core.commands import NAMES, SlashCommand, parse_command
from openclaw.core.errors import InvalidRequest, OpenClawError
from openclaw.core.keys import SessionKey
from openclaw.core.plugin import Command as PluginCommand
from openclaw.core.plugin import CommandCall, CommandReply
from openclaw.core.settings import Live
from openclaw.core.tool import ApprovalRequest
from openclaw.models import thinking
from openclaw.models.service import ModelService
from openclaw.plugins.host import call_function
from openclaw.plugins.registry import PluginRegistry
from openclaw.prompt.archive import PromptArchive
from openclaw.prompt.builder import entry_to_change
from openclaw.prompt.report import ChangeLine, PromptReport, render_detail, render_list
from openclaw.runs.control import SessionControl
from openclaw.runs.prepare import TurnPreparer
from openclaw.runs.queue import parse_mode
from openclaw.runs.toolset import Toolset
from openclaw.runs.worker import RunService
from openclaw.security.approvals import PendingApprovals
from openclaw.security.audit_log import AuditLog
from openclaw.security.sandboxes.service import SandboxService
from openclaw.security.settings import CommandsSettings
from openclaw.security.tool_policy import LEVELS, identify_speaker, refuse_reason
from openclaw.sessions.compaction.plan import compactions
from openclaw.sessions.index import SessionIndex
from openclaw.sessions.lifecycle import SessionLifecycle
from openclaw.sessions.reply_text import REASONING, VERBOSE
from openclaw.sessions.service import SessionService
from openclaw.sessions.transcript import path_to_leaf
from openclaw.tools.settings import ToolsSettings
from openclaw.version import __version__

MEANING = {
    "off": "commands stay in the sandbox",
    "on": "commands run outside the sandbox; what is not on the allowlist is asked about",
    "ask": "commands run outside the sandbox; what is not on the allowlist is asked about",
    "full": "commands run outside the sandbox under tools.exec alone",
}


# The catalogue.

MODEL_FIELDS = ("modelOverride", "providerOverride")

Category = Literal["session", "options", "status", "management", "media", "tools"]


class CommandEntry(Struct, frozen=True):
    """One command of the catalogue."""

    name: str
    description: str
    category: Category
    args: str = ""
    source: Literal["native", "plugin"] = "native"

    def shown(self) -> dict[str, Any]:
        """The entry for `commands.list`."""
        return {
            "name": self.name,
            "textAliases": [f"/{self.name}"],
            "description": self.description,
            "category": self.category,
            "source": self.source,
            "scope": "text",
            "acceptsArgs": bool(self.args),
        }


CATALOG = (
    CommandEntry("help", "what can be typed here", "status"),
    CommandEntry("status", "model, session, tokens, cost", "status"),
    CommandEntry("context", "what the prompt is made of", "status", "[list|detail]"),
    CommandEntry("whoami", "which session and agent this is", "status"),
    CommandEntry("stop", "stop the run and forget what waits", "session"),
    CommandEntry("new", "start a new conversation", "session", "[first message]"),
    CommandEntry("reset", "the same as /new", "session", "[first message]"),
    CommandEntry("name", "rename this conversation", "session", "TITLE"),
    CommandEntry("compact", "summarise the older part of this conversation", "session", "[what to pay attention to]"),
    CommandEntry("model", "show or choose the model of this conversation", "options", "[REF|default]"),
    CommandEntry("think", "show or choose how hard to think", "options", "[LEVEL|default]"),
    CommandEntry("verbose", "show or choose whether tools are reported", "options", "[on|full|off|default]"),
    CommandEntry("reasoning", "show or choose whether reasoning is visible", "options", "[on|stream|off|default]"),
    CommandEntry(
        "usage", "what was spent; or a line about it under every answer", "options", "[cost|tokens|full|off|reset]"
    ),
    CommandEntry(
        "queue", "what happens to messages while busy", "options", "[steer|followup|collect|interrupt|default]"
    ),
    CommandEntry("elevated", "let commands out of the sandbox for a while", "options", "[on|ask|full|off]"),
    CommandEntry("capabilities", "everything this agent can do, and who can reach it", "status"),
    CommandEntry("approve", "answer a question about a command", "management", "ID allow-once|allow-always|deny"),
)


def catalog(extensions: PluginRegistry) -> list[CommandEntry]:
    """Every command, those of plugins last."""
    more = [CommandEntry(each.name, each.description, "tools", each.args, "plugin") for each in extensions.commands()]
    return [*CATALOG, *more]


def plugin_command(extensions: PluginRegistry, text: str) -> tuple[PluginCommand, str] | None:
    """The plugin command that a message is, with its arguments."""
    word, _, args = text.strip().partition(" ")
    found = extensions.command(word.removeprefix("/").lower()) if word.startswith("/") else None
    return None if found is None else (found, args.strip())


# Answering.


class CommandResult(Struct, frozen=True):
    """What a command says, and the text that is left for the assistant."""

    text: str
    message: str = ""


class SlashCommands:
    """Answers commands, the same in every client."""

    def __init__(
        self,
        sessions: SessionService,
        control: SessionControl,
        lifecycle: SessionLifecycle,
        runs: RunService,
        models: ModelService,
        index: SessionIndex,
        plugins: PluginRegistry,
        clock: Clock,
        preparer: TurnPreparer,
        sandboxes: SandboxService,
        budget: BudgetService,
        archive: PromptArchive,
        audit: AuditLog,
        tools_settings: Live[ToolsSettings],
        commands_settings: Live[CommandsSettings],
        approvals: PendingApprovals,
        toolset: Toolset,
        describe_agent: Callable[[str], Awaitable[Sequence[str]]],
    ) -> None:
        self._toolset = toolset
        self._describe_agent = describe_agent
        """What an agent can do, in lines for `/capabilities`."""
        self._sessions = sessions
        self._control = control
        self._lifecycle = lifecycle
        self._runs = runs
        self._models = models
        self._index = index
        self._plugins = plugins
        self._clock = clock
        self._preparer = preparer
        self._sandboxes = sandboxes
        self._budget = budget
        self._archive = archive
        self._audit = audit
        self._tools_settings = tools_settings
        self._commands_settings = commands_settings
        self._approvals = approvals
        self._handlers: dict[str, Callable[[SessionKey, str], Awaitable[CommandResult]]] = {
            "help": self._help,
            "status": self._status,
            "context": self._context,
            "whoami": self._whoami,
            "name": self._name,
            "compact": self._compact,
            "model": self._model,
            "think": self._think,
            "verbose": self._verbose,
            "reasoning": self._reasoning,
            "usage": self._usage,
            "queue": self._queue,
            "approve": self._approve,
            "elevated": self._elevated,
            "capabilities": self._capabilities,
        }

    async def answer(self, key: SessionKey, text: str, source: str = "") -> CommandResult | None:
        """The reply to a message that is a command; None when it is for the assistant."""
        command: SlashCommand | None = parse_command(text)
        try:
            if command is None:
                if not text.lstrip().startswith("/"):
                    return None
                if (extra := plugin_command(self._plugins, text)) is not None:
                    return await self._plugin(key, *extra)
                called = self._preparer.called_skill(key.agent, text, tuple(NAMES))
                return CommandResult("", called) if called else None
            if command.name == "new" or command.name == "reset":
                return await self._new(key, command.args, "new" if command.name == "new" else "reset", source)
            if command.name == "stop":
                return await self._stop(key, source)
            reply = await self._handlers[command.name](key, command.args)
            await self._control.commanded(key, command.name, source=source)
            return reply
        except OpenClawError as error:
            return CommandResult(error.message)

    async def _plugin(self, key: SessionKey, command: PluginCommand, args: str) -> CommandResult:
        call = CommandCall(name=command.name, args=args, session_key=str(key), agent_id=key.agent)
        said = await call_function(command.run, call)
        reply = said if isinstance(said, CommandReply) else CommandReply(text=str(said))
        return CommandResult(reply.text, reply.then)

    async def _help(self, key: SessionKey, args: str) -> CommandResult:
        entries = catalog(self._plugins)
        return CommandResult(
            "\n".join(f"/{entry.name} {entry.args}".rstrip() + f": {entry.description}" for entry in entries)
        )

    async def _stop(self, key: SessionKey, source: str) -> CommandResult:
        stopped = await self._control.stop(key, source=source)
        return CommandResult(f"Stopped ({len(stopped)})." if stopped else "Nothing is running.")

    async def _new(self, key: SessionKey, args: str, action: Literal["new", "reset"], source: str) -> CommandResult:
        _, said = await self._control.start_over(key, action, source=source)
        return CommandResult("\n\n".join(("A new conversation. The old one is kept on disk.", *said)), args)

    async def _name(self, key: SessionKey, args: str) -> CommandResult:
        if not args:
            raise InvalidRequest("give a title: /name Holiday plans")
        await self._prefer(key, label=args[:512])
        return CommandResult(f"This conversation is called {args[:512]}.")

    async def _prefer(self, key: SessionKey, **chosen: Any) -> None:
        await self._lifecycle.prefer(key, chosen)
        await self._sessions.changed(key, "patch")

    async def _compact(self, key: SessionKey, args: str) -> CommandResult:
        done = await self._control.compact(key, args)
        return CommandResult(f"{done.line[0].upper()}{done.line[1:]}.")

    async def _whoami(self, key: SessionKey, args: str) -> CommandResult:
        return CommandResult(f"Session {key}, agent {key.agent}.")

    async def _status(self, key: SessionKey, args: str) -> CommandResult:
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
            f"Session: {key}" + (f", {row.messages} messages" if row else ", nothing said yet"),
            f"Context: {used}{await self._passes(key)}",
        ]
        if row and row.total_tokens:
            cost = f", ${row.cost_usd:.4f}" if row.cost_usd is not None else ", price unknown"
            lines.append(f"Used: {row.total_tokens:,} tokens{cost}")
        lines += await self._budget.standing(key)
        lines.append(f"Thinking: {chosen.thinking_level or 'default'}. Queue: {chosen.queue_mode or 'steer'}.")
        if chosen.reasoning_level or chosen.verbose_level:
            lines.append(f"Reasoning: {chosen.reasoning_level or 'off'}. Verbose: {chosen.verbose_level or 'off'}.")
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

    async def _context(self, key: SessionKey, args: str) -> CommandResult:
        report = await self._archive.latest_report(str(key))
        if report is None:
            report = self._preparer.preview(self._toolset, key, files=await self._preparer.bootstrap_files(key)).report
        row = await self._index.get(key)
        used = row.context_tokens if row else None
        if args.strip() != "detail":
            return CommandResult(render_list(report, session_tokens=used))
        return CommandResult(render_detail(report, session_tokens=used, later=await self._later(key, report)))

    async def _later(self, key: SessionKey, report: PromptReport) -> list[ChangeLine]:
        """What plugins changed in the last run, after its prompt was built."""
        run_id = await self._archive.last_run(str(key))
        entries = await asyncio.to_thread(self._audit.entries, run_id) if run_id else []
        if not entries:
            return []

        told = {change.seq for change in report.changes}
        return [entry_to_change(entry) for entry in reversed(entries) if entry.seq not in told]

    async def _model(self, key: SessionKey, args: str) -> CommandResult:
        situation = self._models.model_set(key.agent)
        if not args or args == "status":
            chosen = (await self._lifecycle.preferences(key)).model
            return CommandResult(f"Model: {chosen or situation.default}. Choose with /model provider/model.")
        if args == "default":
            await self._lifecycle.prefer(key, {"model": None})
            return CommandResult(f"Model: {situation.default}.")
        ref = situation.resolve(args)
        situation.credentials(ref, self._sessions.now)
        await self._prefer(key, model=str(ref))
        return CommandResult(f"Model: {ref}, from the next message on.")

    async def _think(self, key: SessionKey, args: str) -> CommandResult:
        if not args:
            chosen = (await self._lifecycle.preferences(key)).thinking_level
            return CommandResult(f"Thinking: {chosen or 'default'}. Levels: {', '.join(thinking.LEVELS)}.")
        level = thinking.parse(args)
        await self._prefer(key, thinking_level=level)
        return CommandResult(f"Thinking: {level or 'default'}.")

    async def _verbose(self, key: SessionKey, args: str) -> CommandResult:
        chosen = (await self._lifecycle.preferences(key)).verbose_level
        level = await self._level(key, "verbose_level", args, chosen, VERBOSE)
        meaning = {"off": "tools work quietly", "on": "one line for each tool", "full": "tools with their output"}
        return CommandResult(f"Verbose: {level} ({meaning[level]}).")

    async def _reasoning(self, key: SessionKey, args: str) -> CommandResult:
        chosen = (await self._lifecycle.preferences(key)).reasoning_level
        level = await self._level(key, "reasoning_level", args, chosen, REASONING)
        meaning = {"off": "hidden", "on": "shown with each answer", "stream": "shown while it is written"}
        return CommandResult(f"Reasoning: {level} ({meaning[level]}).")

    async def _level(self, key: SessionKey, field: str, args: str, chosen: str | None, levels: tuple[str, ...]) -> str:
        """Shows or sets one of `levels`."""
        wanted = args.strip().lower()
        if not wanted:
            return chosen if chosen in levels else "off"
        if wanted not in (*levels, "default"):
            raise InvalidRequest(f"{args!r} is not a level: use {', '.join(levels)} or default")
        await self._prefer(key, **{field: None if wanted == "default" else wanted})
        return "off" if wanted == "default" else wanted

    async def _usage(self, key: SessionKey, args: str) -> CommandResult:
        word = args.strip().lower()
        if word in ("", "cost"):
            return CommandResult("\n".join(await self._budget.summary(key)))
        if word not in ("off", "tokens", "full", "on", "reset", "default"):
            raise InvalidRequest("write: /usage cost, tokens, full, off or reset")
        mode = None if word in ("reset", "default") else "full" if word == "on" else word
        await self._prefer(key, response_usage=mode)
        return CommandResult(f"Usage under every answer: {mode or 'default (off)'}.")

    async def _queue(self, key: SessionKey, args: str) -> CommandResult:
        if not args:
            chosen = (await self._lifecycle.preferences(key)).queue_mode
            return CommandResult(f"Queue: {chosen or 'steer'}. Modes: steer, followup, collect, interrupt.")
        mode = None if args in ("default", "reset") else parse_mode(args.split()[0])
        await self._lifecycle.prefer(key, {"queue_mode": mode})
        return CommandResult(f"Queue: {mode or 'steer'}.")

    async def _elevated(self, key: SessionKey, args: str) -> CommandResult:
        if not args:
            chosen = await self._lifecycle.preferences(key)
            now = self._sandboxes.elevation(key, chosen, millis(self._clock))
            boxed = self._sandboxes.is_boxed(key)
            note = "" if boxed else " This session is in no sandbox, so it changes nothing here."
            why = f" {now.why}." if now.why else ""
            return CommandResult(f"Elevated: {now.level} ({MEANING[now.level]}).{why}{note}")
        level = args.split()[0].lower()
        if level not in LEVELS:
            raise InvalidRequest("write: /elevated on, ask, full or off")
        settings, own = self._tools_settings.current.elevated, self._sandboxes.tool_settings(key.agent).elevated
        who = identify_speaker(key, self._commands_settings.current.owner_allow_from)
        if level != "off" and (why := refuse_reason(who, settings, own)):
            raise InvalidRequest(f"Elevated is not available here: {why}.")
        await self._prefer(key, elevated_level=level, elevated_at=millis(self._clock))
        lasts = f" for {settings.expires_minutes:g} minutes" if level != "off" and settings.expires_minutes else ""
        return CommandResult(f"Elevated: {level}{lasts} ({MEANING[level]}).")

    async def _capabilities(self, key: SessionKey, args: str) -> CommandResult:
        return CommandResult("\n".join(await self._describe_agent(key.agent)))

    async def _approve(self, key: SessionKey, args: str) -> CommandResult:
        words = args.split()
        if not words and (waiting := self._approvals.list()):
            return CommandResult("\n\n".join(_question(each.request) for each in waiting))
        if len(words) != 2:
            raise InvalidRequest("write: /approve ID allow-once, allow-always or deny")
        resolution = self._approvals.resolve(words[0], words[1], by="chat")
        return CommandResult(f"{resolution.id}: {resolution.decision}.")


def _question(request: ApprovalRequest) -> str:
    """An approval request as chat text: what would happen, why it is asked, what was read before."""
    read = "".join(f"\n  read before it: {each.source}" for each in request.origins[:5])
    word = "allow-once|allow-always|deny" if request.standing else "allow-once|deny"
    return f"{request.command}\n  in {request.cwd}\n  {request.why}{read}\n  /approve {request.id} {word}"
