"""How the answers at each hook point are merged: the initial value, the effect of one more answer, and when to stop."""

from collections.abc import Callable
from typing import Any, Generic, TypeVar

import msgspec
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
    HookSettings,
    InstallFinding,
    InstallVerdict,
    MessageSending,
    ModelChoice,
    PersistedResult,
    PromptChange,
    ReplyClaim,
    RequireApproval,
    SendingVerdict,
    ToolResultPersist,
    ToolVerdict,
)
from openclaw.core.messages import ToolResult
from openclaw.core.text import utf16_length

A = TypeVar("A")

LONGEST_TEXT = 60_000
"""The most one plugin may add to a prompt in one field: as much as all workspace files together."""


class HookAnswer(Struct, Generic[A], frozen=True, kw_only=True):
    """One answer and the plugin that gave it."""

    plugin: str
    answer: A
    priority: int = 0
    settings: HookSettings = HookSettings()
    bundled: bool = False


class HookSource(Struct, frozen=True):
    """A piece of text and the plugin it is from."""

    plugin: str
    text: str


class HookChange(Struct, frozen=True, kw_only=True):
    """A change by a plugin, or one that was refused."""

    plugin: str
    field: str
    after: str
    before: str = ""
    priority: int = 0
    refused: str = ""
    """Why it was refused."""


class ModelMerged(Struct, frozen=True, kw_only=True):
    model: HookSource | None = None
    provider: HookSource | None = None
    changes: tuple[HookChange, ...] = ()


def merge_model(merged: ModelMerged, said: HookAnswer[ModelChoice] | HookAnswer[AgentStart]) -> ModelMerged:
    """The first to name a model or a provider wins; it needs the operator's permission."""
    granted = said.settings.allow_model_override
    refused = "" if (said.bundled if granted is None else granted) else "allowModelOverride is not granted"
    for name, wish in (("model", said.answer.model_override), ("provider", said.answer.provider_override)):
        if not wish:
            continue
        late = "a plugin before it has chosen" if getattr(merged, name) is not None else ""
        change = _change(said, f"{name}Override", wish, refused or late)
        merged = structs.replace(merged, changes=(*merged.changes, change))
        if not change.refused:
            merged = structs.replace(merged, **{name: HookSource(said.plugin, wish)})
    return merged


def merge_model_points(newer: ModelMerged, older: ModelMerged) -> ModelMerged:
    """Merges the answers of a point and of its legacy one; the newer point goes first."""
    return ModelMerged(
        model=newer.model or older.model,
        provider=newer.provider or older.provider,
        changes=(*newer.changes, *older.changes),
    )


def choose_model_ref(wanted: str, merged: ModelMerged) -> str:
    """The model reference that results from the answers, where `wanted` would have been used."""
    named = merged.model.text if merged.model else wanted.partition("/")[2] or wanted
    if merged.provider is None:
        return named
    provider = merged.provider.text
    return named if named.startswith(f"{provider}/") else f"{provider}/{named}"


class PromptMerged(Struct, frozen=True, kw_only=True):
    system: HookSource | None = None
    prepend_context: tuple[HookSource, ...] = ()
    append_context: tuple[HookSource, ...] = ()
    prepend_system: tuple[HookSource, ...] = ()
    append_system: tuple[HookSource, ...] = ()
    tools_allow: tuple[tuple[str, ...], ...] = ()
    """The list of every plugin that gave one; a tool must be on each."""
    changes: tuple[HookChange, ...] = ()


_ADDED = {
    "prepend_context": "prependContext",
    "append_context": "appendContext",
    "prepend_system": "prependSystemContext",
    "append_system": "appendSystemContext",
}


def merge_prompt(merged: PromptMerged, said: HookAnswer[PromptChange] | HookAnswer[AgentStart]) -> PromptMerged:
    """Texts are concatenated, the last whole prompt wins, tools are those that every answer allows."""
    answer = said.answer
    barred = "" if said.settings.allow_prompt_injection else "allowPromptInjection is off"
    given = {
        "prepend_context": answer.prepend_context,
        "append_context": answer.append_context,
        "prepend_system": answer.prepend_system_context,
        "append_system": answer.append_system_context,
    }
    for name, text in given.items():
        if text and text.strip():
            change = _change(said, _ADDED[name], text, barred or _too_long(text))
            merged = structs.replace(merged, changes=(*merged.changes, change))
            if not change.refused:
                merged = structs.replace(merged, **{name: (*getattr(merged, name), HookSource(said.plugin, text))})
    if answer.system_prompt and answer.system_prompt.strip():
        merged = _replaced(merged, said, answer.system_prompt, barred)
    if answer.tools_allow is not None:
        change = _change(said, "toolsAllow", ", ".join(answer.tools_allow))
        merged = structs.replace(
            merged, tools_allow=(*merged.tools_allow, answer.tools_allow), changes=(*merged.changes, change)
        )
    return merged


def _replaced(
    merged: PromptMerged, said: HookAnswer[PromptChange] | HookAnswer[AgentStart], text: str, barred: str
) -> PromptMerged:
    missing = "" if said.settings.allow_prompt_replace else "allowPromptReplace is not granted"
    change = _change(said, "systemPrompt", text, barred or missing or _too_long(text))
    merged = structs.replace(merged, changes=(*merged.changes, change))
    return merged if change.refused else structs.replace(merged, system=HookSource(said.plugin, text))


def merge_prompt_points(older: PromptMerged, newer: PromptMerged) -> PromptMerged:
    """Merges the answers of the legacy point and of the newer one, in this order."""
    return PromptMerged(
        system=newer.system or older.system,
        prepend_context=(*older.prepend_context, *newer.prepend_context),
        append_context=(*older.append_context, *newer.append_context),
        prepend_system=(*older.prepend_system, *newer.prepend_system),
        append_system=(*older.append_system, *newer.append_system),
        tools_allow=(*older.tools_allow, *newer.tools_allow),
        changes=(*older.changes, *newer.changes),
    )


class ReplyMerged(Struct, frozen=True, kw_only=True):
    plugin: str = ""
    """The plugin that claimed the turn; empty when none did."""
    reply: str = ""
    changes: tuple[HookChange, ...] = ()


def merge_reply(merged: ReplyMerged, said: HookAnswer[ReplyClaim]) -> ReplyMerged:
    """The first claim wins."""
    if merged.plugin or not said.answer.handled:
        return merged
    text = said.answer.reply or ""
    return ReplyMerged(plugin=said.plugin, reply=text, changes=(_change(said, "reply", text),))


def is_claimed(merged: ReplyMerged) -> bool:
    return bool(merged.plugin)


class ToolMerged(Struct, frozen=True, kw_only=True):
    params: dict[str, Any]
    blocked: HookSource | None = None
    """The plugin that objects, and why."""
    approval: RequireApproval | None = None
    approval_by: str = ""
    changes: tuple[HookChange, ...] = ()


def merge_tool(merged: ToolMerged, said: HookAnswer[ToolVerdict]) -> ToolMerged:
    """The last arguments win, until one asks for a person's approval: what is approved is what runs."""
    answer = said.answer
    if answer.params is not None and answer.params != merged.params:
        late = f"{merged.approval_by} asked for an approval of the arguments as they are" if merged.approval else ""
        change = structs.replace(_change(said, "params", _plain(answer.params), late), before=_plain(merged.params))
        params = merged.params if late else answer.params
        merged = structs.replace(merged, params=params, changes=(*merged.changes, change))
    if answer.block:
        why = answer.block_reason or "no reason given"
        change = _change(said, "block", why)
        return structs.replace(merged, blocked=HookSource(said.plugin, why), changes=(*merged.changes, change))
    if answer.require_approval is not None and merged.approval is None:
        change = _change(said, "requireApproval", answer.require_approval.title)
        merged = structs.replace(
            merged,
            approval=answer.require_approval,
            approval_by=said.plugin,
            changes=(*merged.changes, change),
        )
    return merged


def tool_blocked(merged: ToolMerged) -> bool:
    return merged.blocked is not None


class InstallMerged(Struct, frozen=True, kw_only=True):
    blocked: HookSource | None = None
    findings: tuple[InstallFinding, ...] = ()
    changes: tuple[HookChange, ...] = ()


def merge_install(merged: InstallMerged, said: HookAnswer[InstallVerdict]) -> InstallMerged:
    """Findings add up; the first objection ends it."""
    merged = structs.replace(merged, findings=(*merged.findings, *said.answer.findings))
    if not said.answer.block or merged.blocked is not None:
        return merged
    why = said.answer.block_reason or "no reason given"
    change = _change(said, "block", why)
    return structs.replace(merged, blocked=HookSource(said.plugin, why), changes=(*merged.changes, change))


def install_blocked(merged: InstallMerged) -> bool:
    return merged.blocked is not None


class ResultMerged(Struct, frozen=True, kw_only=True):
    message: ToolResult
    changes: tuple[HookChange, ...] = ()


def merge_result(merged: ResultMerged, said: HookAnswer[PersistedResult]) -> ResultMerged:
    """Each sees the result as the one before it left it."""
    if said.answer.message is None:
        return merged
    before = merged.message
    # The tool, the time and the origin labels of a result are not the plugin's to change.
    after = structs.replace(
        said.answer.message,
        tool_call_id=before.tool_call_id,
        tool_name=before.tool_name,
        timestamp=before.timestamp,
        origins=before.origins,
    )
    if after == before:
        return merged
    change = structs.replace(_change(said, "message", _whole(after)), before=_whole(before))
    return ResultMerged(message=after, changes=(*merged.changes, change))


class SendingMerged(Struct, frozen=True, kw_only=True):
    content: str
    cancelled: HookSource | None = None
    changes: tuple[HookChange, ...] = ()


def merge_sending(merged: SendingMerged, said: HookAnswer[SendingVerdict]) -> SendingMerged:
    """The last wording wins; the first to cancel ends it."""
    answer = said.answer
    if answer.content is not None and answer.content != merged.content:
        change = structs.replace(_change(said, "content", answer.content), before=merged.content)
        merged = structs.replace(merged, content=answer.content, changes=(*merged.changes, change))
    if not answer.cancel:
        return merged
    why = answer.cancel_reason or "no reason given"
    change = _change(said, "cancel", why)
    return structs.replace(merged, cancelled=HookSource(said.plugin, why), changes=(*merged.changes, change))


def is_cancelled(merged: SendingMerged) -> bool:
    return merged.cancelled is not None


def _change(said: HookAnswer[Any], name: str, after: str, refused: str = "") -> HookChange:
    return HookChange(plugin=said.plugin, priority=said.priority, field=name, after=after, refused=refused)


def _too_long(text: str) -> str:
    size = utf16_length(text)
    return f"it is {size} characters long, and {LONGEST_TEXT} is the most" if size > LONGEST_TEXT else ""


def _plain(params: dict[str, Any]) -> str:
    return msgspec.json.encode(params, order="sorted").decode()


def _whole(message: ToolResult) -> str:
    """Everything in a result, so that a changed image or detail is recorded too."""
    return msgspec.json.encode(message).decode()


E = TypeVar("E")
M = TypeVar("M")


def _never(merged: Any) -> bool:
    return False


def _same(event: Any, merged: Any) -> Any:
    return event


class HookPoint(Struct, Generic[E, A, M], frozen=True, kw_only=True):
    """How the answers at one point are merged."""

    name: HookName
    start: Callable[[E], M]
    step: Callable[[M, HookAnswer[A]], M]
    over: Callable[[M], bool] = _never
    """Whether asking can stop."""
    view: Callable[[E, M], E] = _same
    """The event the next handler sees, with the changes so far."""
    objection: Callable[[str], A] | None = None
    """The answer of a handler that failed, where a failure counts as an objection."""


MODEL: HookPoint[BeforeModelResolve, ModelChoice, ModelMerged] = HookPoint(
    name="before_model_resolve", start=lambda event: ModelMerged(), step=merge_model
)
MODEL_LEGACY: HookPoint[BeforeAgentStart, AgentStart, ModelMerged] = HookPoint(
    name="before_agent_start", start=lambda event: ModelMerged(), step=merge_model
)
PROMPT: HookPoint[BeforePromptBuild, PromptChange, PromptMerged] = HookPoint(
    name="before_prompt_build", start=lambda event: PromptMerged(), step=merge_prompt
)
PROMPT_LEGACY: HookPoint[BeforeAgentStart, AgentStart, PromptMerged] = HookPoint(
    name="before_agent_start", start=lambda event: PromptMerged(), step=merge_prompt
)
REPLY: HookPoint[BeforeAgentReply, ReplyClaim, ReplyMerged] = HookPoint(
    name="before_agent_reply", start=lambda event: ReplyMerged(), step=merge_reply, over=is_claimed
)
TOOL: HookPoint[BeforeToolCall, ToolVerdict, ToolMerged] = HookPoint(
    name="before_tool_call",
    start=lambda event: ToolMerged(params=event.params),
    step=merge_tool,
    over=tool_blocked,
    view=lambda event, merged: structs.replace(event, params=merged.params),
    objection=lambda why: ToolVerdict(block=True, block_reason=why),
)
INSTALL: HookPoint[BeforeInstall, InstallVerdict, InstallMerged] = HookPoint(
    name="before_install",
    start=lambda event: InstallMerged(),
    step=merge_install,
    over=install_blocked,
    objection=lambda why: InstallVerdict(block=True, block_reason=why),
)
RESULT: HookPoint[ToolResultPersist, PersistedResult, ResultMerged] = HookPoint(
    name="tool_result_persist",
    start=lambda event: ResultMerged(message=event.message),
    step=merge_result,
    view=lambda event, merged: structs.replace(event, message=merged.message),
)
SENDING: HookPoint[MessageSending, SendingVerdict, SendingMerged] = HookPoint(
    name="message_sending",
    start=lambda event: SendingMerged(content=event.content),
    step=merge_sending,
    over=is_cancelled,
    view=lambda event, merged: structs.replace(event, content=merged.content),
)

MERGED_POINTS: tuple[HookPoint[Any, Any, Any], ...] = (
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
