"""Commands that choose how a conversation is answered: model, thinking, what is shown, queueing, commands."""

import asyncio
from collections.abc import Sequence
from typing import Any, get_args

from msgspec import structs

from openclaw.budget.service import BudgetService
from openclaw.core.clock import Clock, millis
from openclaw.core.commands import SlashCommand
from openclaw.core.errors import InvalidRequest
from openclaw.core.keys import SessionKey
from openclaw.core.settings import Live
from openclaw.models import thinking
from openclaw.models.service import CHOICES, NAMES, ModelService, parse_runtime
from openclaw.prompt.archive import PromptArchive
from openclaw.runs.commands.catalog import CommandHandler, CommandRequest, CommandResult
from openclaw.runs.commands.inline import EXEC_KEYS, TRACE
from openclaw.runs.queue import NO_OPTIONS, QueueOptions, QueuePolicy, parse_queue
from openclaw.runs.request import TurnOptions
from openclaw.runs.toolset import exec_policy
from openclaw.security.audit import describe_entry
from openclaw.security.audit_log import AuditLog
from openclaw.security.sandboxes.service import SandboxService
from openclaw.security.settings import Ask, CommandsSettings, Security
from openclaw.security.tool_policy import LEVELS, identify_speaker, refuse_reason
from openclaw.sessions.lifecycle import SessionLifecycle
from openclaw.sessions.reply_text import REASONING, VERBOSE
from openclaw.sessions.service import SessionService
from openclaw.tools.settings import ToolsSettings

MEANING = {
    "off": "commands stay in the sandbox",
    "on": "commands run outside the sandbox; what is not on the allowlist is asked about",
    "ask": "commands run outside the sandbox; what is not on the allowlist is asked about",
    "full": "commands run outside the sandbox under tools.exec alone",
}
PAGE = 20
NO_HOST = (
    "commands run on this machine, in the sandbox where there is one (/elevated): host= and node= cannot be chosen"
)


class OptionCommands:
    """Shows and changes the preferences of a session."""

    def __init__(
        self,
        sessions: SessionService,
        lifecycle: SessionLifecycle,
        models: ModelService,
        sandboxes: SandboxService,
        budget: BudgetService,
        archive: PromptArchive,
        audit: AuditLog,
        queue: QueuePolicy,
        clock: Clock,
        tools_settings: Live[ToolsSettings],
        commands_settings: Live[CommandsSettings],
    ) -> None:
        self._sessions = sessions
        self._lifecycle = lifecycle
        self._models = models
        self._sandboxes = sandboxes
        self._budget = budget
        self._archive = archive
        self._audit = audit
        self._queue_policy = queue
        self._clock = clock
        self._tools_settings = tools_settings
        self._commands_settings = commands_settings
        self.handlers: dict[str, CommandHandler] = {
            "model": self._model,
            "models": self._list_models,
            "runtime": self._runtime,
            "think": self._think,
            "verbose": self._verbose,
            "trace": self._trace,
            "reasoning": self._reasoning,
            "usage": self._usage,
            "queue": self._queue,
            "elevated": self._elevated,
            "exec": self._exec,
        }

    def is_model(self, agent_id: str, word: str) -> bool:
        """Whether `word` names a model."""
        return self._models.model_set(agent_id).named(word) is not None

    async def for_turn(self, call: CommandRequest, directives: Sequence[SlashCommand]) -> CommandResult:
        """What directives inside a message choose for its turn; a model is chosen for good."""
        options, queue, level, said = TurnOptions(), NO_OPTIONS, None, []
        for name, args in ((each.name, each.args) for each in directives):
            match name:
                case "model":
                    said.append((await self._model(structs.replace(call, args=args))).text)
                case "think":
                    level = thinking.parse(args)
                case "queue":
                    queue = parse_queue(args)
                case "elevated":
                    self._check_elevated(call.key, args.lower())
                    options = structs.replace(options, elevated=args.lower())
                case "exec":
                    options = structs.replace(options, **_exec_limits(call, args))
                case _:
                    options = structs.replace(options, **{name: args.lower()})
        chosen = options if options != TurnOptions() else None
        return CommandResult("\n".join(said), thinking=level, options=chosen, queue=queue)

    async def _prefer(self, key: SessionKey, **chosen: Any) -> None:
        await self._lifecycle.prefer(key, chosen)
        await self._sessions.changed(key, "patch")

    async def _model(self, call: CommandRequest) -> CommandResult:
        key, words = call.key, call.args.split()
        situation = self._models.model_set(key.agent)
        if not words or call.args == "status":
            chosen = (await self._lifecycle.preferences(key)).model
            return CommandResult(f"Model: {chosen or situation.default}. Choose with /model provider/model.")
        runtime = None
        if "--runtime" in words:
            place = words.index("--runtime")
            runtime = parse_runtime(" ".join(words[place + 1 : place + 2]))
            words[place : place + 2] = []
            await self._prefer(key, agent_runtime=runtime)
            if not words:
                return CommandResult(f"Runtime: {NAMES.get(runtime, runtime)}, from the next message on.")
        if words[0] == "list":
            return await self._list_models(structs.replace(call, args=" ".join(words[1:])))
        if set(words[1:]) & {"-a", "-g", "--agent", "--global"}:
            raise InvalidRequest("/model chooses for this conversation; for all: /config set agents.defaults.model REF")
        if words[0] == "default":
            await self._prefer(key, model=None, agent_runtime=runtime)
            return CommandResult(f"Model: {situation.default}.")
        ref = situation.resolve(words[0])
        situation.credentials(ref, self._sessions.now)
        await self._prefer(key, model=str(ref))
        with_it = f" with the runtime {NAMES.get(runtime, runtime)}" if runtime else ""
        return CommandResult(f"Model: {ref}{with_it}, from the next message on.")

    async def _runtime(self, call: CommandRequest) -> CommandResult:
        if call.args.strip().lower() == "default":
            await self._prefer(call.key, agent_runtime=None)
        elif call.args.strip():
            await self._prefer(call.key, agent_runtime=parse_runtime(call.args))
        situation, chosen = self._models.model_set(call.key.agent), await self._lifecycle.preferences(call.key)
        model = situation.model(situation.resolve(chosen.model) if chosen.model else situation.default)
        line = self._models.runtime(call.key.agent, model, chosen.agent_runtime).line
        how = ", from the next message on" if call.args.strip() else f". Choose with /runtime {'|'.join(CHOICES)}"
        return CommandResult(f"Runtime: {line}{how}.")

    async def _list_models(self, call: CommandRequest) -> CommandResult:
        situation, words = self._models.model_set(call.key.agent), call.args.lower().split()
        number = int(words.pop()) if words and words[-1].isdecimal() and len(words[-1]) < 6 else 1
        found = [model for model in situation.registry.list() if situation.has_key(model.provider, self._sessions.now)]
        providers = sorted({model.provider for model in found})
        if words:
            found = [model for model in found if model.provider == words[0]]
        if not found:
            known = f": {', '.join(providers)}" if providers else " yet: `openclaw models status` says what is missing"
            return CommandResult(f"No models of {words[0]}. Providers with a key{known}." if words else f"None{known}.")
        pages = -(-len(found) // PAGE)
        number = min(max(1, number), pages)
        chosen = (await self._lifecycle.preferences(call.key)).model or str(situation.default)
        lines = [
            f"{model.ref}{' (this conversation)' if model.ref == chosen else ''}"
            for model in found[(number - 1) * PAGE : number * PAGE]
        ]
        more = (
            f"Page {number} of {pages}: /models {words[0] + ' ' if words else ''}{number + 1}" if number < pages else ""
        )
        return CommandResult("\n".join((*lines, *([more] if more else ()), "Choose with /model REF.")))

    async def _think(self, call: CommandRequest) -> CommandResult:
        if not call.args:
            chosen = (await self._lifecycle.preferences(call.key)).thinking_level
            return CommandResult(f"Thinking: {chosen or 'default'}. Levels: {', '.join(thinking.LEVELS)}.")
        level = thinking.parse(call.args)
        await self._prefer(call.key, thinking_level=level)
        return CommandResult(f"Thinking: {level or 'default'}.")

    async def _verbose(self, call: CommandRequest) -> CommandResult:
        chosen = (await self._lifecycle.preferences(call.key)).verbose_level
        level = await self._level(call, "verbose_level", chosen, VERBOSE)
        meaning = {"off": "tools work quietly", "on": "one line for each tool", "full": "tools with their output"}
        return CommandResult(f"Verbose: {level} ({meaning[level]}).")

    async def _reasoning(self, call: CommandRequest) -> CommandResult:
        chosen = (await self._lifecycle.preferences(call.key)).reasoning_level
        level = await self._level(call, "reasoning_level", chosen, REASONING)
        meaning = {"off": "hidden", "on": "shown with each answer", "stream": "shown while it is written"}
        return CommandResult(f"Reasoning: {level} ({meaning[level]}).")

    async def _trace(self, call: CommandRequest) -> CommandResult:
        chosen = (await self._lifecycle.preferences(call.key)).trace_level
        level = await self._level(call, "trace_level", chosen, TRACE)
        meaning = {"off": "plugins work quietly", "on": "what plugins and hooks changed is told with each answer"}
        said = [f"Trace: {level} ({meaning[level]})."]
        run_id = None if call.args else await self._archive.last_run(str(call.key))
        if run_id:
            entries = await asyncio.to_thread(self._audit.entries, run_id)
            said += [f"In the last run: {describe_entry(entry)}" for entry in reversed(entries)] or [
                "In the last run: nothing was changed."
            ]
        return CommandResult("\n".join(said))

    async def _level(self, call: CommandRequest, field: str, chosen: str | None, levels: tuple[str, ...]) -> str:
        """Shows or sets one of `levels`."""
        wanted = call.args.strip().lower()
        if not wanted:
            return chosen if chosen in levels else "off"
        if wanted not in (*levels, "default"):
            raise InvalidRequest(f"{call.args!r} is not a level: use {', '.join(levels)} or default")
        await self._prefer(call.key, **{field: None if wanted == "default" else wanted})
        now = getattr(await self._lifecycle.preferences(call.key), field)
        return now if now in levels else "off"

    async def _usage(self, call: CommandRequest) -> CommandResult:
        word = call.args.strip().lower()
        if word in ("", "cost"):
            return CommandResult("\n".join(await self._budget.summary(call.key)))
        if word not in ("off", "tokens", "full", "on", "reset", "default"):
            raise InvalidRequest("write: /usage cost, tokens, full, off or reset")
        mode = None if word in ("reset", "default") else "full" if word == "on" else word
        await self._prefer(call.key, response_usage=mode)
        return CommandResult(f"Usage under every answer: {mode or 'default (off)'}.")

    async def _queue(self, call: CommandRequest) -> CommandResult:
        if call.args:
            chosen = QueueOptions() if call.args.lower() in ("default", "reset") else parse_queue(call.args)
            clear = chosen == NO_OPTIONS
            fields = {f"queue_{name}": value for name, value in structs.asdict(chosen).items()}
            await self._prefer(
                call.key, **{name: value for name, value in fields.items() if clear or value is not None}
            )
        rules = await self._queue_policy.of(call.key)
        said = f"Queue: {rules.mode}, debounce {rules.debounce_ms} ms, cap {rules.cap}, drop {rules.drop}."
        return CommandResult(said if call.args else f"{said} Modes: steer, followup, collect, interrupt, default.")

    async def _elevated(self, call: CommandRequest) -> CommandResult:
        key = call.key
        if not call.args:
            chosen = await self._lifecycle.preferences(key)
            now = self._sandboxes.elevation(key, chosen, millis(self._clock))
            boxed = self._sandboxes.is_boxed(key)
            note = "" if boxed else " This session is in no sandbox, so it changes nothing here."
            why = f" {now.why}." if now.why else ""
            return CommandResult(f"Elevated: {now.level} ({MEANING[now.level]}).{why}{note}")
        level = call.args.split()[0].lower()
        self._check_elevated(key, level)
        await self._prefer(key, elevated_level=level, elevated_at=millis(self._clock))
        expires = self._tools_settings.current.elevated.expires_minutes
        lasts = f" for {expires:g} minutes" if level != "off" and expires else ""
        return CommandResult(f"Elevated: {level}{lasts} ({MEANING[level]}).")

    def _check_elevated(self, key: SessionKey, level: str) -> None:
        if level not in LEVELS:
            raise InvalidRequest("write: /elevated on, ask, full or off")
        settings, own = self._tools_settings.current.elevated, self._sandboxes.tool_settings(key.agent).elevated
        who = identify_speaker(key, self._commands_settings.current.owner_allow_from)
        if level != "off" and (why := refuse_reason(who, settings, own)):
            raise InvalidRequest(f"Elevated is not available here: {why}.")

    async def _exec(self, call: CommandRequest) -> CommandResult:
        if call.args:
            _exec_limits(call, call.args)  # says what is wrong with it, if anything is
            raise InvalidRequest(
                "security= and ask= hold for one message: write it behind them, /exec ask=always do it"
            )
        settings = self._tools_settings.current.exec
        security, ask = exec_policy(settings, self._sandboxes.tool_settings(call.key.agent).exec)
        return CommandResult(
            f"Commands: security {security}, ask {ask} (tools.exec). For one message: /exec ask=always …"
        )


def _exec_limits(call: CommandRequest, args: str) -> dict[str, Any]:
    """What `/exec security=… ask=…` sets."""
    found: dict[str, Any] = {}
    for word in args.split():
        name, equals, value = word.lower().partition("=")
        if not equals or name not in EXEC_KEYS:
            raise InvalidRequest("write: /exec security=deny|allowlist|full ask=off|on-miss|always and the message")
        if name in ("host", "node"):
            raise InvalidRequest(NO_HOST)
        known = get_args(Security if name == "security" else Ask)
        if value not in known:
            raise InvalidRequest(f"{name}={value} is not known: use {', '.join(known)}")
        found[f"exec_{name}"] = value
    if not call.owner:
        raise InvalidRequest("/exec is for the owner")
    return found
