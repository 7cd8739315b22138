"""Runs the tool calls of one reply: plan, admit, run, finish. Every call gets exactly one result."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AsyncExitStack
from operator import is_
from typing import Any

import msgspec
from msgspec import Struct, structs

from openclaw.agent.arguments import ArgumentsRejected, prepare_arguments
from openclaw.agent.repeats import RepeatBlocked, RepeatDetector, RepeatWarning, shorten
from openclaw.agent.tool_search import CALL, DeferredTools, split_tools
from openclaw.core.clock import Clock, millis
from openclaw.core.errors import OpenClawError
from openclaw.core.events import ToolEnded, ToolStarted, ToolUpdated
from openclaw.core.harness import CallObserver, Gate, LabelTracker, NoLabels, Perform, Steering, ToolEvent
from openclaw.core.messages import Message, Text, ToolCall, ToolResult
from openclaw.core.text import replace_surrogates
from openclaw.core.tool import ApprovalPending, ChecksCalls, Effects, Output, Tool, ToolContext, ToolSpec

log = logging.getLogger(__name__)

SKIPPED = "Skipped to process an incoming message."
ALIASES = {"bash": "exec", "apply-patch": "apply_patch", "view_image": "image"}


class _Ready(Struct, frozen=True):
    """A valid call; `warning` is added to its result, `perform` does its work in place of the tool, and `earlier` are
    the calls before it in the reply, which has others if it is not `alone`."""

    tool: Tool
    args: dict[str, Any]
    warning: str = ""
    perform: Perform | None = None
    alone: bool = True
    earlier: "tuple[asyncio.Task[None], ...]" = ()


_Plan = _Ready | Output | RepeatBlocked


class _Objection(Exception):
    """A call that is refused."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why


class NoTools:
    """The tools of a question that is only to be answered."""

    specs: tuple[ToolSpec, ...] = ()
    loops = 0
    persisted = False
    ended = False
    yielded = False

    def heard(self, message: Message) -> None:
        return None

    async def admit(self, call: ToolCall) -> str | None:
        return "There are no tools here."

    async def run_all(
        self,
        calls: Sequence[ToolCall],
        steering: Steering | None = None,
        performers: Mapping[str, Perform] | None = None,
    ) -> AsyncGenerator[ToolEvent, None]:
        """Refuses every call."""
        for call in calls:
            refusal = (Text("There are no tools here: answer in words."),)
            yield ToolEnded(call, ToolResult(tool_call_id=call.id, tool_name=call.name, content=refusal, is_error=True))


NO_TOOLS = NoTools()


class ToolCatalog:
    """Tools by name, and the schemas of them that a model is sent.

    With a model's `window` some are only named where that saves more than searching costs, but never those in `always`.
    """

    def __init__(self, tools: Sequence[Tool], window: int = 0, always: frozenset[str] = frozenset()) -> None:
        self.given, self.window = tuple(tools), window
        self.by_name = {tool.spec.name: tool for tool in tools}
        self.names = tuple(tool.spec.name for tool in tools)
        self.tools = tuple(self.by_name.values())
        self.all_specs = tuple(tool.spec for _, tool in sorted(self.by_name.items()))
        """Every tool with all of its parameters."""
        named_only = split_tools(self.by_name, window=window, always=always) if window else frozenset()
        self.deferred = DeferredTools(self.by_name, named_only) if named_only else None
        self.specs = self.all_specs if self.deferred is None else self.deferred.specs
        """What is sent to the model."""


class ToolCatalogs:
    """The catalog of each agent's last turn, because the next one mostly has the same tools."""

    def __init__(self) -> None:
        self._last: dict[str, ToolCatalog] = {}

    def get(self, agent_id: str, tools: Sequence[Tool], window: int, always: type) -> ToolCatalog:
        """The catalog of these very tools; those of the type `always` are sent in any case."""
        last = self._last.get(agent_id)
        same = last is not None and last.window == window and len(last.given) == len(tools)
        if last is None or not (same and all(map(is_, last.given, tools))):
            sent = frozenset(tool.spec.name for tool in tools if isinstance(tool, always))
            last = self._last[agent_id] = ToolCatalog(tools, window, sent)
        return last


class ToolRunner:
    """The tools of one run: validates, gates and runs their calls."""

    def __init__(
        self,
        catalog: ToolCatalog,
        context: ToolContext,
        gates: Sequence[Gate],
        clock: Clock,
        *,
        repeats: RepeatDetector,
        cap: int,
        interceptor: CallObserver | None = None,
        labels: LabelTracker | None = None,
    ) -> None:
        """`gates` are asked in order about every call."""
        self._tools, self.tools = catalog.by_name, catalog.tools
        self.all_specs, self.specs = catalog.all_specs, catalog.specs
        self._deferred = catalog.deferred
        self._context = context
        self._gates = gates
        self._labels = labels or NoLabels()
        self._clock = clock
        self._repeats = repeats
        self._cap = cap
        self._interceptor = interceptor
        self._busy: dict[str, asyncio.Lock] = {}
        self.loops = 0
        """How many replies were stopped as loops."""
        self.persisted = False
        """Whether the run continues a loop from before its compaction."""
        self.ended = False
        """Whether a tool has ended the run."""
        self.yielded = False
        """Whether that tool waits for something."""

    def compacted(self) -> None:
        self._repeats.compacted()

    def heard(self, message: Message) -> None:
        """Tells the labels about a message added during the run."""
        self._labels.heard(message)

    async def admit(self, call: ToolCall) -> str | None:
        """Whether a runtime may itself do what `call` would do: policy, plugins and gates judge it as one of ours."""
        tool = self._tools.get(call.name)
        if tool is None:
            return f"Not run: {call.name} is not among the tools of this conversation."
        spec = tool.spec
        prepared = prepare_arguments(spec.name, spec.parameters, spec.aliases, call.arguments, spec.absent)
        if isinstance(prepared, ArgumentsRejected):
            return prepared.text
        plan = _Ready(tool, prepared.arguments)
        context = structs.replace(self._context, call_id=call.id, origins=self._labels.origins)
        try:
            if self._interceptor is not None and await self._intercepted(plan, context, self._interceptor) is not plan:
                return "Not run: a plugin wants it done differently."
            for gate in self._gates:
                if (refusal := await gate.admit(tool, plan.args, context)) is not None:
                    return refusal
        except _Objection as objection:
            return objection.why
        except OpenClawError as error:
            return error.message
        return None

    async def run_all(
        self,
        calls: Sequence[ToolCall],
        steering: Steering | None = None,
        performers: Mapping[str, Perform] | None = None,
    ) -> AsyncGenerator[ToolEvent, None]:
        """Runs `calls` concurrently; calls that need the same resource run in order.

        When a person's message waits in `steering`, calls that have not started are skipped. Calls in `performers` pass
        everything a call passes, and their work is done by somebody else.
        """
        events: asyncio.Queue[ToolEvent] = asyncio.Queue()
        steering = steering or Steering()
        deferred = self._deferred
        meant = [deferred.carried(call) if call.name == CALL else call for call in calls] if deferred else calls
        plans = self._plans(meant)
        if performers:
            plans = [
                structs.replace(plan, perform=performers.get(call.id)) if isinstance(plan, _Ready) else plan
                for call, plan in zip(calls, plans, strict=True)
            ]
        tasks: list[asyncio.Task[None]] = []
        for asked, call, plan in zip(calls, meant, plans, strict=True):
            if len(calls) > 1 and isinstance(plan, _Ready):
                plan = structs.replace(plan, alone=False, earlier=tuple(tasks))
            work = self._run(call, plan, events, steering, asked.name)
            tasks.append(asyncio.create_task(work, name=f"tool:{call.name}:{call.id}"))
        left = len(calls)
        try:
            while left:
                event = await events.get()
                left -= isinstance(event, ToolEnded)
                yield event
        finally:
            if unfinished := [task for task in tasks if not task.done()]:
                for task in unfinished:
                    task.cancel()
                await asyncio.gather(*unfinished, return_exceptions=True)

    def _plans(self, calls: Sequence[ToolCall]) -> list[_Ready | Output]:
        """The plan of each call; a loop stops all of them."""
        plans = [self._plan(call) for call in calls]
        blocked = next((plan for plan in plans if isinstance(plan, RepeatBlocked)), None)
        if blocked is None:
            return [plan for plan in plans if not isinstance(plan, RepeatBlocked)]
        self.loops += 1
        answer = {"status": "blocked", "deniedReason": "tool-loop", "reason": blocked.why}
        return [_failed(answer, **answer) for _ in calls]

    def _plan(self, call: ToolCall) -> _Plan:
        tool = self._tools.get(call.name) or self._tools.get(ALIASES.get(call.name.lower(), call.name.lower()))
        if tool is None and self._deferred is not None:
            tool = self._deferred.own.get(call.name)
        if tool is None:
            verdict = self._repeats.unknown(call.name)
            if isinstance(verdict, RepeatBlocked):
                return verdict
            return Output.failed(f"Tool {call.name} not found. Available: {', '.join(sorted(self._tools))}.")
        name = tool.spec.name
        if call.broken is not None:
            return Output.failed(
                f'Validation failed for tool "{name}":\n- the arguments are not a JSON object, or were cut off: '
                f"send the call again, shorter if it was long\n\nReceived arguments:\n{call.broken}"
            )
        prepared = prepare_arguments(name, tool.spec.parameters, tool.spec.aliases, call.arguments, tool.spec.absent)
        args = call.arguments if isinstance(prepared, ArgumentsRejected) else prepared.arguments
        verdict = self._repeats.before(name, args)
        if isinstance(verdict, RepeatBlocked):
            return verdict
        if isinstance(prepared, ArgumentsRejected):
            refused = Output.failed(prepared.text + self._schema(tool.spec))
            self._repeats.after(name, args, refused)
            return refused
        return _Ready(tool, prepared.arguments, verdict.note if isinstance(verdict, RepeatWarning) else "")

    def _schema(self, spec: ToolSpec) -> str:
        """The schema of a tool that the model has not been sent, for a call that did not fit it."""
        if self._deferred is None or spec.name not in self._deferred.names:
            return ""
        return f"\n\nParameters:\n{spec.schema.decode()}"

    async def _run(
        self,
        call: ToolCall,
        plan: _Ready | Output,
        events: "asyncio.Queue[ToolEvent]",
        steering: Steering,
        asked: str,
    ) -> None:
        """`asked` is the name in the model's own call, which the result carries."""
        began = self._clock.now()
        events.put_nowait(ToolStarted(call))
        if isinstance(plan, Output):
            output = plan
        else:
            # Somebody else's work cannot be done later, so whoever is asked about it is waited for.
            kept = self._context.run_id and plan.perform is None
            context = structs.replace(
                self._context,
                call_id=call.id,
                call=call if kept else None,
                report=lambda text: events.put_nowait(ToolUpdated(call, text)),
            )
            output = await self._finished(plan, context, steering)
        content = tuple(
            Text(replace_surrogates(block.text)) if isinstance(block, Text) else block for block in output.content
        )
        details = output.details
        try:
            msgspec.json.encode(details)
        except (TypeError, ValueError, RecursionError):
            details = None  # no transcript can store them, and they must not keep the result from being stored
        result = ToolResult(
            tool_call_id=call.id,
            tool_name=asked,
            content=content or (Text("(no output)"),),
            details=details,
            is_error=output.is_error,
            timestamp=millis(self._clock),
            origins=output.origins,
            asks=output.asks,
        )
        events.put_nowait(ToolEnded(call, result, self._clock.now() - began))

    async def _finished(self, plan: _Ready, context: ToolContext, steering: Steering) -> Output:
        """The result of one call. An exception in a tool is that call's failure only."""
        name = plan.tool.spec.name
        began, asked = self._clock.now(), plan.args
        try:
            if steering.waiting:  # before a person is asked to approve a call that would be skipped anyway
                raise _Objection(SKIPPED)
            if self._interceptor is not None:
                plan = await self._intercepted(plan, context, self._interceptor)
            output = await self._call(plan, context, steering)
        except _Objection as objection:
            output = Output.failed(self._labels.cleaned(objection.why))
        except ApprovalPending as pending:
            output = pending.output
        except OpenClawError as error:
            output = _failed({"status": "error", "tool": name, "error": error.message})
        except Exception as error:
            log.exception("tool %s failed", name)
            said = self._labels.cleaned(f"{type(error).__name__}: {error}")
            output = _failed({"status": "error", "tool": name, "error": said})
        if self._interceptor is not None:
            self._interceptor.after(name, plan.args, context, output, self._clock.now() - began)
        self._repeats.after(name, asked, output)
        self.persisted = self._repeats.persisted
        self.ended = self.ended or output.ends_run
        self.yielded = self.yielded or output.yields
        if plan.warning:
            output = structs.replace(output, content=(*output.content, Text(f"[{plan.warning}]")))
        return output

    async def _intercepted(self, plan: _Ready, context: ToolContext, interceptor: CallObserver) -> _Ready:
        """The call with the observer's arguments, which are validated like the model's own."""
        spec = plan.tool.spec
        decided = await interceptor.before(spec.name, plan.args, context)
        if isinstance(decided, str):
            raise _Objection(decided)
        if decided is plan.args:
            return plan
        prepared = prepare_arguments(spec.name, spec.parameters, spec.aliases, decided, spec.absent)
        if isinstance(prepared, ArgumentsRejected):
            raise _Objection(f"Not run: a plugin changed the arguments, and they do not fit. {prepared.text}")
        return structs.replace(plan, args=prepared.arguments)

    async def _call(self, plan: _Ready, context: ToolContext, steering: Steering) -> Output:
        """Asks the gates, waits for the call's resources, and calls the tool."""
        context = structs.replace(context, origins=self._labels.origins)
        if isinstance(plan.tool, ChecksCalls):
            plan.tool.check(plan.args)
        if plan.earlier and self._labels.origins and Effects.RUNS_CODE in plan.tool.effects(plan.args):
            # Whether a command may run depends on the files it finds, and these may be about to write them.
            await asyncio.wait(plan.earlier)
        for gate in self._gates:
            if (refusal := await gate.admit(plan.tool, plan.args, context)) is not None:
                return Output.failed(refusal)
        if not plan.alone:
            # The model wrote them together: what one of them reads at once does not count against the others.
            await asyncio.sleep(0)
        async with AsyncExitStack() as held:
            for resource in sorted(plan.tool.resources(plan.args, context)):
                await held.enter_async_context(self._busy.setdefault(resource, asyncio.Lock()))
            if steering.waiting:
                return Output.failed(SKIPPED)
            began = await self._labels.before(plan.tool, plan.args, context)
            try:
                if plan.perform is None:
                    output = await plan.tool.call(plan.args, context)
                else:
                    output = await plan.perform(plan.tool, plan.args, context)
            except OpenClawError as error:  # it passes the labels too, because it may quote untrusted text
                output = _failed({"status": "error", "tool": plan.tool.spec.name, "error": error.message})
            # Truncated before it is wrapped, so that the end marker is never cut off.
            return await self._labels.after(plan.tool, plan.args, context, began, shorten(output, self._cap))


def _failed(body: Mapping[str, str], **details: str) -> Output:
    """A failure that the model reads as JSON."""
    plain = {name: replace_surrogates(value) for name, value in body.items()}
    return Output.failed(msgspec.json.format(msgspec.json.encode(plain), indent=2).decode(), **details)
