"""Plugins in the whole assistant: what they say reaches the model, what they change is on record."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from openclaw.core.hooks import (
    AfterToolCall,
    AgentEnd,
    BeforeAgentStart,
    BeforeModelResolve,
    BeforePromptBuild,
    BeforeToolCall,
    HookContext,
    HookName,
    SessionStart,
    ToolResultPersist,
)
from openclaw.core.messages import Assistant, Text, ToolResult, User
from openclaw.gateway import app as application
from openclaw.plugins.hooks.points import HookRegistration
from openclaw.plugins.settings import HookSettings
from openclaw.security.audit import AuditEntry
from openclaw.testing import ScriptedApprover, ScriptedModel, TemporaryHome, ask, calls, says
from tests.gateway.support import results, roles, written

pytestmark = pytest.mark.anyio

Assistant_ = application.App
FREE = HookSettings(
    allow_prompt_replace=True, allow_model_override=True, allow_conversation_access=True, allow_prompt_injection=True
)
LISTENING = HookSettings(allow_conversation_access=True)


def plug(
    app: Assistant_, hook: HookName, handler: Any, plugin: str = "p", settings: HookSettings = FREE, **more: Any
) -> None:
    why = app.run_hooks.hooks.add(
        HookRegistration(plugin=plugin, hook=hook, handler=handler, settings=settings, **more)
    )
    assert why == ""


def always(answer: Any) -> Callable[[Any, HookContext], Any]:
    return lambda event, context: answer


def record(app: Assistant_) -> list[tuple[str, str, str, str]]:
    """What is on record, oldest first; the chain must hold."""
    assert app.audit.verify().problems == ()
    return [(entry.plugin, entry.hook, entry.field, entry.refused) for entry in reversed(app.audit.entries())]


def last(app: Assistant_) -> AuditEntry:
    return app.audit.entries()[0]


async def test_text_for_a_turn_stands_around_the_message_and_not_in_the_transcript(
    openclaw_home: TemporaryHome,
) -> None:
    openclaw_home.use_model()
    model = ScriptedModel(says("Take one."), says("Bye."))
    seen: list[BeforePromptBuild] = []

    def weather(event: BeforePromptBuild, context: HookContext) -> Any:
        seen.append(event)
        assert (context.agent_id, context.session_key) == ("main", "agent:main:main")
        return {"prependContext": "It rains.", "appendContext": "It is late."} if len(seen) == 1 else None

    async with openclaw_home.assistant(model) as app:
        plug(app, "before_prompt_build", weather, "weather")
        await ask(app, "umbrella?")
        await ask(app, "thanks")
        assert record(app) == [
            ("weather", "before_prompt_build", "prependContext", ""),
            ("weather", "before_prompt_build", "appendContext", ""),
        ]
    told = model.requests[0].messages[-1].text
    assert told.index('source="plugin weather">>>\nIt rains.') < told.index("umbrella?") < told.index("It is late.")
    assert [message.text for message in model.requests[1].messages] == ["umbrella?", "Take one.", "thanks"]
    assert [message.text for message in seen[1].messages] == ["umbrella?", "Take one."]
    assert written(openclaw_home)[0].text == "umbrella?"
    assert model.requests[0].system.stable == model.requests[1].system.stable


async def test_stable_guidance_stands_around_the_system_prompt_and_keeps_the_cache(
    openclaw_home: TemporaryHome,
) -> None:
    openclaw_home.use_model()
    model = ScriptedModel(says("a"), says("b"))
    async with openclaw_home.assistant(model) as app:
        plug(app, "before_prompt_build", always({"prependSystemContext": "House rule."}), "one", priority=1)
        plug(
            app,
            "before_prompt_build",
            always({"prependSystemContext": "Second.", "appendSystemContext": "Last."}),
            "two",
        )
        await ask(app, "hi")
        await ask(app, "again")
        report = await app.archive.latest_report("agent:main:main")
    stable = model.requests[0].system.stable
    assert stable.index("House rule.") < stable.index("Second.") < stable.index("## Safety") < stable.index("Last.")
    assert model.requests[1].system.stable == stable
    assert report is not None
    assert [(change.plugin, change.field) for change in report.changes] == [
        ("one", "prependSystemContext"),
        ("two", "prependSystemContext"),
        ("two", "appendSystemContext"),
    ]


async def test_a_replaced_prompt_keeps_safety_and_says_who_replaced_it(openclaw_home: TemporaryHome) -> None:
    openclaw_home.use_model()
    model = ScriptedModel(says("Arr."))
    async with openclaw_home.assistant(model) as app:
        plug(app, "before_prompt_build", always({"systemPrompt": "You are a parrot."}), "first", priority=5)
        plug(app, "before_prompt_build", always({"systemPrompt": "You are a pirate."}), "second")
        await ask(app, "hi")
        assert record(app) == [
            ("first", "before_prompt_build", "systemPrompt", ""),
            ("second", "before_prompt_build", "systemPrompt", ""),
        ]
        assert "tooling" in last(app).note
        assert last(app).before_chars == len("You are a parrot.")
    system = model.requests[0].system.text
    assert "You are a pirate." in system and "parrot" not in system
    assert "## Safety" in system and "## Tooling" not in system


async def test_without_leave_the_prompt_stays_and_the_wish_is_on_record(openclaw_home: TemporaryHome) -> None:
    openclaw_home.use_model()
    model = ScriptedModel(says("Hello."))
    async with openclaw_home.assistant(model) as app:
        plug(app, "before_prompt_build", always({"systemPrompt": "You are a pirate."}), settings=LISTENING)
        await ask(app, "hi")
        assert record(app) == [("p", "before_prompt_build", "systemPrompt", "allowPromptReplace is not granted")]
    assert "pirate" not in model.requests[0].system.text


async def test_a_plugin_narrows_the_tools_of_a_turn_and_cannot_widen_them(openclaw_home: TemporaryHome) -> None:
    openclaw_home.use_model(tools={"deny": ["exec"]})
    model = ScriptedModel(says("ok"))
    async with openclaw_home.assistant(model) as app:
        plug(app, "before_prompt_build", always({"toolsAllow": ["read", "write", "exec"]}), "a")
        plug(app, "before_prompt_build", always({"toolsAllow": ["read", "exec"]}), "b")
        await ask(app, "hi")
    assert [tool.name for tool in model.requests[0].tools] == ["read"]


async def test_a_plugin_with_leave_chooses_another_configured_model(openclaw_home: TemporaryHome) -> None:
    openclaw_home.use_model("one/small", "two/large")
    small, large = ScriptedModel(says("small")), ScriptedModel(says("large"))
    seen: list[BeforeModelResolve] = []

    def choose(event: BeforeModelResolve, context: HookContext) -> Any:
        seen.append(event)
        return {"modelOverride": "two/large"}

    async with openclaw_home.assistant({"one": small, "two": large}) as app:
        plug(app, "before_model_resolve", choose)
        plug(app, "before_model_resolve", always({"modelOverride": "one/small"}), "late", priority=-1)
        heard = await ask(app, "think hard")
        assert record(app) == [
            ("p", "before_model_resolve", "modelOverride", ""),
            ("late", "before_model_resolve", "modelOverride", "a plugin before it has chosen"),
        ]
    assert heard.text == "large"
    assert seen == [BeforeModelResolve(prompt="think hard")]


@pytest.mark.parametrize(
    ("answer", "settings", "word"),
    [
        ({"modelOverride": "two/large"}, LISTENING, "allowModelOverride is not granted"),
        ({"providerOverride": "evil.example"}, FREE, "evil.example"),
        ({"modelOverride": "openai/gpt-5"}, FREE, "openai"),
        ({"modelOverride": "http://evil.example/v1"}, FREE, "no provider"),
    ],
)
async def test_a_model_or_provider_that_is_not_configured_or_not_allowed_is_refused(
    openclaw_home: TemporaryHome, answer: Any, settings: HookSettings, word: str
) -> None:
    openclaw_home.use_model("one/small", "two/large")
    async with openclaw_home.assistant({"one": ScriptedModel(says("small")), "two": ScriptedModel()}) as app:
        plug(app, "before_model_resolve", always(answer), settings=settings)
        heard = await ask(app, "hi")
        ((_, _, _, refused),) = record(app)
    assert heard.text == "small"
    assert word in refused


async def test_a_provider_alone_means_the_same_model_elsewhere(openclaw_home: TemporaryHome) -> None:
    openclaw_home.use_model("one/m", "two/m")
    async with openclaw_home.assistant({"one": ScriptedModel(), "two": ScriptedModel(says("two"))}) as app:
        plug(app, "before_model_resolve", always({"providerOverride": "two"}))
        assert (await ask(app, "hi")).text == "two"
        assert (last(app).field, last(app).before_chars) == ("providerOverride", len("one/m"))


async def test_the_legacy_point_is_asked_in_both_phases_and_the_newer_one_has_the_last_word(
    openclaw_home: TemporaryHome,
) -> None:
    openclaw_home.use_model("one/small", "two/large")
    large = ScriptedModel(says("large"))
    phases: list[bool] = []

    def legacy(event: BeforeAgentStart, context: HookContext) -> Any:
        phases.append(event.messages is None)
        return {"modelOverride": "two/large", "systemPrompt": "Old.", "prependContext": "Legacy."}

    async with openclaw_home.assistant({"one": ScriptedModel(), "two": large}) as app:
        plug(app, "before_agent_start", legacy, "old")
        plug(app, "before_prompt_build", always({"systemPrompt": "New.", "prependContext": "Fresh."}), "new")
        await ask(app, "hi")
    assert phases == [True, False]
    request = large.requests[0]
    assert "New." in request.system.text and "Old." not in request.system.text
    assert request.messages[-1].text.index("Legacy.") < request.messages[-1].text.index("Fresh.")


async def test_a_plugin_takes_a_turn_and_no_model_is_asked(openclaw_home: TemporaryHome) -> None:
    openclaw_home.use_model()
    model = ScriptedModel(says("I am the model."))
    async with openclaw_home.assistant(model) as app:
        plug(
            app,
            "before_agent_reply",
            lambda event, context: {"handled": event.cleaned_body == "ping", "reply": "pong"},
            "pinger",
        )
        heard = await ask(app, "ping")
        assert (heard.text, heard.end.stop_reason) == ("pong", "stop")
        assert model.requests == []
        assert (await ask(app, "other")).text == "I am the model."
        assert record(app) == [("pinger", "before_agent_reply", "reply", "")]
    question, answer, *_ = written(openclaw_home)
    assert isinstance(answer, Assistant) and (answer.provider, answer.model) == ("plugin", "pinger")
    assert question.text == "ping"
    assert roles(model.requests[0].messages) == ["User", "Assistant", "User"]


async def test_a_call_that_a_guard_objects_to_is_not_made(openclaw_home: TemporaryHome) -> None:
    openclaw_home.use_model()
    model = ScriptedModel(calls("write", path="a.txt", content="x"), calls("read", path="b.txt"), says("ok"))
    (openclaw_home.workspace / "b.txt").write_text("there")
    after: list[AfterToolCall] = []
    async with openclaw_home.assistant(model) as app:
        plug(app, "before_tool_call", always({"block": True, "blockReason": "read only"}), "guard", tools=("write",))
        plug(app, "before_tool_call", always({"block": False}), "lax", priority=-1)
        plug(app, "after_tool_call", lambda event, context: after.append(event), "watch")
        heard = await ask(app, "go")
        assert record(app) == [("guard", "before_tool_call", "block", "")]
        assert last(app).note == "tool write"
    assert [result.text for result in heard.results] == ["Not run: the plugin guard objects: read only.", "there"]
    assert not (openclaw_home.workspace / "a.txt").exists()
    assert [(event.tool_name, event.error is None) for event in after] == [("write", False), ("read", True)]
    assert after[1].result == "there" and after[1].params == {"path": "b.txt"}


async def test_arguments_that_a_plugin_changed_are_the_ones_that_run(openclaw_home: TemporaryHome) -> None:
    openclaw_home.use_model()
    model = ScriptedModel(calls("write", path="a.txt", content="secret"), says("ok"))

    def mask(event: BeforeToolCall, context: HookContext) -> Any:
        return {"params": {**event.params, "content": "•••"}}

    async with openclaw_home.assistant(model) as app:
        plug(app, "before_tool_call", mask, "mask")
        heard = await ask(app, "go")
        assert record(app) == [("mask", "before_tool_call", "params", "")]
    assert (openclaw_home.workspace / "a.txt").read_text() == "•••"
    assert not heard.results[0].is_error


async def test_arguments_that_do_not_fit_are_not_run(openclaw_home: TemporaryHome) -> None:
    openclaw_home.use_model()
    model = ScriptedModel(calls("write", path="a.txt", content="x"), says("ok"))
    async with openclaw_home.assistant(model) as app:
        plug(app, "before_tool_call", always({"params": {"nonsense": 1}}))
        heard = await ask(app, "go")
    assert heard.results[0].is_error and "a plugin changed the arguments" in heard.results[0].text
    assert not (openclaw_home.workspace / "a.txt").exists()


async def test_policy_judges_what_a_plugin_made_of_a_command(openclaw_home: TemporaryHome) -> None:
    openclaw_home.use_model()
    approver = ScriptedApprover("deny")
    model = ScriptedModel(calls("exec", command="true"), says("ok"))
    async with openclaw_home.assistant(model, approver=approver) as app:
        plug(app, "before_tool_call", always({"params": {"command": "install /dev/null owned"}}))
        heard = await ask(app, "go")
    assert [request.command for request in approver.asked] == ["install /dev/null owned"]
    assert heard.results[0].is_error and not (openclaw_home.workspace / "owned").exists()


@pytest.mark.parametrize(("decision", "made"), [("allow-once", True), ("deny", False)])
async def test_a_plugin_can_ask_for_a_persons_approval(openclaw_home: TemporaryHome, decision: Any, made: bool) -> None:
    openclaw_home.use_model()
    approver = ScriptedApprover(decision)
    model = ScriptedModel(calls("write", path="a.txt", content="x"), says("ok"))
    async with openclaw_home.assistant(model, approver=approver) as app:
        plug(app, "before_tool_call", always({"requireApproval": {"title": "Really write?"}}), "careful")
        await ask(app, "go")
    assert approver.asked[0].why == "careful asks: Really write?"
    assert (openclaw_home.workspace / "a.txt").exists() is made


async def test_a_result_is_written_down_as_a_plugin_made_it_and_the_model_saw_the_real_one(
    openclaw_home: TemporaryHome,
) -> None:
    openclaw_home.use_model()
    (openclaw_home.workspace / "key.txt").write_text("hunter2")
    model = ScriptedModel(calls("read", path="key.txt"), says("got it"), says("later"))

    def mask(event: ToolResultPersist, context: HookContext) -> Any:
        assert not event.is_synthetic
        return {"message": {**_plain(event.message), "content": [{"type": "text", "text": "[removed]"}]}}

    async with openclaw_home.assistant(model) as app:
        plug(app, "tool_result_persist", mask, "mask")
        await ask(app, "read it")
        await ask(app, "and?")
        assert record(app) == [("mask", "tool_result_persist", "message", "")]
    assert [result.text for result in results(model.requests[1].messages)] == ["hunter2"]
    assert [result.text for result in results(model.requests[2].messages)] == ["[removed]"]
    (path,) = openclaw_home.transcripts()
    assert "hunter2" not in path.read_text()


def _plain(message: ToolResult) -> dict[str, Any]:
    import msgspec

    plain: dict[str, Any] = msgspec.to_builtins(message)
    return plain


async def test_the_end_of_a_run_and_the_start_of_a_session_are_told(openclaw_home: TemporaryHome) -> None:
    openclaw_home.use_model()
    told: list[tuple[Any, HookContext]] = []
    async with openclaw_home.assistant(ScriptedModel(says("one"), says("two"))) as app:
        for hook in ("session_start", "agent_end"):
            plug(app, hook, lambda event, context: told.append((event, context)))
        await ask(app, "first")
        await ask(app, "second")
    events = [event for event, _ in told]
    assert [type(event) for event in events] == [SessionStart, AgentEnd, AgentEnd]
    assert [message.text for message in events[-1].messages] == ["first", "one", "second", "two"]
    assert events[-1].success and events[-1].error is None
    assert told[0][1].session_id == events[0].session_id
    assert told[1][1].run_id == events[1].run_id


async def test_a_run_that_fails_is_told_as_failed(openclaw_home: TemporaryHome) -> None:
    openclaw_home.use_model()
    told: list[AgentEnd] = []
    async with openclaw_home.assistant(ScriptedModel()) as app:
        plug(app, "agent_end", lambda event, context: told.append(event))
        heard = await ask(app, "hi")
    assert heard.end.error
    assert [(event.success, bool(event.error)) for event in told] == [(False, True)]


async def test_a_plugin_that_fails_everywhere_stops_nothing_but_what_it_guards(openclaw_home: TemporaryHome) -> None:
    openclaw_home.use_model()
    model = ScriptedModel(calls("read", path="x"), says("still here"))

    def breaks(event: Any, context: HookContext) -> Any:
        raise RuntimeError("boom")

    hooks: tuple[HookName, ...] = (
        "before_model_resolve",
        "before_prompt_build",
        "before_agent_start",
        "before_agent_reply",
        "agent_end",
        "before_tool_call",
        "after_tool_call",
        "tool_result_persist",
        "session_start",
    )
    async with openclaw_home.assistant(model) as app:
        for hook in hooks:
            plug(app, hook, breaks, "broken")
        heard = await ask(app, "go")
        assert record(app) == [("broken", "before_tool_call", "block", "")]
    assert heard.text == "still here"
    assert "broken could not decide: RuntimeError: boom" in heard.results[0].text


async def test_a_message_with_a_picture_keeps_it_when_a_plugin_adds_text(openclaw_home: TemporaryHome) -> None:
    from tests.gateway.test_turns import PIXEL

    openclaw_home.use_model()
    model = ScriptedModel(says("a pixel"))
    async with openclaw_home.assistant(model) as app:
        plug(app, "before_prompt_build", always({"prependContext": "Context."}))
        await ask(app, "what is this?", images=(PIXEL,))
    (sent,) = [message for message in model.requests[0].messages if isinstance(message, User)]
    assert PIXEL in sent.content
    assert isinstance(sent.content[0], Text) and "Context." in sent.content[0].text


async def test_nothing_is_on_record_when_nothing_was_changed(openclaw_home: TemporaryHome) -> None:
    openclaw_home.use_model()
    async with openclaw_home.assistant(ScriptedModel(says("hi"))) as app:
        plug(app, "before_prompt_build", always(None))
        plug(app, "before_tool_call", always({}))
        await ask(app, "hi")
        assert record(app) == []
    assert not (openclaw_home.state / "audit" / "head.json").exists()


async def test_a_guard_that_hangs_does_not_hold_up_the_other_calls_of_a_reply(openclaw_home: TemporaryHome) -> None:
    openclaw_home.use_model()
    (openclaw_home.workspace / "b.txt").write_text("there")
    model = ScriptedModel([calls("write", path="a.txt", content="x"), calls("read", path="b.txt")], says("ok"))

    async def hangs(event: Any, context: HookContext) -> None:
        await asyncio.Event().wait()

    from openclaw.testing import FakeClock

    clock = FakeClock()
    async with openclaw_home.assistant(model, clock=clock) as app:
        plug(app, "before_tool_call", hangs, "slow", tools=("write",))
        heard = await clock.drive(ask(app, "go"))
    by_name = {result.tool_name: result.text for result in heard.results}
    assert by_name["read"] == "there"
    assert "slow could not decide: it took longer than 15 s" in by_name["write"]
