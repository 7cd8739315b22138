"""Who is told, in which order, and what happens to one that fails."""

import logging

import pytest

from openclaw.plugins.hooks.events import BootstrapContext, BootstrapFile, HookEvent, HookFileAnswer
from openclaw.plugins.hooks.files import HookFileDispatcher, HookListener
from openclaw.plugins.hooks.manifest import HookDirectory, HookManifest
from openclaw.plugins.hooks.runner import HandlerFailed
from tests.plugins.hook_files.support import bootstrap_event, command_event

pytestmark = pytest.mark.anyio


class Someone:
    """A listener that remembers what it was told."""

    def __init__(self, name: str, *events: str, workspace: str = "") -> None:
        self.heard: list[HookEvent] = []
        self.fails = False
        self.objection = ""
        self.answer = HookFileAnswer(messages=(name,))
        hook = HookDirectory(
            manifest=HookManifest(name=name, events=events),
            source="openclaw-managed",
            directory="/",
            workspace=workspace,
        )
        self.listener = HookListener(hook=hook, handle=self._handle, objection=lambda: self.objection)

    async def _handle(self, event: HookEvent) -> HookFileAnswer:
        self.heard.append(event)
        if self.fails:
            raise HandlerFailed("it broke")
        return self.answer


def among(*people: Someone) -> HookFileDispatcher:
    return HookFileDispatcher([each.listener for each in people], {"main": "/main", "work": "/work"})


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
    assert answer.bootstrap_files == (changed,)


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
