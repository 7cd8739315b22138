"""A run that deletes or sends in bulk waits for the owner, whoever asked for it."""

import pytest

from openclaw.testing import TemporaryHome
from tests.security.labels.world import GROUPED, Owner, world

pytestmark = pytest.mark.anyio

LIMITS = {"breaker": {"deletesPerMinute": 3, "sendsPerMinute": 2}}


async def test_the_fourth_deletion_of_a_minute_is_a_question(openclaw_home: TemporaryHome) -> None:
    async with world(openclaw_home, security=LIMITS) as it:
        for number in range(6):
            it.put(f"old/{number}", "x")
        for number in range(4):
            await it.says(f"delete the file `old/{number}`", f"s{number}")
        (asked,) = it.owner.asked
        assert "4 deletes within a minute are more than 3" in asked.why
        assert [(it.workspace / f"old/{number}").exists() for number in range(4)] == [False, False, False, True]


async def test_one_command_that_deletes_many_is_a_question_too(openclaw_home: TemporaryHome) -> None:
    async with world(openclaw_home, security=LIMITS) as it:
        await it.says("run `rm -f a; rm -f b; rm -f c; rm -f d`")
        assert "4 deletes" in it.owner.asked[0].why


async def test_a_yes_begins_a_new_count(openclaw_home: TemporaryHome) -> None:
    async with world(openclaw_home, owner=Owner("allow-once"), security=LIMITS) as it:
        for number in range(7):
            it.put(f"old/{number}", "x")
            await it.says(f"delete the file `old/{number}`", f"s{number}")
        assert len(it.owner.asked) == 2 and not list((it.workspace / "old").iterdir())


async def test_messages_to_others_are_counted(openclaw_home: TemporaryHome) -> None:
    async with world(openclaw_home, security=LIMITS) as it:
        for number in range(3):
            await it.says(f"send `hello {number}` to `{GROUPED}`", f"s{number}")
        (asked,) = it.owner.asked
        assert "3 messages and requests with words of its own within a minute are more than 2" in asked.why
