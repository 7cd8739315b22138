"""Settings of `security`, of sandboxes, and of the rules that remove tools for an agent, provider, group or sender."""

from collections.abc import Mapping
from typing import Annotated, Literal

from msgspec import Meta, field

from openclaw.core.sandbox import Access
from openclaw.core.secret import Secret
from openclaw.core.settings import Count, Settings, doc
from openclaw.core.text import ActionKind, LabelColumn, LabelDecision
from openclaw.security.profiles import SecurityProfile

Id = str | int


class CommandsSettings(Settings, frozen=True):
    """`commands`: who may command the assistant, and how they appear in the prompt."""

    allow_from: Annotated[
        Mapping[str, tuple[Id, ...]],
        doc("who may use commands on a channel (its name, or *); the owner alone when empty"),
    ] = field(default_factory=dict)
    config: Annotated[bool, doc("let the owner change the configuration from a chat, with /config")] = False
    restart: Annotated[bool, doc("let the owner restart the gateway from a chat, with /restart")] = True
    owner_allow_from: Annotated[tuple[str, ...], doc("ids of the owner, for example telegram:123456789")] = ()
    owner_display: Annotated[
        Literal["hash", "raw"], doc("show owner ids to the model as keyed hashes, or as they are")
    ] = "hash"
    owner_display_secret: Annotated[
        Secret | None, doc("key of those hashes; made by itself and kept in the state directory when absent")
    ] = None


class ApprovalsSettings(Settings, frozen=True):
    """`approvals`: what becomes of questions to the owner."""

    unattended: Annotated[
        Literal["ask", "refuse"] | None,
        doc(
            "what a run that nobody watches (cron, webhook, heartbeat) does about a call that needs approval; "
            "when unset it asks if the owner can be reached, and refuses otherwise"
        ),
    ] = None


SandboxMode = Literal["off", "non-main", "all"]
Scope = Literal["session", "agent", "shared"]
HOUR = 3600.0
IMAGE = "openclaw-sandbox:bookworm-slim"
BACKENDS = ("auto", "process", "docker", "podman")
Number = Annotated[int, Meta(ge=0)]
Share = Annotated[float, Meta(ge=0)]


class ContainerSettings(Settings, frozen=True):
    """`sandbox.docker`: what a box sees and may use; the process backend heeds what it can."""

    image: Annotated[str | None, doc("the image of a container")] = None
    container_prefix: Annotated[str | None, doc("how names of boxes begin")] = None
    workdir: Annotated[str | None, doc("where the workspace is inside")] = None
    network: Annotated[str | None, doc("none, or the network it is given; host is refused")] = None
    user: Annotated[str | None, doc("user and group inside a container, 1000:1000; ours when absent")] = None
    env: Annotated[Mapping[str, str], doc("variables inside; nothing of ours is inherited")] = field(
        default_factory=dict
    )
    setup_command: Annotated[str | tuple[str, ...] | None, doc("run once in a new container")] = None
    pids_limit: Annotated[Number | None, doc("most processes; 0 for no limit")] = None
    memory: Annotated[
        str | int | None,
        doc("most memory, such as 1g; of each process with the process backend; usually 2g, 0 for any"),
    ] = None
    disk: Annotated[str | int | None, doc("largest file that may be written, such as 1g; usually 2g, 0 for any")] = None
    cpus: Annotated[Share | None, doc("processors; containers only")] = None
    binds: Annotated[tuple[str, ...] | None, doc("more directories: HOST:INSIDE:ro or HOST:INSIDE:rw")] = None


class PruneSettings(Settings, frozen=True):
    """`sandbox.prune`: when a box is emptied by itself; its workspace stays."""

    idle_hours: Annotated[Number | None, doc("hours without use, usually 24; 0 means never")] = None
    max_age_days: Annotated[Number | None, doc("days since it was made, usually 7; 0 means never")] = None


class SandboxSettings(Settings, frozen=True):
    """`sandbox`: a box for files and commands."""

    mode: Annotated[SandboxMode | None, doc("off, non-main: every session but the main one, all")] = None
    backend: Annotated[
        str | None, doc("process (bubblewrap), docker or podman; auto takes the first that works here")
    ] = None
    scope: Annotated[Scope | None, doc("who shares a box: nobody, the sessions of an agent, everybody")] = None
    workspace_access: Annotated[
        Access | None, doc("the agent's workspace inside: none, ro at /agent, rw at /workspace")
    ] = None
    session_tools_visibility: Annotated[
        Literal["spawned", "all"] | None, doc("spawned: session tools see only sub-agents of the session")
    ] = None
    workspace_root: Annotated[str | None, doc("where boxes keep their files; sandboxes/ in the state when absent")] = (
        None
    )
    docker: Annotated[ContainerSettings, doc("what a box sees and may use")] = ContainerSettings()
    prune: Annotated[PruneSettings, doc("when a box is emptied by itself")] = PruneSettings()


Profile = Literal["minimal", "coding", "messaging", "full"]
Security = Literal["deny", "allowlist", "full"]
Ask = Literal["off", "on-miss", "always"]
ExecMode = Literal["deny", "allowlist", "ask", "full"]


class NarrowSettings(Settings, frozen=True):
    """Tools that remain: names, globs or group:<name>."""

    allow: Annotated[tuple[str, ...], doc("only these; all there may be when empty")] = ()
    also_allow: Annotated[
        tuple[str, ...], doc("these besides the ones that remain anyway; not together with allow")
    ] = ()
    deny: Annotated[tuple[str, ...], doc("never these; wins over everything else")] = ()


class ProviderRules(NarrowSettings, frozen=True):
    """`byProvider`: tools for the models of one provider, or for one model."""

    profile: Annotated[Profile | None, doc("the set of tools these models start from")] = None


class SandboxToolSettings(Settings, frozen=True):
    """`tools.sandbox`: what runs in a sandbox may do."""

    tools: Annotated[NarrowSettings, doc("tools inside a sandbox; the safe ones unless set")] = NarrowSettings()


class ElevatedSettings(Settings, frozen=True):
    """`tools.elevated`: leaving the sandbox."""

    enabled: Annotated[bool, doc("let the owner switch it on with /elevated")] = True
    allow_from: Annotated[Mapping[str, tuple[Id, ...]], doc("who else may, by channel; * is everyone")] = field(
        default_factory=dict
    )
    expires_minutes: Annotated[float, doc("how long /elevated holds in a session; 0 until it is taken back", ge=0)] = 60


class ExecOverride(Settings, frozen=True):
    """`agents.list[].tools.exec`: running commands, for one agent, in place of tools.exec."""

    mode: Annotated[ExecMode | None, doc("security and ask in one word; not together with them")] = None
    security: Annotated[Security | None, doc("what runs at all")] = None
    ask: Annotated[Ask | None, doc("when a person is asked")] = None
    timeout_seconds: Annotated[float | None, doc("longest run of a command")] = None


class FsOverride(Settings, frozen=True):
    """`agents.list[].tools.fs`: the file tools, for one agent."""

    workspace_only: Annotated[bool | None, doc("read and write inside the workspace only")] = None


class AgentElevated(Settings, frozen=True):
    """`agents.list[].tools.elevated`: leaving the sandbox, for one agent; both places must allow it."""

    enabled: Annotated[bool, doc("let the owner switch it on with /elevated")] = True
    allow_from: Annotated[Mapping[str, tuple[Id, ...]], doc("who else may, by channel")] = field(default_factory=dict)


class AgentToolSettings(Settings, frozen=True):
    """`agents.list[].tools`: tools of one agent, out of those that remain for all."""

    profile: Annotated[Profile | None, doc("the set of tools it starts from, in place of tools.profile")] = None
    allow: Annotated[tuple[str, ...], doc("only these tools; all when empty")] = ()
    also_allow: Annotated[tuple[str, ...], doc("tools added to the profile; not together with allow")] = ()
    deny: Annotated[tuple[str, ...], doc("never these tools")] = ()
    by_provider: Annotated[Mapping[str, ProviderRules], doc("by provider, or provider/model")] = field(
        default_factory=dict
    )
    tools_by_sender: Annotated[
        Mapping[str, NarrowSettings], doc("by who speaks: channel:CHANNEL:ID, id:, e164:, username:, name: or *")
    ] = field(default_factory=dict)
    exec: Annotated[ExecOverride, doc("running commands")] = ExecOverride()
    fs: Annotated[FsOverride, doc("the file tools")] = FsOverride()
    elevated: Annotated[AgentElevated, doc("leaving the sandbox")] = AgentElevated()
    sandbox: Annotated[SandboxToolSettings | None, doc("tools inside its sandbox, in place of tools.sandbox")] = None


ElevatedDefault = Literal["off", "on", "ask", "full"] | bool


class PolicyCommand(Settings, frozen=True):
    """`security.installPolicy.exec`: the program that decides about installs."""

    command: Annotated[str, doc("the program: an absolute path", min_length=1)]
    args: Annotated[tuple[str, ...], doc("its arguments")] = ()
    timeout_ms: Annotated[Count, doc("longest wait for its answer")] = 10_000
    max_output_bytes: Annotated[Count, doc("longest answer")] = 1 << 20
    env: Annotated[Mapping[str, Secret], doc("variables it gets")] = field(default_factory=dict)
    pass_env: Annotated[tuple[str, ...], doc("variables of ours that it gets as well")] = ()


class InstallPolicySettings(Settings, frozen=True):
    """`security.installPolicy`: an operator's say over what may be installed."""

    enabled: Annotated[bool, doc("ask the program before anything is installed")] = False
    targets: Annotated[tuple[Literal["skill", "plugin"], ...], doc("what it is asked about")] = ("skill", "plugin")
    exec: Annotated[PolicyCommand | None, doc("the program")] = None


class ExternalContentSettings(Settings, frozen=True):
    """`security.externalContent`: what text from elsewhere may bring about."""

    taint_tools: Annotated[
        Literal["off", "approve", "deny"],
        doc(
            "once untrusted text was read, calls that run code, send out, schedule, spend or change settings: go on,"
            " need your approval, or are refused"
        ),
    ] = "approve"
    table: Annotated[
        Mapping[LabelColumn, Mapping[ActionKind, LabelDecision]],
        doc("changes to the table of labels: label, then what a call does, then allow, ask or deny"),
    ] = field(default_factory=dict)
    trusted_paths: Annotated[
        tuple[str, ...], doc("directories outside the workspace whose files are your own words")
    ] = ()
    untrusted_paths: Annotated[
        tuple[str, ...], doc("patterns of paths inside the workspace that hold what others wrote")
    ] = ()


class EgressBudget(Settings, frozen=True):
    """`tools.web.egressBudget`: what a run may send out once it has read text from elsewhere."""

    requests: Annotated[int, doc("addresses of pages that a run fetches before you are asked", ge=0)] = 20
    bytes: Annotated[
        int, doc("bytes of path and query that a run adds to addresses of sites you named before you are asked", ge=0)
    ] = 512


class BreakerSettings(Settings, frozen=True):
    """`security.breaker`: pausing a run that does too much of what cannot be taken back."""

    deletes_per_minute: Annotated[
        int, doc("deletions an agent makes in a minute before you are asked; 0 = no limit", ge=0)
    ] = 10
    sends_per_minute: Annotated[
        int, doc("messages and requests of its own wording in a minute before you are asked; 0 = no limit", ge=0)
    ] = 10


class UndoSettings(Settings, frozen=True):
    """`security.undo`: what is kept so that changes of files can be undone."""

    enabled: Annotated[bool, doc("keep files as they were before tools changed them")] = True
    max_mb: Annotated[Count, doc("most megabytes kept; the oldest runs go first")] = 256
    max_file_mb: Annotated[Count, doc("larger files are not kept, and cannot be undone")] = 32
    days: Annotated[Count, doc("how long a run can be undone")] = 14


class AuditSettings(Settings, frozen=True):
    """`security.audit`: what `openclaw security audit` says."""

    suppressions: Annotated[tuple[str, ...], doc("ids of checks that are not to be told of any more")] = ()


class SecuritySettings(Settings, frozen=True):
    """`security`: protections that work whatever the model does."""

    profile: Annotated[
        SecurityProfile | None,
        doc("a named set of settings, under what is set by hand: strict, balanced (as without one) or open"),
    ] = None
    audit: Annotated[AuditSettings, doc("what openclaw security audit says")] = AuditSettings()
    prompt_boundaries: Annotated[bool, doc("enclose workspace files in the prompt in markers nobody can forge")] = True
    bootstrap_pinning: Annotated[
        Literal["off", "notify", "hold"],
        doc(
            "what becomes of AGENTS.md, SOUL.md and the like when they change: nothing, the owner is told, or they are"
            " used as they were until the owner has looked (openclaw workspace review)"
        ),
    ] = "off"
    install_policy: Annotated[InstallPolicySettings, doc("an operator's say over what may be installed")] = (
        InstallPolicySettings()
    )
    external_content: Annotated[ExternalContentSettings, doc("what text from elsewhere may bring about")] = (
        ExternalContentSettings()
    )
    breaker: Annotated[BreakerSettings, doc("pausing a run that deletes or sends in bulk")] = BreakerSettings()
    undo: Annotated[UndoSettings, doc("undoing what tools did to files")] = UndoSettings()
