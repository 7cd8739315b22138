"""What plugins changed can be read and checked: on the command line, in a chat, and from outside the record."""

import json
from pathlib import Path
from typing import Any

import pytest

from openclaw.config.edit import Editor
from openclaw.core.hooks import HookName
from openclaw.gateway import app as application
from openclaw.gateway.client_api import build_commands
from openclaw.gateway.services import build_services
from openclaw.plugins import rpc
from openclaw.plugins.hooks.points import HookRegistration
from openclaw.plugins.rpc import InstallCheckParams
from openclaw.plugins.settings import HookSettings
from openclaw.runs.commands.catalog import CommandRequest
from openclaw.runs.queue import QueuePolicy
from openclaw.security.pending import PendingApprovals
from openclaw.testing import ScriptedModel, TemporaryHome, ask, calls, says
from tests.e2e.test_command_line import run

pytestmark = pytest.mark.anyio

FREE = HookSettings(allow_prompt_replace=True, allow_model_override=True, allow_conversation_access=True)


def plug(app: application.App, hook: HookName, answer: Any, plugin: str = "p", **more: Any) -> None:
    handler = answer if callable(answer) else lambda event, context: answer
    assert (
        app.run_hooks.hooks.add(HookRegistration(plugin=plugin, hook=hook, handler=handler, settings=FREE, **more))
        == ""
    )


async def changed(home: TemporaryHome) -> None:
    """A run in which plugins had something to say."""
    home.use_model("one/small", "two/large")
    (home.workspace / "key.txt").write_text("hunter2")
    large = ScriptedModel(calls("read", path="key.txt"), says("ok"))
    async with home.assistant({"one": ScriptedModel(), "two": large}) as app:
        plug(app, "before_model_resolve", {"modelOverride": "two/large"}, "chooser")
        plug(app, "before_prompt_build", {"appendSystemContext": "Be brief.", "prependContext": "It rains."}, "weather")
        plug(app, "before_prompt_build", {"systemPrompt": "You are a pirate."}, "pirate", tools=())
        plug(app, "before_tool_call", {"params": {"path": "./key.txt"}}, "tidy")
        await ask(app, "hi")


async def test_the_command_line_says_what_was_changed_by_whom(openclaw_home: TemporaryHome) -> None:
    await changed(openclaw_home)
    done = run(openclaw_home, "prompt", "audit")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert [line.split()[0] for line in lines] == ["5", "4", "3", "2", "1"]
    assert "chooser before_model_resolve modelOverride: 9 → 9 chars" in lines[-1]
    assert "pirate before_prompt_build systemPrompt: " in done.stdout and "(without tooling" in done.stdout
    assert "tidy before_tool_call params: " in lines[0] and "(tool read)" in lines[0]
    assert "hunter2" not in done.stdout
    some = json.loads(run(openclaw_home, "audit", "list", "--plugin", "weather", "--json").stdout)["entries"]
    assert {(entry["field"], entry["afterChars"]) for entry in some} == {
        ("prependContext", 9),
        ("appendSystemContext", 9),
    }
    run_id = some[0]["runId"]
    assert len(run(openclaw_home, "prompt", "audit", "--run", run_id[:8]).stdout.splitlines()) == 5
    assert run(openclaw_home, "prompt", "audit", "--run", "nobody").stdout == "No plugin has changed anything.\n"


async def test_the_text_that_was_added_is_shown_while_it_is_on_record(openclaw_home: TemporaryHome) -> None:
    await changed(openclaw_home)
    shown = run(openclaw_home, "prompt", "audit", "--diff").stdout
    for text in ("Be brief.", "It rains.", "You are a pirate."):
        assert f"      + {text}\n" in shown


async def test_the_record_can_be_checked_and_a_touch_shows(openclaw_home: TemporaryHome) -> None:
    assert run(openclaw_home, "audit", "verify").stdout == "no entries: the record is whole\n"
    await changed(openclaw_home)
    done = run(openclaw_home, "audit", "verify")
    assert (done.returncode, done.stdout) == (0, "entries 1 to 5: the record is whole\n")
    (path,) = (openclaw_home.state / "audit").glob("*.jsonl")
    whole = path.read_text()
    path.write_text(whole.replace('"plugin":"pirate"', '"plugin":"parrot"'))
    done = run(openclaw_home, "audit", "verify")
    assert done.returncode == 1 and "it is not what was written" in done.stdout
    assert done.stdout.endswith("the record was touched\n")
    path.write_text("".join(whole.splitlines(keepends=True)[:-1]))
    document = json.loads(run(openclaw_home, "audit", "verify", "--json").stdout)
    assert not document["ok"] and "its end was cut off" in document["problems"][0]


async def test_a_record_that_is_gone_is_missed_by_the_prompts_that_remember_it(openclaw_home: TemporaryHome) -> None:
    import shutil

    await changed(openclaw_home)
    shutil.rmtree(openclaw_home.state / "audit")
    done = run(openclaw_home, "audit", "verify")
    assert done.returncode == 1
    assert "entry 1 is not the one that a recorded prompt remembers" in done.stdout


class Place:
    def __init__(self, app: application.App) -> None:
        services = build_services(app)
        self.sessions = services.sessions
        questions = PendingApprovals(app.db, app.clock, lambda question: None, lambda question, end: None)
        queue = QueuePolicy(app.lifecycle, app.live.messages)
        self.commands = build_commands(app, services, questions, queue, Editor(app.home, app.environment.environ))

    async def types(self, text: str) -> str:
        reply = await self.commands.answer(CommandRequest(key=self.sessions.key("main")), text)
        assert reply is not None
        return reply.text


async def test_a_chat_says_what_plugins_changed_and_who_chose_the_model(openclaw_home: TemporaryHome) -> None:
    await changed(openclaw_home)
    async with openclaw_home.assistant(ScriptedModel()) as app:
        here = Place(app)
        detail = await here.types("/context detail")
        brief = await here.types("/context list")
        status = await here.types("/status")
    assert "Changed by plugin chooser (before_model_resolve): modelOverride, 9 → 9 chars, audit entry 1" in detail
    assert "Changed by plugin pirate (before_prompt_build): systemPrompt, " in detail
    assert "Changed by plugin tidy (before_tool_call): params, " in detail and ", tool read" in detail
    assert "Changed by plugin pirate" in brief and "tidy" not in brief
    assert "the last answer came from two/large, chosen by plugin chooser" in status


async def test_a_chat_without_plugins_says_nothing_of_them(openclaw_home: TemporaryHome) -> None:
    openclaw_home.use_model()
    async with openclaw_home.assistant(ScriptedModel(says("hi"))) as app:
        await ask(app, "hi")
        here = Place(app)
        assert "Changed by" not in await here.types("/context detail")
        assert "chosen by" not in await here.types("/status")


QUESTION = InstallCheckParams(
    target_type="skill", target_name="poet", source_path="/staged", spec="/poet.zip", tree_sha256="00"
)


async def test_plugins_of_the_gateway_are_asked_about_an_install(openclaw_home: TemporaryHome) -> None:
    openclaw_home.use_model()
    asked: list[Any] = []

    def guard(event: Any, context: Any) -> Any:
        asked.append(event)
        finding = {"ruleId": "odd", "severity": "warn", "message": "odd name"}
        return {"block": event.target_name == "poet", "blockReason": "no poets", "findings": [finding]}

    caller: Any = None
    async with openclaw_home.assistant(ScriptedModel()) as app:
        (method,) = rpc.install_methods(app.plugins, app.run_hooks.hooks, app.audit)
        check: Any = method.handler
        assert await check(QUESTION, caller) == {"blocked": False, "findings": []}
        plug(app, "before_install", guard, "guard")
        answer = await check(QUESTION, caller)
        (entry,) = app.audit.entries()
    assert (answer["blocked"], answer["plugin"], answer["reason"]) == (True, "guard", "no poets")
    assert answer["findings"][0]["ruleId"] == "odd"
    assert (asked[0].target_type, asked[0].source_path, asked[0].mode) == ("skill", "/staged", "install")
    assert (entry.hook, entry.field, entry.note) == ("before_install", "block", "install of skill poet")


def test_without_a_gateway_no_plugin_is_asked(openclaw_home: TemporaryHome, tmp_path: Path) -> None:
    skill = tmp_path / "poet"
    skill.mkdir()
    (skill / "SKILL.md").write_text("---\nname: poet\ndescription: Writes poems.\n---\nWrite.\n")
    done = run(openclaw_home, "skills", "install", str(skill), "--yes")
    assert done.returncode == 0, done.stderr
