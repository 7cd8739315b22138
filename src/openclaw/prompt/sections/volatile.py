"""Sections below the cache boundary: channel, session and run."""

from openclaw.core.text import fence, head, utf16_length
from openclaw.prompt.facts import (
    DEFAULT_HEARTBEAT,
    PromptFacts,
    Section,
    clean,
    clean_line,
    quoted_section,
    section,
    tool_names,
)

MAX_HEARTBEAT = 4_000


def messaging(facts: PromptFacts) -> tuple[Section | None, ...]:
    if facts.mode != "full":
        return ()
    names = tool_names(facts)
    main = section(
        "messaging",
        "## Messaging",
        "A reply in this session goes back to the channel it came from.",
        "Another session: `sessions_send(sessionKey, message)`." if "sessions_send" in names else "",
        "Sub-agents: `subagents(action=list|steer|kill)`." if "subagents" in names else "",
        "When the runtime reports finished work that the user should hear of, tell it in your own voice: no raw "
        "metadata, and not `NO_REPLY` by default.",
        "Never reach a messaging service through exec or curl; OpenClaw routes all messages.",
        stable=False,
    )
    approvals = section("approval_ui", "", "This channel has no approval cards or buttons.", stable=False)
    return main, _message_tool(facts) if "message" in names else None, approvals


def _message_tool(facts: PromptFacts) -> Section | None:
    channel = clean_line(facts.runtime.channel)
    return section(
        "message_tool",
        "### message tool",
        "Use it to send on your own initiative and for channel actions such as polls and reactions. `action=send` "
        "takes `to` and `message`; with several channels configured, name the `channel`.",
        "Once it has delivered what the user sees, your final text is only: NO_REPLY",
        f"Inline buttons are off for {channel}; they are enabled with {channel}.capabilities.inlineButtons "
        "(dm|group|all|allowlist)."
        if channel
        else "",
        stable=False,
    )


def extra(facts: PromptFacts) -> Section | None:
    heading = "## Group Chat Context" if facts.mode == "full" else "## Subagent Context"
    return quoted_section("extra", heading, facts.extra, stable=False)


def terminal(facts: PromptFacts) -> Section | None:
    """The person's directory; without it "the files here" would mean the workspace."""
    if facts.mode != "full" or not facts.terminal:
        return None
    return section(
        "terminal",
        "## Terminal",
        f"Terminal directory: {clean_line(facts.terminal)}",
        "The person types in a terminal opened there. “Here”, “this folder” and bare file names in their messages mean "
        "that directory: use absolute paths for it. Your own notes and memory stay in the workspace.",
        stable=False,
    )


def heartbeats(facts: PromptFacts) -> Section | None:
    prompt = clean(facts.heartbeat)
    if facts.mode != "full" or facts.heartbeat is None or not prompt:
        return None
    if utf16_length(prompt) > MAX_HEARTBEAT:
        prompt = head(prompt, MAX_HEARTBEAT - 1) + "…"
    between = " "
    if facts.heartbeat.text != DEFAULT_HEARTBEAT.text and facts.fence_id:
        between = "\n"
        prompt = fence("HEARTBEAT_PROMPT", clean_line(facts.fence_id), prompt)
    return Section(
        id="heartbeats",
        heading="## Heartbeats",
        text="\n".join(
            (
                f"Heartbeat prompt:{between}{prompt}",
                "A user message equal to that prompt is a heartbeat. If nothing needs attention, reply exactly: "
                "HEARTBEAT_OK",
                "HEARTBEAT_OK at the start or end of a reply counts as that answer and may be dropped. If "
                "something does need attention, write the alert without the token.",
            )
        ),
        source=facts.heartbeat.source,
        label=facts.heartbeat.label,
        stable=False,
    )


def runtime(facts: PromptFacts) -> Section | None:
    here = facts.runtime
    system = clean_line(here.os) + (f" ({clean_line(here.arch)})" if clean_line(here.arch) else "")
    channel = clean_line(here.channel)
    parts = {
        "agent": clean_line(here.agent_id),
        "host": clean_line(here.host),
        "repo": clean_line(here.repo_root),
        "os": system.strip(),
        "python": clean_line(here.python),
        "model": clean_line(here.model),
        "default_model": clean_line(here.default_model),
        "shell": clean_line(here.shell),
        "channel": channel,
        "capabilities": "none" if channel else "",
        "thinking": clean_line(facts.thinking) or "off",
    }
    return section(
        "runtime",
        "## Runtime",
        "Runtime: " + " | ".join(f"{key}={value}" for key, value in parts.items() if value),
        f"Reasoning: {clean_line(facts.reasoning)} (hidden unless on/stream). "
        "Toggle /reasoning; /status shows Reasoning when enabled.",
        stable=False,
    )
