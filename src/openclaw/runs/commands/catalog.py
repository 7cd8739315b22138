"""The commands there are, for help, menus and `commands.list`; and those of OpenClaw that are not available here."""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Literal

from msgspec import Struct, structs

from openclaw.core.deferred import difflib
from openclaw.core.keys import SessionKey
from openclaw.plugins.registry import PluginRegistry
from openclaw.runs.queue import NO_OPTIONS, QueueOptions
from openclaw.runs.request import RunRequest, TurnOptions

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

    @property
    def line(self) -> str:
        return f"/{self.name} {self.args}".rstrip() + f": {self.description}"


CATALOG = (
    CommandEntry("help", "the commands most people need", "status"),
    CommandEntry("commands", "every command there is", "status"),
    CommandEntry("status", "model, session, tokens, cost", "status", "[plugins]"),
    CommandEntry("context", "what the prompt is made of", "status", "[list|detail|json]"),
    CommandEntry("whoami", "who you are here, and in which session", "status"),
    CommandEntry("tools", "the tools of this conversation", "status", "[compact|verbose]"),
    CommandEntry("agents", "the agents there are", "status"),
    CommandEntry("session", "the facts of this conversation", "status"),
    CommandEntry("tasks", "what runs for this conversation", "status"),
    CommandEntry("capabilities", "everything this agent can do, and who can reach it", "status"),
    CommandEntry("stop", "stop the run and forget what waits", "session"),
    CommandEntry("new", "start a new conversation, with another model if you name one", "session", "[MODEL] [message]"),
    CommandEntry("reset", "the same; soft keeps what was said and reads the files anew", "session", "[soft] [message]"),
    CommandEntry("name", "rename this conversation", "session", "TITLE"),
    CommandEntry("compact", "summarise the older part of this conversation", "session", "[what to pay attention to]"),
    CommandEntry("steer", "tell the active run something", "session", "TEXT"),
    CommandEntry("subagents", "look at sub-agents, write to them, stop them", "session", "[list|info|log|kill|send …]"),
    CommandEntry("unfocus", "take this thread from the sub-agent it belongs to", "session"),
    CommandEntry("send", "whether answers of this conversation go out to its channel", "session", "[on|off|inherit]"),
    CommandEntry("activation", "answer everything in this group, or when mentioned", "session", "[mention|always]"),
    CommandEntry("trust", "trust what was read in this conversation so far", "session"),
    CommandEntry("export-session", "write this conversation to a file in the workspace", "session", "[md|jsonl]"),
    CommandEntry(
        "model", "show or choose the model of this conversation", "options", "[REF|default|list] [--runtime ID]"
    ),
    CommandEntry(
        "runtime", "show or choose what carries out the turns of this conversation", "options", "[ID|default]"
    ),
    CommandEntry("models", "the models there are", "options", "[PROVIDER] [PAGE]"),
    CommandEntry("think", "show or choose how hard to think", "options", "[LEVEL|default]"),
    CommandEntry("verbose", "show or choose whether tools are reported", "options", "[on|full|off|default]"),
    CommandEntry("trace", "what plugins and hooks changed in a run", "options", "[on|off]"),
    CommandEntry("reasoning", "show or choose whether reasoning is visible", "options", "[on|stream|off|default]"),
    CommandEntry(
        "usage", "what was spent; or a line about it under every answer", "options", "[cost|tokens|full|off|reset]"
    ),
    CommandEntry(
        "queue",
        "what happens to messages while busy",
        "options",
        "[steer|followup|collect|interrupt|default] [debounce:2s] [cap:20] [drop:summarize|old|new]",
    ),
    CommandEntry("elevated", "let commands out of the sandbox for a while", "options", "[on|ask|full|off]"),
    CommandEntry("exec", "who is asked about commands, for one message", "options", "[security=…] [ask=…] MESSAGE"),
    CommandEntry("skill", "use a skill now", "tools", "NAME [what for]"),
    CommandEntry("approve", "answer a question about a command", "management", "ID allow-once|allow-always|deny"),
    CommandEntry(
        "config", "look at the configuration, or change it", "management", "show|get|set|unset [PATH] [VALUE]"
    ),
    CommandEntry("restart", "start the gateway anew", "management"),
)
SHORT = ("status", "stop", "new", "model", "think", "tools", "skill", "usage", "queue", "compact", "commands")
"""What `/help` shows."""

NOT_HERE: Mapping[str, str] = {
    "fast": "no provider here has a fast tier to choose",
    "allowlist": "use `openclaw pairing list`, or the setting channels.<name>.allowFrom",
    "goal": "write the goal into a message, or into HEARTBEAT.md",
    "loop": 'ask the assistant for a cron job, or use `openclaw cron add "every morning at 8" "…"`',
    "btw": "ask in another conversation: every message here becomes part of it",
    "side": "ask in another conversation: every message here becomes part of it",
    "acp": "use /runtime acp; single tasks the assistant hands to coding agents by itself",
    "mcp": "use `openclaw mcp`",
    "plugins": "use `openclaw plugins`; /status plugins shows those that run",
    "debug": "use `openclaw config set PATH VALUE`, which is checked and keeps a backup",
    "update": "update the installation with the tool it was installed with, then /restart",
    "tts": "`openclaw config set tts.auto inbound` speaks answers to voice notes",
    "voice": "`openclaw config set tts.auto inbound` speaks answers to voice notes",
    "bash": "ask the assistant to run the command; /exec and /approve decide what may run",
    "export-trajectory": "use `openclaw runs export RUN`",
    "login": "use `openclaw models auth`, or `openclaw models login`",
    "pair": "use `openclaw pairing` for people and `openclaw devices` for devices",
    "dashboard": "open the web page of the gateway: `openclaw status` shows its address",
    "diagnostics": "use `openclaw doctor`",
    "learn": "tell the assistant to write it to memory",
    "dreaming": "there is no such thing here",
    "dock": "there is no such thing here",
}
"""Commands of OpenClaw that do nothing here, and what to do instead."""


class CommandRequest(Struct, frozen=True, kw_only=True):
    """A command that somebody gave: for which session, with which arguments, from where."""

    key: SessionKey
    args: str = ""
    source: str = ""
    """The channel, or the method of a client."""
    sender: str = ""
    """The sender's id on that channel; empty for a client of the gateway."""
    owner: bool = True
    """Whether the sender may also change how the assistant works."""
    skills: tuple[str, ...] = ()
    """Directories with more skills, named on the command line."""


class CommandResult(Struct, frozen=True):
    """What a command says, and the text that is left for the assistant, with what was chosen for it."""

    text: str
    message: str = ""
    thinking: str | None = None
    options: TurnOptions | None = None
    queue: QueueOptions = NO_OPTIONS

    def onto(self, turn: RunRequest, text: str = "") -> RunRequest:
        """The request that is left of `turn`; what the command says is shown beside the answer."""
        return structs.replace(
            turn,
            text=text or self.message,
            thinking=self.thinking or turn.thinking,
            options=self.options,
            notice=self.text,
        )


CommandHandler = Callable[[CommandRequest], Awaitable[CommandResult]]


def catalog(extensions: PluginRegistry) -> list[CommandEntry]:
    """Every command, those of plugins last."""
    more = [CommandEntry(each.name, each.description, "tools", each.args, "plugin") for each in extensions.commands()]
    return [*CATALOG, *more]


def unknown_reply(name: str, others: Iterable[str]) -> str:
    """What is said to a command that does not exist: the nearest name, and how to send it as text."""
    if why := NOT_HERE.get(name):
        return f"/{name} is not available here: {why}."
    near = difflib.get_close_matches(name, sorted({*(entry.name for entry in CATALOG), *others}), n=1, cutoff=0.6)
    meant = f" Did you mean /{near[0]}?" if near else ""
    return f"There is no command /{name}.{meant} /commands lists them; //{name} sends it to the assistant as text."
