"""Who is told, in which order, and what happens to one that fails."""

import logging

import pytest

from openclaw.core.hooks import HookContext
from openclaw.plugins.hooks.dispatch import MOST_WAITING, HookDispatcher
from openclaw.plugins.hooks.events import BootstrapContext, BootstrapFile, HookEvent, HookFileAnswer
from openclaw.plugins.hooks.files import HookFileHandler, HookFileMerged, event_point, registrations
from openclaw.plugins.hooks.manifest import HookDirectory, HookManifest
from openclaw.plugins.hooks.runner import HandlerFailed
from openclaw.testing import FakeClock
from tests.plugins.hook_files.support import bootstrap_event, command_event

pytestmark = pytest.mark.anyio


class Someone:
    """A listener that remembers what it was told."""

    def __init__(self, name: str, *events: str, workspace: str = "") -> None:
        self.heard: list[HookEvent] = []
        self.fails = False
        self.objection = ""
        self.answer = HookFileAnswer(messages=(name,))
        self.hook = HookDirectory(
            manifest=HookManifest(name=name, events=events),
            source="openclaw-managed",
            directory="/",
            workspace=workspace,
        )
        self.handler = HookFileHandler(name, self._handle, lambda: self.objection)

    async def _handle(self, event: HookEvent) -> HookFileAnswer:
        self.heard.append(event)
        if self.fails:
            raise HandlerFailed("it broke")
        return self.answer


class Hooks:
    """A dispatcher with some hooks, and the workspaces of two agents."""

    def __init__(self, *people: Someone) -> None:
        self.dispatcher = HookDispatcher(FakeClock())
        for each in people:
            for registration in registrations(each.hook, each.handler):
                assert not self.dispatcher.add(registration)

    def context(self, event: HookEvent) -> HookContext:
        return HookContext(agent_id=event.agent_id, workspace_dir=f"/{event.agent_id}")

    async def fire(self, event: HookEvent) -> HookFileMerged:
        return await self.dispatcher.ask(event_point(event), event, self.context(event))

    async def tell(self, *events: HookEvent) -> None:
        for event in events:
            self.dispatcher.tell(event.name, event, self.context(event))
        await self.dispatcher.drain()


def among(*people: Someone) -> Hooks:
    return Hooks(*people)


async def test_those_of_the_family_come_first_then_those_who_named_it() -> None:
    people = [Someone("exact", "command:new"), Someone("family", "command"), Someone("other", "command:stop", "agent")]
    assert (await among(*people).fire(command_event())).messages == ("family", "exact")


async def test_a_workspaces_hook_hears_of_its_own_agents() -> None:
    mine, theirs = Someone("mine", "command", workspace="/main"), Someone("theirs", "command", workspace="/work")
    dispatcher = among(mine, theirs)
    assert (await dispatcher.fire(command_event())).messages == ("mine",)
    assert (await dispatcher.fire(command_event(agent="work"))).messages == ("theirs",)


async def test_each_sees_what_the_one_before_has_changed() -> None:
    first, second = Someone("first", "agent:bootstrap"), Someone("second", "agent:bootstrap")
    changed = BootstrapFile(name="A.md", path="/A.md", content="changed")
    first.answer = HookFileAnswer(bootstrap_files=(changed,))
    second.answer = HookFileAnswer()
    answer = await among(first, second).fire(bootstrap_event(BootstrapFile(name="A.md", path="/A.md", content="was")))
    context = second.heard[0].context
    assert isinstance(context, BootstrapContext) and context.bootstrap_files == (changed,)
    assert answer.replaced == (("first", (changed,)),)


async def test_one_that_fails_is_told_in_one_line_and_the_others_go_on(caplog: pytest.LogCaptureFixture) -> None:
    bad, good = Someone("bad", "command"), Someone("good", "command")
    bad.fails = True
    with caplog.at_level(logging.WARNING):
        answer = await among(bad, good).fire(command_event())
    assert answer.messages == ("good",)
    assert [record.message for record in caplog.records] == ["the hook bad failed on command:new: it broke"]


async def test_one_that_fails_three_times_rests_until_it_changes(caplog: pytest.LogCaptureFixture) -> None:
    bad = Someone("bad", "command")
    bad.fails = True
    dispatcher = among(bad)
    for _ in range(6):
        await dispatcher.fire(command_event())
    assert len(bad.heard) == 3
    assert sum("held back" in record.message for record in caplog.records) == 1
    bad.objection = "its files changed"
    await dispatcher.fire(command_event())
    bad.objection, bad.fails = "", False
    assert (await dispatcher.fire(command_event())).messages == ("bad",)


async def test_one_that_nobody_vouches_for_is_not_run() -> None:
    someone = Someone("new", "command")
    someone.objection = "nobody has accepted it yet"
    assert (await among(someone).fire(command_event())).messages == ()
    assert someone.heard == []


async def test_one_who_named_the_event_and_its_family_is_told_once() -> None:
    both, family = Someone("both", "command", "command:new"), Someone("family", "command")
    assert (await among(both, family).fire(command_event())).messages == ("family", "both")


async def test_one_is_told_of_one_thing_after_another() -> None:
    someone = Someone("slow", "command")
    await among(someone).tell(*(command_event(action) for action in ("new", "stop", "reset")))
    assert [event.action for event in someone.heard] == ["new", "stop", "reset"]


async def test_what_a_slow_one_cannot_take_is_dropped_and_said(caplog: pytest.LogCaptureFixture) -> None:
    someone = Someone("slow", "command")
    await among(someone).tell(*(command_event() for _ in range(MOST_WAITING + 3)))
    assert len(someone.heard) == MOST_WAITING
    assert {record.message for record in caplog.records} == {"hook:slow is too slow: it is not told of command:new"}


async def test_nothing_waits_after_it_was_dropped() -> None:
    someone = Someone("late", "command")
    hooks = among(someone)
    hooks.dispatcher.tell("command:new", command_event(), HookContext())
    hooks.dispatcher.drop_waiting()
    await hooks.dispatcher.drain()
    await hooks.dispatcher.close()
    assert someone.heard == []
    await hooks.tell(command_event())
    assert len(someone.heard) == 1
