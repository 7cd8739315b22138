"""The gateway as its clients meet it: a real process, real sockets, a model server on loopback."""

import asyncio
import json
import os
import random
import re
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from openclaw.core.messages import Assistant, User
from openclaw.protocol.connect_request import CallFailed, ConnectionLost
from openclaw.protocol.scopes import READ
from openclaw.sessions.files import load
from openclaw.sessions.transcript import build_context
from openclaw.testing import TemporaryHome, calls, says
from openclaw.testing_server import Hangs, MockModelServer
from tests.commandline import openclaw
from tests.e2e.crowd import Crowd
from tests.e2e.gateway_process import GatewayProcess, collect, descendants
from tests.e2e.test_command_line import run

pytestmark = pytest.mark.anyio

KILLS = int(os.environ.get("OPENCLAW_TEST_KILLS", "8"))
"""How often the torture test kills the gateway: a few in every run, hundreds when somebody asks."""
CLIENTS = int(os.environ.get("OPENCLAW_TEST_CLIENTS", "200"))
ACTIVE = CLIENTS // 5


def conversation(home: TemporaryHome) -> list[Any]:
    found: list[Any] = []
    for path in home.transcripts():
        context = build_context(load(path).entries)
        assert context.problems == (), path
        found += context.messages
    return found


async def test_a_chat_turn_has_the_events_chat_windows_wait_for(openclaw_home: TemporaryHome) -> None:
    (openclaw_home.workspace / "note.txt").write_text("remember the milk\n")
    with MockModelServer([calls("read", path="note.txt"), says("It says: remember the milk.")]) as server:
        openclaw_home.configure(server.settings())
        with GatewayProcess(openclaw_home) as gateway:
            async with gateway.client(caps=("tool-events",)) as client:
                await client.call("sessions.subscribe", {})
                await client.call("sessions.messages.subscribe", {"key": "main"})
                sent = await client.call(
                    "chat.send", {"sessionKey": "main", "message": "what does the note say?", "idempotencyKey": "k1"}
                )
                assert sent == {"runId": "k1", "status": "started"}
                seen = await collect(client, lambda name, data: name == "chat" and data["state"] == "final")
                history = await client.call("chat.history", {"sessionKey": "main"})
    chat = [data for name, data in seen if name == "chat"]
    assert "".join(data["deltaText"] for data in chat if data["state"] == "delta") == "It says: remember the milk."
    assert chat[-1]["message"]["content"] == [{"type": "text", "text": "It says: remember the milk."}]
    streams = [data["stream"] for name, data in seen if name == "agent" and data["stream"] != "run_status"]
    assert streams[0] == "lifecycle" and "tool" in streams and "assistant" in streams
    tools = [data["data"]["phase"] for name, data in seen if name == "agent" and data["stream"] == "tool"]
    assert tools == ["start", "result"]
    roles = [data["message"]["role"] for name, data in seen if name == "session.message"]
    assert roles == ["user", "assistant", "toolResult", "assistant"]
    assert [row["role"] for row in history["messages"]] == roles
    assert history["messages"][0]["idempotencyKey"] == "k1:user"
    assert [row["__openclaw"]["seq"] for row in history["messages"]] == [1, 2, 3, 4]
    seqs = [data["seq"] for name, data in seen if name in ("agent", "chat")]
    assert seqs == sorted(seqs) and len(set(seqs)) == len(seqs)


async def test_the_same_request_runs_once_also_after_a_restart(openclaw_home: TemporaryHome) -> None:
    with MockModelServer([says("once")]) as server:
        openclaw_home.configure(server.settings())
        with GatewayProcess(openclaw_home) as gateway:
            params = {"message": "hello", "idempotencyKey": "same"}
            async with gateway.client() as client:
                first = await client.call("agent", params, final=True)
                second = await client.call("agent", params, final=True)
            gateway.kill()
            gateway.start()
            async with gateway.client() as client:
                third = await client.call("agent", params, final=True)
                waited = await client.call("agent.wait", {"runId": "same"})
    assert first["result"]["payloads"] == [{"text": "once", "mediaUrl": None}]
    assert second["result"]["payloads"] == third["result"]["payloads"] == first["result"]["payloads"]
    assert waited["status"] == "ok" and len(server.requests) == 1


async def test_waiting_never_stops_a_run(openclaw_home: TemporaryHome) -> None:
    with MockModelServer([Hangs("working")]) as server:
        openclaw_home.configure(server.settings())
        with GatewayProcess(openclaw_home) as gateway:
            async with gateway.client() as client:
                accepted = await client.call("agent", {"message": "go", "idempotencyKey": "r1"})
                assert accepted["status"] == "accepted" and accepted["acceptedAt"] > 0
                assert await client.call("agent.wait", {"runId": "r1", "timeoutMs": 50}) == {
                    "runId": "r1",
                    "status": "timeout",
                }
                row = (await client.call("sessions.describe", {"key": "main"}))["session"]
                assert row["hasActiveRun"] and row["activeRunIds"] == ["r1"]
                stopped = await client.call("chat.abort", {"sessionKey": "main"})
                assert stopped == {"ok": True, "aborted": True, "runIds": ["r1"]}
                waited = await client.call("agent.wait", {"runId": "r1", "timeoutMs": 5000})
    assert waited["stopReason"] == "aborted"


async def test_stop_is_obeyed_while_a_command_runs_and_leaves_nothing_behind(openclaw_home: TemporaryHome) -> None:
    with MockModelServer([calls("exec", command="sleep 600"), says("done")]) as server:
        settings = server.settings()
        settings["tools"] = {"exec": {"security": "full", "ask": "off"}}
        openclaw_home.configure(settings)
        with GatewayProcess(openclaw_home) as gateway:
            assert gateway.process is not None
            async with gateway.client(caps=("tool-events",)) as client:
                await client.call("chat.send", {"sessionKey": "main", "message": "wait", "idempotencyKey": "r1"})
                await collect(client, lambda name, data: name == "agent" and data["stream"] == "tool")
                async with asyncio.timeout(120):
                    while not descendants(gateway.process.pid):
                        await asyncio.sleep(0.02)
                await client.call("chat.send", {"sessionKey": "main", "message": "/stop", "idempotencyKey": "r2"})
                await collect(client, lambda name, data: name == "chat" and data["state"] == "aborted")
                async with asyncio.timeout(120):
                    while descendants(gateway.process.pid):
                        await asyncio.sleep(0.02)
    assert len(server.requests) == 1
    assert "Stopped" in conversation(openclaw_home)[-1].text


async def test_tools_for_devices_are_not_offered_while_no_device_can_serve_them(openclaw_home: TemporaryHome) -> None:
    with MockModelServer([says("hi")]) as server:
        openclaw_home.configure(server.settings())
        with GatewayProcess(openclaw_home) as gateway:
            async with gateway.client() as client:
                await client.call("agent", {"message": "hello", "idempotencyKey": "r1"}, final=True)
    (request,) = server.requests
    offered = {tool["function"]["name"] for tool in request["tools"]}
    prompt = str(request["messages"][0]["content"])
    assert {"read", "tool_search"} <= offered and "sessions_list" in prompt
    assert offered.isdisjoint({"nodes", "canvas"}) and "canvas" not in prompt


async def test_a_command_waits_for_a_click(openclaw_home: TemporaryHome) -> None:
    with MockModelServer([calls("exec", command="install /dev/null clicked"), says("made it")]) as server:
        openclaw_home.configure(server.settings())
        with GatewayProcess(openclaw_home) as gateway:
            async with gateway.client() as client:
                await client.call("chat.send", {"sessionKey": "main", "message": "go", "idempotencyKey": "r1"})
                seen = await collect(client, lambda name, data: name == "exec.approval.requested")
                question = seen[-1][1]
                assert question["request"]["command"] == "install /dev/null clicked"
                assert [row["id"] for row in await client.call("exec.approval.list", {})] == [question["id"]]
                await client.call("exec.approval.resolve", {"id": question["id"], "decision": "allow-once"})
                await collect(client, lambda name, data: name == "chat" and data["state"] == "final")
                with pytest.raises(CallFailed) as missing:
                    await client.call("exec.approval.resolve", {"id": question["id"], "decision": "deny"})
    assert missing.value.code == "APPROVAL_NOT_FOUND"
    assert (openclaw_home.workspace / "clicked").exists()


async def test_an_unanswered_question_holds_up_no_other_conversation(openclaw_home: TemporaryHome) -> None:
    first, second = (calls("exec", command=f"install /dev/null {name}") for name in ("first", "second"))
    with MockModelServer([first, second, says("made it")]) as server:
        openclaw_home.configure(server.settings())
        with GatewayProcess(openclaw_home) as gateway:
            async with gateway.client() as client:
                asked: dict[str, str] = {}
                for session in ("one", "two"):
                    await client.call("chat.send", {"sessionKey": session, "message": "go", "idempotencyKey": session})
                    seen = await collect(client, lambda name, data: name == "exec.approval.requested")
                    asked[seen[-1][1]["request"]["command"]] = seen[-1][1]["id"]
                waiting = await client.call("exec.approval.list", {})
                assert [row["id"] for row in waiting] == [
                    asked["install /dev/null first"],
                    asked["install /dev/null second"],
                ]
                answer = {"id": asked["install /dev/null second"], "decision": "allow-once"}
                await client.call("exec.approval.resolve", answer)
                seen = await collect(client, lambda name, data: name == "chat" and data["state"] == "final")
                assert seen[-1][1]["runId"] == "two"
                waiting = await client.call("exec.approval.list", {})
                assert [row["id"] for row in waiting] == [asked["install /dev/null first"]]
    assert (openclaw_home.workspace / "second").exists()
    assert not (openclaw_home.workspace / "first").exists()


async def test_sessions_are_made_named_reset_and_deleted(openclaw_home: TemporaryHome) -> None:
    with MockModelServer([says("hi")]) as server:
        openclaw_home.configure(server.settings())
        with GatewayProcess(openclaw_home) as gateway:
            async with gateway.client() as client:
                made = await client.call("sessions.create", {"label": "Plans"})
                key = made["key"]
                assert key.startswith("agent:main:dashboard:")
                unnamed = (await client.call("sessions.create", {}))["key"]
                listed = (await client.call("sessions.list", {}))["sessions"]
                names = {each["key"]: each["displayName"] for each in listed}
                assert names == {key: "Plans", unnamed: "New conversation"}
                await client.call("sessions.delete", {"key": unnamed})
                await client.call("agent", {"message": "hello", "sessionKey": key, "idempotencyKey": "r1"}, final=True)
                patched = await client.call("sessions.patch", {"key": key, "label": "Trips", "pinned": True})
                assert patched["entry"]["label"] == "Trips"
                listed = await client.call("sessions.list", {"includeLastMessage": True})
                (row,) = [each for each in listed["sessions"] if each["key"] == key]
                assert (row["displayName"], row["pinned"], row["lastMessagePreview"]) == ("Trips", True, "hi")
                with pytest.raises(CallFailed, match="moved on"):
                    await client.call("sessions.reset", {"key": key, "expectedSessionId": "other"})
                reset = await client.call("sessions.reset", {"key": key})
                assert reset["entry"]["sessionId"] != row["sessionId"]
                assert (await client.call("chat.history", {"sessionKey": key}))["messages"] == []
                assert [each["key"] for each in (await client.call("sessions.list", {}))["sessions"]] == [key]
                await client.call("agent", {"message": "again", "sessionKey": key, "idempotencyKey": "r2"}, final=True)
                gone = await client.call("sessions.delete", {"key": key})
                assert gone["deleted"] and gone["archived"]
                assert (await client.call("sessions.describe", {"key": key}))["session"] is None
    kept = sorted(path.name for path in (openclaw_home.state / "agents/main/sessions").iterdir())
    assert sum(".reset." in name for name in kept) == 1 and sum(".deleted." in name for name in kept) == 1


async def test_scopes_and_mistakes_are_answered_and_the_socket_stays(openclaw_home: TemporaryHome) -> None:
    with GatewayProcess(openclaw_home) as gateway:
        async with gateway.client(scopes=(READ,)) as client:
            for method, params, code, text in (
                (
                    "chat.send",
                    {"sessionKey": "main", "message": "x", "idempotencyKey": "k"},
                    "FORBIDDEN",
                    "missing scope",
                ),
                ("no.such.method", {}, "FORBIDDEN", "operator.admin"),
                ("chat.history", {}, "INVALID_REQUEST", "must have required property 'sessionKey'"),
                ("chat.history", {"sessionKey": "main", "x": 1}, "INVALID_REQUEST", "unexpected property 'x'"),
                ("chat.history", {"sessionKey": "agent:nobody:main"}, "INVALID_REQUEST", "no agent"),
                ("sessions.list", {"limit": 0}, "INVALID_REQUEST", "must be >= 1"),
            ):
                with pytest.raises(CallFailed) as failed:
                    await client.call(method, params)
                assert failed.value.code == code and text in failed.value.message, method
            assert (await client.call("health"))["ok"] is True
        async with gateway.client() as client:
            with pytest.raises(CallFailed, match="unknown method"):
                await client.call("no.such.method", {})
            features = client.hello["features"]
            assert "agent" in features["methods"] and "chat" in features["events"]


async def test_every_advertised_reading_method_answers(openclaw_home: TemporaryHome) -> None:
    params: dict[str, Any] = {
        "skills.offer": {"paths": []},
        "sessions.messages.subscribe": {"key": "main"},
        "sessions.messages.unsubscribe": {"key": "main"},
        "sessions.describe": {"key": "main"},
        "sessions.preview": {"keys": ["main"]},
        "sessions.get": {"key": "main"},
        "sessions.resolve": {"key": "main", "allowMissing": True},
        "chat.history": {"sessionKey": "main"},
        "chat.startup": {"sessionKey": "main"},
        "tools.effective": {"sessionKey": "main"},
        "agents.files.list": {"agentId": "main"},
        "agents.files.get": {"agentId": "main", "name": "SOUL.md"},
        "agent.wait": {"runId": "none", "timeoutMs": 1},
        "config.schema.lookup": {"path": "tools.exec"},
        "memory.search": {"query": "x"},
        "memory.explain": {"query": "x"},
        "memory.notes.get": {"path": "MEMORY.md"},
        "memory.notes.lines": {"path": "MEMORY.md"},
        "agents.files.history": {"agentId": "main", "name": "SOUL.md"},
        "sessions.search": {"query": "x"},
        "skills.trust.show": {"name": "weather"},
        "progressCard.get": {"sessionKey": "main"},
        "runs.list": {},
        "agents.capabilities": {},
        "install.check": {
            "targetType": "skill",
            "targetName": "x",
            "sourcePath": "/nowhere",
            "spec": "x",
            "treeSha256": "0",
        },
    }
    skipped = (
        "set-heartbeats",
        "wake",
        "system-event",
        "invoke",
        "add",
        "update",
        "remove",
        "run",
        "runs",
        "link",
        "report",
        "create",
        "set",
        "patch",
        "apply",
        "delete",
        "reset",
        "resolve",
        "unattended",
        "call",
        "send",
        "inject",
        "approve",
        "reject",
        "reload",
        "repair",
        "test",
        "drop",
        "release",
        "start",
        "connect",
        "stop",
        "logout",
        "forget",
        "dismiss",
        "finish",
    )
    (openclaw_home.workspace / "MEMORY.md").write_text("A note.\n")
    with GatewayProcess(openclaw_home) as gateway:
        async with gateway.client() as client:
            answered = 0
            for method in client.hello["features"]["methods"]:
                last = method.rpartition(".")[2]
                if method in params or not (
                    last in skipped
                    or method.startswith(
                        ("cron.", "device.", "agent", "chat.", "exec.approval.get", "message.", "sessions.", "runs.")
                    )
                ):
                    await client.call(method, params.get(method, {}))
                    answered += 1
            assert answered >= 25
            config = await client.call("config.get")
            assert config["valid"] and "gateway.token" not in json.dumps(config)


async def test_config_is_changed_over_the_wire_and_takes_effect(openclaw_home: TemporaryHome) -> None:
    with MockModelServer([says("hi")]) as server:
        openclaw_home.configure(server.settings())
        with GatewayProcess(openclaw_home) as gateway:
            async with gateway.client() as client:
                before = await client.call("config.get")
                assert "mock-key-123456" not in json.dumps(before)
                patch = json.dumps({"tools": {"deny": ["exec"]}})
                with pytest.raises(CallFailed, match="baseHash"):
                    await client.call("config.patch", {"raw": patch})
                with pytest.raises(CallFailed, match="config changed since last load"):
                    await client.call("config.patch", {"raw": patch, "baseHash": "0" * 64})
                done = await client.call("config.patch", {"raw": patch, "baseHash": before["hash"]})
                assert done["changedPaths"] == ["tools"] or "tools.deny" in done["changedPaths"]
                async with asyncio.timeout(120):
                    while True:
                        tools = await client.call("tools.effective", {"sessionKey": "main"})
                        names = [tool["id"] for group in tools["groups"] for tool in group["tools"]]
                        if "exec" not in names:
                            break
                        await asyncio.sleep(0.1)
    assert "mock-key-123456" in openclaw_home.config_path.read_text()


async def test_a_wrong_token_is_refused_and_slowed_down(openclaw_home: TemporaryHome) -> None:
    from openclaw.core.secret import Secret
    from openclaw.protocol.connect_request import ConnectOptions
    from openclaw.protocol.websocket import connect

    with GatewayProcess(openclaw_home) as gateway:
        codes = []
        for _ in range(12):
            card = ConnectOptions(version="0", platform="test", token=Secret("wrong" * 8))
            try:
                async with connect(f"ws://127.0.0.1:{gateway.port}", card):
                    raise AssertionError("let in")
            except CallFailed as refused:
                codes.append(refused.reason)
    assert codes[0] == "AUTH_TOKEN_MISMATCH" and codes[-1] == "AUTH_RATE_LIMITED"


async def test_terminating_lets_the_run_end_and_tells_clients(openclaw_home: TemporaryHome) -> None:
    with MockModelServer([says("a short answer")]) as server:
        openclaw_home.configure(server.settings())
        with GatewayProcess(openclaw_home) as gateway:
            async with gateway.client() as client:
                await client.call("agent", {"message": "hello", "idempotencyKey": "r1"})
                code = await asyncio.to_thread(gateway.stop)
                with pytest.raises(ConnectionLost):
                    await collect(client, lambda name, data: False)
    assert code == 0
    assert conversation(openclaw_home)[-1].text == "a short answer"


def test_a_second_gateway_is_refused(openclaw_home: TemporaryHome) -> None:
    with GatewayProcess(openclaw_home) as gateway:
        second = openclaw("gateway", "run", "--port", "0", env=openclaw_home.environ)
        assert second.returncode == 1
        assert gateway.process is not None and f"pid {gateway.process.pid}" in second.stderr


def test_the_command_line_uses_the_gateway(openclaw_home: TemporaryHome, tmp_path: Path) -> None:
    with GatewayProcess(openclaw_home):
        done = run(openclaw_home, "agent", "-m", "what time is it?")
        assert done.returncode == 0 and "It is " in done.stdout, done.stderr
        document = json.loads(run(openclaw_home, "agent", "-m", "what time is it?", "--json").stdout)
        assert document["status"] == "ok" and document["payloads"][0]["text"].startswith("It is ")
        failed = run(openclaw_home, "agent", "-m", "hi", "--model", "nowhere/x")
        assert failed.returncode == 1 and "nowhere" in failed.stderr and "Traceback" not in failed.stderr
        called = run(openclaw_home, "gateway", "call", "health")
        assert json.loads(called.stdout)["ok"] is True


async def test_every_accepted_message_is_answered_once_however_often_the_gateway_dies(
    openclaw_home: TemporaryHome,
) -> None:
    """Kills the gateway under load again and again; the ledger and the transcripts must agree at the end."""
    dice = random.Random(7)
    accepted: list[str] = []
    with MockModelServer([says("an answer of some length, so that it takes a moment to stream")]) as server:
        openclaw_home.configure(server.settings())
        gateway = GatewayProcess(openclaw_home)
        for round_number in range(KILLS):
            gateway.start()
            try:
                async with gateway.client() as client:
                    for number in range(6):
                        run_id = f"r{round_number}-{number}"
                        params = {
                            "message": f"message {run_id}",
                            "sessionKey": f"s{number % 3}",
                            "idempotencyKey": run_id,
                        }
                        answer = await client.call("agent", params)
                        assert answer["status"] == "accepted"
                        accepted.append(run_id)
                        await asyncio.sleep(dice.random() * 0.05)
                await asyncio.sleep(dice.random() * 0.2)
            except (ConnectionLost, CallFailed):
                pass
            gateway.kill()
        with gateway:
            async with gateway.client() as client:
                for run_id in accepted:
                    waited = await client.call("agent.wait", {"runId": run_id, "timeoutMs": 30_000}, timeout=60)
                    assert waited["status"] == "ok", (run_id, waited)
    asked = [message.text for message in conversation(openclaw_home) if isinstance(message, User)]
    assert sorted(asked) == sorted(f"message {run_id}" for run_id in accepted)
    answers = [m for m in conversation(openclaw_home) if isinstance(m, Assistant) and m.stop_reason == "stop"]
    assert len(answers) == len(accepted)


async def test_a_gateway_that_stops_says_so_before_it_hangs_up(openclaw_home: TemporaryHome) -> None:
    with GatewayProcess(openclaw_home) as gateway:
        async with gateway.client() as client:
            stopping = asyncio.create_task(asyncio.to_thread(gateway.stop))
            seen: list[str] = []
            with pytest.raises(ConnectionLost) as lost:
                async with asyncio.timeout(60):
                    async for event in client.events():
                        seen.append(getattr(event, "event", ""))
            assert seen == ["shutdown"] and lost.value.close_code == 1012
            assert await stopping == 0


async def test_hundreds_of_clients_are_served_and_forgotten(openclaw_home: TemporaryHome) -> None:
    """Some talk, most listen: everyone hears every event, in order, and nobody waits for the others."""
    with MockModelServer([says("hi")]) as server:
        openclaw_home.configure(server.settings())
        with GatewayProcess(openclaw_home) as gateway:
            async with AsyncExitStack() as stack:
                crowd = stack.enter_context(Crowd(gateway, CLIENTS - ACTIVE))
                clients = [await stack.enter_async_context(gateway.client()) for _ in range(ACTIVE)]
                for start in range(0, ACTIVE, 200):  # at most 256 requests may wait at once, over all clients
                    outcomes = await asyncio.gather(
                        *(
                            client.call(
                                "agent",
                                {"message": "hi", "sessionKey": f"c{number}", "idempotencyKey": f"c{number}"},
                                final=True,
                                timeout=60,
                            )
                            for number, client in enumerate(clients[start : start + 200], start)
                        )
                    )
                    assert all(outcome["status"] == "ok" for outcome in outcomes)
                    health = await asyncio.gather(*(client.call("health", timeout=60) for client in clients[:200]))
                    assert all(answer["ok"] for answer in health)
            assert crowd.closed == 0 and crowd.gaps == 0
            assert min(crowd.heard) == max(crowd.heard) > ACTIVE
            async with gateway.client() as client:
                assert (await client.call("health"))["sessions"]["count"] == ACTIVE


async def test_commands_are_answered_by_the_gateway_and_never_by_the_model(openclaw_home: TemporaryHome) -> None:
    with MockModelServer([says("hi")]) as server:
        openclaw_home.configure(server.settings())
        with GatewayProcess(openclaw_home) as gateway:
            async with gateway.client() as client:

                async def say(text: str) -> str:
                    answer = await client.call("agent", {"message": text, "idempotencyKey": text}, final=True)
                    return str(answer["result"]["payloads"][0]["text"])

                assert "/stop" in await say("/help")
                assert "mock/mock" in await say("/status")
                assert "agent:main:main" in await say("/whoami")
                assert "Context breakdown" in await say("/context")
                assert "high" in await say("/think high")
                assert "no provider 'x'" in await say("/model x/y")
                assert "interrupt" in await say("/queue interrupt")
                assert "Trips" in await say("/name Trips")
                row = (await client.call("sessions.describe", {"key": "main"}))["session"]
                assert (row["label"], row["thinkingLevel"], row["effectiveQueueMode"]) == ("Trips", "high", "interrupt")
                assert server.requests == []
                assert await say("hello") == "hi"
                assert "new conversation" in await say("/new")
                assert (await client.call("chat.history", {"sessionKey": "main"}))["messages"] == []
                assert await say("/skill:git what changed?") == "hi"
                assert "Nothing is running" in await say("stop!")
    assert "git" in server.requests[-1]["messages"][-1]["content"]
    assert len(server.requests) == 2


async def test_a_new_token_closes_the_old_connections_at_once(openclaw_home: TemporaryHome) -> None:
    from openclaw.core.secret import Secret
    from openclaw.protocol.connect_request import ConnectOptions
    from openclaw.protocol.websocket import connect

    first, second = "first-token-" + "x" * 24, "second-token-" + "y" * 24

    def card(token: str) -> ConnectOptions:
        return ConnectOptions(version="0", platform="test", token=Secret(token))

    openclaw_home.configure({"gateway": {"auth": {"token": first}}})
    with GatewayProcess(openclaw_home) as gateway:
        url = f"ws://127.0.0.1:{gateway.port}"
        async with connect(url, card(first)) as client:
            assert (await client.call("health"))["ok"]
            openclaw_home.configure({"gateway": {"auth": {"token": second}}})
            with pytest.raises(ConnectionLost) as lost:
                await collect(client, lambda name, data: False)
        assert lost.value.close_code == 4001
        with pytest.raises(CallFailed, match="token"):
            async with connect(url, card(first)):
                pass
        async with connect(url, card(second)) as client:
            assert (await client.call("health"))["ok"]
    assert first not in gateway.output() and second not in gateway.output()


async def test_notes_and_skills_are_there_over_the_wire(openclaw_home: TemporaryHome) -> None:
    (openclaw_home.workspace / "memory").mkdir()
    (openclaw_home.workspace / "memory" / "2026-11-15.md").write_text("# Day\n\n- The boiler code is 4711.\n")
    openclaw_home.configure({"agents": {"defaults": {"memorySearch": {"provider": "none"}}}})
    with GatewayProcess(openclaw_home) as gateway:
        async with gateway.client() as client:
            found = await client.call("memory.search", {"query": "boiler code"})
            assert found["results"][0]["path"] == "memory/2026-11-15.md"
            status = await client.call("memory.status", {})
            assert status["enabled"] is True
            skills = await client.call("skills.status", {})
            assert "git" in [skill["name"] for skill in skills["skills"]]
            with pytest.raises(CallFailed, match="must NOT have fewer than 1"):
                await client.call("memory.search", {"query": ""})


async def test_figures_and_logs_name_what_they_are_about(openclaw_home: TemporaryHome) -> None:
    import httpx2

    with MockModelServer([calls("nothing"), says("done")]) as server:
        openclaw_home.configure({**server.settings(), "logging": {"level": "debug"}})
        with GatewayProcess(openclaw_home) as gateway:
            async with gateway.client() as client, httpx2.AsyncClient() as http:
                await client.call("agent", {"message": "hi", "idempotencyKey": "r1"}, final=True)
                url = f"http://127.0.0.1:{gateway.port}/metrics"
                assert (await http.get(url)).status_code == 401
                shown = await http.get(url, headers={"authorization": f"Bearer {gateway.token.reveal()}"})
    assert shown.status_code == 200
    assert shown.headers["content-type"].startswith("text/plain; version=0.0.4")
    assert "openclaw_connections 1\n" in shown.text and "openclaw_runs_active 0\n" in shown.text
    assert 'openclaw_runs_total{source="main",outcome="ok"} 1\n' in shown.text
    assert 'openclaw_tool_calls_total{outcome="error"} 1\n' in shown.text
    assert "openclaw_run_seconds_count 1\n" in shown.text
    assert re.search(r'openclaw_model_calls_total\{model="[^"]+",outcome="ok"\} 2\n', shown.text)
    assert "r1" not in shown.text and "nothing" not in shown.text
    logged = "".join(path.read_text() for path in (openclaw_home.state / "logs").iterdir())
    assert gateway.token.reveal() not in logged and "mock-key-123456" not in logged


async def test_texts_become_vectors_over_http(openclaw_home: TemporaryHome) -> None:
    import httpx2

    openclaw_home.configure(
        {
            "gateway": {"http": {"endpoints": {"chatCompletions": {"enabled": True}}}},
            "agents": {"defaults": {"memorySearch": {"provider": "hash"}}},
        }
    )
    with GatewayProcess(openclaw_home) as gateway:
        async with httpx2.AsyncClient() as http:
            answer = await http.post(
                f"http://127.0.0.1:{gateway.port}/v1/embeddings",
                headers={"authorization": f"Bearer {gateway.token.reveal()}"},
                json={"model": "openclaw", "input": ["hello", "world"]},
            )
    assert answer.status_code == 200, answer.text
    vectors = [row["embedding"] for row in answer.json()["data"]]
    assert len(vectors) == 2 and len(vectors[0]) == len(vectors[1]) > 0 and vectors[0] != vectors[1]
