"""The command `openclaw`: a table of nouns, each in a module that is imported when it is used.

`--version` imports nothing at all; `--help` imports click and, for one noun's help, that noun's module. Commands
import the packages they need when they run.
"""

import gc
import sys

from openclaw.version import __version__

NOUNS: dict[str, tuple[str, str]] = {
    "acp": ("gateway.control", "Serve the assistant to an editor (ACP)."),
    "agent": ("talk.agent", "Send one message to the assistant and print its answer."),
    "agents": ("agents", "List, add and change agents."),
    "approvals": ("security", "Answer questions about commands; take back what was allowed for good."),
    "audit": ("prompt", "What plugins changed, and whether the record of it is whole."),
    "chat": ("tui.chat", "Talk to the assistant in this terminal."),
    "channels": ("channels", "Where people talk to the assistant: connect Telegram and others, see how they do."),
    "cluster": ("store", "Gateways that share a database: see them, empty one, move agents."),
    "completion": ("setup.completion", "Complete commands with Tab in your shell."),
    "config": ("config", "Read and change the configuration."),
    "cron": ("cron", "Jobs that run by the clock: add, list, change, run."),
    "cost": ("budget", "What calls to models cost, by model, agent, session or day."),
    "daemon": ("gateway.group", "The same as gateway, for the service."),
    "dashboard": ("gateway.control", "Open the web page."),
    "devices": ("devices", "Who else may talk to the gateway: approve, reject, remove."),
    "doctor": ("gateway.control", "Look for what is wrong, and mend it on request."),
    "exec-policy": ("security", "What may run, and who is asked."),
    "gateway": ("gateway.group", "Run and control the gateway, the process every client talks to."),
    "health": ("gateway.health", "Whether the gateway is well."),
    "labels": ("security", "What text from elsewhere may bring about, and which files hold some."),
    "hooks": ("extensions.hooks", "Small programs of your own that are told what happens: list, enable."),
    "logs": ("logs", "What the gateway wrote down."),
    "mcp": ("extensions.mcp", "Servers that lend us tools (MCP), and our tools for other programs."),
    "memory": ("memory", "Search the notes the assistant keeps."),
    "message": ("message", "Write to people on connected channels: send, edit, react, delete."),
    "models": ("models", "Connect a model, choose one, see which answers."),
    "onboard": ("setup.onboard", "Set the assistant up with a few questions."),
    "pairing": ("channels", "People who ask to be heard on a channel: list, approve, remove."),
    "plugins": ("extensions.plugins", "What others wrote for the assistant, as code: list, install, check."),
    "prompt": ("prompt", "Build, explain and compare the system prompt."),
    "runs": ("runs", "Runs on record: show, replay, export."),
    "sandbox": ("security", "The boxes in which agents work: explain, list, renew."),
    "security": ("gateway.control", "Look for dangerous settings and files, and mend them."),
    "sessions": ("sessions", "List, show and export conversations."),
    "setup": ("setup.onboard", "Make the home and the workspace."),
    "skills": ("extensions.skills", "What the assistant can do beyond its tools: list, install, accept."),
    "store": ("store", "Where the state is kept: on this machine, or on a PostgreSQL server; move it."),
    "status": ("status", "What is set up here, in a few lines."),
    "system": ("cron", "Tell the running assistant what happened; heartbeats."),
    "tui": ("tui.chat", "The same as chat."),
    "workspace": ("workspace", "Whose words the files of a directory are: status, trust."),
    "undo": ("runs", "Put files back as they were before a run changed them."),
}
"""By noun: the module below `openclaw.cli` that has its command, called NOUN_command, and a line of help."""

TASKS = {
    "Begin": "onboard setup models channels completion",
    "Talk": "chat tui agent sessions message",
    "Let it work by itself": "cron system hooks",
    "What it knows and can do": "memory workspace skills plugins mcp agents",
    "What it may do": "approvals exec-policy security sandbox labels pairing devices",
    "See what happened": "status runs prompt cost logs audit undo",
    "Keep it running": "gateway daemon cluster dashboard config doctor health store acp",
}
"""The nouns by what a person wants to do."""


def main() -> None:
    """The entry point."""
    arguments = sys.argv[1:]
    if arguments and arguments[0] in ("--version", "-V"):
        sys.stdout.write(f"openclaw {__version__}\n")
        return
    # Imports create a hundred thousand objects and no garbage: looking for some would take a tenth of a command's time.
    gc.set_threshold(200_000, 20, 20)
    if arguments[:1] == ["gateway"]:
        from openclaw.cli.gateway.plain import run
    else:
        from openclaw.cli.root import run
    code = run(arguments)
    gc.freeze()  # or the interpreter looks through everything that was loaded once more before it ends
    sys.exit(code)
