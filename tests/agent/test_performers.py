"""Calls whose work somebody else does: a runtime with tools of its own still has each of them judged."""

from collections.abc import Mapping
from typing import Any

import pytest

from openclaw.core.events import ToolEnded
from openclaw.core.messages import ToolCall
from openclaw.core.tool import Output, Tool, ToolContext
from tests.agent.support import FakeTool, toolbox

pytestmark = pytest.mark.anyio


class NoGate:
    async def admit(self, tool: Tool, args: Mapping[str, Any], context: ToolContext) -> str | None:
        return "Not run: never."


async def elsewhere(tool: Tool, args: Mapping[str, Any], context: ToolContext) -> Output:
    return Output.of(f"{tool.spec.name} was done elsewhere")


async def result_of(tools: Any) -> str:
    call = ToolCall(id="c1", name="paint", arguments={"what": "it"})
    ended = [each async for each in tools.run_all([call], performers={"c1": elsewhere}) if isinstance(each, ToolEnded)]
    return str(ended[0].result.text)


async def test_an_admitted_call_is_done_by_the_other_and_not_by_the_tool():
    tool = FakeTool("paint")
    assert await result_of(toolbox(tool)) == "paint was done elsewhere"
    assert tool.calls == []


async def test_a_refused_call_is_done_by_nobody():
    assert await result_of(toolbox(FakeTool("paint"), gate=NoGate())) == "Not run: never."


async def test_a_tool_that_policy_took_away_is_not_lent():
    assert "not found" in await result_of(toolbox(FakeTool("draw")))
