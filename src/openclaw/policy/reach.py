"""Settings of tools that reach beyond the workspace: the web, other sessions, sub-agents."""

from collections.abc import Mapping
from typing import Annotated, Literal

from msgspec import field

from openclaw.core.secret import Secret
from openclaw.core.settings import Count, Seconds, Settings, doc
from openclaw.policy.narrowing import NarrowSettings


class SsrfSettings(Settings, frozen=True):
    """`ssrfPolicy`: addresses beyond the public internet."""

    dangerously_allow_private_network: Annotated[
        bool, doc("fetch from private and loopback addresses too; a page can then reach your machines")
    ] = False
    allowed_hostnames: Annotated[tuple[str, ...], doc("private hosts that may be fetched; globs")] = ()
    blocked_hostnames: Annotated[tuple[str, ...], doc("hosts that are never fetched; globs")] = ()


class FetchSettings(Settings, frozen=True):
    """`tools.web.fetch`: reading pages."""

    enabled: Annotated[bool, doc("offer the web_fetch tool")] = True
    max_chars: Annotated[Count, doc("characters returned when the model does not say")] = 20_000
    max_chars_cap: Annotated[Count, doc("most characters a call may return")] = 20_000
    max_response_bytes: Annotated[Count, doc("most bytes read of an answer")] = 750_000
    timeout_seconds: Annotated[Seconds, doc("longest fetch")] = 30
    cache_ttl_minutes: Annotated[float, doc("how long a page is remembered", ge=0)] = 15
    max_redirects: Annotated[int, doc("redirects followed, each of them checked", ge=0, le=20)] = 3
    user_agent: Annotated[str | None, doc("how we introduce ourselves to servers")] = None
    headers: Annotated[Mapping[str, str], doc("sent to the first server of a fetch")] = field(default_factory=dict)
    readability: Annotated[bool, doc("extract the readable part of pages")] = True
    ssrf_policy: Annotated[SsrfSettings, doc("addresses beyond the public internet")] = SsrfSettings()


class SearchSettings(Settings, frozen=True):
    """`tools.web.search`: searching the web."""

    enabled: Annotated[bool, doc("offer the web_search tool")] = True
    provider: Annotated[
        Literal["brave", "searxng", "duckduckgo"] | None,
        doc("the engine; without one: Brave with a key, SearXNG with an address, else DuckDuckGo"),
    ] = None
    api_key: Annotated[Secret | None, doc("the key of Brave Search; BRAVE_API_KEY when absent")] = None
    base_url: Annotated[str | None, doc("the address of a SearXNG instance; SEARXNG_BASE_URL when absent")] = None
    max_results: Annotated[int, doc("results when the model does not say", ge=1, le=10)] = 5
    timeout_seconds: Annotated[Seconds, doc("longest search")] = 30
    cache_ttl_minutes: Annotated[float, doc("how long results are remembered", ge=0)] = 15


class WebSettings(Settings, frozen=True):
    """`tools.web`: the web."""

    fetch: Annotated[FetchSettings, doc("reading pages")] = FetchSettings()
    search: Annotated[SearchSettings, doc("searching the web")] = SearchSettings()


class SnapshotSettings(Settings, frozen=True):
    """`browser.snapshotDefaults`: snapshots when the model does not say."""

    mode: Annotated[Literal["efficient"] | None, doc("efficient: only what can be used, short")] = None


class BrowserSettings(Settings, frozen=True):
    """`browser`: a real browser for the assistant."""

    enabled: Annotated[bool, doc("offer the browser tool; it needs the extra browser")] = True
    executable_path: Annotated[str, doc("the Chromium to start; looked for when absent")] = ""
    headless: Annotated[bool, doc("without a window; true unless set, unlike OpenClaw")] = True
    no_sandbox: Annotated[bool, doc("start Chromium without its own sandbox; needed to run it as root")] = False
    evaluate_enabled: Annotated[bool, doc("let the model run scripts in pages")] = True
    default_profile: Annotated[str, doc("the profile when the model names none")] = "openclaw"
    extra_args: Annotated[tuple[str, ...], doc("more arguments for Chromium")] = ()
    snapshot_defaults: Annotated[SnapshotSettings, doc("snapshots when the model does not say")] = SnapshotSettings()
    ssrf_policy: Annotated[SsrfSettings, doc("addresses beyond the public internet")] = SsrfSettings()


class AcpAgentSettings(Settings, frozen=True):
    """`acp.agents.<id>`: a coding agent on this machine."""

    command: Annotated[str, doc("the program to start; it speaks ACP on its standard input and output", min_length=1)]
    args: Annotated[tuple[str, ...], doc("its arguments")] = ()
    env: Annotated[
        Mapping[str, Secret], doc("variables it gets; of ours it sees HOME, PATH, SHELL, USER, LOGNAME, TERM only")
    ] = field(default_factory=dict)


class AcpSettings(Settings, frozen=True):
    """`acp`: handing work to coding agents of other makers."""

    enabled: Annotated[bool, doc("let work be handed to them")] = True
    agents: Annotated[Mapping[str, AcpAgentSettings], doc("agents by name")] = field(default_factory=dict)
    default_agent: Annotated[str, doc("the agent when nobody is named")] = ""
    allowed_agents: Annotated[tuple[str, ...], doc("only these; all that are configured when empty")] = ()


class SessionToolSettings(Settings, frozen=True):
    """`tools.sessions`: what the session tools may see."""

    visibility: Annotated[
        Literal["self", "tree", "agent", "all"],
        doc("self: this session; tree: and its sub-agents; agent: all of this agent's; all: every agent's"),
    ] = "tree"


class AgentToAgentSettings(Settings, frozen=True):
    """`tools.agentToAgent`: agents that look at and write to each other's sessions."""

    enabled: Annotated[bool, doc("let agents reach each other; needs tools.sessions.visibility all")] = False
    allow: Annotated[tuple[str, ...], doc("ids or globs of the agents that may take part; all when empty")] = ()


class SubagentToolSettings(Settings, frozen=True):
    """`tools.subagents`: what sub-agents may do."""

    tools: Annotated[NarrowSettings, doc("tools that sub-agents keep")] = NarrowSettings()


class AttachmentSettings(Settings, frozen=True):
    """`tools.sessions_spawn.attachments`: files handed to a sub-agent."""

    enabled: Annotated[bool, doc("let files be handed over")] = True
    max_files: Annotated[Count, doc("most files of one call")] = 50
    max_file_bytes: Annotated[Count, doc("most bytes of one file")] = 1 << 20
    max_total_bytes: Annotated[Count, doc("most bytes of all files of one call")] = 5 << 20


class SpawnSettings(Settings, frozen=True):
    """`tools.sessions_spawn`: starting sub-agents."""

    attachments: Annotated[AttachmentSettings, doc("files handed to a sub-agent")] = AttachmentSettings()


class ToolExperimentalSettings(Settings, frozen=True):
    """`tools.experimental`: not settled yet."""

    plan_tool: Annotated[bool, doc("offer the update_plan tool")] = False
