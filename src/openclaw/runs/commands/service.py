"""Answers slash commands, the same in every client and on every channel."""

from collections.abc import Mapping, Sequence

from msgspec import structs

from openclaw.core.commands import (
    DIRECTIVES,
    NAMES,
    SlashCommand,
    command_word,
    may_be_command,
    parse_command,
    parse_trigger,
)
from openclaw.core.errors import OpenClawError
from openclaw.core.plugin import CommandCall, CommandReply
from openclaw.core.settings import Live
from openclaw.plugins.registry import PluginRegistry
from openclaw.process.tasks import call_function
from openclaw.runs.commands.catalog import CommandHandler, CommandRequest, CommandResult, unknown_reply
from openclaw.runs.commands.inline import SHORTCUTS, InlineDirectives, split_inline
from openclaw.runs.commands.options import OptionCommands
from openclaw.runs.control import SessionControl
from openclaw.runs.prepare import TurnPreparer
from openclaw.sessions.settings import SessionSettings

OWN_HOOKS = ("new", "reset", "stop")
"""Commands that tell hooks of themselves, with more than their name."""


class SlashCommands:
    """Finds out whether a message is a command, and answers it."""

    def __init__(
        self,
        control: SessionControl,
        preparer: TurnPreparer,
        plugins: PluginRegistry,
        options: OptionCommands,
        others: Sequence[Mapping[str, CommandHandler]],
        session_settings: Live[SessionSettings],
    ) -> None:
        self._control = control
        self._preparer = preparer
        self._plugins = plugins
        self._options = options
        self._session_settings = session_settings
        self._handlers = {name: handler for part in (options.handlers, *others) for name, handler in part.items()}

    async def answer(self, call: CommandRequest, text: str) -> CommandResult | None:
        """The reply to a message that is a command, or has one in it; None when it is for the assistant as it is."""
        triggers = self._session_settings.current.reset_triggers
        if not may_be_command(text, triggers):
            return None
        try:
            return await self._answer(call, text, parse_command(text) or parse_trigger(text, triggers))
        except OpenClawError as error:
            return CommandResult(error.message)

    async def _answer(self, call: CommandRequest, text: str, command: SlashCommand | None) -> CommandResult | None:
        whole = command is not None and command.name not in DIRECTIVES
        if command is not None and whole and not (command.name in SHORTCUTS and command.args not in ("", "plugins")):
            return await self._run(call, command)
        found = split_inline(text, lambda word: self._options.is_model(call.key.agent, word))
        if found.directives or found.shortcuts:
            return await self._inline(call, found)
        if command is not None:
            return await self._run(call, command)
        return await self._other(call, text.strip()) if text.lstrip().startswith("/") else None

    async def _run(self, call: CommandRequest, command: SlashCommand) -> CommandResult:
        if command.name == "skill":
            return self._skill(call, command.args)
        reply = await self._handlers[command.name](structs.replace(call, args=command.args))
        if command.name not in OWN_HOOKS:
            await self._control.commanded(call.key, command.name, source=call.source)
        return reply

    async def _inline(self, call: CommandRequest, found: InlineDirectives) -> CommandResult:
        """Directives alone change the session; with a message they hold for it."""
        said = [(await self._run(call, SlashCommand(name))).text for name in found.shortcuts]
        if not found.text:
            said += [(await self._run(call, each)).text for each in found.directives]
            return CommandResult("\n\n".join(said))
        chosen = await self._options.for_turn(call, found.directives)
        text = "\n\n".join(part for part in (*said, chosen.text) if part)
        return structs.replace(chosen, text=text, message=found.text)

    async def _other(self, call: CommandRequest, text: str) -> CommandResult | None:
        """A command of a plugin or a skill; a message that only looks like a command is none."""
        if text.startswith("//"):
            return CommandResult("", text[1:]) if command_word(text[1:]) else None
        word, _, args = text.partition(" ")
        if (command := self._plugins.command(word.removeprefix("/").lower())) is not None:
            given = CommandCall(
                name=command.name, args=args.strip(), session_key=str(call.key), agent_id=call.key.agent
            )
            said = await call_function(command.run, given)
            reply = said if isinstance(said, CommandReply) else CommandReply(text=str(said))
            return CommandResult(reply.text, reply.then)
        if called := self._preparer.called_skill(call.key.agent, text, tuple(NAMES), call.skills):
            return CommandResult("", called)
        name = command_word(text)
        if name is None:
            return None
        more = [each.name for each in self._plugins.commands()]
        return CommandResult(unknown_reply(name, [*more, *self._preparer.skill_commands(call.key.agent, tuple(NAMES))]))

    def _skill(self, call: CommandRequest, args: str) -> CommandResult:
        """`/skill name …` and `/skill:name …`; without a name the skills that can be called."""
        if not args:
            names = self._preparer.skill_commands(call.key.agent, tuple(NAMES))
            lines = [f"/{name}: {description}" for name, description in names.items()]
            return CommandResult("\n".join(lines) or "There are no skills: `openclaw skills list` says why.")
        called = self._preparer.called_skill(call.key.agent, f"/skill {args}", tuple(NAMES), call.skills)
        return CommandResult("", called or "")
