"""What clients learn of a run: its events on the way, its result, and what `agent.wait` says of it."""

import asyncio

import pytest

from openclaw.agent.loop import CUT_SHORT, WITHOUT_SUMMARY
from openclaw.protocol.connect_request import CallFailed
from openclaw.runs.reply import THOUGHT_ONLY
from openclaw.sessions.files import load
from openclaw.sessions.transcript import MessageEntry
from openclaw.testing import ScriptedModel, Stalls, TemporaryHome, calls, says
from tests.runs.front_door import FREELY, CutModel, front_door, said, stream, texts

pytestmark = pytest.mark.anyio

KEYS = {
    "sk": "sk-proj-abcdefghijklmnop1234",
    "github": "ghp_abcdefghijklmnopqrstuvwxyz123456",
    "aws": "AKIAABCDEFGHIJKLMNOP",
    "bearer": "Bearer abcdefghijklmnop.qrstuvwxyz",
    "slack": "xoxb-123456789012-abcdefghijkl",
}


async def test_a_result_is_complete(openclaw_home: TemporaryHome) -> None:
    openclaw_home.use_model()
    (openclaw_home.workspace / "a.txt").write_text("blue")
    model = ScriptedModel([says("Looking."), calls("read", path="a.txt")], says("Blue."))
    async with front_door(openclaw_home, model) as door:
        final = await door.ask("what is in a.txt?")
        waited = await door.client.call("agent.wait", {"runId": "ask-1"})
    meta, about = final["result"]["meta"], final["result"]["meta"]["agentMeta"]
    assert 0 < meta["startedAt"] <= meta["endedAt"] and meta["durationMs"] == meta["endedAt"] - meta["startedAt"]
    assert about["contextTokens"] > 0 and about["sessionId"]
    assert about["contextBudgetStatus"]["status"] == "ok"
    assert about["contextBudgetStatus"]["usedTokens"] > about["promptTokens"] > 0
    receipt = about["terminalReceipt"]
    assert receipt == waited["terminalReceipt"]
    assert receipt["requested"] == {"provider": "scripted", "model": "scripted"} and not receipt["rerouted"]
    assert receipt["successfulToolNames"] == ["read"] and receipt["terminalDisposition"] == "visible"
    assert meta["systemPromptReport"]["sections"]
    assert waited["startedAt"] == meta["startedAt"] and waited["endedAt"] == meta["endedAt"]


async def test_the_way_of_a_run_is_told_in_streams(openclaw_home: TemporaryHome) -> None:
    openclaw_home.use_model(tools={**FREELY, "experimental": {"planTool": True}})
    plan = [{"step": "look", "status": "in_progress"}]
    model = ScriptedModel(
        [says("First a look."), calls("exec", command="echo hi"), calls("update_plan", plan=plan)], says("Done.")
    )
    async with front_door(openclaw_home, model) as door:
        seen = await door.chat("go")
    phases = [each["phase"] for each in stream(seen, "run_status")]
    assert phases == ["preparing_workspace", "preparing_context", "starting_model"]
    items = stream(seen, "item")
    preamble, *tools = items
    assert (preamble["kind"], preamble["progressText"]) == ("preamble", "First a look.")
    run = [each for each in tools if each["name"] == "exec"]
    assert [(each["phase"], each["status"]) for each in run] == [("start", "running"), ("end", "completed")]
    assert run[0]["title"] == "exec echo hi" and run[1]["endedAt"] >= run[1]["startedAt"] > 0
    printed = stream(seen, "command_output")[-1]
    assert (printed["phase"], printed["exitCode"]) == ("end", 0) and "hi" in printed["output"]
    assert printed["cwd"] == str(openclaw_home.workspace)
    assert [each["steps"] for each in stream(seen, "plan")] == [plan]
    written = stream(seen, "assistant")
    assert len({each["itemId"] for each in written}) == 2
    assert written[-1]["text"] == "Done."
    assert "".join(each["delta"] for each in written) == "First a look.\n\nDone."
    numbers = [payload["seq"] for name, payload in seen if name in ("agent", "chat") and "seq" in payload]
    assert numbers == sorted(set(numbers))


async def test_credentials_of_known_shapes_are_in_no_event(openclaw_home: TemporaryHome) -> None:
    openclaw_home.use_model(tools=FREELY)
    secret = "\n".join(KEYS.values())
    (openclaw_home.workspace / "keys.txt").write_text(secret)
    model = ScriptedModel(
        [calls("exec", command=f"cat keys.txt; echo {KEYS['sk']}"), calls("read", path="keys.txt")], says("Seen.")
    )
    async with front_door(openclaw_home, model) as door:
        seen = await door.chat("show me")
    told = str(seen)
    assert [name for name, value in KEYS.items() if value in told] == []
    assert stream(seen, "tool") and "Seen." in said(seen)


async def test_results_are_written_in_the_order_of_their_calls(openclaw_home: TemporaryHome) -> None:
    openclaw_home.use_model(tools=FREELY)
    (openclaw_home.workspace / "a.txt").write_text("quick")
    slow = "while [ ! -e go ]; do sleep 0.02; done; echo slow"
    model = ScriptedModel([calls("exec", command=slow), calls("read", path="a.txt")], says("Both."))
    async with front_door(openclaw_home, model) as door:
        await door.client.call("chat.send", {"sessionKey": "main", "message": "go", "idempotencyKey": "r"})
        early = await door.until(
            lambda name, data: name == "agent" and data["stream"] == "tool" and data["data"]["phase"] == "result"
        )
        assert early[-1][1]["data"]["name"] == "read"
        (openclaw_home.workspace / "go").touch()
        await door.until(lambda name, data: name == "chat" and data["state"] == "final")
    (path,) = openclaw_home.transcripts()
    roles = [entry.message for entry in load(path).entries if isinstance(entry, MessageEntry)]
    assert [getattr(each, "tool_name", "") for each in roles] == ["", "", "exec", "read", ""]


async def test_a_queued_run_is_pending_and_a_stopped_one_has_its_times(openclaw_home: TemporaryHome) -> None:
    openclaw_home.use_model()
    go = asyncio.Event()
    model = ScriptedModel([Stalls(go), says("one")], says("two"))
    async with front_door(openclaw_home, model) as door:
        call = door.client.call
        await call("agent", {"message": "first", "idempotencyKey": "one"})
        await door.until(lambda name, data: name == "agent" and data["data"].get("phase") == "model")
        await call("agent", {"message": "second", "idempotencyKey": "two"})
        await call("agent", {"message": "third", "idempotencyKey": "three"})
        waiting = await call("agent.wait", {"runId": "two", "timeoutMs": 0})
        assert waiting == {"runId": "two", "status": "pending", "timeoutPhase": "queue", "providerStarted": False}
        assert await call("agent.wait", {"runId": "one", "timeoutMs": 0}) == {"runId": "one", "status": "timeout"}
        await call("chat.abort", {"sessionKey": "main", "runId": "three"})
        stopped = await call("agent.wait", {"runId": "three"})
        assert stopped["status"] == "error" and 0 < stopped["startedAt"] <= stopped["endedAt"]
        go.set()
        assert (await call("agent.wait", {"runId": "two", "timeoutMs": 60_000}))["terminalReply"]["text"] == "two"


async def test_a_run_that_failed_has_its_times_too(openclaw_home: TemporaryHome) -> None:
    openclaw_home.use_model()
    async with front_door(openclaw_home, ScriptedModel(Stalls())) as door:
        with pytest.raises(CallFailed, match="longer than"):
            await door.ask("hang", timeout=1)
        ended = await door.client.call("agent.wait", {"runId": "ask-1"})
    assert ended["status"] == "error" and ended["stopReason"] == "timeout"
    assert 0 < ended["startedAt"] < ended["endedAt"]


async def test_an_injected_message_is_heard_live(openclaw_home: TemporaryHome) -> None:
    openclaw_home.use_model()
    async with front_door(openclaw_home, ScriptedModel(says("Hi."))) as door:
        await door.chat("hello")
        await door.client.call("chat.inject", {"sessionKey": "main", "message": "The kettle boils."})
        seen = await door.until(lambda name, data: name == "chat" and data["runId"].startswith("inject-"))
    recorded = [data["message"]["content"][0]["text"] for name, data in seen if name == "session.message"]
    assert recorded == ["The kettle boils."] and said(seen) == "The kettle boils."


async def test_an_answer_that_was_cut_off_says_so(openclaw_home: TemporaryHome) -> None:
    openclaw_home.use_model()
    async with front_door(openclaw_home, CutModel(says("It goes on and"), says("on and"))) as door:
        assert texts(await door.ask("tell me")) == ["It goes on and", CUT_SHORT]
        seen = await door.chat("more")
        assert said(seen) == "on and" and seen[-1][1]["notices"] == [CUT_SHORT]


async def test_work_without_a_summary_is_told_to_whoever_asked(openclaw_home: TemporaryHome) -> None:
    openclaw_home.use_model()
    model = ScriptedModel(calls("ls", path="."), says(""), says(""), says(""))
    async with front_door(openclaw_home, model) as door:
        final = await door.ask("tidy up")
    assert texts(final) == [WITHOUT_SUMMARY] and final["result"]["payloads"][0]["isNotice"]


async def test_a_thought_that_never_ends_does_not_swallow_the_answer_silently(openclaw_home: TemporaryHome) -> None:
    openclaw_home.use_model()
    async with front_door(openclaw_home, ScriptedModel(says("<think>It is blue, I would say."))) as door:
        assert texts(await door.ask("which colour?")) == [THOUGHT_ONLY]


async def test_attachments_are_in_the_final_chat_message(openclaw_home: TemporaryHome) -> None:
    openclaw_home.use_model()
    model = ScriptedModel(says("Here it is.\nMEDIA:/tmp/cat.png"), says("MEDIA:/tmp/dog.png"))
    async with front_door(openclaw_home, model) as door:
        seen = await door.chat("a cat")
        assert said(seen) == "Here it is." and seen[-1][1]["message"]["mediaUrls"] == ["/tmp/cat.png"]
        assert (await door.chat("a dog"))[-1][1]["message"]["mediaUrls"] == ["/tmp/dog.png"]
