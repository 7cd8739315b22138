"""Settings of `cron`, `hooks` and `heartbeat`: what starts on its own, and what may be started from outside."""

from typing import Annotated, Literal

from msgspec import Meta

from openclaw.core.settings import Count, SecretInput, Settings


class ActiveHours(Settings, frozen=True):
    """When heartbeats may happen."""

    start: str
    """from this time of day, HH:MM"""
    end: str
    """up to this time of day, HH:MM or 24:00"""
    timezone: str | None = None
    """IANA time zone; the user's when absent"""


class ToolLimits(Settings, frozen=True):
    """Tools for some turns only; policy has removed others before."""

    allow: tuple[str, ...] = ()
    """only these; all when empty"""
    deny: tuple[str, ...] = ()
    """none of these"""


class HeartbeatWatch(Settings, frozen=True):
    """What has to change before a heartbeat asks the model."""

    files: tuple[str, ...] = ()
    """files or folders, relative to the workspace"""
    commands: tuple[str, ...] = ()
    """command lines whose exit code or output is compared"""
    urls: tuple[str, ...] = ()
    """addresses whose status or content is compared"""
    maildirs: tuple[str, ...] = ()
    """Maildirs that are looked into for new mail"""
    due: bool = False
    """look for lines in the notes that say due: and a date"""


class HeartbeatSettings(Settings, frozen=True):
    """`heartbeat`: a regular look at what needs attention; its presence switches it on."""

    every: str = "30m"
    """how often, for example 30m or 2h; 0m switches it off"""
    prompt: str | None = None
    """what to ask instead of the built-in question"""
    include_system_prompt_section: bool = True
    """explain heartbeats in the system prompt"""
    active_hours: ActiveHours | None = None
    """when it may happen; always when absent"""
    model: str | None = None
    """which model looks; the agent's when absent"""
    ack_max_chars: Annotated[int, Meta(ge=0)] = 300
    """an answer with HEARTBEAT_OK and at most this much more is not shown"""
    timeout_seconds: float | None = None
    """longest run; ten minutes, or the interval when that is shorter"""
    target: str = "last"
    """who is told: last (the channel you last wrote from), owner, none, or a channel by name"""
    to: str | None = None
    """with a channel as target: the chat there; the owner's when absent"""
    account_id: str | None = None
    """with a channel as target: the account that tells it"""
    direct_policy: Literal["allow", "block"] = "allow"
    """whether alerts may go to a direct chat, or only to groups"""
    light_context: bool = False
    """of the workspace files it is given HEARTBEAT.md alone"""
    isolated_session: bool = False
    """each look is a conversation of its own, without what was said before; alerts stand in the main one"""
    tools: ToolLimits = ToolLimits()
    """which tools a heartbeat has"""
    watch: HeartbeatWatch = HeartbeatWatch()
    """ask the model only when one of these changed"""


class FailureAlertSettings(Settings, frozen=True):
    """`cron.failureAlert`: when and where people are told that a job keeps failing; a job may say it differently."""

    enabled: bool = True
    """tell it at all"""
    after: Annotated[int, Meta(ge=1)] = 2
    """so many failures in a row"""
    cooldown_ms: Annotated[int, Meta(ge=0)] = 3_600_000
    """milliseconds until the same job is told of again"""
    mode: Literal["announce", "webhook"] = "announce"
    """announce: to a chat; webhook: a POST to the address in to"""
    channel: str | None = None
    """last, owner, or a channel with to; where the job's results go when absent"""
    to: str | None = None
    """the chat on that channel, or the address of the webhook"""
    account_id: str | None = None
    """the account on that channel that tells it"""


class CronSettings(Settings, frozen=True):
    """`cron`: jobs that run by the clock."""

    enabled: bool = True
    """run jobs at all"""
    max_concurrent_runs: Annotated[int, Meta(ge=1)] = 4
    """runs of jobs at the same time, from the next start on"""
    failure_alert: FailureAlertSettings = FailureAlertSettings()
    """telling you of jobs that keep failing"""
    skip_missed_jobs: bool = False
    """after a pause, do not run what was missed"""
    session_retention: str | bool = "24h"
    """how long the conversation of a single run is kept, for example 24h; false for ever"""
    webhook_token: SecretInput | None = None
    """sent as a bearer token with results that go to a webhook"""
    webhook_allow_private: bool = False
    """let results go to addresses inside your own network"""


class WebhookMatch(Settings, frozen=True):
    path: str | None = None
    """the part of the address after the hooks' path"""
    source: str | None = None
    """the value of `source` in the body"""


class TransformSettings(Settings, frozen=True):
    """`hooks.mappings[].transform`: code that decides what a call becomes."""

    module: Annotated[str, Meta(min_length=1)]
    """a Python file in hooks/transforms of the state directory"""
    export: Annotated[str, Meta(pattern="^[A-Za-z_][A-Za-z0-9_]*$")] = "transform"
    """its function; it gets the call"""
    sha256: str | None = None
    """the digest of the file as you have accepted it; it does not run otherwise"""


class WebhookMapping(Settings, frozen=True):
    """What a call of another address means."""

    id: str | None = None
    """a name for it"""
    match: WebhookMatch = WebhookMatch()
    """which calls are meant"""
    action: Literal["wake", "agent"] = "agent"
    """wake the main conversation, or run the agent"""
    wake_mode: Literal["now", "next-heartbeat"] = "now"
    """when the conversation hears it"""
    name: str | None = None
    """what the run is called"""
    agent_id: str | None = None
    """which agent"""
    message_template: str | None = None
    """the task; {{payload.a.b[0]}} puts values in"""
    text_template: str | None = None
    """the line for the main conversation"""
    session_key: str | None = None
    """the conversation; {{…}} puts values in; a new one when absent"""
    deliver: bool = True
    """tell the main conversation, and where its person is, what came of it"""
    channel: str | None = None
    """where the result goes: last, owner, none, or a channel with to"""
    to: str | None = None
    """the chat on that channel"""
    transform: TransformSettings | None = None
    """code that decides what a call becomes"""
    for_each: str | None = None
    """a list in the body, payload.a.b: each entry is a call of its own"""
    model: str | None = None
    """which model"""
    thinking: str | None = None
    """how hard to think"""
    timeout_seconds: Count | None = None
    """longest run"""


class WebhookSettings(Settings, frozen=True):
    """`hooks`: calls from outside that wake the assistant."""

    enabled: bool = False
    """answer calls at all; needs a token"""
    token: SecretInput | None = None
    """what callers present; not the gateway's own token"""
    path: Annotated[str, Meta(pattern="^/[A-Za-z0-9_/-]+$")] = "/hooks"
    """where the addresses begin"""
    max_body_bytes: Annotated[int, Meta(ge=1024)] = 262_144
    """largest body"""
    allowed_agent_ids: tuple[str, ...] = ()
    """agents that may be named; all when empty"""
    default_session_key: str | None = None
    """the conversation of a run that names none"""
    allow_request_session_key: bool = False
    """let callers name the conversation"""
    allowed_session_key_prefixes: tuple[str, ...] = ()
    """how a named conversation must begin"""
    presets: tuple[Literal["gmail"], ...] = ()
    """ready-made mappings; yours come first"""
    mappings: tuple[WebhookMapping, ...] = ()
    """further addresses; the first match counts"""
