"""`nodes` and `canvas`, as long as no device can be paired."""

import json

import pytest

from openclaw.core.tool import ToolContext
from openclaw.testing import FakeClock
from openclaw.tools.nodes import CanvasTool, NodesTool

pytestmark = pytest.mark.anyio


async def test_there_are_no_nodes_and_that_is_said(tmp_path):
    context = ToolContext(call_id="c", workspace=tmp_path)
    nodes = NodesTool(FakeClock())
    assert json.loads((await nodes.call({"action": "status"}, context)).text)["nodes"] == []
    assert json.loads((await nodes.call({"action": "pending"}, context)).text)["pending"] == []
    for action in set(nodes.spec.parameters["properties"]["action"]["enum"]) - {"status", "pending"}:
        output = await nodes.call({"action": action}, context)
        assert output.is_error
        assert "No node is connected" in output.text
    shown = await CanvasTool().call({"action": "present"}, context)
    assert shown.is_error
    assert "none is connected" in shown.text
