"""Turns of Codex against a server from a script: what a recording cannot show."""

import json

import pytest

from openclaw.testing import ScriptedModel, ask, calls, says
from tests.harnesses.runtimes import Runtimes
from tests.runs.subagents.house import Cast, house

pytestmark = pytest.mark.anyio


async def test_what_agents_of_codex_use_is_counted_though_they_are_switched_off(openclaw_home):
    here = Runtimes(openclaw_home)
    async with here.home.assistant(here.model) as app:
        await here.choose(app, "codex")
        heard = await ask(app, "delegate")
        again = await ask(app, "speak")
    assert (heard.text, heard.end.usage.total_tokens) == ("delegated", 340 + 120)
    assert again.end.usage.total_tokens == 120


async def test_an_earlier_program_does_not_open_the_thread_of_a_later_one(openclaw_home):
    here = Runtimes(openclaw_home)
    async with here.home.assistant(here.model) as app:
        await here.choose(app, "codex")
        await ask(app, "speak of apples")
    (here.place / "version").write_text("0.150.1")
    async with here.home.assistant(here.model) as app:
        assert "apples" in (await ask(app, "recall")).text
    assert len(json.loads((here.place / "threads.json").read_text())) == 2


async def test_a_sub_agent_is_carried_out_by_codex(openclaw_home):
    here = Runtimes(openclaw_home)
    starter = ScriptedModel(calls("sessions_spawn", task="speak", runtime="codex"), says("Started."), says("Heard."))
    async with house(openclaw_home, Cast(please=starter)) as it:
        await it.say("r1", "please")
        await it.until(lambda: starter.left == 0)
        (result,) = await it.results("sessions_spawn")
        child = json.loads(result.text)["childSessionKey"]
        row = await it.sessions.row(it.sessions.key(child))
        assert row is not None and row["agentRuntime"] == {"id": "codex", "source": "session"}
        assert [each.text for each in await it.messages(child)][-1] == "spoken"
        (record,) = it.roster.all()
    assert record.tokens == 120
    assert starter.saw("<prompt-data>\nspoken\n</prompt-data>")
    assert (here.place / "threads.json").exists()
