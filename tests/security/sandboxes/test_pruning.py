"""Boxes that nobody uses any more are emptied by themselves; what was made in them stays."""

import os
import shutil
from pathlib import Path

import pytest

from openclaw.automation.cron.service import prune_sandboxes
from openclaw.core.tool import ToolContext
from openclaw.gateway.app import App
from openclaw.gateway.services import build_services
from openclaw.process.tasks import SystemClock
from openclaw.security.sandboxes.policy import PruneRules, merge_prune_rules, prune_reason, resolve
from openclaw.security.settings import HOUR, PruneSettings, SandboxSettings
from openclaw.testing import ScriptedModel, TemporaryHome
from tests.runs.subagents.house import Cast, house
from tests.security.sandboxes.test_sessions import configure, said

needs_bwrap = pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap (bwrap) is not installed")

DAY = 24 * HOUR
NOW = 100 * DAY


@pytest.mark.parametrize(
    ("made", "used", "limits", "goes"),
    [
        (3 * HOUR, 2 * HOUR, PruneRules(), False),
        (25 * HOUR, 24 * HOUR, PruneRules(), True),
        (6 * DAY, HOUR, PruneRules(), False),
        (7 * DAY, HOUR, PruneRules(), True),
        (90 * DAY, HOUR / 2, PruneRules(), False),
        (90 * DAY, 90 * DAY, PruneRules(idle=0, age=0), False),
        (90 * DAY, 2 * HOUR, PruneRules(idle=0), True),
        (90 * DAY, 25 * HOUR, PruneRules(age=0), True),
    ],
)
def test_a_box_goes_when_it_is_idle_or_old_and_never_while_it_is_used(made, used, limits, goes):
    assert bool(prune_reason(NOW - made, NOW - used, NOW, limits)) is goes


def test_an_agents_own_limits_come_before_the_shared_ones():
    shared = SandboxSettings(prune=PruneSettings(idle_hours=2, max_age_days=3))
    assert resolve(SandboxSettings(), None).prune == PruneRules(idle=24 * HOUR, age=7 * DAY)
    assert resolve(shared, None).prune == PruneRules(idle=2 * HOUR, age=3 * DAY)
    assert resolve(shared, SandboxSettings(prune=PruneSettings(idle_hours=0))).prune == PruneRules(idle=0, age=3 * DAY)
    assert merge_prune_rules(PruneRules(idle=1, age=0), PruneRules(idle=5, age=9)) == PruneRules(idle=5, age=0)


def aged(box: Path, hours: float) -> None:
    """As if the box had been left so long ago."""
    then = SystemClock().now() - hours * HOUR
    for name in ("made", "used"):
        os.utime(box / name, (then, then))


async def sweep(app: App) -> None:
    await prune_sandboxes(build_services(app).automation.scheduler.context)


async def swept(home: TemporaryHome) -> None:
    async with house(home, Cast(please=ScriptedModel())) as here:
        await sweep(here.app)


@pytest.mark.anyio
@needs_bwrap
async def test_what_a_box_kept_goes_and_what_was_made_in_it_stays(openclaw_home: TemporaryHome) -> None:
    exec_freely = {"exec": {"security": "full", "ask": "off"}}
    configure(openclaw_home, {"mode": "all", "scope": "session"}, tools=exec_freely)
    await said(openclaw_home, "echo x > ~/a; echo x > /tmp/b; echo x > /workspace/c")
    await said(openclaw_home, "echo x > ~/a", key="empty")
    root = openclaw_home.state / "sandboxes"
    full, empty = sorted(root.iterdir(), key=lambda place: not (place / "workspace" / "c").exists())
    await swept(openclaw_home)
    assert (full / "home" / "a").exists()
    aged(full, 25)
    aged(empty, 25)
    await swept(openclaw_home)
    assert not empty.exists()
    assert (full / "workspace" / "c").read_text() == "x\n"
    assert sorted(place.name for place in full.iterdir()) == ["etc", "workspace"]
    again = await said(openclaw_home, "ls ~ /workspace")
    assert "c" in again[-2]
    assert (full / "home").is_dir()


@pytest.mark.anyio
@needs_bwrap
async def test_a_box_in_which_something_runs_is_left_alone(openclaw_home: TemporaryHome) -> None:
    configure(openclaw_home, {"mode": "all"}, tools={"exec": {"security": "full", "ask": "off"}})
    async with house(openclaw_home, Cast(please=ScriptedModel())) as here:
        key = here.sessions.key("main")
        tools = {tool.spec.name: tool for tool in here.toolset.of(key=key)}
        context = ToolContext(call_id="1", workspace=openclaw_home.workspace, session_key=str(key))
        started = await tools["exec"].call({"command": "touch ~/a; sleep 600", "background": True}, context)
        (box,) = (openclaw_home.state / "sandboxes").iterdir()
        aged(box, 25)
        await sweep(here.app)
        assert (box / "home").is_dir()
        name = (started.details or {})["sessionId"]
        await tools["process"].call({"action": "kill", "sessionId": name}, context)
        await sweep(here.app)
        assert not box.exists()


@pytest.mark.anyio
@needs_bwrap
async def test_never_means_never(openclaw_home: TemporaryHome) -> None:
    never = {"mode": "all", "prune": {"idleHours": 0, "maxAgeDays": 0}}
    configure(openclaw_home, never, tools={"exec": {"security": "full", "ask": "off"}})
    await said(openclaw_home, "touch ~/a")
    (box,) = (openclaw_home.state / "sandboxes").iterdir()
    aged(box, 9_000)
    await swept(openclaw_home)
    assert (box / "home" / "a").exists()
