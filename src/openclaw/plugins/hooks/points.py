"""How the answers at each hook point are merged: the initial value, the effect of one more answer, and when to stop."""

from collections.abc import Awaitable, Callable
from typing import Any, Generic, Self, TypeVar

import msgspec
from msgspec import Struct, structs

from openclaw.core import hooks
from openclaw.core.events import Trigger
from openclaw.core.hook_points import POINTS, Point
from openclaw.core.hooks import AgentStart, HookContext, ModelChoice, PromptChange, ToolVerdict
from openclaw.core.messages import Assistant, Message, ToolResult, User
from openclaw.core.provider import ProviderContribution, ProviderPrompt
from openclaw.core.text import utf16_length
from openclaw.plugins.settings import HookSettings
from openclaw.process.environment import variable_problem

A = TypeVar("A")

LONGEST_TEXT = 60_000
"""The most one plugin may add to a prompt in one field: as much as all workspace files together."""

NO_REASON = "no reason given"


# Handlers.

HookHandler = Callable[[Any, HookContext], Awaitable[Any] | Any]
"""Called with an event and a context. It returns the point's answer type, a mapping with the same fields, or None; it
may be a coroutine function everywhere but at `tool_result_persist`."""


class HookRegistration(Struct, frozen=True, kw_only=True):
    """One handler of a plugin at one point, or of a HOOK.md at one event or family of events."""

    plugin: str
    """Its owner; for a HOOK.md `hook:` and the hook's name."""
    hook: str
    handler: HookHandler
    priority: int = 0
    """Higher runs first; equal ones in order of registration."""
    settings: HookSettings = HookSettings()
    bundled: bool = False
    """Whether the plugin comes with OpenClaw."""
    tools: tuple[str, ...] = ()
    """At the tool points: only these tools, `*` standing for any letters."""
    providers: tuple[str, ...] = ()
    """Those the plugin brings: it has a say in the prompts of their models."""
    triggers: tuple[Trigger, ...] = ()
    """Only runs with these triggers."""
    workspace: str = ""
    """Only agents of this workspace."""
    in_order: bool = False
    """It is told of one thing after another, each when it is done with the one before."""

    @property
    def point(self) -> Point | None:
        """What is known of its point; None at an event of HOOK.md."""
        return POINTS.get(self.hook)  # type: ignore[call-overload, no-any-return]

    @property
    def seconds(self) -> float:
        """The handler's timeout; 0 for none: a HOOK.md limits its own process."""
        own = self.settings.timeouts.get(self.hook, self.settings.timeout_ms)
        if own is not None:
            return own / 1000
        return self.point.seconds if self.point else 0


# Answers.


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


class Merged(Struct, frozen=True, kw_only=True):
    """The answers at a point so far."""

    changes: tuple[HookChange, ...] = ()

    def changed(self, change: HookChange, **fields: Any) -> Self:
        """With `change` on record, and with `fields` set unless it was refused."""
        return structs.replace(self, changes=(*self.changes, change), **({} if change.refused else fields))


class ModelMerged(Merged, frozen=True, kw_only=True):
    model: HookSource | None = None
    provider: HookSource | None = None


def merge_model(merged: ModelMerged, by: HookRegistration, answer: ModelChoice | AgentStart) -> ModelMerged:
    """The first to name a model or a provider wins; it needs the operator's permission."""
    granted = by.settings.allow_model_override
    refused = "" if (by.bundled if granted is None else granted) else "allowModelOverride is not granted"
    for name, wish in (("model", answer.model_override), ("provider", answer.provider_override)):
        if wish:
            late = "a plugin before it has chosen" if getattr(merged, name) is not None else ""
            change = _change(by, f"{name}Override", wish, refused=refused or late)
            merged = merged.changed(change, **{name: HookSource(by.plugin, wish)})
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


class PromptMerged(Merged, frozen=True, kw_only=True):
    system: HookSource | None = None
    prepend_context: tuple[HookSource, ...] = ()
    append_context: tuple[HookSource, ...] = ()
    prepend_system: tuple[HookSource, ...] = ()
    append_system: tuple[HookSource, ...] = ()
    tools_allow: tuple[tuple[str, ...], ...] = ()
    """The list of every plugin that gave one; a tool must be on each."""


def merge_prompt(merged: PromptMerged, by: HookRegistration, answer: PromptChange | AgentStart) -> PromptMerged:
    """Texts are concatenated, the last whole prompt wins, tools are those that every answer allows."""
    barred = "" if by.settings.allow_prompt_injection else "allowPromptInjection is off"
    for field, name, text in (
        ("prepend_context", "prependContext", answer.prepend_context),
        ("append_context", "appendContext", answer.append_context),
        ("prepend_system", "prependSystemContext", answer.prepend_system_context),
        ("append_system", "appendSystemContext", answer.append_system_context),
    ):
        if text and text.strip():
            change = _change(by, name, text, refused=barred or _too_long(text))
            merged = merged.changed(change, **{field: (*getattr(merged, field), HookSource(by.plugin, text))})
    if (text := answer.system_prompt) and text.strip():
        missing = "" if by.settings.allow_prompt_replace else "allowPromptReplace is not granted"
        change = _change(by, "systemPrompt", text, refused=barred or missing or _too_long(text))
        merged = merged.changed(change, system=HookSource(by.plugin, text))
    if answer.tools_allow is not None:
        change = _change(by, "toolsAllow", ", ".join(answer.tools_allow))
        merged = merged.changed(change, tools_allow=(*merged.tools_allow, answer.tools_allow))
    return merged


def merge_prompt_points(older: PromptMerged, newer: PromptMerged) -> PromptMerged:
    """Merges the answers of the legacy point and of the newer one, in this order."""
    lists = (name for name in PromptMerged.__struct_fields__ if name != "system")
    joined = {name: getattr(older, name) + getattr(newer, name) for name in lists}
    return PromptMerged(system=newer.system or older.system, **joined)


class ProviderMerged(Merged, frozen=True, kw_only=True):
    interaction_style: HookSource | None = None
    tool_call_style: HookSource | None = None
    execution_bias: HookSource | None = None
    stable_prefix: HookSource | None = None
    dynamic_suffix: HookSource | None = None


def merge_provider(merged: ProviderMerged, by: HookRegistration, answer: ProviderContribution) -> ProviderMerged:
    """The first text for a section counts."""
    for field in structs.fields(ProviderContribution):
        text = getattr(answer, field.name)
        if text and text.strip():
            late = "a handler before it has said that" if getattr(merged, field.name) is not None else ""
            change = _change(by, field.encode_name, text, refused=late or _too_long(text))
            merged = merged.changed(change, **{field.name: HookSource(by.plugin, text)})
    return merged


def merge_turn(merged: PromptMerged, by: HookRegistration, answer: hooks.TurnContext) -> PromptMerged:
    """Texts around the message are concatenated."""
    change = PromptChange(prepend_context=answer.prepend_context, append_context=answer.append_context)
    return merge_prompt(merged, by, change)


class RunMerged(Merged, frozen=True, kw_only=True):
    blocked: HookSource | None = None
    """The plugin that objects, and why."""
    message: str = ""
    """What the person is told."""


def merge_run(merged: RunMerged, by: HookRegistration, answer: hooks.AgentRunVerdict) -> RunMerged:
    """The first objection ends it."""
    if answer.outcome != "block":
        return merged
    why = answer.reason or NO_REASON
    said = answer.message or ""
    return merged.changed(_change(by, "block", why), blocked=HookSource(by.plugin, why), message=said)


def _run_objection(block: bool, block_reason: str) -> hooks.AgentRunVerdict:
    return hooks.AgentRunVerdict(outcome="block" if block else "pass", reason=block_reason)


class WriteMerged(Merged, frozen=True, kw_only=True):
    message: Message
    blocked: HookSource | None = None


def merge_write(merged: WriteMerged, by: HookRegistration, answer: hooks.WrittenMessage) -> WriteMerged:
    """Each sees the message as the one before it left it; what belongs together on disk stays together."""
    before, after = merged.message, answer.message
    if answer.block:
        bound = not isinstance(before, Assistant) or bool(before.calls)
        refused = "only an answer without calls can be left out" if bound else ""
        change = _change(by, "block", "block", refused=refused)
        return merged.changed(change, blocked=HookSource(by.plugin, NO_REASON))
    if after is None or after == before:
        return merged
    was, now = (msgspec.json.encode(message).decode() for message in (before, after))
    refused = ""
    kept: Message = after
    match before, after:
        case User(), User():
            key, when, labels = before.idempotency_key, before.timestamp, before.origins
            kept = structs.replace(after, idempotency_key=key, timestamp=when, origins=labels)
        case Assistant(), Assistant() if before.calls == after.calls:
            kept = structs.replace(after, usage=before.usage, timestamp=before.timestamp, origins=before.origins)
        case ToolResult(), ToolResult():
            kept = structs.replace(
                after,
                tool_call_id=before.tool_call_id,
                tool_name=before.tool_name,
                timestamp=before.timestamp,
                origins=before.origins,
            )
        case _:
            refused = "a message keeps its kind and its calls"
    return merged.changed(_change(by, "message", now, before=was, refused=refused), message=kept)


class PayloadMerged(Merged, frozen=True, kw_only=True):
    payload: dict[str, Any]
    cancelled: HookSource | None = None


def merge_payload(merged: PayloadMerged, by: HookRegistration, answer: hooks.PayloadVerdict) -> PayloadMerged:
    """The last payload wins; the first to cancel ends it."""
    if answer.payload is not None and answer.payload != merged.payload:
        change = _change(by, "payload", _plain(answer.payload), before=_plain(merged.payload))
        merged = merged.changed(change, payload=answer.payload)
    if not answer.cancel:
        return merged
    why = answer.cancel_reason or NO_REASON
    return merged.changed(_change(by, "cancel", why), cancelled=HookSource(by.plugin, why))


class FinalizeMerged(Merged, frozen=True, kw_only=True):
    final: bool = False
    revisions: tuple[tuple[str, hooks.RevisionRequest], ...] = ()
    """What is asked for, by which plugin."""


def merge_finalize(merged: FinalizeMerged, by: HookRegistration, answer: hooks.FinalizeVerdict) -> FinalizeMerged:
    """Who finalizes ends it; otherwise every wish is told to the model."""
    if answer.action == "finalize":
        return merged.changed(_change(by, "finalize", answer.reason or NO_REASON), final=True, revisions=())
    if answer.action != "revise":
        return merged
    wish = answer.retry or hooks.RevisionRequest(instruction=answer.reason)
    missing = "" if wish.instruction.strip() else "it does not say what to revise"
    change = _change(by, "revise", wish.instruction, refused=missing or _too_long(wish.instruction))
    return merged.changed(change, revisions=(*merged.revisions, (by.plugin, wish)))


class EnvMerged(Merged, frozen=True, kw_only=True):
    env: dict[str, str] = msgspec.field(default_factory=dict)


def merge_env(merged: EnvMerged, by: HookRegistration, answer: hooks.ExecEnv) -> EnvMerged:
    """The last value of a variable counts; some variables are nobody's to set."""
    for name, value in answer.env.items():
        change = _change(by, f"env.{name}", value, refused=variable_problem(name, value))
        merged = merged.changed(change, env={**merged.env, name: value})
    return merged


class TargetMerged(Merged, frozen=True, kw_only=True):
    origin: hooks.DeliveryOrigin | None = None


def merge_target(merged: TargetMerged, by: HookRegistration, answer: hooks.DeliveryTarget) -> TargetMerged:
    """The first chat counts."""
    if answer.origin is None or merged.origin is not None:
        return merged
    change = _change(by, "origin", f"{answer.origin.channel}:{answer.origin.to}")
    return merged.changed(change, origin=answer.origin)


class ReplyMerged(Merged, frozen=True, kw_only=True):
    plugin: str = ""
    """The plugin that claimed the turn; empty when none did."""
    reply: str = ""


def merge_reply(merged: ReplyMerged, by: HookRegistration, answer: hooks.ReplyClaim) -> ReplyMerged:
    """The first claim wins."""
    if merged.plugin or not answer.handled:
        return merged
    text = answer.reply or ""
    return merged.changed(_change(by, "reply", text), plugin=by.plugin, reply=text)


def merge_dispatch(merged: ReplyMerged, by: HookRegistration, answer: hooks.DispatchClaim) -> ReplyMerged:
    """The first claim wins."""
    return merge_reply(merged, by, hooks.ReplyClaim(handled=answer.handled, reply=answer.text))


def merge_claim(merged: ReplyMerged, by: HookRegistration, answer: hooks.InboundClaimed) -> ReplyMerged:
    """The first claim wins."""
    return merge_reply(merged, by, hooks.ReplyClaim(handled=answer.handled))


class ToolMerged(Merged, frozen=True, kw_only=True):
    params: dict[str, Any]
    blocked: HookSource | None = None
    """The plugin that objects, and why."""
    approval: hooks.RequireApproval | None = None
    approval_by: str = ""


def merge_tool(merged: ToolMerged, by: HookRegistration, answer: ToolVerdict) -> ToolMerged:
    """The last arguments win, until one asks for a person's approval: what is approved is what runs."""
    if answer.params is not None and answer.params != merged.params:
        late = f"{merged.approval_by} asked for an approval of the arguments as they are" if merged.approval else ""
        change = _change(by, "params", _plain(answer.params), before=_plain(merged.params), refused=late)
        merged = merged.changed(change, params=answer.params)
    if answer.block:
        why = answer.block_reason or NO_REASON
        return merged.changed(_change(by, "block", why), blocked=HookSource(by.plugin, why))
    if answer.require_approval is not None and merged.approval is None:
        change = _change(by, "requireApproval", answer.require_approval.title)
        merged = merged.changed(change, approval=answer.require_approval, approval_by=by.plugin)
    return merged


class InstallMerged(Merged, frozen=True, kw_only=True):
    blocked: HookSource | None = None
    findings: tuple[hooks.InstallFinding, ...] = ()


def merge_install(merged: InstallMerged, by: HookRegistration, answer: hooks.InstallVerdict) -> InstallMerged:
    """Findings add up; the first objection ends it."""
    merged = structs.replace(merged, findings=(*merged.findings, *answer.findings))
    if not answer.block or merged.blocked is not None:
        return merged
    why = answer.block_reason or NO_REASON
    return merged.changed(_change(by, "block", why), blocked=HookSource(by.plugin, why))


class ResultMerged(Merged, frozen=True, kw_only=True):
    message: ToolResult


def merge_result(merged: ResultMerged, by: HookRegistration, answer: hooks.PersistedResult) -> ResultMerged:
    """Each sees the result as the one before it left it."""
    if answer.message is None:
        return merged
    before = merged.message
    # The tool, the time and the origin labels of a result are not the plugin's to change.
    after = structs.replace(
        answer.message,
        tool_call_id=before.tool_call_id,
        tool_name=before.tool_name,
        timestamp=before.timestamp,
        origins=before.origins,
    )
    if after == before:
        return merged
    # Everything in a result goes on record, so that a changed image or detail is seen too.
    was, now = (msgspec.json.encode(message).decode() for message in (before, after))
    return merged.changed(_change(by, "message", now, before=was), message=after)


class SendingMerged(Merged, frozen=True, kw_only=True):
    content: str
    cancelled: HookSource | None = None


def merge_sending(merged: SendingMerged, by: HookRegistration, answer: hooks.SendingVerdict) -> SendingMerged:
    """The last wording wins; the first to cancel ends it."""
    if answer.content is not None and answer.content != merged.content:
        change = _change(by, "content", answer.content, before=merged.content)
        merged = merged.changed(change, content=answer.content)
    if not answer.cancel:
        return merged
    why = answer.cancel_reason or NO_REASON
    return merged.changed(_change(by, "cancel", why), cancelled=HookSource(by.plugin, why))


def _change(by: HookRegistration, name: str, after: str, *, before: str = "", refused: str = "") -> HookChange:
    return HookChange(plugin=by.plugin, priority=by.priority, field=name, before=before, after=after, refused=refused)


def _too_long(text: str) -> str:
    size = utf16_length(text)
    return f"it is {size} characters long, and {LONGEST_TEXT} is the most" if size > LONGEST_TEXT else ""


def _plain(params: dict[str, Any]) -> str:
    return msgspec.json.encode(params, order="sorted").decode()


E = TypeVar("E", bound=Struct)
M = TypeVar("M", bound=Struct)


class HookPoint(Struct, Generic[E, A, M], frozen=True, kw_only=True):
    """How the answers at one point are merged."""

    name: str
    merged: type[M]
    step: Callable[[M, HookRegistration, A], M]
    carried: str = ""
    """The field that handlers change one after the other; the next one sees it as the last one left it."""
    ends: str = ""
    """The field that ends the asking when it is set."""
    objection: Callable[..., A] | None = None
    """The answer that stands for a handler that failed, where a failure counts as an objection."""

    def start(self, event: E) -> M:
        return self.merged(**{self.carried: getattr(event, self.carried)} if self.carried else {})

    def over(self, merged: M) -> bool:
        return bool(self.ends and getattr(merged, self.ends))

    def view(self, event: E, merged: M) -> E:
        """The event the next handler sees."""
        return structs.replace(event, **{self.carried: getattr(merged, self.carried)}) if self.carried else event


MODEL: HookPoint[hooks.BeforeModelResolve, ModelChoice, ModelMerged] = HookPoint(
    name="before_model_resolve", merged=ModelMerged, step=merge_model
)
MODEL_LEGACY: HookPoint[hooks.BeforeAgentStart, AgentStart, ModelMerged] = HookPoint(
    name="before_agent_start", merged=ModelMerged, step=merge_model
)
PROMPT: HookPoint[hooks.BeforePromptBuild, PromptChange, PromptMerged] = HookPoint(
    name="before_prompt_build", merged=PromptMerged, step=merge_prompt
)
PROMPT_LEGACY: HookPoint[hooks.BeforeAgentStart, AgentStart, PromptMerged] = HookPoint(
    name="before_agent_start", merged=PromptMerged, step=merge_prompt
)
PROVIDER: HookPoint[ProviderPrompt, ProviderContribution, ProviderMerged] = HookPoint(
    name="provider_prompt_contribution", merged=ProviderMerged, step=merge_provider
)
TURN: HookPoint[hooks.AgentTurnPrepare, hooks.TurnContext, PromptMerged] = HookPoint(
    name="agent_turn_prepare", merged=PromptMerged, step=merge_turn
)
HEARTBEAT: HookPoint[hooks.HeartbeatPromptContribution, hooks.TurnContext, PromptMerged] = HookPoint(
    name="heartbeat_prompt_contribution", merged=PromptMerged, step=merge_turn
)
RUN: HookPoint[hooks.BeforeAgentRun, hooks.AgentRunVerdict, RunMerged] = HookPoint(
    name="before_agent_run", merged=RunMerged, step=merge_run, ends="blocked", objection=_run_objection
)
WRITE: HookPoint[hooks.BeforeMessageWrite, hooks.WrittenMessage, WriteMerged] = HookPoint(
    name="before_message_write", merged=WriteMerged, step=merge_write, carried="message", ends="blocked"
)
PAYLOAD: HookPoint[hooks.ReplyPayloadSending, hooks.PayloadVerdict, PayloadMerged] = HookPoint(
    name="reply_payload_sending", merged=PayloadMerged, step=merge_payload, carried="payload", ends="cancelled"
)
REPLY: HookPoint[hooks.BeforeAgentReply, hooks.ReplyClaim, ReplyMerged] = HookPoint(
    name="before_agent_reply", merged=ReplyMerged, step=merge_reply, ends="plugin"
)
DISPATCH: HookPoint[hooks.BeforeDispatch, hooks.DispatchClaim, ReplyMerged] = HookPoint(
    name="before_dispatch", merged=ReplyMerged, step=merge_dispatch, ends="plugin"
)
CLAIM: HookPoint[hooks.InboundClaim, hooks.InboundClaimed, ReplyMerged] = HookPoint(
    name="inbound_claim", merged=ReplyMerged, step=merge_claim, ends="plugin"
)
FINALIZE: HookPoint[hooks.BeforeAgentFinalize, hooks.FinalizeVerdict, FinalizeMerged] = HookPoint(
    name="before_agent_finalize", merged=FinalizeMerged, step=merge_finalize, ends="final"
)
ENV: HookPoint[hooks.ResolveExecEnv, hooks.ExecEnv, EnvMerged] = HookPoint(
    name="resolve_exec_env", merged=EnvMerged, step=merge_env
)
TARGET: HookPoint[hooks.SubagentDeliveryTarget, hooks.DeliveryTarget, TargetMerged] = HookPoint(
    name="subagent_delivery_target", merged=TargetMerged, step=merge_target, ends="origin"
)
TOOL: HookPoint[hooks.BeforeToolCall, ToolVerdict, ToolMerged] = HookPoint(
    name="before_tool_call", merged=ToolMerged, step=merge_tool, carried="params", ends="blocked", objection=ToolVerdict
)
INSTALL: HookPoint[hooks.BeforeInstall, hooks.InstallVerdict, InstallMerged] = HookPoint(
    name="before_install", merged=InstallMerged, step=merge_install, ends="blocked", objection=hooks.InstallVerdict
)
RESULT: HookPoint[hooks.ToolResultPersist, hooks.PersistedResult, ResultMerged] = HookPoint(
    name="tool_result_persist", merged=ResultMerged, step=merge_result, carried="message"
)
SENDING: HookPoint[hooks.MessageSending, hooks.SendingVerdict, SendingMerged] = HookPoint(
    name="message_sending", merged=SendingMerged, step=merge_sending, carried="content", ends="cancelled"
)
