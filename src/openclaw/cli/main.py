"""The command `openclaw`: a table of nouns, each in a module of its own that is imported when it is asked for.

`--version` imports nothing at all; `--help` imports click and, for one noun's help, that noun's module. Commands
import the rooms they need when they run.
"""

import gc
import sys

from openclaw.version import __version__

NOUNS: dict[str, tuple[str, str]] = {
    "acp": ("openclaw.cli.acp:command", "Serve the assistant to an editor (ACP)."),
    "agent": ("openclaw.cli.agent:command", "Send one message to the assistant and print its answer."),
    "audit": ("openclaw.cli.audit:command", "What plugins changed, and whether the record of it is whole."),
    "agents": ("openclaw.cli.agents:command", "List, add and change agents."),
    "approvals": (
        "openclaw.cli.approvals:command",
        "Answer questions about commands; take back what was allowed for good.",
    ),
    "chat": ("openclaw.cli.chat:command", "Talk to the assistant in this terminal."),
    "config": ("openclaw.cli.config:command", "Read and change the configuration."),
    "cron": ("openclaw.cli.cron:command", "Jobs that run by the clock: add, list, change, run."),
    "cost": ("openclaw.cli.cost:command", "What calls to models cost, by model, agent, session or day."),
    "daemon": ("openclaw.cli.daemon:command", "The same as gateway, for the service."),
    "dashboard": ("openclaw.cli.dashboard:command", "Open the web page."),
    "devices": ("openclaw.cli.devices:command", "Who else may talk to the gateway: approve, reject, remove."),
    "doctor": ("openclaw.cli.doctor:command", "Look for what is wrong, and mend it on request."),
    "exec-policy": ("openclaw.cli.exec_policy:command", "What may run, and who is asked."),
    "gateway": ("openclaw.cli.gateway:command", "Run and control the gateway, the process every client talks to."),
    "health": ("openclaw.cli.health:command", "Whether the gateway is well."),
    "labels": ("openclaw.cli.labels:command", "What text from elsewhere may bring about, and which files hold some."),
    "hooks": ("openclaw.cli.hooks:command", "Small programs of your own that are told what happens: list, enable."),
    "logs": ("openclaw.cli.logs:command", "What the gateway wrote down."),
    "mcp": ("openclaw.cli.mcp:command", "Servers that lend us tools (MCP), and our tools for other programs."),
    "memory": ("openclaw.cli.memory:command", "Search the notes the assistant keeps."),
    "models": ("openclaw.cli.models:command", "Which models there are and which one answers."),
    "onboard": ("openclaw.cli.onboard:command", "Set the assistant up with a few questions."),
    "pairing": ("openclaw.cli.pairing:command", "People who ask to be heard on a channel: list, approve, remove."),
    "plugins": ("openclaw.cli.plugins:command", "What others wrote for the assistant, as code: list, install, check."),
    "prompt": ("openclaw.cli.prompt:command", "Build, explain and compare the system prompt."),
    "runs": ("openclaw.cli.runs:command", "Runs on record: show, replay, export."),
    "sandbox": ("openclaw.cli.sandbox:command", "The boxes in which agents work: explain, list, renew."),
    "sessions": ("openclaw.cli.sessions:command", "List, show and export conversations."),
    "setup": ("openclaw.cli.setup:command", "Make the home and the workspace."),
    "skills": ("openclaw.cli.skills:command", "What the assistant can do beyond its tools: list, install, accept."),
    "status": ("openclaw.cli.status:command", "What is set up here, in a few lines."),
    "system": ("openclaw.cli.system:command", "Tell the running assistant what happened; heartbeats."),
    "tui": ("openclaw.cli.chat:command", "The same as chat."),
    "undo": ("openclaw.cli.undo:command", "Put files back as they were before a run changed them."),
}


def main() -> None:
    """The entry point."""
    arguments = sys.argv[1:]
    if arguments and arguments[0] in ("--version", "-V"):
        sys.stdout.write(f"openclaw {__version__}\n")
        return
    # Loading modules makes many objects and no garbage: by default Python would look for some a hundred times over.
    gc.set_threshold(20_000, 20, 20)
    from openclaw.cli.root import run

    sys.exit(run(arguments))
