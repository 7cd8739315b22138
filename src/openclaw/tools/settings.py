"""Settings of `tools`, `mcp`, `browser` and `acp`."""

from collections.abc import Mapping
from typing import Annotated, Literal

from msgspec import Meta, field

from openclaw.core.secret import Secret
from openclaw.core.settings import Count, Millis, Seconds, Settings, doc
from openclaw.security.settings import (
    Ask,
    EgressBudget,
    ElevatedSettings,
    NarrowSettings,
    Profile,
    ProviderRules,
    SandboxToolSettings,
    Security,
)

Variables = Annotated[
    Mapping[str, Secret], doc("variables it gets; of ours it sees HOME, PATH, SHELL, USER, LOGNAME, TERM only")
]


class ToolFilterSettings(Settings, frozen=True):
    """`mcp.servers.<id>.toolFilter`: which of a server's tools are used."""

    include: Annotated[tuple[str, ...], doc("only these: the server's own names, or globs; all when empty")] = ()
    exclude: Annotated[tuple[str, ...], doc("never these; wins over include")] = ()


class McpServerSettings(Settings, frozen=True):
    """`mcp.servers.<id>`: a program that is started, or an address."""

    enabled: Annotated[bool, doc("use this server")] = True
    command: Annotated[str, doc("the program to start")] = ""
    args: Annotated[tuple[str, ...], doc("its arguments")] = ()
    env: Variables = field(default_factory=dict)
    cwd: Annotated[str, doc("the directory it starts in; the workspace when absent")] = ""
    url: Annotated[str, doc("the address of a server that runs already")] = ""
    transport: Annotated[
        Literal["stdio", "sse", "streamable-http"] | None,
        doc("how it is spoken to; stdio with a command, streamable-http with a url when absent"),
    ] = None
    headers: Annotated[Mapping[str, Secret], doc("sent with every request to the url")] = field(default_factory=dict)
    connection_timeout_ms: Annotated[Millis, doc("longest wait until it is ready")] = 30_000
    request_timeout_ms: Annotated[Millis, doc("longest wait for an answer")] = 60_000
    supports_parallel_tool_calls: Annotated[bool, doc("it can work on several calls at a time")] = False
    ssl_verify: Annotated[bool, doc("check the certificate of the url")] = True
    client_cert: Annotated[str, doc("a certificate of ours, as a file")] = ""
    client_key: Annotated[str, doc("the key of that certificate, as a file")] = ""
    tool_filter: Annotated[ToolFilterSettings, doc("which of its tools are used")] = ToolFilterSettings()
    auth: Annotated[Literal["oauth"] | None, doc("oauth is not supported yet: put a token into headers")] = None


class McpSettings(Settings, frozen=True):
    """`mcp`: servers that lend us tools."""

    servers: Annotated[Mapping[str, McpServerSettings], doc("servers by name")] = field(default_factory=dict)
    session_idle_ttl_ms: Annotated[Millis, doc("a server that was not used for so long is stopped; 0 means never")] = (
        600_000
    )


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
    egress_budget: Annotated[EgressBudget, doc("what a run may send out once it has read text from elsewhere")] = (
        EgressBudget()
    )


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
    env: Variables = field(default_factory=dict)


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
        doc(
            "self: this session; tree: and its sub-agents, and from your own conversations all of this agent's; "
            "agent: all of this agent's, also from groups and guests; all: every agent's"
        ),
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


class ApplyPatchSettings(Settings, frozen=True):
    """`tools.exec.applyPatch`: editing several files with one patch."""

    enabled: Annotated[bool, doc("offer the apply_patch tool")] = True
    workspace_only: Annotated[bool, doc("patch files inside the workspace only")] = True


_FILTERS = ("cut", "uniq", "head", "tail", "tr", "wc")


class ExecSettings(Settings, frozen=True):
    """`tools.exec`: running commands."""

    security: Annotated[
        Security,
        doc(
            "deny runs nothing, allowlist runs what is on the list, full runs everything;"
            " allowlist unless set, which is stricter than OpenClaw's full"
        ),
    ] = "allowlist"
    ask: Annotated[
        Ask,
        doc(
            "when to ask a person: never, when a command is not on the list, always;"
            " on-miss unless set, which is stricter than OpenClaw's off"
        ),
    ] = "on-miss"
    strict_inline_eval: Annotated[
        bool,
        doc(
            "code in an argument (python -c, find -exec, make) is always asked about and never allowed for good;"
            " on unless set, which is stricter than OpenClaw's off"
        ),
    ] = True
    timeout_seconds: Annotated[Seconds, doc("longest run of a command; 0 means no limit")] = 1_800
    max_processes: Annotated[int, doc("most processes of one command at once; 0 means no limit", ge=0)] = 1_000
    background_ms: Annotated[Millis, doc("wait this long before a command goes on in the background")] = 10_000
    cleanup_ms: Annotated[int, doc("how long the output of an ended command is kept", ge=60_000, le=10_800_000)] = (
        1_800_000
    )
    notify_on_exit: Annotated[bool, doc("tell the session when a background command ends")] = True
    notify_on_exit_empty_success: Annotated[bool, doc("also when it succeeded without a word")] = False
    path_prepend: Annotated[tuple[str, ...], doc("directories put in front of PATH")] = ()
    safe_bins: Annotated[tuple[str, ...], doc("filters that may run on standard input without being listed")] = _FILTERS
    apply_patch: Annotated[ApplyPatchSettings, doc("the apply_patch tool")] = ApplyPatchSettings()


class FsSettings(Settings, frozen=True):
    """`tools.fs`: the file tools."""

    workspace_only: Annotated[bool, doc("read and write inside the workspace only")] = False


class LoopDetectionSettings(Settings, frozen=True):
    """`tools.loopDetection`: stopping a run that goes round in circles."""

    enabled: Annotated[bool, doc("watch for repeated calls; on unless set, unlike OpenClaw")] = True
    history_size: Annotated[Count, doc("calls of a session that are remembered")] = 30
    warning_threshold: Annotated[Count, doc("repeats before the model is told")] = 10
    critical_threshold: Annotated[Count, doc("repeats without progress before calls are blocked")] = 20
    global_circuit_breaker_threshold: Annotated[Count, doc("calls without any progress before the run ends")] = 30


class SpeechProviderSettings(Settings, frozen=True):
    """`tts.providers.<id>`: one way to speak; openai, piper or espeak-ng."""

    api_key: Annotated[Secret | None, doc("openai: the key; models.providers.openai.apiKey when absent")] = None
    base_url: Annotated[str | None, doc("openai: the address of an endpoint that has /audio/speech")] = None
    model: Annotated[str | None, doc("openai: the model; piper: the file of the voice")] = None
    voice: Annotated[str | None, doc("openai: the voice; espeak-ng: the language, for example de or en-us")] = None
    speed: Annotated[Annotated[float, Meta(gt=0, le=4)] | None, doc("how fast; 1 is usual")] = None


class TtsSettings(Settings, frozen=True):
    """`tts`: the assistant's voice."""

    enabled: Annotated[bool, doc("let the assistant speak")] = True
    auto: Annotated[
        Literal["off", "always", "inbound"],
        doc("which answers on channels with voice notes are spoken by themselves: none, all, those to voice notes"),
    ] = "off"
    provider: Annotated[
        Literal["openai", "piper", "espeak-ng"] | None,
        doc("who speaks; when absent openai if it is in providers, else what is installed"),
    ] = None
    providers: Annotated[Mapping[str, SpeechProviderSettings], doc("ways to speak, by name")] = field(
        default_factory=dict
    )
    max_text_length: Annotated[Count, doc("characters that are spoken at most; longer answers are text only")] = 4_096
    timeout_ms: Annotated[int, doc("longest time for making a voice note", ge=1_000, le=120_000)] = 30_000


class MediaModelSettings(Settings, frozen=True):
    """`tools.media.models[]`: who understands sound: an endpoint, or a program."""

    type: Annotated[Literal["provider", "cli"], doc("an OpenAI-compatible endpoint, or a program")] = "provider"
    provider: Annotated[str | None, doc("its address and key are those of models.providers.<provider>")] = None
    model: Annotated[str | None, doc("the model of the endpoint")] = None
    base_url: Annotated[str | None, doc("the address of an endpoint that has /audio/transcriptions")] = None
    command: Annotated[str, doc("cli: the program; what it prints is the transcript")] = ""
    args: Annotated[
        tuple[str, ...], doc("cli: its arguments; {{MediaPath}}, {{Language}} and {{Prompt}} are filled in")
    ] = ()
    capabilities: Annotated[tuple[Literal["audio"], ...], doc("what it is asked for; audio")] = ()
    language: Annotated[str | None, doc("the language that is spoken")] = None
    prompt: Annotated[str | None, doc("words that help it understand: names, subjects")] = None
    timeout_seconds: Annotated[Count | None, doc("longest wait for it")] = None


class AudioSettings(Settings, frozen=True):
    """`tools.media.audio`: voice notes that come in."""

    enabled: Annotated[bool, doc("write down what is said in voice notes")] = True
    max_bytes: Annotated[Count, doc("longer files are not listened to")] = 20_971_520
    max_chars: Annotated[Count, doc("most characters of a transcript")] = 20_000
    timeout_seconds: Annotated[Count, doc("longest wait for a transcript")] = 60
    language: Annotated[str | None, doc("the language that is spoken")] = None
    prompt: Annotated[str | None, doc("words that help understanding: names, subjects")] = None
    base_url: Annotated[str | None, doc("the address of an OpenAI-compatible endpoint, instead of models")] = None


class MediaSettings(Settings, frozen=True):
    """`tools.media`: files that come in."""

    models: Annotated[tuple[MediaModelSettings, ...], doc("who understands them; the first that answers counts")] = ()
    audio: Annotated[AudioSettings, doc("voice notes")] = AudioSettings()


class ToolsSettings(Settings, frozen=True):
    """`tools`: which tools an agent has and how far they may go."""

    profile: Annotated[Profile | None, doc("the set of tools to start from; all when absent")] = None
    allow: Annotated[tuple[str, ...], doc("only these tools: names, globs or group:<name>; all when empty")] = ()
    also_allow: Annotated[tuple[str, ...], doc("tools added to the profile; not together with allow")] = ()
    deny: Annotated[tuple[str, ...], doc("never these tools; wins over everything else")] = ()
    by_provider: Annotated[
        Mapping[str, ProviderRules], doc("tools by provider or provider/model, out of those that remain")
    ] = field(default_factory=dict)
    tools_by_sender: Annotated[
        Mapping[str, NarrowSettings], doc("tools by who speaks: channel:CHANNEL:ID, id:, e164:, username:, name: or *")
    ] = field(default_factory=dict)
    exec: Annotated[ExecSettings, doc("running commands")] = ExecSettings()
    fs: Annotated[FsSettings, doc("the file tools")] = FsSettings()
    loop_detection: Annotated[LoopDetectionSettings, doc("stopping a run that goes round in circles")] = (
        LoopDetectionSettings()
    )
    web: Annotated[WebSettings, doc("reading pages and searching")] = WebSettings()
    media: Annotated[MediaSettings, doc("files that come in")] = MediaSettings()
    sessions: Annotated[SessionToolSettings, doc("what the session tools may see")] = SessionToolSettings()
    agent_to_agent: Annotated[AgentToAgentSettings, doc("agents that reach each other")] = AgentToAgentSettings()
    subagents: Annotated[SubagentToolSettings, doc("what sub-agents may do")] = SubagentToolSettings()
    sandbox: Annotated[SandboxToolSettings, doc("what runs in a sandbox may do")] = SandboxToolSettings()
    elevated: Annotated[ElevatedSettings, doc("leaving the sandbox")] = ElevatedSettings()
    sessions_spawn: Annotated[SpawnSettings, doc("starting sub-agents")] = field(
        name="sessions_spawn", default=SpawnSettings()
    )
    tool_search: Annotated[
        bool, doc("send the schemas of everyday tools only, and let the model look up the others; false sends all")
    ] = True
    experimental: Annotated[ToolExperimentalSettings, doc("not settled yet")] = ToolExperimentalSettings()
