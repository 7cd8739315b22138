"""The `update_plan` tool: a plan the user can watch."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from msgspec import Struct

from openclaw.core.errors import InvalidRequest
from openclaw.core.tool import Output, PlannedCall, ProposesCalls, ToolContext, param, tool_spec
from openclaw.tools.base import ArgsTool, parse_args

MOST_STEPS = 50
_MARKS = {"pending": "[ ]", "in_progress": "[>]", "completed": "[x]"}


class PlanStep(Struct, frozen=True):
    step: str
    status: Literal["pending", "in_progress", "completed"]


class PlannedCallArgs(Struct, frozen=True):
    tool: Annotated[str, param("its name")]
    to: Annotated[
        tuple[str, ...],
        param("exec: the exact commands, as they will run in the workspace; else addressees, channels, hosts, files"),
    ]


class PlanArgs(Struct, frozen=True):
    plan: Annotated[tuple[PlanStep, ...], param("The steps in order", minItems=1, maxItems=MOST_STEPS)]
    explanation: Annotated[str, param("Why the plan changed")] = ""
    approve: Annotated[
        tuple[PlannedCallArgs, ...],
        param("Calls to have the user approve now, in one question, so that they are not asked about later"),
    ] = ()


class UpdatePlan(ArgsTool[PlanArgs], ProposesCalls):
    """The `update_plan` tool: the plan is its arguments, so clients show it from the call itself."""

    args_type = PlanArgs
    spec = tool_spec(
        "update_plan",
        "Plan",
        "keep a visible plan of steps",
        "Show the user your plan for work of several steps. Send all steps each time, exactly one of them "
        "in_progress until all are completed.",
        PlanArgs,
        aliases={"markdown": "explanation"},
    )

    def proposed(self, args: Mapping[str, Any]) -> tuple[PlannedCall, ...]:
        wanted = parse_args(args, PlanArgs)
        return tuple(PlannedCall(each.tool, each.to) for each in wanted.approve if each.tool and any(each.to))

    def resources(self, args: Mapping[str, Any], context: ToolContext) -> frozenset[str]:
        return frozenset({"plan"})

    async def run(self, wanted: PlanArgs, context: ToolContext) -> Output:
        steps = wanted.plan
        if not 0 < len(steps) <= MOST_STEPS:
            raise InvalidRequest(f"A plan has 1 to {MOST_STEPS} steps.")
        if any(not each.step.strip() for each in steps):
            raise InvalidRequest("Every step needs a few words.")
        running = sum(each.status == "in_progress" for each in steps)
        done = sum(each.status == "completed" for each in steps)
        if running != 1 and done < len(steps):
            raise InvalidRequest(f"Exactly one step is in_progress, not {running}, until all are completed.")
        context.report("\n".join(f"{_MARKS[each.status]} {each.step}" for each in steps))
        return Output.of(
            f"Plan updated ({done}/{len(steps)} done).",
            plan=[{"step": each.step, "status": each.status} for each in steps],
            explanation=wanted.explanation,
        )
