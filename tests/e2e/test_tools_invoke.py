"""`tools.invoke`: one tool, once, over the socket."""

import pytest

from openclaw.protocol.scopes import READ, WRITE
from openclaw.testing import TemporaryHome
from tests.e2e.gateway_process import GatewayProcess

pytestmark = pytest.mark.anyio


async def test_a_tool_is_called_once_within_the_callers_rights(openclaw_home: TemporaryHome) -> None:
    openclaw_home.use_model(tools={"deny": ["ls"]}, channels={"x": {"groups": {"g": {"tools": {"deny": ["*"]}}}}})
    with GatewayProcess(openclaw_home) as gateway:
        async with gateway.client() as owner:
            status = await owner.call("tools.invoke", {"name": "session_status"})
            assert status["ok"] and status["toolName"] == "session_status"
            assert status["output"]["content"][0]["text"].startswith("Session: agent:main:main")
            denied = await owner.call("tools.invoke", {"name": "ls"})
            assert not denied["ok"] and "Tool not available" in denied["error"]["message"]
            wrong = await owner.call("tools.invoke", {"name": "read", "args": {"nonsense": 1}})
            assert not wrong["ok"] and "Validation failed" in wrong["error"]["message"]
            assert (await owner.call("tools.invoke", {"name": "cron", "args": {"action": "list"}}))["ok"]
            main = await owner.call("tools.effective", {"sessionKey": "main"})
            group = await owner.call("tools.effective", {"sessionKey": "x:group:g"})
            assert main["groups"] and not group["groups"]
        async with gateway.client(scopes=(READ, WRITE)) as other:
            assert (await other.call("tools.invoke", {"name": "session_status"}))["ok"]
            for strong in ("exec", "cron", "gateway", "sessions_send"):
                refused = await other.call("tools.invoke", {"name": strong, "args": {"command": "id"}})
                assert not refused["ok"] and "not available" in refused["error"]["message"]
