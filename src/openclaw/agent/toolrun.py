"""Running the tool calls of one reply: prepare, admit, run, finish. Every call gets exactly one result."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AsyncExitStack
from typing import Any, Protocol

import msgspec
from msgspec import structs

from openclaw.agent.arguments import Rejected, prepare
from openclaw.agent.limits import shorten
from openclaw.agent.repeats import Blocked, Repeats, Warned
from openclaw.core.clock import Clock, millis
from openclaw.core.errors import OpenClawError
from openclaw.core.events import ToolEnded, ToolStarted, ToolUpdated
from openclaw.core.messages import Text, ToolCall, ToolResult
from openclaw.core.tool import Output, Tool, ToolContext, ToolSpec

log = logging.getLogger(__name__)

SKIPPED = "Skipped to process an incoming message."
ALIASES = {"bash": "exec", "apply-patch": "apply_patch"}


class Gate(Protocol):
    """Decides, outside the model's reach, whether a call may happen."""

    async def admit(self, tool: Tool, args: Mapping[str, Any], context: ToolContext) -> str | None:
        """None when the call may run; otherwise the reason it may not, for the model to read."""
        ...


class Toolbox:
    """The tools of one run."""

    def __init__(
        self, tools: Sequence[Tool], context: ToolContext, gate: Gate, clock: Clock, *, repeats: Repeats, cap: int
    ) -> None:
        self._tools = {tool.spec.name: tool for tool in tools}
        self._context = context
        self._gate = gate
        self._clock = clock
        self._repeats = repeats
        self._cap = cap
        self._busy: dict[str, asyncio.Lock] = {}
        self.looping = 0
        """How many replies had a call stopped for going in circles."""

    @property
    def specs(self) -> tuple[ToolSpec, ...]:
        return tuple(tool.spec for _, tool in sorted(self._tools.items()))

    async def run_all(self, calls: Sequence[ToolCall]) -> AsyncGenerator[ToolStarted | ToolUpdated | ToolEnded, None]:
        """Runs `calls` side by side; calls that need the same resource wait for each other in order."""
        events: asyncio.Queue[ToolStarted | ToolUpdated | ToolEnded] = asyncio.Queue()
        looped = self.looping
        tasks = [asyncio.create_task(self._run(call, events), name=f"tool:{call.name}:{call.id}") for call in calls]
        left = len(calls)
        try:
            while left:
                event = await events.get()
                left -= isinstance(event, ToolEnded)
                yield event
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            self.looping = min(self.looping, looped + 1)

    def skipped(self, call: ToolCall, why: str = SKIPPED) -> ToolEnded:
        return ToolEnded(call, self._result(call, Output.failed(why)))

    async def _run(self, call: ToolCall, events: "asyncio.Queue[ToolStarted | ToolUpdated | ToolEnded]") -> None:
        began = self._clock.now()
        events.put_nowait(ToolStarted(call))
        context = structs.replace(
            self._context, call_id=call.id, report=lambda text: events.put_nowait(ToolUpdated(call, text))
        )
        output = await self._output(call, context)
        events.put_nowait(ToolEnded(call, self._result(call, shorten(output, self._cap)), self._clock.now() - began))

    async def _output(self, call: ToolCall, context: ToolContext) -> Output:
        tool = self._tools.get(call.name) or self._tools.get(ALIASES.get(call.name.lower(), call.name.lower()))
        if tool is None:
            match self._repeats.unknown(call.name):
                case Blocked(why):
                    return self._stop(why)
                case _:
                    return Output.failed(f"Tool {call.name} not found. Available: {', '.join(sorted(self._tools))}.")
        name = tool.spec.name
        if call.broken is not None:
            return Output.failed(
                f'Validation failed for tool "{name}":\n- the arguments are not a JSON object, or were cut off: '
                f"send the call again, shorter if it was long\n\nReceived arguments:\n{call.broken}"
            )
        prepared = prepare(name, tool.spec.parameters, tool.spec.aliases, call.arguments)
        if isinstance(prepared, Rejected):
            output = Output.failed(prepared.text)
            self._repeats.after(name, call.arguments, output)
            return output
        return await self._guarded(tool, prepared.arguments, context)

    async def _guarded(self, tool: Tool, args: dict[str, Any], context: ToolContext) -> Output:
        name = tool.spec.name
        verdict = self._repeats.before(name, args)
        if isinstance(verdict, Blocked):
            return self._stop(verdict.why)
        refusal = await self._gate.admit(tool, args, context)
        if refusal is not None:
            output = Output.failed(refusal)
        else:
            async with AsyncExitStack() as alone:
                for resource in sorted(tool.resources(args, context)):
                    await alone.enter_async_context(self._busy.setdefault(resource, asyncio.Lock()))
                output = await _called(tool, args, context)
        self._repeats.after(name, args, output)
        if isinstance(verdict, Warned):
            output = structs.replace(output, content=(*output.content, Text(f"[{verdict.note}]")))
        return output

    def _stop(self, why: str) -> Output:
        self.looping += 1
        answer = {"status": "blocked", "deniedReason": "tool-loop", "reason": why}
        return Output.failed(msgspec.json.format(msgspec.json.encode(answer), indent=2).decode(), **answer)

    def _result(self, call: ToolCall, output: Output) -> ToolResult:
        return ToolResult(
            tool_call_id=call.id,
            tool_name=call.name,
            content=output.content or (Text("(no output)"),),
            details=output.details,
            is_error=output.is_error,
            timestamp=millis(self._clock),
        )


async def _called(tool: Tool, args: Mapping[str, Any], context: ToolContext) -> Output:
    """The tool's own work. A bug in one tool is that call's failure and nobody else's."""
    try:
        return await tool.call(args, context)
    except OpenClawError as error:
        return _thrown(tool, error.message)
    except Exception as error:
        log.exception("tool %s failed", tool.spec.name)
        return _thrown(tool, f"{type(error).__name__}: {error}")


def _thrown(tool: Tool, message: str) -> Output:
    body = {"status": "error", "tool": tool.spec.name, "error": message}
    return Output.failed(msgspec.json.format(msgspec.json.encode(body), indent=2).decode())
