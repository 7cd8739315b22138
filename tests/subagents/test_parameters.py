"""Every tool takes the parameters that are written down for it, by name and type, and demands no others."""

from typing import Any

import pytest

from openclaw.agent.arguments import Accepted, prepare
from openclaw.testing import ScriptedModel, calls, says
from tests.subagents.house import SETTINGS, Cast, Owner, house

pytestmark = pytest.mark.anyio

S, N, B, A, O = "string", "number", "boolean", "array", "object"  # noqa: E741
WRITTEN: dict[str, tuple[dict[str, str], tuple[str, ...]]] = {
    "read": ({"path": S, "file_path": S, "offset": N, "limit": N, "cursor": N, "optional": B}, ("path",)),
    "write": ({"path": S, "file_path": S, "content": S}, ("path", "content")),
    "edit": ({"path": S, "oldText": S, "newText": S, "old_string": S, "new_string": S, "edits": A}, ("path",)),
    "apply_patch": ({"input": S}, ("input",)),
    "ls": ({"path": S, "limit": N, "after": S}, ()),
    "grep": (
        {"pattern": S, "path": S, "glob": S, "ignoreCase": B, "literal": B, "context": N, "limit": N},
        ("pattern",),
    ),
    "find": ({"pattern": S, "path": S, "limit": N}, ("pattern",)),
    "exec": (
        {
            "command": S,
            "workdir": S,
            "env": O,
            "yieldMs": N,
            "background": B,
            "timeout": N,
            "timeoutSeconds": N,
            "pty": B,
        }
        | {"elevated": B, "host": S, "ask": S, "security": S, "node": S, "title": S},
        ("command",),
    ),
    "process": (
        {"action": S, "sessionId": S, "data": S, "keys": A, "hex": A, "literal": S, "text": S, "bracketed": B}
        | {"eof": B, "offset": N, "limit": N, "timeout": N},
        ("action",),
    ),
    "web_search": (
        {"query": S, "count": N, "country": S, "language": S, "freshness": S, "date_after": S, "date_before": S}
        | {"search_lang": S, "ui_lang": S, "domain_filter": A},
        ("query",),
    ),
    "web_fetch": ({"url": S, "extractMode": S, "maxChars": N}, ("url",)),
    "image": ({"prompt": S, "image": S, "images": A, "path": S, "paths": A, "maxBytesMb": N, "maxImages": N}, ()),
    "memory_search": ({"query": S, "maxResults": N, "minScore": N, "corpus": S}, ("query",)),
    "memory_get": ({"path": S, "from": N, "lines": N}, ("path",)),
    "agents_list": ({}, ()),
    "sessions_list": (
        {"kinds": A, "limit": N, "offset": N, "activeMinutes": N, "messageLimit": N, "label": S, "agentId": S}
        | {
            "search": S,
            "archived": B,
            "pinned": B,
            "activeOnly": B,
            "includeLastMessage": B,
            "includeDerivedTitles": B,
        },
        (),
    ),
    "sessions_history": ({"sessionKey": S, "limit": N, "offset": N, "includeTools": B}, ("sessionKey",)),
    "sessions_send": (
        {"message": S, "sessionKey": S, "label": S, "agentId": S, "timeoutSeconds": N, "mode": S},
        ("message",),
    ),
    "session_status": ({"sessionKey": S, "model": S}, ()),
    "sessions_spawn": (
        {"task": S, "label": S, "taskName": S, "runtime": S, "agentId": S, "model": S, "thinking": S, "cwd": S}
        | {
            "runTimeoutSeconds": N,
            "timeoutSeconds": N,
            "thread": B,
            "mode": S,
            "cleanup": S,
            "sandbox": S,
            "streamTo": S,
        }
        | {"attachments": A, "attachAs": O, "context": S, "expectsCompletionMessage": B, "resumeSessionId": S},
        ("task",),
    ),
    "sessions_yield": ({"message": S}, ()),
    "subagents": (
        {"action": S, "target": S, "message": S, "recentMinutes": N, "taskId": S, "taskIds": A, "timeoutSeconds": N},
        (),
    ),
    "gateway": ({"action": S, "path": S, "raw": S, "baseHash": S, "note": S}, ("action",)),
    "canvas": (
        {"action": S, "gatewayUrl": S, "gatewayToken": S, "timeoutMs": N, "node": S, "target": S, "x": N, "y": N}
        | {"width": N, "height": N, "url": S},
        ("action",),
    ),
    "nodes": (
        {"action": S, "node": S, "requestId": S, "title": S, "body": S, "sound": S, "priority": S, "facing": S}
        | {"deviceId": S, "limit": N, "duration": S, "durationMs": N, "includeAudio": B, "fps": N, "outPath": S}
        | {"bins": A, "invokeCommand": S, "invokeParamsJson": S, "invokeTimeoutMs": N, "notificationKey": S},
        ("action",),
    ),
    "update_plan": ({"plan": A, "explanation": S}, ("plan",)),
}


def kind(schema: dict[str, Any]) -> str:
    found = schema.get("type", S)
    return N if found == "integer" else str(found)


async def test_every_tool_takes_what_is_written_down_for_it(openclaw_home):
    openclaw_home.configure({**SETTINGS, "tools": {**SETTINGS["tools"], "experimental": {"planTool": True}}})
    async with house(openclaw_home, Cast(please=ScriptedModel(says("x")))) as here:
        specs = {tool.spec.name: tool.spec for tool in here.desk.app.tools()}
    for name, (parameters, required) in WRITTEN.items():
        spec = specs[name]
        properties = spec.parameters["properties"]
        for parameter, wanted in parameters.items():
            real = parameter if parameter in properties else spec.aliases.get(parameter, parameter)
            assert real in properties, f"{name} does not take {parameter}"
            assert kind(properties[real]) == wanted, f"{name}.{parameter}"
        assert set(spec.parameters.get("required", ())) == set(required), name
        assert not {"anyOf", "oneOf", "allOf"} & set(spec.parameters), f"{name}: not every provider takes that"


async def test_older_spellings_are_taken(openclaw_home):
    openclaw_home.configure(SETTINGS)
    async with house(openclaw_home, Cast(please=ScriptedModel(says("x")))) as here:
        specs = {tool.spec.name: tool.spec for tool in here.desk.app.tools()}
    for name, given in (
        ("read", {"file_path": "a"}),
        ("edit", {"file_path": "a", "old_string": "x", "new_string": "y"}),
        ("exec", {"command": "true", "timeout": 5, "host": "gateway", "elevated": True}),
        ("image", {"path": "a.png"}),
        ("sessions_spawn", {"task": "x", "timeoutSeconds": 5, "context": "isolated"}),
    ):
        assert isinstance(prepare(name, specs[name].parameters, specs[name].aliases, given), Accepted), name


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"thread": True}, "no channel here binds threads"),
        ({"streamTo": "parent"}, "streamTo"),
        ({"context": "fork"}, "context fork"),
        ({"attachAs": {"mountPath": "../x"}, "attachments": [{"name": "a", "content": "b"}]}, "inside the workspace"),
    ],
)
async def test_what_a_spawn_cannot_do_says_so(openclaw_home, given, told):
    openclaw_home.configure(SETTINGS)
    model = ScriptedModel(calls("sessions_spawn", task="x", **given), says("no"))
    async with house(openclaw_home, Cast(please=model)) as here:
        await here.say("r1", "please")
        await here.outcome("r1")
        (result,) = await here.results("sessions_spawn")
    assert told in result.text


@pytest.mark.parametrize(
    ("given", "ran", "asked"),
    [
        ({}, True, 0),
        ({"ask": "always"}, False, 1),
        ({"security": "deny"}, False, 0),
        ({"host": "node"}, False, 0),
        ({"host": "sandbox"}, False, 0),
    ],
)
async def test_a_command_can_ask_to_be_held_tighter_but_never_looser(openclaw_home, tmp_path, given, ran, asked):
    openclaw_home.configure(SETTINGS)
    mark = tmp_path / "ran"
    owner = Owner("deny")
    model = ScriptedModel(calls("exec", command=f"touch {mark}", **given), says("done"))
    async with house(openclaw_home, Cast(please=model), owner) as here:
        await here.say("r1", "please")
        await here.outcome("r1")
    assert mark.exists() is ran
    assert len(owner.asked) == asked


async def test_a_policy_is_not_loosened_by_a_call(openclaw_home, tmp_path):
    openclaw_home.configure({"tools": {"exec": {"security": "allowlist", "ask": "on-miss"}}})
    mark = tmp_path / "ran"
    owner = Owner("deny")
    model = ScriptedModel(calls("exec", command=f"touch {mark}", security="full", ask="off"), says("done"))
    async with house(openclaw_home, Cast(please=model), owner) as here:
        await here.say("r1", "please")
        await here.outcome("r1")
    assert not mark.exists()
    assert len(owner.asked) == 1
