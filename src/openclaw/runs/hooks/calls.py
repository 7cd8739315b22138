"""Calls plugins around tool calls, model calls, sub-agents and jobs: they may change, refuse, or only be told."""

import secrets
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import msgspec
from msgspec import structs

from openclaw.core.channel import Address, Platform
from openclaw.core.clock import Clock
from openclaw.core.events import AttemptFailed, Event, MessageEnded, ModelCalled, RunEnded
from openclaw.core.hooks import (
    AfterToolCall,
    BeforeAgentFinalize,
    BeforeAgentRun,
    BeforeToolCall,
    CronChanged,
    DeliveryOrigin,
    HookContext,
    HookName,
    LlmInput,
    LlmOutput,
    ModelCallEnded,
    ModelCallStarted,
    ResolveExecEnv,
    SubagentDeliveryTarget,
    SubagentEnded,
    SubagentSpawned,
)
from openclaw.core.keys import SessionKey
from openclaw.core.messages import Message
from openclaw.core.provider import Model, ProviderPrompt
from openclaw.core.text import PromptText
from openclaw.core.tool import ApprovalRequest, Approver, Output, ToolContext
from openclaw.plugins.hooks import points
from openclaw.plugins.hooks.dispatch import HookDispatcher, audit_change
from openclaw.plugins.hooks.points import FinalizeMerged, HookChange, RunMerged, ToolMerged
from openclaw.prompt.facts import NO_CONTRIBUTION, Contribution
from openclaw.protocol.events import EventBus
from openclaw.runs.events import RunAccepted, RunEvent, RunPublisher, RunSettled
from openclaw.runs.inbox import LastRoutes
from openclaw.runs.request import RunRequest
from openclaw.security.audit import AuditChange
from openclaw.security.audit_log import AuditLog


class ToolHooks:
    """The interceptor of every tool runner."""

    def __init__(self, hooks: HookDispatcher, audit: AuditLog, approver: Approver) -> None:
        self._hooks = hooks
        self._audit = audit
        self._approver = approver

    async def before(self, tool: str, args: dict[str, Any], context: ToolContext) -> dict[str, Any] | str:
        """The arguments to continue with, or why the call is blocked."""
        if tool == "exec" and self._hooks.has("resolve_exec_env"):
            args = await self._with_variables(args, context)
        if not self._hooks.has("before_tool_call"):
            return args
        event = BeforeToolCall(tool_name=tool, params=args, tool_call_id=context.call_id, run_id=context.run_id)
        merged = await self._hooks.ask(points.TOOL, event, _where(context))
        where = context.run_id, context.session_key
        await _record(self._audit, "before_tool_call", merged.changes, *where, note=f"tool {tool}")
        if merged.blocked is not None:
            return f"Not run: the plugin {merged.blocked.plugin} objects: {merged.blocked.text}."
        if merged.approval is not None:
            refusal = await self._asked(tool, merged, context)
            if refusal:
                return refusal
        return merged.params

    async def _with_variables(self, args: dict[str, Any], context: ToolContext) -> dict[str, Any]:
        """The arguments of a command with the variables of plugins, which are shown and approved like its own."""
        event = ResolveExecEnv(session_key=context.session_key, host=str(args.get("host") or "auto"))
        merged = await self._hooks.ask(points.ENV, event, _where(context))
        await _record(self._audit, "resolve_exec_env", merged.changes, context.run_id, context.session_key)
        return {**args, "env": {**(args.get("env") or {}), **merged.env}} if merged.env else args

    def after(self, tool: str, args: Mapping[str, Any], context: ToolContext, output: Output, seconds: float) -> None:
        """Notifies plugins of a call's result."""
        if not self._hooks.has("after_tool_call"):
            return
        event = AfterToolCall(
            tool_name=tool,
            params=dict(args),
            tool_call_id=context.call_id,
            run_id=context.run_id,
            result="" if output.is_error else output.text,
            error=output.text if output.is_error else None,
            duration_ms=round(seconds * 1000),
        )
        self._hooks.tell("after_tool_call", event, _where(context))

    async def _asked(self, tool: str, merged: ToolMerged, context: ToolContext) -> str:
        """Asks a person for approval; gives why it was refused, or nothing."""
        wish = merged.approval
        assert wish is not None
        why = f"{merged.approval_by} asks: {wish.title}" + (f" ({wish.description})" if wish.description else "")
        request = ApprovalRequest(
            id=secrets.token_hex(4),
            tool=tool,
            command=f"{tool} {msgspec.json.encode(merged.params).decode()}",
            cwd=str(context.workspace),
            agent_id=context.agent_id,
            session_key=context.session_key,
            why=why,
            run_id=context.run_id,
            call=context.call,
            expires_after=None if wish.timeout_ms is None else wish.timeout_ms / 1000,
        )
        answer = await self._approver.decide(request)
        if answer.decision == "deny":
            return f"Not run: {answer.why or 'the user said no'}. Do not try to get round it; ask what to do instead."
        return ""


async def _record(
    audit: AuditLog, hook: HookName, changes: Sequence[HookChange], run_id: str, session_key: str, note: str = ""
) -> None:
    if changes:
        deeds = [audit_change(hook, change, note=note) for change in changes]
        await audit.record(deeds, run_id=run_id, session_key=session_key)


def _where(context: ToolContext) -> HookContext:
    return HookContext(
        agent_id=context.agent_id,
        session_key=context.session_key,
        workspace_dir=str(context.workspace),
        run_id=context.run_id,
    )


# Model calls.

MAY_RUN = RunMerged()
MOST_REVISIONS = 3
"""How often the answer of one run is revised at most."""


class ModelHooks:
    """The points around the model calls of one turn."""

    def __init__(self, hooks: HookDispatcher, context: HookContext, clock: Clock) -> None:
        self._hooks = hooks
        self._context = context
        self._clock = clock
        self._calls = 0
        self._call: ModelCalled | None = None
        self._since = 0.0
        self._asked: dict[str, int] = {}
        """How often each revision was asked for."""
        self._revisions = 0

    async def contribution(self, model: Model) -> tuple[Contribution, list[AuditChange]]:
        """What a plugin adds to prompts for `model`, which its provider serves; with the entries for the audit."""
        if model.api != "plugin" or not self._hooks.has("provider_prompt_contribution"):
            return NO_CONTRIBUTION, []
        event = ProviderPrompt(provider=model.provider, model=model.id)
        merged = await self._hooks.ask(points.PROVIDER, event, self._context)
        said = ((name, getattr(merged, name)) for name in Contribution.__struct_fields__)
        texts = {name: PromptText(voice.text, f"plugin {voice.plugin}", "tool") for name, voice in said if voice}
        changes = [audit_change("provider_prompt_contribution", change) for change in merged.changes]
        return Contribution(**texts), changes

    async def admit(self, prompt: str, messages: tuple[Message, ...], system: str) -> RunMerged:
        """Whether a model may be asked at all."""
        if not self._hooks.has("before_agent_run"):
            return MAY_RUN
        event = BeforeAgentRun(prompt=prompt, messages=messages, system_prompt=system)
        return await self._hooks.ask(points.RUN, event, self._context)

    async def revision(self, text: str, messages: tuple[Message, ...]) -> FinalizeMerged:
        """What plugins want of the answer `text` before it is given; nothing when they have had their revisions."""
        event = BeforeAgentFinalize(run_id=self._context.run_id, text=text, messages=messages)
        merged = await self._hooks.ask(points.FINALIZE, event, self._context)
        wishes = []
        for plugin, wish in merged.revisions:
            name = f"{plugin}\0{wish.idempotency_key or wish.instruction}"
            self._asked[name] = self._asked.get(name, 0) + 1
            if self._asked[name] <= wish.max_attempts and self._revisions < MOST_REVISIONS:
                wishes.append((plugin, wish))
        self._revisions += bool(wishes)
        return structs.replace(merged, revisions=tuple(wishes))

    def take(self, event: Event, prompt: str, system: str, history: Sequence[Message]) -> None:
        """Tells of a model call that begins or ends; `history` is what the model sees."""
        match event:
            case ModelCalled():
                self._begin(event, prompt, system, history)
            case MessageEnded(message=message):
                self._end("")
                if self._hooks.has("llm_output"):
                    output = LlmOutput(
                        run_id=self._context.run_id,
                        session_id=self._context.session_id,
                        provider=message.provider,
                        model=message.model,
                        assistant_texts=(message.text,) if message.text else (),
                        last_assistant=message,
                        usage=message.usage,
                    )
                    self._hooks.tell("llm_output", output, self._context)
            case AttemptFailed(reason=reason):
                self._end(reason)
            case RunEnded(error=error, error_code=code) if error:
                self._end(code or "error")
            case _:
                pass

    def _begin(self, called: ModelCalled, prompt: str, system: str, history: Sequence[Message]) -> None:
        self._calls += 1
        self._call, self._since = called, self._clock.now()
        if self._hooks.has("model_call_started"):
            started = ModelCallStarted(
                run_id=self._context.run_id, call_id=self._name, provider=called.provider, model=called.model
            )
            self._hooks.tell("model_call_started", started, self._context)
        if self._hooks.has("llm_input"):
            asked = LlmInput(
                run_id=self._context.run_id,
                session_id=self._context.session_id,
                provider=called.provider,
                model=called.model,
                system_prompt=system,
                prompt=prompt,
                history_messages=tuple(history),
            )
            self._hooks.tell("llm_input", asked, self._context)

    def _end(self, error: str) -> None:
        called, self._call = self._call, None
        if called is None or not self._hooks.has("model_call_ended"):
            return
        ended = ModelCallEnded(
            run_id=self._context.run_id,
            call_id=self._name,
            provider=called.provider,
            model=called.model,
            outcome="error" if error else "completed",
            duration_ms=round((self._clock.now() - self._since) * 1000),
            error_category=error or None,
        )
        self._hooks.tell("model_call_ended", ended, self._context)

    @property
    def _name(self) -> str:
        return f"{self._context.run_id}:{self._calls}"


class ChildHooks:
    """Tells plugins of sub-agents, and of jobs."""

    def __init__(self, hooks: HookDispatcher, publisher: RunPublisher) -> None:
        self._hooks = hooks
        self._publisher = publisher
        publisher.subscribe_to_children(self._begin)

    def _begin(self, said: RunEvent) -> None:
        if not isinstance(said.event, RunAccepted):
            return
        request = said.event.request
        self._publisher.follow(said.run_id, partial(self._end, request))
        if self._hooks.has("subagent_spawned"):
            event = SubagentSpawned(
                run_id=said.run_id, child_session_key=str(request.key), agent_id=request.key.agent, task=request.text
            )
            self._hooks.tell("subagent_spawned", event, _place(request))

    def _end(self, child: RunRequest, said: RunEvent) -> None:
        if isinstance(said.event, RunSettled) and self._hooks.has("subagent_ended"):
            ended = SubagentEnded(
                run_id=said.run_id,
                child_session_key=str(child.key),
                agent_id=child.key.agent,
                outcome=said.event.outcome.status,
                error=said.event.outcome.error,
            )
            self._hooks.tell("subagent_ended", ended, _place(child))

    async def follow_jobs(self, bus: EventBus) -> None:
        """Tells of every change of a job, until it is cancelled."""
        with bus.listening(("cron",)) as events:
            async for event in events:
                if self._hooks.has("cron_changed"):
                    told = CronChanged(
                        action=str(event.payload.get("action", "")),
                        job_id=str(event.payload.get("jobId", "")),
                        job=event.payload.get("job"),
                    )
                    self._hooks.tell("cron_changed", told, HookContext(trigger="cron"))


class DeliveryTargets:
    """Asks plugins where the result of a sub-agent is told."""

    def __init__(
        self,
        hooks: HookDispatcher,
        audit: AuditLog,
        routes: LastRoutes,
        platforms: Mapping[tuple[str, str], Platform],
    ) -> None:
        self._hooks = hooks
        self._audit = audit
        self._routes = routes
        self._platforms = platforms

    async def of(self, child_key: str, child_run: str, parent: SessionKey) -> Address | None:
        """The chat that a plugin chose; None leaves it where it belongs."""
        if not self._hooks.has("subagent_delivery_target"):
            return None
        last = await self._routes.of(parent)
        usual = None
        if last is not None:
            usual = DeliveryOrigin(channel=last.channel, to=last.to, account_id=last.account, thread_id=last.thread)
        event = SubagentDeliveryTarget(
            child_session_key=child_key,
            child_run_id=child_run,
            requester_session_key=str(parent),
            requester_origin=usual,
        )
        context = HookContext(agent_id=parent.agent, session_key=str(parent), run_id=child_run, trigger="system")
        merged = await self._hooks.ask(points.TARGET, event, context)
        chosen = merged.origin
        lost = chosen is not None and (chosen.channel, chosen.account_id) not in self._platforms
        why = f"{chosen.channel} ({chosen.account_id}) is not connected" if chosen is not None and lost else ""
        changes = [structs.replace(change, refused=change.refused or why) for change in merged.changes]
        await _record(self._audit, "subagent_delivery_target", changes, child_run, str(parent))
        if chosen is None or lost:
            return None
        return Address(channel=chosen.channel, to=chosen.to, account=chosen.account_id, thread=chosen.thread_id)


def _place(request: RunRequest) -> HookContext:
    return HookContext(
        agent_id=request.key.agent, session_key=str(request.key), run_id=request.run_id, trigger=request.trigger
    )
