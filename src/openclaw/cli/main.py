"""The command `openclaw`: a table of nouns, each in a module that is imported when it is used.

`--version` imports nothing at all; `--help` imports click and, for one noun's help, that noun's module. Commands
import the packages they need when they run.
"""

import gc
import sys

from openclaw.version import __version__

NOUNS: dict[str, tuple[str, str]] = {
    "acp": ("openclaw.cli.gateway:acp_command", "Serve the assistant to an editor (ACP)."),
    "agent": ("openclaw.cli.runs:agent_command", "Send one message to the assistant and print its answer."),
    "audit": ("openclaw.cli.prompt:audit_command", "What plugins changed, and whether the record of it is whole."),
    "agents": ("openclaw.cli.agents:agents_command", "List, add and change agents."),
    "approvals": (
        "openclaw.cli.security:approvals_command",
        "Answer questions about commands; take back what was allowed for good.",
    ),
    "chat": ("openclaw.cli.tui.chat:chat_command", "Talk to the assistant in this terminal."),
    "config": ("openclaw.cli.config:config_command", "Read and change the configuration."),
    "cron": ("openclaw.cli.cron:cron_command", "Jobs that run by the clock: add, list, change, run."),
    "cost": ("openclaw.cli.budget:cost_command", "What calls to models cost, by model, agent, session or day."),
    "daemon": ("openclaw.cli.gateway:daemon_command", "The same as gateway, for the service."),
    "dashboard": ("openclaw.cli.gateway:dashboard_command", "Open the web page."),
    "devices": ("openclaw.cli.devices:devices_command", "Who else may talk to the gateway: approve, reject, remove."),
    "doctor": ("openclaw.cli.gateway:doctor_command", "Look for what is wrong, and mend it on request."),
    "exec-policy": ("openclaw.cli.security:exec_policy_command", "What may run, and who is asked."),
    "gateway": (
        "openclaw.cli.gateway:gateway_command",
        "Run and control the gateway, the process every client talks to.",
    ),
    "health": ("openclaw.cli.status:health_command", "Whether the gateway is well."),
    "labels": (
        "openclaw.cli.security:labels_command",
        "What text from elsewhere may bring about, and which files hold some.",
    ),
    "hooks": (
        "openclaw.cli.extensions.hooks:hooks_command",
        "Small programs of your own that are told what happens: list, enable.",
    ),
    "logs": ("openclaw.cli.status:logs_command", "What the gateway wrote down."),
    "mcp": (
        "openclaw.cli.extensions.mcp:mcp_command",
        "Servers that lend us tools (MCP), and our tools for other programs.",
    ),
    "memory": ("openclaw.cli.memory:memory_command", "Search the notes the assistant keeps."),
    "models": ("openclaw.cli.models:models_command", "Which models there are and which one answers."),
    "onboard": ("openclaw.cli.onboard:onboard_command", "Set the assistant up with a few questions."),
    "pairing": (
        "openclaw.cli.channels:pairing_command",
        "People who ask to be heard on a channel: list, approve, remove.",
    ),
    "plugins": (
        "openclaw.cli.extensions.plugins:plugins_command",
        "What others wrote for the assistant, as code: list, install, check.",
    ),
    "prompt": ("openclaw.cli.prompt:prompt_command", "Build, explain and compare the system prompt."),
    "runs": ("openclaw.cli.runs:runs_command", "Runs on record: show, replay, export."),
    "sandbox": ("openclaw.cli.security:sandbox_command", "The boxes in which agents work: explain, list, renew."),
    "sessions": ("openclaw.cli.sessions:sessions_command", "List, show and export conversations."),
    "setup": ("openclaw.cli.onboard:setup_command", "Make the home and the workspace."),
    "skills": (
        "openclaw.cli.extensions.skills:skills_command",
        "What the assistant can do beyond its tools: list, install, accept.",
    ),
    "status": ("openclaw.cli.status:status_command", "What is set up here, in a few lines."),
    "system": ("openclaw.cli.cron:system_command", "Tell the running assistant what happened; heartbeats."),
    "tui": ("openclaw.cli.tui.chat:chat_command", "The same as chat."),
    "undo": ("openclaw.cli.runs:undo_command", "Put files back as they were before a run changed them."),
}


def main() -> None:
    """The entry point."""
    arguments = sys.argv[1:]
    if arguments and arguments[0] in ("--version", "-V"):
        sys.stdout.write(f"openclaw {__version__}\n")
        return
    # Imports create many objects and no garbage; the default threshold would trigger about a hundred collections.
    gc.set_threshold(20_000, 20, 20)
    from openclaw.cli.root import run

    sys.exit(run(arguments))
