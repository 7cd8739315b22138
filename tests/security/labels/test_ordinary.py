"""150 ordinary tasks: how often the owner is asked, under the usual policies."""

import pytest

from openclaw.testing import TemporaryHome
from tests.security.labels.errands_held_out import HELD_OUT
from tests.security.labels.errands_tuned import TUNED
from tests.security.labels.ordinary import PLANS, Plan, do_all

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("plan", PLANS, ids=lambda plan: plan.name)
async def test_ordinary_tasks_ask_little(openclaw_home: TemporaryHome, plan: Plan, capsys) -> None:
    assert len(TUNED) >= 75 and len(HELD_OUT) >= 75
    done = await do_all(openclaw_home, plan)
    with capsys.disabled():
        print(f"\n{done}")
    assert not done.failed, done.failed
    assert not done.over, "\n".join([done.over, *done.tuned.asked, *done.tuned.asked_outside])
