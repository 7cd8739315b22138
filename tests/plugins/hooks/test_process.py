"""Every point through a real gateway, with a plugin in a process of its own."""

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from openclaw.core.hook_points import POINTS
from openclaw.testing import Step, TemporaryHome, calls, says
from openclaw.testing.server import MockModelServer, Reply
from tests.e2e.gateway_process import GatewayProcess
from tests.e2e.test_command_line import run
from tests.plugins.support import DEADLINE, write

pytestmark = pytest.mark.anyio

LISTENS = [name for name, point in POINTS.items() if point.kind != "sync"]
WITNESS = """
import json

def register(api):
    heard = api.state / "heard.jsonl"

    def listen(name):
        def hears(event, context):
            with heard.open("a") as file:
                file.write(json.dumps([name, type(event).__name__, context.session_key]) + "\\n")
            if name == "before_prompt_build":
                return {"prependContext": "It rains.", "appendSystemContext": "Be brief."}
            if name == "before_install":
                return {"block": event.target_name in ("poet", "bard"), "blockReason": f"no {event.target_type} poets"}
            if name == "message_sending":
                return {"content": event.content.replace("hunter2", "xxx")}
        return hears

    for name in NAMES:
        api.on(name, listen(name))
"""


def heard(home: TemporaryHome) -> list[list[str]]:
    found = list(home.state.rglob("heard.jsonl"))
    return [json.loads(line) for line in found[0].read_text().splitlines()] if found else []


async def until(home: TemporaryHome, name: str) -> None:
    async with asyncio.timeout(DEADLINE):
        while name not in {each[0] for each in heard(home)}:
            await asyncio.sleep(0.05)


def skill(root: Path, name: str) -> str:
    place = root / "new" / name
    place.mkdir(parents=True)
    (place / "SKILL.md").write_text(f"---\nname: {name}\ndescription: Writes.\n---\nWrite.\n")
    return str(place)


async def test_a_plugin_hears_of_everything_and_its_words_reach_the_model(openclaw_home: TemporaryHome) -> None:
    home = openclaw_home
    write(home.root / "plugins", "witness", WITNESS.replace("NAMES", repr(LISTENS)), hooks=LISTENS)
    (home.workspace / "note.txt").write_text("a note")
    script: list[Reply | Sequence[Step]] = [
        calls("read", path="note.txt"),
        says("it is hunter2"),
        calls("sessions_spawn", task="count to one"),
        says("One."),
        says("One."),
        says("One."),
    ]
    with MockModelServer(script) as server:
        access: dict[str, Any] = {"witness": {"hooks": {"allowConversationAccess": True}}}
        load = {"paths": [str(home.root / "plugins")]}
        home.configure({**server.settings(), "plugins": {"load": load, "entries": access}})
        with GatewayProcess(home) as gateway:
            async with gateway.client() as client:
                done = await client.call("agent", {"message": "hi", "idempotencyKey": "1"}, final=True)
                assert done["result"]["payloads"][0]["text"] == "it is xxx"
                await client.call("sessions.reset", {"key": "main"})
                await until(home, "session_end")
                await client.call("agent", {"message": "ask a child", "idempotencyKey": "2"}, final=True)
                await until(home, "subagent_ended")
                job = {
                    "name": "later",
                    "schedule": {"kind": "every", "everyMs": 86_400_000},
                    "payload": {"kind": "agentTurn", "message": "look"},
                    "sessionTarget": "isolated",
                    "wakeMode": "now",
                }
                await client.call("cron.add", job)
                await until(home, "cron_changed")
                blocked = await asyncio.to_thread(run, home, "skills", "install", skill(home.root, "poet"), "--yes")
                assert blocked.returncode == 1
                assert "poet was not installed: the plugin witness objects: no skill poets" in blocked.stderr
                fine = await asyncio.to_thread(run, home, "skills", "install", skill(home.root, "clerk"), "--yes")
                assert fine.returncode == 0, fine.stderr
                bard = write(home.root / "new", "bard", "def register(api): ...")
                blocked = await asyncio.to_thread(run, home, "plugins", "install", str(bard), "--yes")
                assert blocked.returncode == 1 and "witness objects: no plugin poets" in blocked.stderr
                await until(home, "message_sent")
            gateway.stop()
        asked = json.dumps(list(server.requests))
    assert "It rains." in asked and "Be brief." in asked and "PLUGIN_CONTEXT" in asked
    names = [each[0] for each in heard(home)]
    elsewhere = {"before_compaction", "after_compaction", "before_dispatch", "inbound_claim", "resolve_exec_env"}
    elsewhere |= {"provider_prompt_contribution", "heartbeat_prompt_contribution", "channel_pairing_requested"}
    missing = {*LISTENS} - elsewhere - {*names}
    assert missing == set()
    order = [name for name in names if name in ("before_model_resolve", "before_prompt_build", "before_agent_reply")]
    assert order[:3] == ["before_model_resolve", "before_prompt_build", "before_agent_reply"]
    assert names.index("gateway_start") < names.index("gateway_stop")
    assert run(home, "audit", "verify").returncode == 0
    listed = run(home, "prompt", "audit").stdout
    for field in ("prependContext", "appendSystemContext", "content", "block"):
        assert f" {field}: " in listed


def test_a_guard_watches_what_is_said_in_a_terminal_without_a_gateway_too(openclaw_home: TemporaryHome) -> None:
    home = openclaw_home
    write(home.root / "plugins", "witness", WITNESS.replace("NAMES", '["message_sending"]'), hooks=["message_sending"])
    with MockModelServer([says("it is hunter2"), says("it is hunter2")]) as server:
        home.configure({**server.settings(), "plugins": {"load": {"paths": [str(home.root / "plugins")]}}})
        done = run(home, "agent", "-m", "hi")
        document = json.loads(run(home, "agent", "-m", "hi", "--json").stdout)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "it is xxx\n"
    assert "hunter2" not in json.dumps(document) and "it is xxx" in json.dumps(document)
