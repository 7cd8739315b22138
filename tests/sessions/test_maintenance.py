"""What is removed of conversations that no person speaks in, and what never is."""

import asyncio
import logging
from pathlib import Path
from typing import Any

import pytest

from openclaw.core.keys import SessionKey
from openclaw.runs.request import RunRequest
from openclaw.sessions.index import SessionRow
from openclaw.sessions.maintenance import OldFile, OldSession, is_disposable, plan_removal
from openclaw.sessions.settings import MaintenanceSettings
from openclaw.testing import ScriptedModel, TemporaryHome, says
from tests.automation.support import MAIN, Place, place

pytestmark = pytest.mark.anyio

DAY = 86_400_000
NOW = 100 * DAY


def old(name: str, days: int, size: int = 10) -> OldSession:
    row = SessionRow(session_key=name, agent_id="main", session_id=name, updated_at=NOW - days * DAY)
    return OldSession(row, size)


def aside(name: str, days: int, size: int = 10) -> OldFile:
    return OldFile(Path(name), NOW - days * DAY, size)


OLD = (old("b", 31), old("a", 40), old("c", 1))
ASIDE = (aside("y", 50), aside("x", 90), aside("z", 2))


@pytest.mark.parametrize(
    ("settings", "sessions", "files"),
    [
        ({}, "ab", ""),
        ({"prune_after": "35d"}, "a", ""),
        ({"prune_after": "60d"}, "", ""),
        ({"max_entries": 7}, "abc", ""),
        ({"max_entries": 1}, "abc", ""),
        ({"reset_archive_retention": "60d"}, "ab", "x"),
        ({"max_disk_bytes": 1_000}, "ab", ""),
        ({"max_disk_bytes": 95, "prune_after": "60d"}, "", "xyz"),  # 100 bytes, down to 76
        ({"max_disk_bytes": 95, "prune_after": "60d", "high_water_bytes": 60}, "a", "xyz"),
        ({"max_disk_bytes": 1, "prune_after": "60d"}, "abc", "xyz"),
    ],
)
def test_what_is_too_old_too_many_or_too_much(settings: dict[str, Any], sessions: str, files: str) -> None:
    found = plan_removal(MaintenanceSettings(**settings), NOW, 10, 100, OLD, ASIDE)
    assert "".join(each.row.session_id for each in found.sessions) == sessions
    assert "".join(each.path.name for each in found.files) == files


def test_what_people_say_is_not_disposable() -> None:
    def key(rest: str) -> SessionKey:
        return SessionKey("main", rest)

    assert all(is_disposable(key(rest)) for rest in ("hook:bell", "subagent:1", "acp:1"))
    assert not any(
        is_disposable(key(rest)) for rest in ("main", "dashboard:1", "telegram:direct:7", "cron:j", "direct:a")
    )


HOOK, PINNED = SessionKey("main", "hook:bell"), SessionKey("main", "hook:pinned")


async def talked(here: Place, *keys: SessionKey) -> None:
    for key in keys:
        await here.runs.submit(RunRequest(run_id=f"r-{key.rest}", key=key, text="hi"))
        await here.runs.wait(f"r-{key.rest}", 60)


async def test_the_gateway_removes_what_a_webhook_left_and_keeps_what_a_person_said(
    openclaw_home: TemporaryHome, scripted_model: ScriptedModel
) -> None:
    scripted_model.script(says("a"), says("b"), says("c"))
    session = {"maintenance": {"resetArchiveRetention": "10d"}}
    async with place(openclaw_home, scripted_model, session=session) as here:
        await talked(here, MAIN, HOOK, PINNED)
        await here.app.lifecycle.prefer(PINNED, {"pinned": True})
        await here.app.lifecycle.reset(MAIN)
        folder = openclaw_home.state / "agents" / "main" / "sessions"
        assert len(list(folder.glob("*.jsonl"))) == 2 and len(list(folder.glob("*.reset.*"))) == 1
        await here.pass_time(11 * 86_400, step=40_000)
        async with asyncio.timeout(60):
            while list(folder.glob("*.reset.*")):
                await asyncio.sleep(0.01)
        assert len(list(folder.glob("*.jsonl"))) == 2
        await here.pass_time(20 * 86_400, step=40_000)
        async with asyncio.timeout(60):  # the file goes after the row
            while len([path for path in folder.glob("*.jsonl*") if path.suffix != ".lock"]) > 1:
                await asyncio.sleep(0.01)
        assert {row.key for row in await here.app.index.list()} == {MAIN, PINNED}


async def test_what_would_be_removed_is_said_once(
    openclaw_home: TemporaryHome, scripted_model: ScriptedModel, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    scripted_model.script(says("b"))
    async with place(openclaw_home, scripted_model, session={"maintenance": {"mode": "warn"}}) as here:
        await talked(here, HOOK)
        await here.pass_time(33 * 86_400, step=40_000)
        assert [row.key for row in await here.app.index.list()] == [HOOK]
    said = [each.message for each in caplog.records if "session.maintenance" in each.message]
    assert len(said) == 1 and "would remove 1 conversation(s) of programs" in said[0]
