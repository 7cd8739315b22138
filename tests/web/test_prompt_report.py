"""`prompt.report`: what was sent, and what changed since the run before."""

import pytest

from openclaw.protocol.connect_request import CallFailed
from openclaw.testing import TemporaryHome, says
from openclaw.testing.server import MockModelServer
from tests.e2e.gateway_process import GatewayProcess

pytestmark = pytest.mark.anyio


async def test_a_run_is_told_section_by_section_with_what_changed(openclaw_home: TemporaryHome) -> None:
    with MockModelServer([says("ok")]) as server:
        openclaw_home.configure(server.settings())
        with GatewayProcess(openclaw_home) as gateway:
            async with gateway.client() as client:
                with pytest.raises(CallFailed, match="nothing was sent"):
                    await client.call("prompt.report", {"sessionKey": "main"})
                for run in ("first", "second", "third"):
                    if run == "third":
                        (openclaw_home.workspace / "SOUL.md").write_text("Be brief.\n")
                    await client.call("agent", {"message": run, "idempotencyKey": run}, final=True)
                first = await client.call("prompt.report", {"runId": "first"})
                second = await client.call("prompt.report", {"runId": "second"})
                last = await client.call("prompt.report", {"sessionKey": "main", "includeText": True})
                with pytest.raises(CallFailed, match="only one of"):
                    await client.call("prompt.report", {"sessionKey": "main", "runId": "first"})
    assert (first["diff"], first["cached"]) == (None, [])
    stable = [line["id"] for line in second["report"]["sections"] if line["side"] == "stable"]
    assert second["diff"]["previousRunId"] == "first" and second["diff"]["prefixKept"]
    assert second["cached"] == stable
    assert last["runId"] == "third" and [each["runId"] for each in last["runs"]] == ["third", "second", "first"]
    soul = f"file:{openclaw_home.workspace / 'SOUL.md'}"
    assert not last["diff"]["prefixKept"] and last["diff"]["brokenAt"] == soul
    assert last["cached"] == stable[: stable.index(soul)]
    assert "Be brief." in last["texts"][soul]
    assert "texts" not in first
