"""The prompts kept as golden texts: fixed facts, the shipped templates, no machine, no clock."""

import difflib
import json
from collections.abc import Callable
from pathlib import Path

from msgspec import structs

from openclaw.core.secret import Secret
from openclaw.core.text import ContextFile, PromptText, estimate_tokens
from openclaw.prompt.build import build
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
from openclaw.prompt.report import ReportHeader, report
from openclaw.prompt.sections.tools import KNOWN_TOOLS, authorized_senders
from openclaw.workspace.budget import Kind, select_files
from openclaw.workspace.budget import fit as cut
from openclaw.workspace.files import WorkspaceFile
from openclaw.workspace.seed import template

HOME = "/home/ada/.openclaw/workspace"
GOLDEN = Path(__file__).parents[1] / "golden" / "prompts"
ALL_TOOLS = tuple(ToolLine(name) for name in sorted(KNOWN_TOOLS))
FENCE = "5eedf00d5eedf00d"
RULES = """\
# SOUL.md - Who You Are
## Core Truths
- **Help for real.** Skip the applause and the filler; do the thing.
- **Have a view.** Prefer, disagree, be amused. A helper without opinions is a form to fill in.
- **Try, then ask.** Read the file, check the facts, search. Come back with an answer, or at least with a better question.
- **Earn the trust.** Someone let you into their life. Be careful with what goes out, bold with what stays in.
- **Be a good guest.** Messages, files, plans, perhaps a home: treat them as you would a friend's.
## Boundaries
- What is private stays private, always.
- Ask before you act in the world outside.
- Send nothing half-finished to anyone."""  # noqa: E501

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
        tts_hint=None,
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
        inherited_rules=PromptText(RULES, f"{HOME}/SOUL.md", "workspace"),
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
            workspace_dir="/home/ada/.openclaw/sandboxes/main",
            container_workspace_dir="/workspace",
            workspace_access="ro",
            agent_workspace_mount="/agent",
            browser_bridge_url="http://127.0.0.1:9222",
            host_browser_allowed=False,
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


def expected(name: str) -> dict[str, str]:
    """The golden files of one scenario, by file name."""
    facts = SCENARIOS[name]()
    prompt = build(facts)
    made = report(prompt, facts, ReportHeader(source="estimate"))
    numbers = {
        "sha256": made.system_prompt.hash,
        "chars": made.system_prompt.chars,
        "tokens": estimate_tokens(made.system_prompt.chars),
        "sections": [
            f"{line.side} {line.id} {line.injected_chars} ({line.label}: {line.source})" for line in made.sections
        ],
    }
    return {f"{name}.md": prompt.text + "\n", f"{name}.json": json.dumps(numbers, indent=2, ensure_ascii=False) + "\n"}


def drift(name: str) -> str:
    """How the golden files of `name` differ from what is built now; empty when they do not."""
    differences = []
    for file, now in expected(name).items():
        path = GOLDEN / file
        kept = path.read_text(encoding="utf-8") if path.exists() else ""
        if kept != now:
            lines = difflib.unified_diff(
                kept.splitlines(), now.splitlines(), f"golden/{file}", f"built/{file}", lineterm="", n=2
            )
            differences += [*lines, "(accept with scripts/goldens --regen)"]
    return "\n".join(differences)
