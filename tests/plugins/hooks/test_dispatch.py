"""Handlers are asked in order, each within its time; whoever fails is named and the others go on."""

import asyncio
import logging
import sys
from typing import Any

import msgspec
import pytest

from openclaw.core.hook_points import POINTS
from openclaw.core.hooks import (
    AfterToolCall,
    AgentEnd,
    BeforeAgentReply,
    BeforeInstall,
    BeforeModelResolve,
    BeforeToolCall,
    GatewayStart,
    HookContext,
    HookName,
    MessageSending,
    ReplyClaim,
    SendingVerdict,
    ToolResultPersist,
    ToolVerdict,
)
from openclaw.core.messages import Text, ToolResult
from openclaw.plugins.hooks import points
from openclaw.plugins.hooks.dispatch import HookDispatcher
from openclaw.plugins.hooks.points import HookRegistration
from openclaw.plugins.settings import HookSettings
from openclaw.testing import FakeClock

pytestmark = pytest.mark.anyio

HERE = HookContext(session_key="agent:main:main")
CALL = BeforeToolCall(tool_name="exec", params={"command": "ls"})
MESSAGE = MessageSending(to="webchat", content="hi")


def listening(*handlers: HookRegistration, clock: FakeClock | None = None) -> HookDispatcher:
    hooks = HookDispatcher(clock or FakeClock())
    for each in handlers:
        assert hooks.add(each) == ""
    return hooks


def at(hook: HookName, handler: Any, plugin: str = "p", **more: Any) -> HookRegistration:
    return HookRegistration(plugin=plugin, hook=hook, handler=handler, bundled=True, **more)


async def test_higher_priority_is_asked_first_and_equals_in_the_order_they_came() -> None:
    asked: list[str] = []

    def handler(name: str) -> Any:
        async def answer(event: Any, context: HookContext) -> None:
            asked.append(name)

        return answer

    hooks = listening(
        at("before_tool_call", handler("low"), "a", priority=-1),
        at("before_tool_call", handler("first"), "b"),
        at("before_tool_call", handler("second"), "c"),
        at("before_tool_call", handler("high"), "d", priority=9),
    )
    await hooks.ask(points.TOOL, CALL, HERE)
    assert asked == ["high", "first", "second", "low"]


async def test_a_block_keeps_the_others_from_being_asked() -> None:
    asked: list[str] = []
    hooks = listening(
        at("before_tool_call", lambda event, context: {"block": True, "blockReason": "never"}, "guard", priority=1),
        at("before_tool_call", lambda event, context: asked.append("late"), "late"),
    )
    merged = await hooks.ask(points.TOOL, CALL, HERE)
    assert merged.blocked is not None and merged.blocked.text == "never"
    assert asked == []


async def test_each_handler_sees_what_the_one_before_it_changed() -> None:
    seen: list[str] = []

    async def louder(event: MessageSending, context: HookContext) -> SendingVerdict:
        seen.append(event.content)
        return SendingVerdict(content=event.content.upper() + "!")

    hooks = listening(at("message_sending", louder, "a"), at("message_sending", louder, "b"))
    assert (await hooks.ask(points.SENDING, MESSAGE, HERE)).content == "HI!!"
    assert seen == ["hi", "HI!"]


async def test_a_claim_ends_the_asking_and_false_does_not() -> None:
    hooks = listening(
        at("before_agent_reply", lambda event, context: ReplyClaim(handled=False), "shy"),
        at("before_agent_reply", lambda event, context: {"handled": True, "reply": "mine"}, "quick"),
        at("before_agent_reply", lambda event, context: sys.exit(3), "never asked"),
    )
    merged = await hooks.ask(points.REPLY, BeforeAgentReply(cleaned_body="hi"), HERE)
    assert (merged.plugin, merged.reply) == ("quick", "mine")


def raises(event: Any, context: HookContext) -> None:
    raise KeyError("oops\nforged line")


def leaves(event: Any, context: HookContext) -> None:
    sys.exit(7)


def nonsense(event: Any, context: HookContext) -> Any:
    return {"blok": True}


def no_mapping(event: Any, context: HookContext) -> Any:
    return 7


@pytest.mark.parametrize("broken", [raises, leaves, nonsense, no_mapping])
async def test_one_that_fails_is_passed_over_and_named(broken: Any, caplog: pytest.LogCaptureFixture) -> None:
    hooks = listening(
        at("message_sending", broken, "broken", priority=1),
        at("message_sending", lambda event, context: {"content": "after"}, "fine"),
    )
    with caplog.at_level(logging.WARNING):
        assert (await hooks.ask(points.SENDING, MESSAGE, HERE)).content == "after"
    (line,) = [record.getMessage() for record in caplog.records]
    assert line.startswith("plugin broken: its handler of message_sending was passed over: ")
    assert "\n" not in line


@pytest.mark.parametrize("broken", [raises, leaves, nonsense])
async def test_a_guard_that_fails_objects(broken: Any, caplog: pytest.LogCaptureFixture) -> None:
    hooks = listening(at("before_tool_call", broken, "guard"), at("before_install", broken, "guard"))
    with caplog.at_level(logging.WARNING):
        merged = await hooks.ask(points.TOOL, CALL, HERE)
        event = BeforeInstall(target_type="skill", target_name="s", source_path="/s", spec="s", tree_sha256="0")
        stopped = await hooks.ask(points.INSTALL, event, HERE)
    assert merged.blocked is not None and merged.blocked.text.startswith("guard could not decide: ")
    assert stopped.blocked is not None
    assert "counted as an objection" in caplog.text


async def test_a_handler_that_hangs_is_left_after_its_time_and_cancelled() -> None:
    clock, ended = FakeClock(), asyncio.Event()

    async def hangs(event: Any, context: HookContext) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    hooks = listening(at("message_sending", hangs, "slow"), clock=clock)
    asking = asyncio.create_task(hooks.ask(points.SENDING, MESSAGE, HERE))
    await clock.advance(POINTS["message_sending"].seconds - 1)
    assert not asking.done()
    await clock.advance(1)
    assert (await asking).content == "hi"
    async with asyncio.timeout(120):
        await ended.wait()


async def test_a_guard_that_hangs_objects_and_one_that_will_not_be_cancelled_holds_nobody_up() -> None:
    clock, let_go = FakeClock(), asyncio.Event()

    async def stubborn(event: Any, context: HookContext) -> None:
        while not let_go.is_set():
            try:
                await let_go.wait()
            except asyncio.CancelledError:
                continue

    hooks = listening(at("before_tool_call", stubborn, "guard"), clock=clock)
    merged = await clock.drive(hooks.ask(points.TOOL, CALL, HERE))
    assert merged.blocked is not None and "longer than 15 s" in merged.blocked.text
    let_go.set()
    await hooks.close()


@pytest.mark.parametrize(
    ("settings", "seconds"),
    [
        (HookSettings(), 15.0),
        (HookSettings(timeout_ms=2_000), 2.0),
        (HookSettings(timeout_ms=2_000, timeouts={"before_tool_call": 500}), 0.5),
        (HookSettings(timeouts={"agent_end": 500}), 15.0),
    ],
)
def test_the_operator_sets_how_long_a_handler_may_take(settings: HookSettings, seconds: float) -> None:
    assert at("before_tool_call", raises, settings=settings).seconds == seconds


async def test_observers_run_side_by_side_and_nobody_waits_for_them() -> None:
    met = asyncio.Barrier(2)
    told: list[str] = []

    def handler(name: str) -> Any:
        async def meets(event: AgentEnd, context: HookContext) -> None:
            await met.wait()
            told.append(name)

        return meets

    hooks = listening(at("agent_end", handler("a")), at("agent_end", raises, "broken"), at("agent_end", handler("b")))
    hooks.tell("agent_end", AgentEnd(run_id="r", messages=(), success=True), HERE)
    assert told == []
    await hooks.close(30)
    assert sorted(told) == ["a", "b"]


async def test_told_waits_for_every_observer() -> None:
    told: list[int] = []

    async def notes(event: GatewayStart, context: HookContext) -> None:
        await asyncio.sleep(0)
        told.append(event.port)

    hooks = listening(at("gateway_start", notes), at("gateway_start", notes, "q"))
    await hooks.told("gateway_start", GatewayStart(port=1), HERE)
    assert told == [1, 1]


async def test_what_still_runs_at_the_end_is_ended() -> None:
    ended = asyncio.Event()

    async def hangs(event: Any, context: HookContext) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    hooks = listening(at("agent_end", hangs))
    hooks.tell("agent_end", AgentEnd(run_id="r", messages=(), success=True), HERE)
    await hooks.close(0.01)
    assert ended.is_set()


async def test_a_result_is_changed_by_plain_functions_one_after_the_other() -> None:
    def masked(event: ToolResultPersist, context: HookContext) -> Any:
        text = event.message.text.replace("hunter2", "•••")
        return {"message": msgspec.to_builtins(msgspec.structs.replace(event.message, content=(Text(text),)))}

    hooks = listening(at("tool_result_persist", raises, "broken"), at("tool_result_persist", masked, "mask"))
    message = ToolResult(tool_call_id="c", tool_name="read", content=(Text("it is hunter2"),))
    event = ToolResultPersist(tool_name="read", tool_call_id="c", message=message)
    assert hooks.ask_now(points.RESULT, event, HERE).message.text == "it is •••"


async def test_a_handler_may_listen_to_some_tools_or_some_kinds_of_turn_only() -> None:
    asked: list[str] = []
    hooks = listening(
        at("before_tool_call", lambda event, context: asked.append("exec"), tools=("exec", "web_*")),
        at("after_tool_call", lambda event, context: asked.append("after"), tools=("read",)),
        at("before_tool_call", lambda event, context: asked.append("cron"), triggers=("cron",)),
    )
    for name in ("exec", "web_fetch", "read"):
        await hooks.ask(points.TOOL, BeforeToolCall(tool_name=name, params={}), HERE)
        await hooks.told("after_tool_call", AfterToolCall(tool_name=name, params={}), HERE)
    assert asked == ["exec", "exec", "after"]
    await hooks.ask(points.TOOL, BeforeToolCall(tool_name="read", params={}), HookContext(trigger="cron"))
    assert asked[-1] == "cron"


async def test_a_plugin_that_is_taken_out_is_not_asked_any_more() -> None:
    hooks = listening(at("message_sending", lambda event, context: {"cancel": True}, "p"))
    assert hooks.has("message_sending")
    hooks.remove("p")
    assert not hooks.has("message_sending")
    assert (await hooks.ask(points.SENDING, MESSAGE, HERE)).cancelled is None


async def coroutine(event: Any, context: HookContext) -> None: ...


@pytest.mark.parametrize(
    ("hook", "settings", "bundled", "handler", "word"),
    [
        *(
            (name, HookSettings(), False, coroutine, "allowConversationAccess")
            for name in POINTS
            if POINTS[name].conversation
        ),
        *((name, HookSettings(), False, raises, "") for name in POINTS if not POINTS[name].conversation),
        ("agent_end", HookSettings(), True, coroutine, ""),
        ("agent_end", HookSettings(allow_conversation_access=True), False, coroutine, ""),
        ("before_prompt_build", HookSettings(allow_prompt_injection=False), True, coroutine, "allowPromptInjection"),
        ("tool_result_persist", HookSettings(), True, coroutine, "plain function"),
    ],
)
def test_who_may_listen_where(hook: HookName, settings: HookSettings, bundled: bool, handler: Any, word: str) -> None:
    hooks = HookDispatcher(FakeClock())
    why = hooks.add(HookRegistration(plugin="p", hook=hook, handler=handler, settings=settings, bundled=bundled))
    assert (word in why) if word else why == ""
    assert hooks.has(hook) is not bool(word)


@pytest.mark.parametrize("name", POINTS)
def test_what_a_point_tells_can_cross_a_pipe(name: HookName) -> None:
    """Events and answers are built from their types alone, so another process can read and write them."""
    point = POINTS[name]
    assert msgspec.json.schema(point.event)
    if point.answer is not None:
        assert msgspec.json.decode(b"{}", type=point.answer) == point.answer()
        with pytest.raises(msgspec.ValidationError):
            msgspec.json.decode(b'{"nonsense": 1}', type=point.answer)


@pytest.mark.parametrize("name", POINTS)
def test_authors_of_plugins_can_import_the_types_of_every_point(name: HookName) -> None:
    import openclaw.plugin

    for kind in (POINTS[name].event, POINTS[name].answer):
        assert kind is None or getattr(openclaw.plugin, kind.__name__) is kind


async def test_nobody_listening_costs_nothing_and_changes_nothing() -> None:
    hooks = HookDispatcher(FakeClock())
    assert not any(hooks.has(name) for name in POINTS)
    assert (await hooks.ask(points.TOOL, CALL, HERE)).params is CALL.params
    assert (await hooks.ask(points.MODEL, BeforeModelResolve(prompt=""), HERE)).model is None
    hooks.tell("gateway_start", GatewayStart(port=1), HERE)
    await hooks.close()


def test_an_approval_and_its_answer_are_plain_data() -> None:
    verdict = msgspec.convert({"requireApproval": {"title": "Delete?", "severity": "critical"}}, ToolVerdict)
    assert verdict.require_approval is not None and verdict.require_approval.severity == "critical"
