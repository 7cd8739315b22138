"""The `update_plan` tool: a plan the user can watch."""

from collections.abc import Mapping
from typing import Any, Literal

from msgspec import Struct

from openclaw.core.errors import InvalidRequest
from openclaw.core.tool import Effects, Output, ToolContext, ToolSpec
from openclaw.tools.base import errors_to_output, parse_args

Status = Literal["pending", "in_progress", "completed"]
MOST_STEPS = 50
_MARKS = {"pending": "[ ]", "in_progress": "[>]", "completed": "[x]"}


class PlanStep(Struct, frozen=True):
    step: str
    status: Status


class PlanArgs(Struct, frozen=True):
    plan: tuple[PlanStep, ...]
    explanation: str = ""


class UpdatePlan:
    """The `update_plan` tool: the plan is its arguments, so clients show it from the call itself."""

    spec = ToolSpec(
        name="update_plan",
        label="Plan",
        summary="keep a visible plan of steps",
        description=(
            "Show the user your plan for work of several steps. Send all steps each time, exactly one of them "
            "in_progress until all are completed."
        ),
        parameters={
            "type": "object",
            "required": ["plan"],
            "properties": {
                "plan": {
                    "type": "array",
                    "minItems": 1,
                    "maxItems": MOST_STEPS,
                    "description": "The steps in order",
                    "items": {
                        "type": "object",
                        "required": ["step", "status"],
                        "properties": {
                            "step": {"type": "string"},
                            "status": {"type": "string", "enum": list(_MARKS)},
                        },
                    },
                },
                "explanation": {"type": "string", "description": "Why the plan changed"},
            },
        },
        aliases={"markdown": "explanation"},
    )

    def effects(self, args: Mapping[str, Any]) -> Effects:
        return Effects.NONE

    def resources(self, args: Mapping[str, Any], context: ToolContext) -> frozenset[str]:
        return frozenset({"plan"})

    @errors_to_output
    async def call(self, args: Mapping[str, Any], context: ToolContext) -> Output:
        wanted = parse_args(args, PlanArgs)
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
