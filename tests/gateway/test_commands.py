"""Commands through the whole assistant: who is asked, what runs, what is remembered."""

import asyncio
import os
import pty
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from openclaw.cli.talk.screen import TerminalApprover
from openclaw.core.tool import ApprovalRequest
from openclaw.testing import Heard, ScriptedApprover, ScriptedModel, TemporaryHome, ask, calls, says

pytestmark = pytest.mark.anyio


async def runs(home: TemporaryHome, approver: Any, *commands: str, **exec_settings: Any) -> Heard:
    home.use_model(tools={"exec": exec_settings})
    model = ScriptedModel(*(calls("exec", command=command) for command in commands), says("ok"))
    async with home.assistant(model, approver=approver) as app:
        return await ask(app, "go")


def texts(heard: Heard) -> list[str]:
    return [result.text for result in heard.results]


async def test_a_person_says_yes_and_it_runs_where_and_as_they_were_shown(openclaw_home: TemporaryHome) -> None:
    approver = ScriptedApprover("allow-once")
    heard = await runs(openclaw_home, approver, "pwd && shuf -e hello")
    assert texts(heard) == [f"{openclaw_home.workspace}\nhello"]
    assert [(request.command, request.cwd) for request in approver.asked] == [
        ("pwd && shuf -e hello", str(openclaw_home.workspace))
    ]


async def test_a_person_says_no_and_nothing_runs(openclaw_home: TemporaryHome) -> None:
    heard = await runs(openclaw_home, ScriptedApprover("deny"), "install /dev/null made")
    assert texts(heard) == ["Not run: the user said no. Do not try to get round it; ask what to do instead."]
    assert heard.results[0].is_error
    assert heard.text == "ok"
    assert not (openclaw_home.workspace / "made").exists()


async def test_always_is_asked_once_even_after_a_restart(openclaw_home: TemporaryHome) -> None:
    approver = ScriptedApprover("allow-always", "deny")
    first = await runs(openclaw_home, approver, "shuf -e hello", "shuf -e hello")
    again = await runs(openclaw_home, approver, "shuf -e hello", "shuf -e hello you")
    assert texts(first) == ["hello", "hello"]
    assert texts(again)[0] == "hello"
    assert texts(again)[1].startswith("Not run: the user said no")
    assert [request.command for request in approver.asked] == ["shuf -e hello", "shuf -e hello you"]


@pytest.mark.parametrize(
    ("settings", "answer", "asked"),
    [
        ({"security": "deny"}, "Not run: running commands is switched off (tools.exec.security is deny).", 0),
        ({"security": "full", "ask": "off"}, "hello", 0),
        ({"security": "full", "ask": "always"}, "hello", 1),
        (
            {"ask": "off"},
            "Not run: not on the allowlist (shuf is not on the allowlist), and tools.exec.ask is off.",
            0,
        ),
    ],
    ids=str,
)
async def test_the_settings_decide(
    openclaw_home: TemporaryHome, settings: dict[str, Any], answer: str, asked: int
) -> None:
    approver = ScriptedApprover("allow-once")
    assert texts(await runs(openclaw_home, approver, "shuf -e hello", **settings)) == [answer]
    assert len(approver.asked) == asked


async def test_without_anybody_to_ask_it_does_not_run_and_says_how_it_could(openclaw_home: TemporaryHome) -> None:
    heard = await runs(openclaw_home, TerminalApprover(), "shuf -e hello")
    assert texts(heard)[0].startswith(
        "Not run: shuf is not on the allowlist, and nobody is at a terminal to approve it"
    )
    assert "tools.exec.security" in texts(heard)[0]


async def test_a_broken_approvals_file_stops_the_command_and_not_the_assistant(openclaw_home: TemporaryHome) -> None:
    (openclaw_home.state / "exec-approvals.json").write_text("{")
    heard = await runs(openclaw_home, ScriptedApprover("allow-once"), "shuf -e hello")
    assert "exec-approvals.json cannot be read" in texts(heard)[0]
    assert heard.text == "ok"


@contextmanager
def terminal() -> Iterator[int]:
    """A terminal for standard input and error; the test holds the other end."""
    ours, theirs = pty.openpty()
    before = sys.stdin, sys.stderr
    with os.fdopen(theirs) as reading, os.fdopen(os.dup(theirs), "w") as writing:
        sys.stdin, sys.stderr = reading, writing
        try:
            yield ours
        finally:
            sys.stdin, sys.stderr = before
    os.close(ours)


REQUEST = ApprovalRequest(
    id="1", tool="exec", command="echo \x1b[2J hi", cwd="/work", agent_id="main", session_key="agent:main:main"
)


@pytest.mark.parametrize(
    ("typed", "decision"),
    [("y", "allow-once"), ("YES", "allow-once"), ("a", "allow-always"), ("n", "deny"), ("", "deny"), ("ja", "deny")],
)
async def test_at_a_terminal_only_a_clear_yes_is_one(typed: str, decision: str) -> None:
    with terminal() as person:
        deciding = asyncio.create_task(TerminalApprover().decide(REQUEST))
        await asyncio.sleep(0)
        os.write(person, f"{typed}\n".encode())
        async with asyncio.timeout(120):
            assert (await deciding).decision == decision
        shown = os.read(person, 4096).decode()
    assert "/work" in shown
    assert "\x1b[2J" not in shown  # a command cannot redraw the screen it is shown on


async def test_a_question_at_the_terminal_can_be_stopped() -> None:
    with terminal() as person:
        deciding = asyncio.create_task(TerminalApprover().decide(REQUEST))
        await asyncio.sleep(0)
        deciding.cancel()
        async with asyncio.timeout(120):
            await asyncio.wait({deciding})
        assert deciding.cancelled()
        again = asyncio.create_task(TerminalApprover().decide(REQUEST))
        os.write(person, b"y\n")
        async with asyncio.timeout(120):
            assert (await again).decision == "allow-once"  # nobody else is left who takes the answer
