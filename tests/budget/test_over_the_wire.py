"""What clients are told about spending, by a real gateway in front of a real (loopback) model server."""

from typing import Any

import pytest

from openclaw.core.errors import OpenClawError
from openclaw.testing import TemporaryHome, says
from openclaw.testing.server import MockModelServer
from tests.e2e.gateway_process import GatewayProcess

pytestmark = pytest.mark.anyio


def priced(settings: dict[str, Any]) -> dict[str, Any]:
    """The server's models with a price; on loopback they would otherwise be free."""
    for provider in settings["models"]["providers"].values():
        for model in provider["models"]:
            model["cost"] = {"input": 1.0, "output": 2.0, "cacheRead": 0.1, "cacheWrite": 1.0}
    return settings


async def test_usage_is_told_by_day_by_session_and_in_the_chat(openclaw_home: TemporaryHome) -> None:
    with MockModelServer([says("hello there")]) as server:
        openclaw_home.configure(priced(server.settings()) | {"budget": {"day": 50}})
        with GatewayProcess(openclaw_home) as gateway:
            async with gateway.client() as client:
                first = await client.call("agent", {"message": "hi", "idempotencyKey": "r1"}, final=True)
                cost = await client.call("usage.cost", {"days": 7})
                elsewhere = await client.call("usage.cost", {"utcOffset": "UTC-3:30"})
                usage = await client.call("sessions.usage", {"range": "7d"})
                status = await client.call("usage.status", {})
                said = await client.call("agent", {"message": "/usage", "idempotencyKey": "r2"}, final=True)
                told = await client.call("agent", {"message": "/status", "idempotencyKey": "r3"}, final=True)
                with pytest.raises(OpenClawError, match="no time zone"):
                    await client.call("usage.cost", {"timeZone": "Atlantis/Deep"})
    spent = first["result"]["meta"]["agentMeta"]["costUsd"]
    assert cost["days"] == 7 and len(cost["daily"]) == 1
    assert cost["totals"]["totalCost"] == pytest.approx(spent) and cost["totals"]["missingCostEntries"] == 0
    assert elsewhere["totals"]["totalTokens"] == cost["totals"]["totalTokens"] > 0
    (session,) = usage["sessions"]
    assert session["key"] == "agent:main:main" and session["usage"]["totalCost"] == pytest.approx(spent)
    assert usage["aggregates"]["byAgent"][0]["agentId"] == "main"
    assert status["providers"] == []
    assert said["result"]["payloads"][0]["text"].startswith("This conversation: ")
    assert "Of today's budget 0 % is spent" in told["result"]["payloads"][0]["text"]
