"""The hook points: what kind each is, its event and answer, its time, and what a failure means."""

from typing import Any, Literal

from msgspec import Struct

from openclaw.core.hooks import (
    AfterCompaction,
    AfterToolCall,
    AgentEnd,
    AgentRunVerdict,
    AgentStart,
    AgentTurnPrepare,
    BeforeAgentFinalize,
    BeforeAgentReply,
    BeforeAgentRun,
    BeforeAgentStart,
    BeforeCompaction,
    BeforeDispatch,
    BeforeInstall,
    BeforeMessageWrite,
    BeforeModelResolve,
    BeforePromptBuild,
    BeforeReset,
    BeforeToolCall,
    ChannelPairingRequested,
    CronChanged,
    DeliveryTarget,
    DispatchClaim,
    ExecEnv,
    FinalizeVerdict,
    GatewayStart,
    GatewayStop,
    HeartbeatPromptContribution,
    HookName,
    InboundClaim,
    InboundClaimed,
    InstallVerdict,
    LlmInput,
    LlmOutput,
    MessageReceived,
    MessageSending,
    MessageSent,
    ModelCallEnded,
    ModelCallStarted,
    ModelChoice,
    PayloadVerdict,
    PersistedResult,
    PromptChange,
    ReplyClaim,
    ReplyPayloadSending,
    ResolveExecEnv,
    SendingVerdict,
    SessionEnd,
    SessionStart,
    SubagentDeliveryTarget,
    SubagentEnded,
    SubagentSpawned,
    ToolResultPersist,
    ToolVerdict,
    TurnContext,
    WrittenMessage,
)
from openclaw.core.provider import ProviderContribution, ProviderPrompt


class Point(Struct, frozen=True):
    """The static properties of a hook point."""

    name: HookName
    kind: Literal["modify", "claim", "gate", "observe", "sync"]
    event: type[Any]
    answer: type[Any] | None
    seconds: float
    """The default timeout of one handler; 0 means none."""
    fails: Literal["open", "closed"] = "open"
    """Whether a handler that fails is skipped (open) or counts as an objection (closed)."""
    conversation: bool = False
    """Whether it shows conversation text, so that a plugin not bundled needs `allowConversationAccess`."""


POINTS: dict[HookName, Point] = {
    point.name: point
    for point in (
        Point("before_model_resolve", "modify", BeforeModelResolve, ModelChoice, 15, conversation=True),
        Point("before_prompt_build", "modify", BeforePromptBuild, PromptChange, 15, conversation=True),
        Point("provider_prompt_contribution", "modify", ProviderPrompt, ProviderContribution, 15),
        Point("agent_turn_prepare", "modify", AgentTurnPrepare, TurnContext, 15, conversation=True),
        Point("heartbeat_prompt_contribution", "modify", HeartbeatPromptContribution, TurnContext, 15),
        Point("before_agent_run", "gate", BeforeAgentRun, AgentRunVerdict, 15, fails="closed", conversation=True),
        Point("llm_input", "observe", LlmInput, None, 30, conversation=True),
        Point("llm_output", "observe", LlmOutput, None, 30, conversation=True),
        Point("model_call_started", "observe", ModelCallStarted, None, 30),
        Point("model_call_ended", "observe", ModelCallEnded, None, 30),
        Point("before_agent_finalize", "modify", BeforeAgentFinalize, FinalizeVerdict, 15, conversation=True),
        Point("resolve_exec_env", "modify", ResolveExecEnv, ExecEnv, 15),
        Point("channel_pairing_requested", "observe", ChannelPairingRequested, None, 2),
        Point("inbound_claim", "claim", InboundClaim, InboundClaimed, 15),
        Point("subagent_delivery_target", "modify", SubagentDeliveryTarget, DeliveryTarget, 15),
        Point("before_message_write", "sync", BeforeMessageWrite, WrittenMessage, 0, conversation=True),
        Point("reply_payload_sending", "gate", ReplyPayloadSending, PayloadVerdict, 15),
        Point("subagent_spawned", "observe", SubagentSpawned, None, 30),
        Point("subagent_ended", "observe", SubagentEnded, None, 30),
        Point("cron_changed", "observe", CronChanged, None, 30),
        Point("before_agent_start", "modify", BeforeAgentStart, AgentStart, 15, conversation=True),
        Point("before_agent_reply", "claim", BeforeAgentReply, ReplyClaim, 15, conversation=True),
        Point("agent_end", "observe", AgentEnd, None, 30, conversation=True),
        Point("before_compaction", "observe", BeforeCompaction, None, 30),
        Point("after_compaction", "observe", AfterCompaction, None, 30),
        Point("before_tool_call", "gate", BeforeToolCall, ToolVerdict, 15, fails="closed"),
        Point("after_tool_call", "observe", AfterToolCall, None, 30),
        Point("before_install", "gate", BeforeInstall, InstallVerdict, 15, fails="closed"),
        Point("tool_result_persist", "sync", ToolResultPersist, PersistedResult, 0),
        Point("message_received", "observe", MessageReceived, None, 30),
        Point("before_dispatch", "claim", BeforeDispatch, DispatchClaim, 15),
        Point("message_sending", "gate", MessageSending, SendingVerdict, 15),
        Point("message_sent", "observe", MessageSent, None, 30),
        Point("session_start", "observe", SessionStart, None, 30),
        Point("before_reset", "observe", BeforeReset, None, 15),
        Point("session_end", "observe", SessionEnd, None, 30),
        Point("gateway_start", "observe", GatewayStart, None, 30),
        Point("gateway_stop", "observe", GatewayStop, None, 5),
    )
}
