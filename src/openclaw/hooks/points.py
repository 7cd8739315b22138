"""How each point that is asked is decided: where it starts, what one more answer changes, and when it is over."""

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from msgspec import Struct, structs

from openclaw.core.hooks import (
    AgentStart,
    BeforeAgentReply,
    BeforeAgentStart,
    BeforeInstall,
    BeforeModelResolve,
    BeforePromptBuild,
    BeforeToolCall,
    HookName,
    InstallVerdict,
    MessageSending,
    ModelChoice,
    PersistedResult,
    PromptChange,
    ReplyClaim,
    SendingVerdict,
    ToolResultPersist,
    ToolVerdict,
)
from openclaw.hooks import merge
from openclaw.hooks.merge import HookAnswer

E = TypeVar("E")
A = TypeVar("A")
M = TypeVar("M")


def _never(merged: Any) -> bool:
    return False


def _same(event: Any, merged: Any) -> Any:
    return event


class HookPoint(Struct, Generic[E, A, M], frozen=True, kw_only=True):
    """How one point is decided."""

    name: HookName
    start: Callable[[E], M]
    step: Callable[[M, HookAnswer[A]], M]
    over: Callable[[M], bool] = _never
    """Whether nobody else need be asked."""
    view: Callable[[E, M], E] = _same
    """What the next handler is told, after what the ones before it changed."""
    objection: Callable[[str], A] | None = None
    """The answer of a handler that failed, where failing counts as an objection."""


MODEL: HookPoint[BeforeModelResolve, ModelChoice, merge.ModelMerged] = HookPoint(
    name="before_model_resolve", start=lambda event: merge.ModelMerged(), step=merge.model
)
MODEL_LEGACY: HookPoint[BeforeAgentStart, AgentStart, merge.ModelMerged] = HookPoint(
    name="before_agent_start", start=lambda event: merge.ModelMerged(), step=merge.model
)
PROMPT: HookPoint[BeforePromptBuild, PromptChange, merge.PromptMerged] = HookPoint(
    name="before_prompt_build", start=lambda event: merge.PromptMerged(), step=merge.prompt
)
PROMPT_LEGACY: HookPoint[BeforeAgentStart, AgentStart, merge.PromptMerged] = HookPoint(
    name="before_agent_start", start=lambda event: merge.PromptMerged(), step=merge.prompt
)
REPLY: HookPoint[BeforeAgentReply, ReplyClaim, merge.ReplyMerged] = HookPoint(
    name="before_agent_reply", start=lambda event: merge.ReplyMerged(), step=merge.reply, over=merge.claimed
)
TOOL: HookPoint[BeforeToolCall, ToolVerdict, merge.ToolMerged] = HookPoint(
    name="before_tool_call",
    start=lambda event: merge.ToolMerged(params=event.params),
    step=merge.tool,
    over=merge.tool_blocked,
    view=lambda event, merged: structs.replace(event, params=merged.params),
    objection=lambda why: ToolVerdict(block=True, block_reason=why),
)
INSTALL: HookPoint[BeforeInstall, InstallVerdict, merge.InstallMerged] = HookPoint(
    name="before_install",
    start=lambda event: merge.InstallMerged(),
    step=merge.install,
    over=merge.install_blocked,
    objection=lambda why: InstallVerdict(block=True, block_reason=why),
)
RESULT: HookPoint[ToolResultPersist, PersistedResult, merge.ResultMerged] = HookPoint(
    name="tool_result_persist",
    start=lambda event: merge.ResultMerged(message=event.message),
    step=merge.result,
    view=lambda event, merged: structs.replace(event, message=merged.message),
)
SENDING: HookPoint[MessageSending, SendingVerdict, merge.SendingMerged] = HookPoint(
    name="message_sending",
    start=lambda event: merge.SendingMerged(content=event.content),
    step=merge.sending,
    over=merge.cancelled,
    view=lambda event, merged: structs.replace(event, content=merged.content),
)

ASKED: tuple[HookPoint[Any, Any, Any], ...] = (
    MODEL,
    MODEL_LEGACY,
    PROMPT,
    PROMPT_LEGACY,
    REPLY,
    TOOL,
    INSTALL,
    RESULT,
    SENDING,
)
