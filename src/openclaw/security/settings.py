"""Settings of `security`, of sandboxes, and of the rules that remove tools for an agent, provider, group or sender."""

from collections.abc import Mapping
from typing import Annotated, Literal

from msgspec import Meta, field

from openclaw.core.sandbox import Access
from openclaw.core.secret import Secret
from openclaw.core.settings import Count, Settings
from openclaw.core.text import ActionKind, LabelColumn, LabelDecision
from openclaw.security.profiles import SecurityProfile

Id = str | int


class CommandsSettings(Settings, frozen=True):
    """`commands`: who may command the assistant, and how they appear in the prompt."""

    allow_from: Mapping[str, tuple[Id, ...]] = field(default_factory=dict)
    """who may use commands on a channel (its name, or *); the owner alone when empty"""
    config: bool = False
    """let the owner change the configuration from a chat, with /config"""
    restart: bool = True
    """let the owner restart the gateway from a chat, with /restart"""
    owner_allow_from: tuple[str, ...] = ()
    """ids of the owner, for example telegram:123456789"""
    owner_display: Literal["hash", "raw"] = "hash"
    """show owner ids to the model as keyed hashes, or as they are"""
    owner_display_secret: Secret | None = None
    """key of those hashes; made by itself and kept in the state directory when absent"""


class ApprovalsSettings(Settings, frozen=True):
    """`approvals`: what becomes of questions to the owner."""

    unattended: Literal["ask", "refuse"] | None = None
    """what a run that nobody watches (cron, webhook, heartbeat) does about a call that needs approval; when unset
    it asks if the owner can be reached, and refuses otherwise"""


SandboxMode = Literal["off", "non-main", "all"]
Scope = Literal["session", "agent", "shared"]
HOUR = 3600.0
IMAGE = "openclaw-sandbox:bookworm-slim"
BACKENDS = ("auto", "process", "docker", "podman")
Number = Annotated[int, Meta(ge=0)]
Share = Annotated[float, Meta(ge=0)]


class ContainerSettings(Settings, frozen=True):
    """`sandbox.docker`: what a box sees and may use; the process backend heeds what it can."""

    image: str | None = None
    """the image of a container"""
    container_prefix: str | None = None
    """how names of boxes begin"""
    workdir: str | None = None
    """where the workspace is inside"""
    network: str | None = None
    """none, or the network it is given; host is refused"""
    user: str | None = None
    """user and group inside a container, 1000:1000; ours when absent"""
    env: Mapping[str, str] = field(default_factory=dict)
    """variables inside; nothing of ours is inherited"""
    setup_command: str | tuple[str, ...] | None = None
    """run once in a new container"""
    pids_limit: Number | None = None
    """most processes; 0 for no limit"""
    memory: str | int | None = None
    """most memory, such as 1g; of each process with the process backend; usually 2g, 0 for any"""
    disk: str | int | None = None
    """largest file that may be written, such as 1g; usually 2g, 0 for any"""
    cpus: Share | None = None
    """processors; containers only"""
    binds: tuple[str, ...] | None = None
    """more directories: HOST:INSIDE:ro or HOST:INSIDE:rw"""


class PruneSettings(Settings, frozen=True):
    """`sandbox.prune`: when a box is emptied by itself; its workspace stays."""

    idle_hours: Number | None = None
    """hours without use, usually 24; 0 means never"""
    max_age_days: Number | None = None
    """days since it was made, usually 7; 0 means never"""


class SandboxSettings(Settings, frozen=True):
    """`sandbox`: a box for files and commands."""

    mode: SandboxMode | None = None
    """off, non-main: every session but the main one, all"""
    backend: str | None = None
    """process (bubblewrap), docker or podman; auto takes the first that works here"""
    scope: Scope | None = None
    """who shares a box: nobody, the sessions of an agent, everybody"""
    workspace_access: Access | None = None
    """the agent's workspace inside: none, ro at /agent, rw at /workspace"""
    session_tools_visibility: Literal["spawned", "all"] | None = None
    """spawned: session tools see only sub-agents of the session"""
    workspace_root: str | None = None
    """where boxes keep their files; sandboxes/ in the state when absent"""
    docker: ContainerSettings = ContainerSettings()
    """what a box sees and may use"""
    prune: PruneSettings = PruneSettings()
    """when a box is emptied by itself"""


Profile = Literal["minimal", "coding", "messaging", "full"]
Security = Literal["deny", "allowlist", "full"]
Ask = Literal["off", "on-miss", "always"]
ExecMode = Literal["deny", "allowlist", "ask", "full"]


class NarrowSettings(Settings, frozen=True):
    """Tools that remain: names, globs or group:<name>."""

    allow: tuple[str, ...] = ()
    """only these; all there may be when empty"""
    also_allow: tuple[str, ...] = ()
    """these besides the ones that remain anyway; not together with allow"""
    deny: tuple[str, ...] = ()
    """never these; wins over everything else"""


class ProviderRules(NarrowSettings, frozen=True):
    """`byProvider`: tools for the models of one provider, or for one model."""

    profile: Profile | None = None
    """the set of tools these models start from"""


class SandboxToolSettings(Settings, frozen=True):
    """`tools.sandbox`: what runs in a sandbox may do."""

    tools: NarrowSettings = NarrowSettings()
    """tools inside a sandbox; the safe ones unless set"""


class ElevatedSettings(Settings, frozen=True):
    """`tools.elevated`: leaving the sandbox."""

    enabled: bool = True
    """let the owner switch it on with /elevated"""
    allow_from: Mapping[str, tuple[Id, ...]] = field(default_factory=dict)
    """who else may, by channel; * is everyone"""
    expires_minutes: Annotated[float, Meta(ge=0)] = 60
    """how long /elevated holds in a session; 0 until it is taken back"""


class ExecOverride(Settings, frozen=True):
    """`agents.list[].tools.exec`: running commands, for one agent, in place of tools.exec."""

    mode: ExecMode | None = None
    """security and ask in one word; not together with them"""
    security: Security | None = None
    """what runs at all"""
    ask: Ask | None = None
    """when a person is asked"""
    timeout_seconds: float | None = None
    """longest run of a command"""


class FsOverride(Settings, frozen=True):
    """`agents.list[].tools.fs`: the file tools, for one agent."""

    workspace_only: bool | None = None
    """read and write inside the workspace only"""


class AgentElevated(Settings, frozen=True):
    """`agents.list[].tools.elevated`: leaving the sandbox, for one agent; both places must allow it."""

    enabled: bool = True
    """let the owner switch it on with /elevated"""
    allow_from: Mapping[str, tuple[Id, ...]] = field(default_factory=dict)
    """who else may, by channel"""


class AgentToolSettings(Settings, frozen=True):
    """`agents.list[].tools`: tools of one agent, out of those that remain for all."""

    profile: Profile | None = None
    """the set of tools it starts from, in place of tools.profile"""
    allow: tuple[str, ...] = ()
    """only these tools; all when empty"""
    also_allow: tuple[str, ...] = ()
    """tools added to the profile; not together with allow"""
    deny: tuple[str, ...] = ()
    """never these tools"""
    by_provider: Mapping[str, ProviderRules] = field(default_factory=dict)
    """by provider, or provider/model"""
    tools_by_sender: Mapping[str, NarrowSettings] = field(default_factory=dict)
    """by who speaks: channel:CHANNEL:ID, id:, e164:, username:, name: or *"""
    exec: ExecOverride = ExecOverride()
    """running commands"""
    fs: FsOverride = FsOverride()
    """the file tools"""
    elevated: AgentElevated = AgentElevated()
    """leaving the sandbox"""
    sandbox: SandboxToolSettings | None = None
    """tools inside its sandbox, in place of tools.sandbox"""


ElevatedDefault = Literal["off", "on", "ask", "full"] | bool


class PolicyCommand(Settings, frozen=True):
    """`security.installPolicy.exec`: the program that decides about installs."""

    command: Annotated[str, Meta(min_length=1)]
    """the program: an absolute path"""
    args: tuple[str, ...] = ()
    """its arguments"""
    timeout_ms: Count = 10_000
    """longest wait for its answer"""
    max_output_bytes: Count = 1 << 20
    """longest answer"""
    env: Mapping[str, Secret] = field(default_factory=dict)
    """variables it gets"""
    pass_env: tuple[str, ...] = ()
    """variables of ours that it gets as well"""


class InstallPolicySettings(Settings, frozen=True):
    """`security.installPolicy`: an operator's say over what may be installed."""

    enabled: bool = False
    """ask the program before anything is installed"""
    targets: tuple[Literal["skill", "plugin"], ...] = ("skill", "plugin")
    """what it is asked about"""
    exec: PolicyCommand | None = None
    """the program"""


class ExternalContentSettings(Settings, frozen=True):
    """`security.externalContent`: what text from elsewhere may bring about."""

    taint_tools: Literal["off", "approve", "deny"] = "approve"
    """once untrusted text was read, calls that run code, send out, schedule, spend or change settings: go on, need
    your approval, or are refused"""
    table: Mapping[LabelColumn, Mapping[ActionKind, LabelDecision]] = field(default_factory=dict)
    """changes to the table of labels: label, then what a call does, then allow, ask or deny"""
    trusted_paths: tuple[str, ...] = ()
    """directories outside the workspace whose files are your own words"""
    untrusted_paths: tuple[str, ...] = ()
    """patterns of paths inside the workspace that hold what others wrote"""


class EgressBudget(Settings, frozen=True):
    """`tools.web.egressBudget`: what a run may send out once it has read text from elsewhere."""

    requests: Annotated[int, Meta(ge=0)] = 20
    """addresses of pages that a run fetches before you are asked"""
    bytes: Annotated[int, Meta(ge=0)] = 512
    """bytes of path and query that a run adds to addresses of sites you named before you are asked"""


class BreakerSettings(Settings, frozen=True):
    """`security.breaker`: pausing a run that does too much of what cannot be taken back."""

    deletes_per_minute: Annotated[int, Meta(ge=0)] = 10
    """deletions an agent makes in a minute before you are asked; 0 = no limit"""
    sends_per_minute: Annotated[int, Meta(ge=0)] = 10
    """messages and requests of its own wording in a minute before you are asked; 0 = no limit"""


class UndoSettings(Settings, frozen=True):
    """`security.undo`: what is kept so that changes of files can be undone."""

    enabled: bool = True
    """keep files as they were before tools changed them"""
    max_mb: Count = 256
    """most megabytes kept; the oldest runs go first"""
    max_file_mb: Count = 32
    """larger files are not kept, and cannot be undone"""
    days: Count = 14
    """how long a run can be undone"""


class AuditSettings(Settings, frozen=True):
    """`security.audit`: what `openclaw security audit` says."""

    suppressions: tuple[str, ...] = ()
    """ids of checks that are not to be told of any more"""


class SecuritySettings(Settings, frozen=True):
    """`security`: protections that work whatever the model does."""

    profile: SecurityProfile | None = None
    """a named set of settings, under what is set by hand: strict, balanced (as without one) or open"""
    audit: AuditSettings = AuditSettings()
    """what openclaw security audit says"""
    prompt_boundaries: bool = True
    """enclose workspace files in the prompt in markers nobody can forge"""
    bootstrap_pinning: Literal["off", "notify", "hold"] = "off"
    """what becomes of AGENTS.md, SOUL.md and the like when they change: nothing, the owner is told, or they are
    used as they were until the owner has looked (openclaw workspace review)"""
    install_policy: InstallPolicySettings = InstallPolicySettings()
    """an operator's say over what may be installed"""
    external_content: ExternalContentSettings = ExternalContentSettings()
    """what text from elsewhere may bring about"""
    breaker: BreakerSettings = BreakerSettings()
    """pausing a run that deletes or sends in bulk"""
    undo: UndoSettings = UndoSettings()
    """undoing what tools did to files"""
