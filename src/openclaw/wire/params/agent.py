"""Runs of an agent."""

from typing import Annotated, Any, Literal

from msgspec import Meta

from openclaw.wire.params.kinds import NonEmpty, NonNegative, Params, Positive
from openclaw.wire.params.shared import InputProvenance


class InternalAttachment(Params, frozen=True, kw_only=True):
    type: Literal["image", "audio", "video", "file"] | None = None
    path: str | None = None
    url: str | None = None
    media_url: str | None = None
    file_path: str | None = None
    mime_type: str | None = None
    name: str | None = None
    size_bytes: float | None = None
    duration_ms: float | None = None
    width: float | None = None
    height: float | None = None


class InternalEvent(Params, frozen=True, kw_only=True):
    type: Literal["task_completion"]
    source: Literal["subagent", "cron", "image_generation", "video_generation", "music_generation"]
    child_session_key: str
    child_session_id: str | None = None
    announce_type: str
    task_label: str
    status: Literal["ok", "timeout", "error", "unknown"]
    status_label: str
    result: str
    no_visible_result: bool | None = None
    model_route_change: str | None = None
    attachments: tuple[InternalAttachment, ...] | None = None
    media_urls: tuple[str, ...] | None = None
    stats_line: str | None = None
    reply_instruction: str


class AgentParams(Params, frozen=True, kw_only=True):
    """Params of `agent`."""

    message: NonEmpty
    agent_id: NonEmpty | None = None
    provider: str | None = None
    model: str | None = None
    to: str | None = None
    reply_to: str | None = None
    session_id: str | None = None
    session_key: str | None = None
    expected_existing_session_id: NonEmpty | None = None
    thinking: str | None = None
    deliver: bool | None = None
    attachments: tuple[Any, ...] | None = None
    channel: str | None = None
    reply_channel: str | None = None
    account_id: str | None = None
    reply_account_id: str | None = None
    thread_id: str | None = None
    group_id: str | None = None
    group_channel: str | None = None
    group_space: str | None = None
    timeout: NonNegative | None = None
    best_effort_deliver: bool | None = None
    lane: str | None = None
    cwd: NonEmpty | None = None
    cleanup_bundle_mcp_on_run_end: bool | None = None
    model_run: bool | None = None
    prompt_mode: Literal["full", "minimal", "none"] | None = None
    extra_system_prompt: str | None = None
    bootstrap_context_mode: Literal["full", "lightweight"] | None = None
    bootstrap_context_run_kind: Literal["default", "heartbeat", "cron"] | None = None
    acp_turn_source: Literal["manual_spawn"] | None = None
    internal_runtime_handoff_id: NonEmpty | None = None
    internal_execution_identity_retry: bool | None = None
    internal_execution_identity_recovery_attempt: Positive | None = None
    exec_approval_followup_expected_session_id: NonEmpty | None = None
    internal_events: tuple[InternalEvent, ...] | None = None
    input_provenance: InputProvenance | None = None
    suppress_prompt_persistence: bool | None = None
    session_effects: Literal["visible", "internal"] | None = None
    source_reply_delivery_mode: Literal["automatic", "message_tool_only"] | None = None
    disable_message_tool: bool | None = None
    swarm_collector: bool | None = None
    swarm_output_schema: dict[str, Any] | None = None
    force_restart_safe_tools: bool | None = None
    force_code_mode_tools: bool | None = None
    voice_wake_trigger: str | None = None
    idempotency_key: NonEmpty
    label: Annotated[str, Meta(min_length=1, max_length=512)] | None = None


class AgentWaitParams(Params, frozen=True, kw_only=True):
    """Params of `agent.wait`."""

    run_id: NonEmpty
    timeout_ms: NonNegative | None = None


class AgentIdentityParams(Params, frozen=True, kw_only=True):
    """Params of `agent.identity.get`."""

    agent_id: NonEmpty | None = None
    session_key: str | None = None
