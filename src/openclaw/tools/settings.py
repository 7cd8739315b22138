"""Settings of `tools`, `mcp`, `browser` and `acp`."""

from collections.abc import Mapping
from typing import Annotated, Literal

from msgspec import Meta, field

from openclaw.core.secret import Secret
from openclaw.core.settings import Count, Millis, Seconds, Settings
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

Variables = Mapping[str, Secret]


class ToolFilterSettings(Settings, frozen=True):
    """`mcp.servers.<id>.toolFilter`: which of a server's tools are used."""

    include: tuple[str, ...] = ()
    """only these: the server's own names, or globs; all when empty"""
    exclude: tuple[str, ...] = ()
    """never these; wins over include"""


class McpServerSettings(Settings, frozen=True):
    """`mcp.servers.<id>`: a program that is started, or an address."""

    enabled: bool = True
    """use this server"""
    command: str = ""
    """the program to start"""
    args: tuple[str, ...] = ()
    """its arguments"""
    env: Variables = field(default_factory=dict)
    """variables it gets; of ours it sees HOME, PATH, SHELL, USER, LOGNAME, TERM only"""
    cwd: str = ""
    """the directory it starts in; the workspace when absent"""
    url: str = ""
    """the address of a server that runs already"""
    transport: Literal["stdio", "sse", "streamable-http"] | None = None
    """how it is spoken to; stdio with a command, streamable-http with a url when absent"""
    headers: Mapping[str, Secret] = field(default_factory=dict)
    """sent with every request to the url"""
    connection_timeout_ms: Millis = 30_000
    """longest wait until it is ready"""
    request_timeout_ms: Millis = 60_000
    """longest wait for an answer"""
    supports_parallel_tool_calls: bool = False
    """it can work on several calls at a time"""
    ssl_verify: bool = True
    """check the certificate of the url"""
    client_cert: str = ""
    """a certificate of ours, as a file"""
    client_key: str = ""
    """the key of that certificate, as a file"""
    tool_filter: ToolFilterSettings = ToolFilterSettings()
    """which of its tools are used"""
    auth: Literal["oauth"] | None = None
    """oauth is not supported yet: put a token into headers"""


class McpSettings(Settings, frozen=True):
    """`mcp`: servers that lend us tools."""

    servers: Mapping[str, McpServerSettings] = field(default_factory=dict)
    """servers by name"""
    session_idle_ttl_ms: Millis = 600_000
    """a server that was not used for so long is stopped; 0 means never"""


class SsrfSettings(Settings, frozen=True):
    """`ssrfPolicy`: addresses beyond the public internet."""

    dangerously_allow_private_network: bool = False
    """fetch from private and loopback addresses too; a page can then reach your machines"""
    allowed_hostnames: tuple[str, ...] = ()
    """private hosts that may be fetched; globs"""
    blocked_hostnames: tuple[str, ...] = ()
    """hosts that are never fetched; globs"""


class FetchSettings(Settings, frozen=True):
    """`tools.web.fetch`: reading pages."""

    enabled: bool = True
    """offer the web_fetch tool"""
    max_chars: Count = 20_000
    """characters returned when the model does not say"""
    max_chars_cap: Count = 20_000
    """most characters a call may return"""
    max_response_bytes: Count = 750_000
    """most bytes read of an answer"""
    timeout_seconds: Seconds = 30
    """longest fetch"""
    cache_ttl_minutes: Annotated[float, Meta(ge=0)] = 15
    """how long a page is remembered"""
    max_redirects: Annotated[int, Meta(ge=0, le=20)] = 3
    """redirects followed, each of them checked"""
    user_agent: str | None = None
    """how we introduce ourselves to servers"""
    headers: Mapping[str, str] = field(default_factory=dict)
    """sent to the first server of a fetch"""
    readability: bool = True
    """extract the readable part of pages"""
    ssrf_policy: SsrfSettings = SsrfSettings()
    """addresses beyond the public internet"""


class SearchSettings(Settings, frozen=True):
    """`tools.web.search`: searching the web."""

    enabled: bool = True
    """offer the web_search tool"""
    provider: Literal["brave", "searxng", "duckduckgo"] | None = None
    """the engine; without one: Brave with a key, SearXNG with an address, else DuckDuckGo"""
    api_key: Secret | None = None
    """the key of Brave Search; BRAVE_API_KEY when absent"""
    base_url: str | None = None
    """the address of a SearXNG instance; SEARXNG_BASE_URL when absent"""
    max_results: Annotated[int, Meta(ge=1, le=10)] = 5
    """results when the model does not say"""
    timeout_seconds: Seconds = 30
    """longest search"""
    cache_ttl_minutes: Annotated[float, Meta(ge=0)] = 15
    """how long results are remembered"""


class WebSettings(Settings, frozen=True):
    """`tools.web`: the web."""

    fetch: FetchSettings = FetchSettings()
    """reading pages"""
    search: SearchSettings = SearchSettings()
    """searching the web"""
    egress_budget: EgressBudget = EgressBudget()
    """what a run may send out once it has read text from elsewhere"""


class SnapshotSettings(Settings, frozen=True):
    """`browser.snapshotDefaults`: snapshots when the model does not say."""

    mode: Literal["efficient"] | None = None
    """efficient: only what can be used, short"""


class BrowserSettings(Settings, frozen=True):
    """`browser`: a real browser for the assistant."""

    enabled: bool = True
    """offer the browser tool; it needs the extra browser"""
    executable_path: str = ""
    """the Chromium to start; looked for when absent"""
    headless: bool = True
    """without a window; true unless set, unlike OpenClaw"""
    no_sandbox: bool = False
    """start Chromium without its own sandbox; needed to run it as root"""
    evaluate_enabled: bool = True
    """let the model run scripts in pages"""
    default_profile: str = "openclaw"
    """the profile when the model names none"""
    extra_args: tuple[str, ...] = ()
    """more arguments for Chromium"""
    snapshot_defaults: SnapshotSettings = SnapshotSettings()
    """snapshots when the model does not say"""
    ssrf_policy: SsrfSettings = SsrfSettings()
    """addresses beyond the public internet"""


class AcpAgentSettings(Settings, frozen=True):
    """`acp.agents.<id>`: a coding agent on this machine."""

    command: Annotated[str, Meta(min_length=1)]
    """the program to start; it speaks ACP on its standard input and output"""
    args: tuple[str, ...] = ()
    """its arguments"""
    env: Variables = field(default_factory=dict)
    """variables it gets; of ours it sees HOME, PATH, SHELL, USER, LOGNAME, TERM only"""


class AcpSettings(Settings, frozen=True):
    """`acp`: handing work to coding agents of other makers."""

    enabled: bool = True
    """let work be handed to them"""
    agents: Mapping[str, AcpAgentSettings] = field(default_factory=dict)
    """agents by name"""
    default_agent: str = ""
    """the agent when nobody is named"""
    allowed_agents: tuple[str, ...] = ()
    """only these; all that are configured when empty"""


class SessionToolSettings(Settings, frozen=True):
    """`tools.sessions`: what the session tools may see."""

    visibility: Literal["self", "tree", "agent", "all"] = "tree"
    """self: this session; tree: and its sub-agents, and from your own conversations all of this agent's; agent:
    all of this agent's, also from groups and guests; all: every agent's"""


class AgentToAgentSettings(Settings, frozen=True):
    """`tools.agentToAgent`: agents that look at and write to each other's sessions."""

    enabled: bool = False
    """let agents reach each other; needs tools.sessions.visibility all"""
    allow: tuple[str, ...] = ()
    """ids or globs of the agents that may take part; all when empty"""


class SubagentToolSettings(Settings, frozen=True):
    """`tools.subagents`: what sub-agents may do."""

    tools: NarrowSettings = NarrowSettings()
    """tools that sub-agents keep"""


class AttachmentSettings(Settings, frozen=True):
    """`tools.sessions_spawn.attachments`: files handed to a sub-agent."""

    enabled: bool = True
    """let files be handed over"""
    max_files: Count = 50
    """most files of one call"""
    max_file_bytes: Count = 1 << 20
    """most bytes of one file"""
    max_total_bytes: Count = 5 << 20
    """most bytes of all files of one call"""


class SpawnSettings(Settings, frozen=True):
    """`tools.sessions_spawn`: starting sub-agents."""

    attachments: AttachmentSettings = AttachmentSettings()
    """files handed to a sub-agent"""


class ToolExperimentalSettings(Settings, frozen=True):
    """`tools.experimental`: not settled yet."""

    plan_tool: bool = False
    """offer the update_plan tool"""


class ApplyPatchSettings(Settings, frozen=True):
    """`tools.exec.applyPatch`: editing several files with one patch."""

    enabled: bool = True
    """offer the apply_patch tool"""
    workspace_only: bool = True
    """patch files inside the workspace only"""


_FILTERS = ("cut", "uniq", "head", "tail", "tr", "wc")


class ExecSettings(Settings, frozen=True):
    """`tools.exec`: running commands."""

    security: Security = "allowlist"
    """deny runs nothing, allowlist runs what is on the list, full runs everything; allowlist unless set, which is
    stricter than OpenClaw's full"""
    ask: Ask = "on-miss"
    """when to ask a person: never, when a command is not on the list, always; on-miss unless set, which is
    stricter than OpenClaw's off"""
    strict_inline_eval: bool = True
    """code in an argument (python -c, find -exec, make) is always asked about and never allowed for good; on
    unless set, which is stricter than OpenClaw's off"""
    timeout_seconds: Seconds = 1_800
    """longest run of a command; 0 means no limit"""
    max_processes: Annotated[int, Meta(ge=0)] = 1_000
    """most processes of one command at once; 0 means no limit"""
    background_ms: Millis = 10_000
    """wait this long before a command goes on in the background"""
    cleanup_ms: Annotated[int, Meta(ge=60_000, le=10_800_000)] = 1_800_000
    """how long the output of an ended command is kept"""
    notify_on_exit: bool = True
    """tell the session when a background command ends"""
    notify_on_exit_empty_success: bool = False
    """also when it succeeded without a word"""
    path_prepend: tuple[str, ...] = ()
    """directories put in front of PATH"""
    safe_bins: tuple[str, ...] = _FILTERS
    """filters that may run on standard input without being listed"""
    apply_patch: ApplyPatchSettings = ApplyPatchSettings()
    """the apply_patch tool"""


class FsSettings(Settings, frozen=True):
    """`tools.fs`: the file tools."""

    workspace_only: bool = False
    """read and write inside the workspace only"""


class LoopDetectionSettings(Settings, frozen=True):
    """`tools.loopDetection`: stopping a run that goes round in circles."""

    enabled: bool = True
    """watch for repeated calls; on unless set, unlike OpenClaw"""
    history_size: Count = 30
    """calls of a session that are remembered"""
    warning_threshold: Count = 10
    """repeats before the model is told"""
    critical_threshold: Count = 20
    """repeats without progress before calls are blocked"""
    global_circuit_breaker_threshold: Count = 30
    """calls without any progress before the run ends"""


class SpeechProviderSettings(Settings, frozen=True):
    """`tts.providers.<id>`: one way to speak; openai, piper or espeak-ng."""

    api_key: Secret | None = None
    """openai: the key; models.providers.openai.apiKey when absent"""
    base_url: str | None = None
    """openai: the address of an endpoint that has /audio/speech"""
    model: str | None = None
    """openai: the model; piper: the file of the voice"""
    voice: str | None = None
    """openai: the voice; espeak-ng: the language, for example de or en-us"""
    speed: Annotated[float, Meta(gt=0, le=4)] | None = None
    """how fast; 1 is usual"""


class TtsSettings(Settings, frozen=True):
    """`tts`: the assistant's voice."""

    enabled: bool = True
    """let the assistant speak"""
    auto: Literal["off", "always", "inbound"] = "off"
    """which answers on channels with voice notes are spoken by themselves: none, all, those to voice notes"""
    provider: Literal["openai", "piper", "espeak-ng"] | None = None
    """who speaks; when absent openai if it is in providers, else what is installed"""
    providers: Mapping[str, SpeechProviderSettings] = field(default_factory=dict)
    """ways to speak, by name"""
    max_text_length: Count = 4_096
    """characters that are spoken at most; longer answers are text only"""
    timeout_ms: Annotated[int, Meta(ge=1_000, le=120_000)] = 30_000
    """longest time for making a voice note"""


class MediaModelSettings(Settings, frozen=True):
    """`tools.media.models[]`: who understands sound: an endpoint, or a program."""

    type: Literal["provider", "cli"] = "provider"
    """an OpenAI-compatible endpoint, or a program"""
    provider: str | None = None
    """its address and key are those of models.providers.<provider>"""
    model: str | None = None
    """the model of the endpoint"""
    base_url: str | None = None
    """the address of an endpoint that has /audio/transcriptions"""
    command: str = ""
    """cli: the program; what it prints is the transcript"""
    args: tuple[str, ...] = ()
    """cli: its arguments; {{MediaPath}}, {{Language}} and {{Prompt}} are filled in"""
    capabilities: tuple[Literal["audio"], ...] = ()
    """what it is asked for; audio"""
    language: str | None = None
    """the language that is spoken"""
    prompt: str | None = None
    """words that help it understand: names, subjects"""
    timeout_seconds: Count | None = None
    """longest wait for it"""


class AudioSettings(Settings, frozen=True):
    """`tools.media.audio`: voice notes that come in."""

    enabled: bool = True
    """write down what is said in voice notes"""
    max_bytes: Count = 20_971_520
    """longer files are not listened to"""
    max_chars: Count = 20_000
    """most characters of a transcript"""
    timeout_seconds: Count = 60
    """longest wait for a transcript"""
    language: str | None = None
    """the language that is spoken"""
    prompt: str | None = None
    """words that help understanding: names, subjects"""
    base_url: str | None = None
    """the address of an OpenAI-compatible endpoint, instead of models"""


class MediaSettings(Settings, frozen=True):
    """`tools.media`: files that come in."""

    models: tuple[MediaModelSettings, ...] = ()
    """who understands them; the first that answers counts"""
    audio: AudioSettings = AudioSettings()
    """voice notes"""


class ToolsSettings(Settings, frozen=True):
    """`tools`: which tools an agent has and how far they may go."""

    profile: Profile | None = None
    """the set of tools to start from; all when absent"""
    allow: tuple[str, ...] = ()
    """only these tools: names, globs or group:<name>; all when empty"""
    also_allow: tuple[str, ...] = ()
    """tools added to the profile; not together with allow"""
    deny: tuple[str, ...] = ()
    """never these tools; wins over everything else"""
    by_provider: Mapping[str, ProviderRules] = field(default_factory=dict)
    """tools by provider or provider/model, out of those that remain"""
    tools_by_sender: Mapping[str, NarrowSettings] = field(default_factory=dict)
    """tools by who speaks: channel:CHANNEL:ID, id:, e164:, username:, name: or *"""
    exec: ExecSettings = ExecSettings()
    """running commands"""
    fs: FsSettings = FsSettings()
    """the file tools"""
    loop_detection: LoopDetectionSettings = LoopDetectionSettings()
    """stopping a run that goes round in circles"""
    web: WebSettings = WebSettings()
    """reading pages and searching"""
    media: MediaSettings = MediaSettings()
    """files that come in"""
    sessions: SessionToolSettings = SessionToolSettings()
    """what the session tools may see"""
    agent_to_agent: AgentToAgentSettings = AgentToAgentSettings()
    """agents that reach each other"""
    subagents: SubagentToolSettings = SubagentToolSettings()
    """what sub-agents may do"""
    sandbox: SandboxToolSettings = SandboxToolSettings()
    """what runs in a sandbox may do"""
    elevated: ElevatedSettings = ElevatedSettings()
    """leaving the sandbox"""
    sessions_spawn: SpawnSettings = field(name="sessions_spawn", default=SpawnSettings())
    """starting sub-agents"""
    tool_search: bool = True
    """send the schemas of everyday tools only, and let the model look up the others; false sends all"""
    experimental: ToolExperimentalSettings = ToolExperimentalSettings()
    """not settled yet"""
