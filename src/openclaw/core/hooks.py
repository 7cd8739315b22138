"""The hook seam: the points at which a plugin may observe, add something or object.

Every point has one event type and, unless it only observes, one answer type: `core/hook_points` has the table, and
`plugins/hooks/points` merges answers.
"""

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct, field

from openclaw.core.events import Trigger
from openclaw.core.messages import Assistant, Message, ToolResult, Usage

HookName = Literal[
    "before_model_resolve",
    "before_prompt_build",
    "provider_prompt_contribution",
    "agent_turn_prepare",
    "heartbeat_prompt_contribution",
    "before_agent_start",
    "before_agent_run",
    "before_agent_reply",
    "llm_input",
    "llm_output",
    "model_call_started",
    "model_call_ended",
    "before_agent_finalize",
    "agent_end",
    "before_compaction",
    "after_compaction",
    "before_tool_call",
    "resolve_exec_env",
    "after_tool_call",
    "before_install",
    "tool_result_persist",
    "before_message_write",
    "message_received",
    "channel_pairing_requested",
    "inbound_claim",
    "before_dispatch",
    "message_sending",
    "reply_payload_sending",
    "message_sent",
    "session_start",
    "before_reset",
    "session_end",
    "subagent_spawned",
    "subagent_delivery_target",
    "subagent_ended",
    "cron_changed",
    "gateway_start",
    "gateway_stop",
]
EndReason = Literal["new", "reset", "idle", "daily", "compaction", "deleted", "shutdown", "restart", "unknown"]


class _Border(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """The base of events and answers."""


class _Answer(_Border, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The base of answers: a misspelt field is an error instead of being ignored."""


class HookContext(_Border, frozen=True, kw_only=True):
    """The run, session and agent of an event; fields that do not apply are empty."""

    agent_id: str = ""
    session_key: str = ""
    session_id: str = ""
    workspace_dir: str = ""
    channel: str = ""
    trigger: Trigger = "user"
    run_id: str = ""
    sender_id: str = ""


# Before the model is asked.


class Attachment(_Border, frozen=True, kw_only=True):
    """An image that came with the message, without its bytes."""

    mime_type: str


class BeforeModelResolve(_Border, frozen=True, kw_only=True):
    """A turn is about to choose its model; the event does not contain the conversation."""

    prompt: str
    attachments: tuple[Attachment, ...] = ()


class ModelChoice(_Answer, frozen=True, kw_only=True):
    model_override: str | None = None
    provider_override: str | None = None


class BeforePromptBuild(_Border, frozen=True, kw_only=True):
    """The session is loaded and the prompt is about to be built."""

    prompt: str
    messages: tuple[Message, ...] = ()


class PromptChange(_Answer, frozen=True, kw_only=True):
    system_prompt: str | None = None
    """Replaces the system prompt; needs `allowPromptReplace`."""
    prepend_context: str | None = None
    """Before the person's message, in this turn only."""
    append_context: str | None = None
    """After the person's message, in this turn only."""
    prepend_system_context: str | None = None
    """Before the system prompt: text that stays the same from turn to turn."""
    append_system_context: str | None = None
    """After the system prompt: text that stays the same from turn to turn."""
    tools_allow: tuple[str, ...] | None = None
    """Limits this turn to these of its tools."""


class AgentTurnPrepare(_Border, frozen=True, kw_only=True):
    """A turn is being prepared, before its prompt is built."""

    prompt: str
    messages: tuple[Message, ...] = ()


class TurnContext(_Answer, frozen=True, kw_only=True):
    prepend_context: str | None = None
    """Before the person's message, in this turn only."""
    append_context: str | None = None
    """After the person's message, in this turn only."""


class HeartbeatPromptContribution(_Border, frozen=True, kw_only=True):
    """A heartbeat is being prepared; the event does not contain what it asks."""


class BeforeAgentStart(_Border, frozen=True, kw_only=True):
    """The older form of the two above: called in both phases, the first time without messages."""

    prompt: str
    messages: tuple[Message, ...] | None = None


class AgentStart(PromptChange, frozen=True, kw_only=True):
    """All fields of the two newer answers; each phase uses its own."""

    model_override: str | None = None
    provider_override: str | None = None


class BeforeAgentRun(_Border, frozen=True, kw_only=True):
    """Everything is ready and nothing is stored yet."""

    prompt: str
    messages: tuple[Message, ...]
    system_prompt: str


class AgentRunVerdict(_Answer, frozen=True, kw_only=True):
    """With `block` the message is not stored, and no model is asked."""

    outcome: Literal["pass", "block"] = "pass"
    reason: str = ""
    message: str | None = None
    """What the person is told."""


class BeforeAgentReply(_Border, frozen=True, kw_only=True):
    """The message is stored and the model is about to be asked."""

    cleaned_body: str


class ReplyClaim(_Answer, frozen=True, kw_only=True):
    """With `handled`, `reply` replaces the model's answer; without a `reply` there is no answer."""

    handled: bool = False
    reply: str | None = None


class LlmInput(_Border, frozen=True, kw_only=True):
    """A model is about to be asked."""

    run_id: str
    session_id: str
    provider: str
    model: str
    system_prompt: str
    prompt: str
    history_messages: tuple[Message, ...]


class LlmOutput(_Border, frozen=True, kw_only=True):
    """A model has answered."""

    run_id: str
    session_id: str
    provider: str
    model: str
    assistant_texts: tuple[str, ...]
    last_assistant: Assistant
    usage: Usage


class ModelCallStarted(_Border, frozen=True, kw_only=True):
    """A call to a model begins; the event does not contain what is said."""

    run_id: str
    call_id: str
    provider: str
    model: str


class ModelCallEnded(_Border, frozen=True, kw_only=True):
    """A call to a model is over; the event does not contain what was said."""

    run_id: str
    call_id: str
    provider: str
    model: str
    outcome: Literal["completed", "error"]
    duration_ms: int
    error_category: str | None = None


class BeforeAgentFinalize(_Border, frozen=True, kw_only=True):
    """A model has given its answer; nobody has seen it and nothing of it is stored."""

    run_id: str
    text: str
    messages: tuple[Message, ...] = ()


class RevisionRequest(_Answer, frozen=True, kw_only=True):
    """What the model is told when it is asked again."""

    instruction: str
    idempotency_key: str = ""
    """Requests with the same key count together; the instruction when absent."""
    max_attempts: Annotated[int, Meta(ge=1, le=3)] = 1


class FinalizeVerdict(_Answer, frozen=True, kw_only=True):
    """`finalize` gives the answer as it is, whatever others say; `revise` asks the model again."""

    action: Literal["revise", "finalize"] | None = None
    reason: str = ""
    retry: RevisionRequest | None = None


class AgentEnd(_Border, frozen=True, kw_only=True):
    """A run has ended."""

    run_id: str
    messages: tuple[Message, ...]
    success: bool
    error: str | None = None
    duration_ms: int = 0


# Compaction.


class BeforeCompaction(_Border, frozen=True, kw_only=True):
    message_count: int
    token_count: int
    session_file: str


class AfterCompaction(_Border, frozen=True, kw_only=True):
    message_count: int
    """Messages the model sees from now on."""
    compacted_count: int
    """Messages the summary replaces."""
    token_count: int
    session_file: str


# Tools.


class BeforeToolCall(_Border, frozen=True, kw_only=True):
    """A call with checked arguments, before policy and approval."""

    tool_name: str
    params: dict[str, Any]
    tool_call_id: str = ""
    run_id: str = ""


class RequireApproval(_Answer, frozen=True, kw_only=True):
    """Asks a person to approve the call."""

    title: str
    description: str = ""
    severity: Literal["info", "warning", "critical"] = "warning"
    timeout_ms: int | None = None
    """longest wait; as long as approvals wait when absent"""


class ToolVerdict(_Answer, frozen=True, kw_only=True):
    params: dict[str, Any] | None = None
    """Replaces the call's arguments."""
    block: bool = False
    block_reason: str = ""
    require_approval: RequireApproval | None = None


class ResolveExecEnv(_Border, frozen=True, kw_only=True):
    """A command is about to be judged by policy, and shown to a person where that is asked for."""

    session_key: str
    tool_name: str = "exec"
    host: str = "auto"


class ExecEnv(_Answer, frozen=True, kw_only=True):
    env: dict[str, str] = field(default_factory=dict)
    """Variables of the command; what changes which program runs, where it connects, or is a credential is dropped."""


class AfterToolCall(_Border, frozen=True, kw_only=True):
    tool_name: str
    params: dict[str, Any]
    tool_call_id: str = ""
    run_id: str = ""
    result: str = ""
    error: str | None = None
    duration_ms: int = 0


class ToolResultPersist(_Border, frozen=True, kw_only=True):
    """A result is about to be stored. Handlers are synchronous functions."""

    tool_name: str
    tool_call_id: str
    message: ToolResult
    is_synthetic: bool = False
    """It stands for a result that never arrived."""


class PersistedResult(_Answer, frozen=True, kw_only=True):
    message: ToolResult | None = None
    """Stored instead; the call it belongs to cannot be changed."""


class BeforeMessageWrite(_Border, frozen=True, kw_only=True):
    """A message is about to be stored. Handlers are synchronous functions."""

    message: Message
    session_key: str


class WrittenMessage(_Answer, frozen=True, kw_only=True):
    message: Message | None = None
    """Stored instead; its kind, its calls and the call it answers cannot be changed."""
    block: bool = False
    """It is not stored; only an answer without calls can be left out."""


# Installing.


class InstallFinding(_Border, frozen=True, kw_only=True):
    rule_id: str
    severity: Literal["info", "warn", "critical"]
    message: str
    file: str = ""
    line: int = 0


class BeforeInstall(_Border, frozen=True, kw_only=True):
    """A skill or plugin is unpacked and the operator's install policy has passed it."""

    target_type: Literal["skill", "plugin", "hook"]
    target_name: str
    source_path: str
    """The directory it is unpacked in."""
    spec: str
    """Where it came from."""
    tree_sha256: str
    mode: Literal["install", "update"] = "install"
    findings: tuple[InstallFinding, ...] = ()
    """What our own scan found."""


class InstallVerdict(_Answer, frozen=True, kw_only=True):
    block: bool = False
    block_reason: str = ""
    findings: tuple[InstallFinding, ...] = ()


# Messages in and out.


class MessageReceived(_Border, frozen=True, kw_only=True):
    sender: str = field(name="from")
    content: str
    timestamp: int = 0


class ChannelPairingRequested(_Border, frozen=True, kw_only=True):
    """Somebody unknown has written on a channel and was given a code with which the owner can let them in."""

    channel: str
    sender_id: str
    code: str
    account_id: str = ""
    metadata: dict[str, str] = field(default_factory=dict)
    """`name`: what the platform calls them, if it does."""


class _HeardMessage(_Border, frozen=True, kw_only=True):
    content: str
    channel: str
    account_id: str = ""
    sender_id: str = ""
    conversation_id: str = ""
    is_group: bool = False


class InboundClaim(_HeardMessage, frozen=True, kw_only=True):
    """Somebody who is heard has written on a channel that a plugin brings; that plugin alone is asked."""

    plugin_id: str
    message_id: str


class InboundClaimed(_Answer, frozen=True, kw_only=True):
    """With `handled` the plugin has taken the message: nobody else sees it, and nothing is answered."""

    handled: bool = False


class BeforeDispatch(_HeardMessage, frozen=True, kw_only=True):
    """Somebody who is heard has written on a channel; no command and no model has seen it yet."""


class DispatchClaim(_Answer, frozen=True, kw_only=True):
    handled: bool = False
    text: str | None = None
    """The answer; without one the message is taken in silence."""


class MessageSending(_Border, frozen=True, kw_only=True):
    to: str
    content: str


class SendingVerdict(_Answer, frozen=True, kw_only=True):
    content: str | None = None
    """Sent instead."""
    cancel: bool = False
    cancel_reason: str = ""


class ReplyPayloadSending(_Border, frozen=True, kw_only=True):
    """A part of an answer, with its attachments, before its text goes to `message_sending`."""

    to: str
    payload: dict[str, Any]
    """`text`, `media`, and `kind`: answer, reasoning, tool, notice or error."""


class PayloadVerdict(_Answer, frozen=True, kw_only=True):
    payload: dict[str, Any] | None = None
    """Sent instead: `text` and `media` of it count."""
    cancel: bool = False
    cancel_reason: str = ""


class MessageSent(_Border, frozen=True, kw_only=True):
    to: str
    content: str
    success: bool
    error: str | None = None


# Lifetimes.


class SessionStart(_Border, frozen=True, kw_only=True):
    session_id: str


class BeforeReset(_Border, frozen=True, kw_only=True):
    """A conversation is about to begin anew; its transcript is still in its place."""

    session_file: str
    reason: EndReason
    message_count: int = 0


class SessionEnd(_Border, frozen=True, kw_only=True):
    session_id: str
    message_count: int
    duration_ms: int
    reason: EndReason = "unknown"


class SubagentSpawned(_Border, frozen=True, kw_only=True):
    """A sub-agent was given its task."""

    run_id: str
    child_session_key: str
    agent_id: str
    task: str


class DeliveryOrigin(_Border, frozen=True, kw_only=True):
    """A chat on a channel."""

    channel: str
    to: str
    account_id: str = "default"
    thread_id: str | None = None


class SubagentDeliveryTarget(_Border, frozen=True, kw_only=True):
    """The result of a sub-agent is about to be told."""

    child_session_key: str
    child_run_id: str
    requester_session_key: str
    requester_origin: DeliveryOrigin | None = None
    """Where it goes if nobody says otherwise; absent: the conversation alone."""


class DeliveryTarget(_Answer, frozen=True, kw_only=True):
    origin: DeliveryOrigin | None = None
    """The chat that hears of it instead."""


class SubagentEnded(_Border, frozen=True, kw_only=True):
    """A sub-agent is done."""

    run_id: str
    child_session_key: str
    agent_id: str
    outcome: Literal["ok", "error"]
    error: str | None = None


class CronChanged(_Border, frozen=True, kw_only=True):
    """A job was made, changed or removed, or a run of it began or ended."""

    action: str
    job_id: str
    job: dict[str, Any] | None = None


class GatewayStart(_Border, frozen=True, kw_only=True):
    port: int


class GatewayStop(_Border, frozen=True, kw_only=True):
    reason: str
