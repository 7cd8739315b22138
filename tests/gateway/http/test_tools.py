"""Tools without a model, and what was said in a session."""

import asyncio
from typing import Any

import pytest

from openclaw.runs.toolset import DENIED
from openclaw.testing import ScriptedModel, TemporaryHome, says
from tests.gateway.http.support import house

pytestmark = pytest.mark.anyio

INVOKE = "/tools/invoke"


async def test_a_tool_is_called_and_its_result_given(
    openclaw_home: TemporaryHome, scripted_model: ScriptedModel
) -> None:
    async with house(openclaw_home, scripted_model) as place:
        (place.app.workspaces.of("main") / "note.txt").write_text("remember the milk\n")
        status, _, body = await place.request("POST", INVOKE, {"tool": "read", "args": {"path": "note.txt"}})
        assert status == 200 and body["ok"] is True
        assert "remember the milk" in body["result"]["content"][0]["text"]
        status, _, body = await place.request("POST", INVOKE, {"name": "READ", "args": {"path": "missing.txt"}})
        assert status == 400 and body["ok"] is False and body["error"]["type"] == "tool_error"
        status, _, body = await place.request("POST", INVOKE, {"tool": "read", "args": {"wrong": 1}})
        assert status == 400 and "path" in body["error"]["message"]
    assert scripted_model.requests == []


async def test_strong_tools_are_not_there(openclaw_home: TemporaryHome, scripted_model: ScriptedModel) -> None:
    async with house(openclaw_home, scripted_model) as place:
        assert {"exec", "apply_patch"} <= {tool.spec.name for tool in place.app.toolset().of()}
        for name in (*DENIED, "bash", "EXEC", "apply-patch", "no_such_tool"):
            status, _, body = await place.request("POST", INVOKE, {"tool": name, "args": {"command": "id"}})
            assert status == 404 and body["ok"] is False
            assert body["error"] == {"type": "not_found", "message": f"Tool not available: {name}"}


async def test_protected_places_are_protected_here_too(
    openclaw_home: TemporaryHome, scripted_model: ScriptedModel
) -> None:
    async with house(openclaw_home, scripted_model) as place:
        for name in (".openclaw/exec-approvals.json", ".bashrc", ".ssh/authorized_keys"):
            path = openclaw_home.root / name
            ask = {"tool": "write", "args": {"path": str(path), "content": "x"}}
            status, _, body = await place.request("POST", INVOKE, ask)
            assert status == 400 and "Not run" in body["error"]["message"] and not path.exists()


async def test_policy_takes_tools_away_here_too(openclaw_home: TemporaryHome, scripted_model: ScriptedModel) -> None:
    async with house(openclaw_home, scripted_model, config={"tools": {"deny": ["write"]}}) as place:
        ask = {"tool": "write", "args": {"path": "a.txt", "content": "x"}}
        status, _, _ = await place.request("POST", INVOKE, ask)
        assert status == 404 and not (place.app.workspaces.of("main") / "a.txt").exists()


async def test_a_dry_run_changes_nothing(openclaw_home: TemporaryHome, scripted_model: ScriptedModel) -> None:
    async with house(openclaw_home, scripted_model) as place:
        ask: dict[str, Any] = {"tool": "write", "args": {"path": "a.txt", "content": "x"}, "dryRun": True}
        status, _, body = await place.request("POST", INVOKE, ask)
        assert status == 200 and body["result"]["dryRun"] is True
        assert not (place.app.workspaces.of("main") / "a.txt").exists()
        status, _, _ = await place.request("POST", INVOKE, {**ask, "args": {}})
        assert status == 400


async def test_the_same_key_does_it_once(openclaw_home: TemporaryHome, scripted_model: ScriptedModel) -> None:
    async with house(openclaw_home, scripted_model) as place:
        note = place.app.workspaces.of("main") / "n.txt"
        ask = {"tool": "write", "args": {"path": "n.txt", "content": "first"}, "idempotencyKey": "k1"}
        first, again = await asyncio.gather(*(place.request("POST", INVOKE, ask) for _ in range(2)))
        assert first[0] == again[0] == 200 and first[2] == again[2]
        note.write_text("changed since")
        assert (await place.request("POST", INVOKE, ask))[0] == 200
        assert note.read_text() == "changed since"
        other = {**ask, "args": {"path": "n.txt", "content": "second"}}
        status, _, body = await place.request("POST", INVOKE, other)
        assert status == 409 and body["error"]["type"] == "conflict"


async def test_the_history_of_a_session_is_shown_newest_last(
    openclaw_home: TemporaryHome, scripted_model: ScriptedModel
) -> None:
    scripted_model.script(says("one"), says("two"))
    async with house(openclaw_home, scripted_model) as place:
        for text in ("first", "second"):
            ask = {"model": "openclaw", "user": "Anna / Büro", "messages": [{"role": "user", "content": text}]}
            assert (await place.request("POST", "/v1/chat/completions", ask))[0] == 200
        (row,) = await place.app.index.list()
        assert row.session_key.startswith("agent:main:openai-user:sha256-")
        status, _, body = await place.request("GET", f"/sessions/{row.session_key}/history?limit=3")
        assert status == 200 and body["sessionKey"] == row.session_key and body["hasMore"] is True
        assert [item["role"] for item in body["items"]] == ["assistant", "user", "assistant"]
        assert body["items"][-1]["content"][0]["text"] == "two" and body["items"][-1]["__openclaw"]["seq"] == 4
        assert (await place.request("GET", "/sessions/agent:main:none/history"))[0] == 404
        assert (await place.request("GET", f"/sessions/{row.session_key}/history?limit=-1"))[0] == 400
        assert (await place.request("GET", f"/sessions/{row.session_key}/history", key=None))[0] == 401
