"""A function the caller carries out itself, as the loop sees it: a tool whose call ends the run."""

from collections.abc import Mapping
from typing import Any

from openclaw.core.messages import Text
from openclaw.core.text import literal
from openclaw.core.tool import Effects, Output, ToolContext, ToolSpec
from openclaw.turns.turn import ClientTool

WAITING = "Handed to the caller, who carries it out. The result comes with the next message."
SUMMARY_CHARS = 120


class ClientToolCall:
    """Nothing happens on this machine, so there is nothing to ask permission for."""

    def __init__(self, tool: ClientTool) -> None:
        self.spec = ToolSpec(
            name=tool.name,
            label=tool.name,
            description=tool.description,
            parameters=tool.parameters or {"type": "object", "properties": {}},
            summary=literal(tool.description)[:SUMMARY_CHARS] or f"{tool.name}, carried out by the caller",
        )

    def effects(self, args: Mapping[str, Any]) -> Effects:
        return Effects.NONE

    def resources(self, args: Mapping[str, Any], context: ToolContext) -> frozenset[str]:
        return frozenset()

    async def call(self, args: Mapping[str, Any], context: ToolContext) -> Output:
        return Output(content=(Text(WAITING),), ends_run=True)
