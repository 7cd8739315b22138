"""Sections above the cache boundary, except the tools: one function per section, facts to `Section`."""

from openclaw.core.text import ContextFile, fence, neutralise, sanitize_block
from openclaw.prompt.facts import (
    PromptFacts,
    SandboxFacts,
    Section,
    clean,
    clean_line,
    quoted_section,
    section,
    tool_names,
    trust_level,
)
from openclaw.workspace.files import BOOTSTRAP_FILES

IDENTITY = "You are a personal assistant running inside OpenClaw."
DOCS = "https://docs.openclaw.ai"
SOURCE = "https://github.com/openclaw/openclaw"

FILE_ORDER = tuple(dict.fromkeys(name.lower() for name in BOOTSTRAP_FILES))


def identity(_: PromptFacts) -> Section | None:
    return section("identity", "", IDENTITY)


def interaction_style(facts: PromptFacts) -> Section | None:
    return quoted_section("interaction_style", "", facts.contribution.interaction_style)


def tool_call_style(facts: PromptFacts) -> Section | None:
    theirs = quoted_section("tool_call_style", "", facts.contribution.tool_call_style)
    return theirs or section(
        "tool_call_style",
        "## Tool Call Style",
        "Make routine, harmless calls without comment.",
        "Say a short, plain word first when work has many steps, is hard, is sensitive (deleting, for one), "
        "or when the user wants to follow along.",
        "If a tool can do it, use the tool; do not send the user to a command line or a slash command.",
    )


def approvals(_: PromptFacts) -> Section | None:
    """A section of its own, so that no contribution to the style can replace the approval rules."""
    return section(
        "approvals",
        "",
        "Approvals: where the channel shows approval cards or buttons, rely on them, and write out `/approve` only "
        "if the tool result says chat approvals are unavailable or leaves no other way. Elsewhere, pass on the exact "
        "`/approve` command from the tool output (allow-once|allow-always|deny) and no other code.",
        "Show the command to be approved whole, chains and line breaks included. allow-once covers that one "
        "command; the next elevated command needs its own request. `/approve` is for the user to send; never run "
        "it yourself.",
    )


def execution_bias(facts: PromptFacts) -> Section | None:
    theirs = quoted_section("execution_bias", "", facts.contribution.execution_bias)
    if theirs or facts.mode != "full":
        return theirs
    return section(
        "execution_bias",
        "## Execution Bias",
        "Asked for something you can do: do it in this turn, and go on until it is done or you are truly blocked.",
        "A poor tool result is a reason to try another way. Look up what may have changed instead of trusting memory. "
        "Check the result before you call it finished.",
    )


def stable_prefix(facts: PromptFacts) -> Section | None:
    return quoted_section("stable_prefix", "", facts.contribution.stable_prefix)


def safety(_: PromptFacts) -> Section | None:
    return section(
        "safety",
        "## Safety",
        "You want nothing for yourself: no survival, copies, resources or influence, and no plans that outlast the "
        "request.",
        "Safety and human oversight come before finishing. When instructions conflict, pause and ask; when told to "
        "stop, pause or open up for audit, comply; never work around a safeguard.",
        "Do not talk anyone into giving more access or switching protections off. Do not copy yourself or alter "
        "prompts, safety rules or tool policy unless the user plainly asks for that.",
    )


def control(facts: PromptFacts) -> Section | None:
    has_gateway = "gateway" in tool_names(facts)
    if facts.mode != "full" and not has_gateway:
        return None
    return section(
        "control",
        "## OpenClaw Control",
        "Configuration and restarts go through the `gateway` tool." if has_gateway else "",
        "The service commands are `openclaw gateway status`, `openclaw gateway start`, `openclaw gateway stop` and "
        "`openclaw gateway restart`. Make up no others: when unsure, read `openclaw help` or `openclaw gateway "
        "--help`.",
    )


def skills(facts: PromptFacts) -> tuple[Section | None, ...]:
    names = tool_names(facts)
    catalog = quoted_section("skills_catalog", "", facts.skills)
    if catalog is None or not ("read" in names or facts.cli_backend):
        return ()
    guidance = section(
        "skills",
        "## Skills (mandatory)",
        "Before you reply, go through the descriptions in <available_skills>. One clear match: read the SKILL.md "
        "at its <location> with `read`, then follow it. Several: take the most specific. None: read none. Never "
        "open more than one up front.",
        "Read a skill again when its <version> is not the one you read in an earlier turn. Relative paths in a "
        "skill start at its own directory.",
        "Skills that write to outside services: few large writes, no tight loops, heed 429 and Retry-After.",
    )
    return guidance, catalog


def memory(facts: PromptFacts) -> Section | None:
    names = tool_names(facts)
    if facts.mode != "full" or not names & {"memory_search", "memory_get"}:
        return None
    steps = {
        "memory_search": "search MEMORY.md and memory/*.md with `memory_search`",
        "memory_get": "fetch only the lines you need with `memory_get`",
    }
    how = ", then ".join(step for name, step in steps.items() if name in names)
    return section(
        "memory",
        "## Memory Recall",
        f"Before you answer about earlier work, decisions, dates, people, preferences or todos: {how}. "
        "If you are still unsure, say that you looked.",
        "Leave paths and line numbers out unless the user asks for them."
        if facts.memory_citations == "off"
        else "Where it helps the user to verify, add `Source: <path#line>`.",
    )


def self_update(facts: PromptFacts) -> Section | None:
    if facts.mode != "full" or "gateway" not in tool_names(facts):
        return None
    return section(
        "self_update",
        "## OpenClaw Self-Update",
        "With `gateway`: `config.schema.lookup` shows a setting and its limits, `config.patch` changes parts, "
        "`config.apply` replaces the whole configuration.",
        "Use `config.apply` and `update.run` only when the user explicitly asks. The tool refuses to touch "
        "`tools.exec.ask` and `tools.exec.security`, also under their old `tools.bash.*` names.",
    )


def model_aliases(facts: PromptFacts) -> Section | None:
    if facts.mode != "full" or not facts.model_aliases:
        return None
    return section(
        "model_aliases",
        "## Model Aliases",
        "Name a model by its alias where it has one; provider/model works too.",
        *(clean_line(line) for line in facts.model_aliases),
    )


def clock(facts: PromptFacts) -> Section | None:
    if not clean_line(facts.user_timezone) or "session_status" not in tool_names(facts):
        return None
    return section("clock", "", "For today's date, the time or the weekday, call `session_status` (📊 session_status).")


def workspace(facts: PromptFacts) -> Section | None:
    container = clean_line(facts.sandbox.container_workspace_dir) if facts.sandbox else ""
    return section(
        "workspace",
        "## Workspace",
        f"Your working directory is: {clean_line(facts.workspace_dir)}",
        "All file work happens here unless the user says otherwise.",
        "File tools and `exec` work in the same sandbox and mean the same by every path." if container else "",
        *(clean(note) for note in facts.workspace_notes),
    )


def documentation(facts: PromptFacts) -> Section | None:
    if facts.mode != "full":
        return None
    docs, source = clean_line(facts.docs_path), clean_line(facts.source_path)
    lookup = "`gateway` action `config.schema.lookup`, then " if "gateway" in tool_names(facts) else ""
    return section(
        "documentation",
        "## Documentation",
        f"OpenClaw docs: {docs or DOCS}",
        f"Mirror: {DOCS}",
        f"Source: {source or SOURCE}",
        "Community: https://discord.com/invite/clawd",
        "Find new skills: https://clawhub.ai",
        "How OpenClaw itself works (memory, daily notes, sessions, tools, Gateway, config, commands, project "
        f"context) is answered by the docs: "
        f"{'the local ones first, else the mirror' if docs else 'read the mirror'}, before you reason about it. "
        "AGENTS.md, project context, notes and `memory_search` hold instructions and the user's memory, not the "
        "design.",
        f"Docs silent or out of date: say so and look into the source{'' if source else ' on GitHub'}.",
        "To diagnose, run `openclaw status` yourself; ask the user only if you cannot.",
        f"Config fields: {lookup}docs/gateway/configuration.md and docs/gateway/configuration-reference.md.",
    )


def sandbox(facts: PromptFacts) -> Section | None:
    box = facts.sandbox
    if box is None:
        return None
    access = {"none": "not mounted", "ro": "mounted read-only", "rw": "mounted for reading and writing"}
    mount = clean_line(box.agent_workspace_mount)
    inside, outside = clean_line(box.container_workspace_dir), clean_line(box.workspace_dir)
    browser = clean_line(box.browser_bridge_url)
    return section(
        "sandbox",
        "## Sandbox",
        "Tools run in a sandbox; what policy keeps out of it may be unavailable. Sub-agents stay inside as well.",
        f"Sandbox working directory: {inside}" if inside else "",
        f"Sandbox files on the host: {outside}" if outside else "",
        f"Agent workspace access: {box.workspace_access} ({access[box.workspace_access]}{mount and f' at {mount}'})",
        f"Sandbox browser: {browser}" if browser else "",
        "" if box.host_browser_allowed is None else f"Host browser: {'yes' if box.host_browser_allowed else 'no'}",
        *_elevated(box),
    )


def _elevated(box: SandboxFacts) -> tuple[str, ...]:
    if not box.elevated.allowed:
        return ("Elevated exec (outside the sandbox) is not available in this session.",)
    levels = "on|off|ask|full" if box.elevated.full_access else "on|off|ask"
    return (
        f"Elevated exec is available; the user switches it with /elevated {levels} "
        f"(now {clean_line(box.elevated.default_level)}).",
        "" if box.elevated.full_access else "Level full, without approvals, is not available here; do not promise it.",
    )


def authorized_senders(facts: PromptFacts) -> Section | None:
    if facts.mode != "full":
        return None
    return quoted_section("authorized_senders", "## Authorized Senders", facts.authorized_senders)


def time_zone(facts: PromptFacts) -> Section | None:
    zone = clean_line(facts.user_timezone)
    return section("time_zone", "## Current Date & Time", f"Time zone: {zone}" if zone else "")


def truncation(facts: PromptFacts) -> Section | None:
    if not facts.truncation_notice:
        return None
    return section(
        "truncation",
        "## Bootstrap Context Notice",
        "[Bootstrap truncation warning]",
        "Some workspace files below were shortened to fit. Read the file itself when its details matter.",
    )


def workspace_files(facts: PromptFacts) -> Section | None:
    spared = ", ".join(clean_line(file.name) for file in sorted(facts.context_files, key=_file_order) if file.spared)
    return section(
        "workspace_files",
        "## Workspace Files (injected)",
        "Files the user can edit are loaded below under Project Context."
        if any(file.content for file in facts.context_files)
        else "No workspace file is loaded in this run.",
        f"Left out to save space, to be read when they matter: {spared}" if spared else "",
    )


def output_directives(facts: PromptFacts) -> Section | None:
    if facts.mode != "full":
        return None
    return section(
        "output_directives",
        "## Assistant Output Directives",
        "Attachment: `MEDIA:<path-or-url>` alone on its line. Send audio as a voice note: add `[[audio_as_voice]]`.",
        "Native reply: begin with `[[reply_to_current]]`, before anything else; prefer it. `[[reply_to:<id>]]` "
        "only with an id the user or a tool gave you. Spaces inside the brackets are fine.",
        "Tags are removed before sending; what they do depends on the channel.",
    )


def reasoning_format(facts: PromptFacts) -> Section | None:
    if not facts.reasoning_tags:
        return None
    return section(
        "reasoning_format",
        "## Reasoning Format",
        "Put all reasoning in <think>…</think> and the answer after it in <final>…</final>, with nothing outside "
        "the two. The user sees only what is in <final>.",
        "Example: <think>They want the short version.</think> <final>Done: the report is in your inbox.</final>",
    )


def project_context(facts: PromptFacts) -> tuple[Section | None, ...]:
    files = sorted((file for file in facts.context_files if file.content), key=_file_order)
    if not files:
        return ()
    has_soul = any(_base(file) == "soul.md" for file in files)
    intro = section(
        "project_context",
        "# Project Context",
        "The following project context files have been loaded:",
        "In a conflict, the sections above come first, then what the user says now, then these files."
        if facts.fence_id
        else "",
        "SOUL.md is your character: speak and act as it describes instead of sounding generic, as long as nothing of "
        "higher priority says otherwise."
        if has_soul
        else "",
    )
    return intro, *(_context_file(file, facts.fence_id) for file in files)


def _context_file(file: ContextFile, fence_id: str) -> Section:
    content = neutralise(sanitize_block(file.content.text))
    if fence_id:
        content = fence(
            "WORKSPACE_FILE", clean_line(fence_id), content, name=file.name, trust=trust_level(file.content.label)
        )
    return Section(
        id=f"file:{clean_line(file.path)}",
        heading=f"## {clean_line(file.path)}",
        text=content,
        source=clean_line(file.path),
        label=file.content.label,
        raw_chars=file.raw_chars,
    )


def _base(file: ContextFile) -> str:
    return file.path.replace("\\", "/").rpartition("/")[2].lower()


def _file_order(file: ContextFile) -> tuple[int, str, str, str]:
    base = _base(file)
    # MEMORY.md before memory.md: capitals sort first.
    return (FILE_ORDER.index(base), "", file.name, file.path) if base in FILE_ORDER else (99, base, "", file.path)


def silent_replies(facts: PromptFacts) -> Section | None:
    if facts.mode != "full" or facts.silent_replies != "generic":
        return None
    return section(
        "silent_replies",
        "## Silent Replies",
        "With nothing to say, your entire message is exactly: NO_REPLY",
        "Never add it to a real reply, and never wrap it in markdown or code.",
        'Wrong: "All set. NO_REPLY" and "`NO_REPLY`". Right: NO_REPLY',
    )
