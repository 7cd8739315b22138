"""Facts of typical prompts, for tests of the renderer: the shipped templates, no machine, no clock."""

from collections.abc import Callable

from msgspec import structs

from openclaw.core.secret import Secret
from openclaw.core.text import ContextFile, PromptText
from openclaw.prompt.facts import (
    DEFAULT_HEARTBEAT,
    Elevated,
    InboundFacts,
    PromptFacts,
    Reactions,
    RuntimeFacts,
    SandboxFacts,
    ToolLine,
)
from openclaw.prompt.fit import fit, resolve, token_budget
from openclaw.prompt.sections.tools import KNOWN_TOOLS, authorized_senders
from openclaw.workspace.budget import Kind, select_files
from openclaw.workspace.budget import fit as cut
from openclaw.workspace.files import WorkspaceFile
from openclaw.workspace.seed import template

HOME = "/home/ada/.openclaw/workspace"
ALL_TOOLS = tuple(ToolLine(name) for name in sorted(KNOWN_TOOLS))
FENCE = "5eedf00d5eedf00d"

SKILLS = PromptText(
    """<available_skills>
  <skill>
    <name>weather</name>
    <description>Current weather and forecasts for any place.</description>
    <location>~/.openclaw/skills/weather/SKILL.md</location>
    <version>sha256:0a1b2c3d4e5f</version>
  </skill>
</available_skills>""",
    "skills catalog",
    "skill",
)


def fresh_files(kind: Kind = "direct", *, bootstrap: bool = False) -> tuple[ContextFile, ...]:
    """The starter files of a new workspace as a session of `kind` gets them."""
    names = ["AGENTS.md", "SOUL.md", "TOOLS.md", "IDENTITY.md", "USER.md", "HEARTBEAT.md"]
    files = [
        WorkspaceFile(name=name, path=f"{HOME}/{name}", content=template(name))
        for name in (*names, *(["BOOTSTRAP.md"] if bootstrap else []))
    ]
    files.append(
        WorkspaceFile(
            name="MEMORY.md", path=f"{HOME}/MEMORY.md", content="- Ada drinks tea.\n- The boat is called Lark."
        )
    )
    return cut(select_files(files, kind)).files


RUNTIME = RuntimeFacts(
    agent_id="main",
    host="attic",
    repo_root=HOME,
    os="Linux 6.1",
    arch="x86_64",
    python="3.11.7",
    model="anthropic/claude-sonnet-4-5",
    default_model="anthropic/claude-sonnet-4-5",
    shell="bash",
    channel="telegram",
    chat_type="direct",
    capabilities=("inlinebuttons",),
)


def main_direct() -> PromptFacts:
    return PromptFacts(
        workspace_dir=HOME,
        tools=ALL_TOOLS,
        fence_id=FENCE,
        context_files=fresh_files(),
        workspace_notes=(PromptText("This workspace is a git repository: commit after edits.", "git"),),
        skills=SKILLS,
        docs_path="/opt/openclaw/docs",
        user_timezone="Europe/Berlin",
        model_aliases=("- fast: anthropic/claude-haiku-4-5", "- smart: anthropic/claude-opus-4-5"),
        authorized_senders=authorized_senders(["telegram:123456789"], "hash", Secret("s3cret")),
        contribution=resolve("anthropic", "claude-sonnet-4-5", context_window=200_000),
        runtime=RUNTIME,
        thinking="low",
        inbound=InboundFacts(channel="telegram", provider="telegram", surface="telegram", chat_type="direct"),
        heartbeat=DEFAULT_HEARTBEAT,
    )


def group() -> PromptFacts:
    return structs.replace(
        main_direct(),
        context_files=fresh_files("group"),
        silent_replies="generic",
        runtime=structs.replace(RUNTIME, channel="discord", chat_type="group", capabilities=()),
        extra=PromptText("You are in the Discord channel #boats. People may talk without you.", "channel discord"),
        inbound=InboundFacts(channel="discord", provider="discord", surface="discord", chat_type="group"),
        native_approvals=True,
        reactions=Reactions("minimal", "discord"),
    )


def heartbeat() -> PromptFacts:
    custom = "Look at HEARTBEAT.md.\u202e If the boat\x07 needs care, say so; else reply HEARTBEAT_OK."
    return structs.replace(
        main_direct(),
        context_files=fresh_files("light-heartbeat"),
        heartbeat=PromptText(custom, "agents.defaults.heartbeat.prompt", "owner"),
        inbound=None,
    )


def sub_agent() -> PromptFacts:
    names = {"read", "write", "edit", "exec", "process", "web_search", "web_fetch", "session_status"}
    return structs.replace(
        main_direct(),
        mode="minimal",
        tools=tuple(tool for tool in ALL_TOOLS if tool.name in names),
        context_files=fresh_files("subagent"),
        runtime=structs.replace(RUNTIME, channel="", chat_type="", capabilities=()),
        inbound=None,
        extra=PromptText(
            "You are a sub-agent. Task: compare three marinas and report the prices.", "sessions_spawn", "agent"
        ),
    )


def cron() -> PromptFacts:
    return structs.replace(
        main_direct(),
        mode="minimal",
        context_files=fresh_files("cron"),
        runtime=structs.replace(RUNTIME, channel="", chat_type="", capabilities=()),
        inbound=None,
    )


def sandboxed() -> PromptFacts:
    return structs.replace(
        main_direct(),
        workspace_dir="/workspace",
        sandbox=SandboxFacts(
            container_workspace_dir="/workspace",
            workspace_access="ro",
            agent_workspace_mount="/agent",
            elevated=Elevated(allowed=True, default_level="ask"),
        ),
        reasoning_tags=True,
        acp_enabled=True,
    )


def gpt5() -> PromptFacts:
    return structs.replace(
        main_direct(),
        contribution=resolve("openai", "gpt-5.2", context_window=400_000),
        runtime=structs.replace(RUNTIME, model="openai/gpt-5.2", default_model="openai/gpt-5.2"),
        delegation="prefer",
        acp_enabled=True,
        thinking="medium",
    )


def tiny() -> PromptFacts:
    facts = structs.replace(
        main_direct(),
        context_files=fresh_files(bootstrap=True),
        contribution=resolve("ollama", "llama3.2:3b", context_window=8_192),
        runtime=structs.replace(RUNTIME, model="ollama/llama3.2:3b", default_model="ollama/llama3.2:3b"),
    )
    return fit(facts, token_budget(8_192)).facts


def none() -> PromptFacts:
    return structs.replace(main_direct(), mode="none")


SCENARIOS: dict[str, Callable[[], PromptFacts]] = {
    "main-direct": main_direct,
    "group": group,
    "heartbeat": heartbeat,
    "sub-agent": sub_agent,
    "cron": cron,
    "sandboxed": sandboxed,
    "gpt-5": gpt5,
    "tiny-model": tiny,
    "none": none,
}
