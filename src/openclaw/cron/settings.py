"""Settings of `cron` and `hooks`: what runs by itself, and what may be started from outside."""

from typing import Annotated, Literal

from openclaw.core.settings import Count, SecretInput, Settings, doc


class CronSettings(Settings, frozen=True):
    """`cron`: jobs that run by the clock."""

    enabled: Annotated[bool, doc("run jobs at all")] = True
    skip_missed_jobs: Annotated[bool, doc("after a pause, do not run what was missed")] = False
    session_retention: Annotated[
        str | bool, doc("how long the conversation of a single run is kept, for example 24h; false for ever")
    ] = "24h"
    webhook_token: Annotated[SecretInput | None, doc("sent as a bearer token with results that go to a webhook")] = None
    webhook_allow_private: Annotated[bool, doc("let results go to addresses inside your own network")] = False


class WebhookMatch(Settings, frozen=True):
    path: Annotated[str | None, doc("the part of the address after the hooks' path")] = None
    source: Annotated[str | None, doc("the value of `source` in the body")] = None


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
    deliver: Annotated[bool, doc("tell the main conversation what came of it")] = True
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
