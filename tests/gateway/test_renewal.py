"""A conversation that starts over by itself."""

import pytest

from openclaw.core.keys import parse_session_key
from openclaw.runs.request import RunRequest, SessionRenewed
from openclaw.testing import FakeClock, ScriptedModel, TemporaryHome, says
from tests.gateway.chaos.support import hall

KEY = parse_session_key("agent:main:main")


async def turn(place, run_id: str, text: str, **more) -> None:
    await place.runs.submit(RunRequest(run_id=run_id, key=KEY, text=text, **more))
    outcome = await place.runs.wait(run_id, 20)
    assert outcome is not None and outcome.status == "ok", outcome


@pytest.mark.anyio
async def test_a_silence_ends_a_conversation_and_its_choices_stay(
    openclaw_home: TemporaryHome, scripted_model: ScriptedModel, fake_clock: FakeClock
) -> None:
    scripted_model.script(*(says(f"answer {number}") for number in range(4)))
    rules = {"reset": {"mode": "idle", "idleMinutes": 30}}
    async with hall(openclaw_home, scripted_model, clock=fake_clock, sections={"session": rules}) as place:
        app = place.app
        await turn(place, "r1", "first")
        await app.lifecycle.prefer(KEY, {"thinking_level": "low"})
        first = await app.index.resolve(KEY)
        await fake_clock.advance(20 * 60)
        # A job of the machine is no word of a person: it does not keep the conversation young.
        await turn(place, "r2", "tick", trigger="cron")
        await fake_clock.advance(20 * 60)
        await turn(place, "r3", "second", trigger="heartbeat")
        assert (await app.index.resolve(KEY)).session_id == first.session_id
        await turn(place, "r4", "third")
        after = await app.index.resolve(KEY)
        assert after.session_id != first.session_id
        told = [event.event for event in place.events if isinstance(event.event, SessionRenewed)]
        assert [(each.before.session_id, each.after.session_id, each.why) for each in told] == [
            (first.session_id, after.session_id, "idle")
        ]
        assert (await app.lifecycle.preferences(KEY)).thinking_level == "low"
        assert not any("first" in message.text for message in scripted_model.requests[-1].messages)
        aside = list((openclaw_home.state / "agents" / "main" / "sessions").glob(f"{first.session_id}.jsonl.reset.*"))
        assert len(aside) == 1
        place.assert_free()
