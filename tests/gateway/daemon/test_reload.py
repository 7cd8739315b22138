"""Which changes need what, and following the file."""

import asyncio
import json
import logging
from collections.abc import AsyncGenerator
from contextlib import aclosing

import pytest

from openclaw.gateway.reload import RULES, Reload, Reloader, classify, kind_of
from openclaw.gateway.state import WINDOW_MS, CrashRecord, judge
from openclaw.process.environment import Home
from openclaw.testing import TemporaryHome

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("agents.defaults.model", "hot"),
        ("agents.list[0].id", "hot"),
        ('models.providers["my.own"].apiKey', "hot"),
        ("channels.telegram.botToken", "hot"),
        ("gateway.port", "restart"),
        ("gateway.bind", "restart"),
        ("gateway.auth.mode", "restart"),
        ("gateway.auth.token", "hot"),
        ("gateway.auth.token.source", "hot"),
        ("gateway.reload.mode", "none"),
        ("gateway.controlUi.enabled", "hot"),
        ("gateway.http.endpoints.chatCompletions.enabled", "restart"),
        ("gateway.tls.enabled", "restart"),
        ("meta.lastTouchedAt", "none"),
        ("$schema", "none"),
        ("something.new", "none"),
        ("agents.defaults.memorySearch.provider", "restart"),
        ("agents.list[1].memorySearch", "restart"),
        (".", "restart"),
    ],
)
async def test_the_longest_beginning_decides(path: str, kind: str) -> None:
    assert kind_of(path) == kind


async def test_the_greatest_need_of_all_changes_wins() -> None:
    assert classify(()) == "none"
    assert classify(("meta.lastTouchedAt", "gateway.reload.mode")) == "none"
    assert classify(("meta.lastTouchedAt", "tools.deny")) == "hot"
    assert classify(("tools.deny", "gateway.port", "meta")) == "restart"


async def test_every_section_of_the_configuration_has_a_rule() -> None:
    from openclaw.config.schema import root

    sections = {field.encode_name for field in root().fields}
    assert {(section,) for section in sections} <= set(RULES)


def reloader(home: TemporaryHome) -> Reloader:
    return Reloader(Home(state=home.state, config=home.config_path), home.environ)


async def following(changes: AsyncGenerator[Reload, None]) -> Reload:
    async with asyncio.timeout(120):
        return await anext(changes)


async def test_a_change_during_the_start_is_not_missed(openclaw_home: TemporaryHome) -> None:
    openclaw_home.configure({"tools": {"deny": ["exec"]}})
    one = reloader(openclaw_home)
    openclaw_home.configure({"tools": {"deny": ["exec", "read"]}})
    async with aclosing(one.watch(settle=0.01)) as changes:
        found = await following(changes)
    assert (found.changed, found.kind) == (("tools.deny[1]",), "hot")
    assert found.loaded.config.tools.deny == ("exec", "read")


async def test_includes_and_variables_are_followed_too(openclaw_home: TemporaryHome) -> None:
    part = openclaw_home.state / "part.json5"
    part.write_text("{deny: ['exec']}")
    openclaw_home.configure(
        {"tools": {"$include": "./part.json5"}, "env": {"vars": {"A": "${SOMETHING}"}}, "agents": {}}
    )
    one = reloader(openclaw_home)
    async with aclosing(one.watch(settle=0.01)) as changes:
        part.write_text("{deny: ['exec', 'write']}")
        assert (await following(changes)).changed == ("tools.deny[1]",)
        (openclaw_home.state / ".env").write_text("SOMETHING=else\n")
        assert (await following(changes)).changed == ("env",)


async def test_rewriting_the_same_changes_nothing(openclaw_home: TemporaryHome) -> None:
    openclaw_home.configure({"tools": {"deny": ["exec"]}})
    one = reloader(openclaw_home)
    openclaw_home.config_path.write_text("// a comment\n" + json.dumps({"tools": {"deny": ["exec"]}}))
    assert await one.check() is None
    assert one.trouble == ""


async def test_a_broken_file_is_told_once_and_good_again_when_mended(
    openclaw_home: TemporaryHome, caplog: pytest.LogCaptureFixture
) -> None:
    openclaw_home.configure({"tools": {"deny": ["exec"]}})
    one = reloader(openclaw_home)
    good = one.loaded
    with caplog.at_level(logging.WARNING):
        for broken in ("{ broken", "{ broken", '{"tools": 5}'):
            openclaw_home.config_path.write_text(broken)
            assert await one.check() is None
        openclaw_home.config_path.unlink()
        assert await one.check() is None
    assert one.loaded is good
    told = [record.getMessage() for record in caplog.records]
    assert len(told) == 3 and all("config reload skipped (invalid config)" in line for line in told)
    assert "is gone" in told[-1]
    openclaw_home.configure({"tools": {"deny": ["read"]}})
    found = await one.check()
    assert found is not None and one.trouble == ""


NOW = 1_800_000_000_000


@pytest.mark.parametrize(
    ("record", "safe", "crashes"),
    [
        (CrashRecord(), False, 0),
        (CrashRecord(running=NOW - 1_000), False, 1),
        (CrashRecord(crashed=(NOW - 3_000, NOW - 2_000), running=NOW - 1_000), True, 3),
        (CrashRecord(crashed=(NOW - WINDOW_MS - 1, NOW - 2_000), running=NOW - 1_000), False, 2),
        (CrashRecord(crashed=(NOW + 5_000, NOW + 6_000), running=NOW + 7_000), False, 0),
    ],
)
async def test_three_bad_ends_within_five_minutes_are_too_many(record: CrashRecord, safe: bool, crashes: int) -> None:
    verdict = judge(record, NOW)
    assert (verdict.safe, verdict.crashes) == (safe, crashes)
    assert verdict.record.running == NOW
