"""Settings of `cron`, `hooks` and `heartbeat`: what starts on its own, and what may be started from outside."""

from typing import Annotated, Literal

from openclaw.core.settings import Count, SecretInput, Settings, doc


class ActiveHours(Settings, frozen=True):
    """When heartbeats may happen."""

    start: Annotated[str, doc("from this time of day, HH:MM")]
    end: Annotated[str, doc("up to this time of day, HH:MM or 24:00")]
    timezone: Annotated[str | None, doc("IANA time zone; the user's when absent")] = None


class ToolLimits(Settings, frozen=True):
    """Tools for some turns only; policy has removed others before."""

    allow: Annotated[tuple[str, ...], doc("only these; all when empty")] = ()
    deny: Annotated[tuple[str, ...], doc("none of these")] = ()


class HeartbeatWatch(Settings, frozen=True):
    """What has to change before a heartbeat asks the model."""

    files: Annotated[tuple[str, ...], doc("files or folders, relative to the workspace")] = ()
    commands: Annotated[tuple[str, ...], doc("command lines whose exit code or output is compared")] = ()
    urls: Annotated[tuple[str, ...], doc("addresses whose status or content is compared")] = ()
    maildirs: Annotated[tuple[str, ...], doc("Maildirs that are looked into for new mail")] = ()
    due: Annotated[bool, doc("look for lines in the notes that say due: and a date")] = False


class HeartbeatSettings(Settings, frozen=True):
    """`heartbeat`: a regular look at what needs attention; its presence switches it on."""

    every: Annotated[str, doc("how often, for example 30m or 2h; 0m switches it off")] = "30m"
    prompt: Annotated[str | None, doc("what to ask instead of the built-in question")] = None
    include_system_prompt_section: Annotated[bool, doc("explain heartbeats in the system prompt")] = True
    active_hours: Annotated[ActiveHours | None, doc("when it may happen; always when absent")] = None
    model: Annotated[str | None, doc("which model looks; the agent's when absent")] = None
    ack_max_chars: Annotated[int, doc("an answer with HEARTBEAT_OK and at most this much more is not shown", ge=0)] = (
        300
    )
    timeout_seconds: Annotated[float | None, doc("longest run; ten minutes, or the interval when that is shorter")] = (
        None
    )
    target: Annotated[
        str, doc("who is told: last (the channel you last wrote from), owner, none, or a channel by name")
    ] = "last"
    to: Annotated[str | None, doc("with a channel as target: the chat there; the owner's when absent")] = None
    account_id: Annotated[str | None, doc("with a channel as target: the account that tells it")] = None
    direct_policy: Annotated[
        Literal["allow", "block"], doc("whether alerts may go to a direct chat, or only to groups")
    ] = "allow"
    light_context: Annotated[bool, doc("of the workspace files it is given HEARTBEAT.md alone")] = False
    isolated_session: Annotated[
        bool, doc("each look is a conversation of its own, without what was said before; alerts stand in the main one")
    ] = False
    tools: Annotated[ToolLimits, doc("which tools a heartbeat has")] = ToolLimits()
    watch: Annotated[HeartbeatWatch, doc("ask the model only when one of these changed")] = HeartbeatWatch()


class FailureAlertSettings(Settings, frozen=True):
    """`cron.failureAlert`: when and where people are told that a job keeps failing; a job may say it differently."""

    enabled: Annotated[bool, doc("tell it at all")] = True
    after: Annotated[int, doc("so many failures in a row", ge=1)] = 2
    cooldown_ms: Annotated[int, doc("milliseconds until the same job is told of again", ge=0)] = 3_600_000
    mode: Annotated[
        Literal["announce", "webhook"], doc("announce: to a chat; webhook: a POST to the address in to")
    ] = "announce"
    channel: Annotated[str | None, doc("last, owner, or a channel with to; where the job's results go when absent")] = (
        None
    )
    to: Annotated[str | None, doc("the chat on that channel, or the address of the webhook")] = None
    account_id: Annotated[str | None, doc("the account on that channel that tells it")] = None


class CronSettings(Settings, frozen=True):
    """`cron`: jobs that run by the clock."""

    enabled: Annotated[bool, doc("run jobs at all")] = True
    max_concurrent_runs: Annotated[int, doc("runs of jobs at the same time, from the next start on", ge=1)] = 4
    failure_alert: Annotated[FailureAlertSettings, doc("telling you of jobs that keep failing")] = (
        FailureAlertSettings()
    )
    skip_missed_jobs: Annotated[bool, doc("after a pause, do not run what was missed")] = False
    session_retention: Annotated[
        str | bool, doc("how long the conversation of a single run is kept, for example 24h; false for ever")
    ] = "24h"
    webhook_token: Annotated[SecretInput | None, doc("sent as a bearer token with results that go to a webhook")] = None
    webhook_allow_private: Annotated[bool, doc("let results go to addresses inside your own network")] = False


class WebhookMatch(Settings, frozen=True):
    path: Annotated[str | None, doc("the part of the address after the hooks' path")] = None
    source: Annotated[str | None, doc("the value of `source` in the body")] = None


class TransformSettings(Settings, frozen=True):
    """`hooks.mappings[].transform`: code that decides what a call becomes."""

    module: Annotated[str, doc("a Python file in hooks/transforms of the state directory", min_length=1)]
    export: Annotated[str, doc("its function; it gets the call", pattern="^[A-Za-z_][A-Za-z0-9_]*$")] = "transform"
    sha256: Annotated[str | None, doc("the digest of the file as you have accepted it; it does not run otherwise")] = (
        None
    )


class WebhookMapping(Settings, frozen=True):
    """What a call of another address means."""

    id: Annotated[str | None, doc("a name for it")] = None
    match: Annotated[WebhookMatch, doc("which calls are meant")] = WebhookMatch()
    action: Annotated[Literal["wake", "agent"], doc("wake the main conversation, or run the agent")] = "agent"
    wake_mode: Annotated[Literal["now", "next-heartbeat"], doc("when the conversation hears it")] = "now"
    name: Annotated[str | None, doc("what the run is called")] = None
    agent_id: Annotated[str | None, doc("which agent")] = None
    message_template: Annotated[str | None, doc("the task; {{payload.a.b[0]}} puts values in")] = None
    text_template: Annotated[str | None, doc("the line for the main conversation")] = None
    session_key: Annotated[str | None, doc("the conversation; {{…}} puts values in; a new one when absent")] = None
    deliver: Annotated[bool, doc("tell the main conversation, and where its person is, what came of it")] = True
    channel: Annotated[str | None, doc("where the result goes: last, owner, none, or a channel with to")] = None
    to: Annotated[str | None, doc("the chat on that channel")] = None
    transform: Annotated[TransformSettings | None, doc("code that decides what a call becomes")] = None
    for_each: Annotated[str | None, doc("a list in the body, payload.a.b: each entry is a call of its own")] = None
    model: Annotated[str | None, doc("which model")] = None
    thinking: Annotated[str | None, doc("how hard to think")] = None
    timeout_seconds: Annotated[Count | None, doc("longest run")] = None


class WebhookSettings(Settings, frozen=True):
    """`hooks`: calls from outside that wake the assistant."""

    enabled: Annotated[bool, doc("answer calls at all; needs a token")] = False
    token: Annotated[SecretInput | None, doc("what callers present; not the gateway's own token")] = None
    path: Annotated[str, doc("where the addresses begin", pattern="^/[A-Za-z0-9_/-]+$")] = "/hooks"
    max_body_bytes: Annotated[int, doc("largest body", ge=1024)] = 262_144
    allowed_agent_ids: Annotated[tuple[str, ...], doc("agents that may be named; all when empty")] = ()
    default_session_key: Annotated[str | None, doc("the conversation of a run that names none")] = None
    allow_request_session_key: Annotated[bool, doc("let callers name the conversation")] = False
    allowed_session_key_prefixes: Annotated[tuple[str, ...], doc("how a named conversation must begin")] = ()
    presets: Annotated[tuple[Literal["gmail"], ...], doc("ready-made mappings; yours come first")] = ()
    mappings: Annotated[tuple[WebhookMapping, ...], doc("further addresses; the first match counts")] = ()
