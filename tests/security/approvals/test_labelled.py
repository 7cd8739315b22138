"""Commands in a conversation with text from elsewhere: why a person is asked again, and how long "always" is."""

from pathlib import Path
from typing import Any

import pytest

from openclaw.core.sandbox import BoundSandbox, SandboxSpec
from openclaw.core.text import make_origin
from openclaw.core.tool import Decision, ToolContext
from openclaw.security.approvals import ApprovalFile
from openclaw.security.effects.consent import SessionAllowlist
from openclaw.security.gates import ALWAYS_NOTE, ExecGate
from openclaw.testing import FakeClock, ScriptedApprover, ScriptedModel, TemporaryHome, calls, says
from openclaw.tools.exec import ExecTool
from tests.runs.subagents.house import SETTINGS, Cast, Owner, house

pytestmark = pytest.mark.anyio

READ = "it runs code, and untrusted content was read before it: a page"
PAGE = (make_origin("external", "web_fetch https://page.example/"),)


class Door:
    def __init__(self, root: Path, *decisions: Decision, **settings: Any) -> None:
        self.file = ApprovalFile(root / "exec-approvals.json")
        self.work = root / "work"
        self.work.mkdir()
        self.approver = ScriptedApprover(*decisions)
        self.settled = SessionAllowlist()
        usual = {"security": "allowlist", "ask": "on-miss", "safe_bins": (), "path": "/usr/bin:/bin"}
        self.gate = ExecGate(
            approvals=self.file,
            approver=self.approver,
            clock=FakeClock(),
            settled=self.settled,
            **{**usual, **settings},
        )

    async def asks(self, command: str, cause: str = READ, bulk: str = "", key: str = "main", **more: Any) -> int:
        """How many questions a call brings."""
        context = ToolContext(call_id="c", workspace=self.work, session_key=f"agent:main:{key}")
        before = len(self.approver.asked)
        tool = more.pop("tool", ExecTool(shell="/bin/sh", env={}))
        await self.gate.admit(tool, {"command": command, **more}, context, cause, bulk)
        return len(self.approver.asked) - before

    @property
    def why(self) -> str:
        return self.approver.asked[-1].why


async def test_a_question_about_a_listed_command_says_why_it_comes_again(tmp_path: Path) -> None:
    door = Door(tmp_path, "allow-always")
    assert await door.asks("ls -la", cause="") == 1
    assert await door.asks("ls -la", cause="") == 0
    assert await door.asks("ls -la") == 1
    assert door.why == f"you allowed it before, but {READ}. {ALWAYS_NOTE}"


async def test_always_holds_for_the_conversation_in_which_it_was_said(tmp_path: Path) -> None:
    door = Door(tmp_path, "allow-always")
    assert await door.asks("ls -la") == 1
    assert [await door.asks("ls -la") for _ in range(3)] == [0, 0, 0]
    assert await door.asks("ls -l") == 1
    assert await door.asks("ls -la", workdir=str(tmp_path)) == 1
    assert await door.asks("ls -la", key="side") == 1
    door.settled.forget("agent:main:main")
    assert await door.asks("ls -la") == 1


async def test_once_is_for_once(tmp_path: Path) -> None:
    door = Door(tmp_path, "allow-once")
    assert [await door.asks("ls -la") for _ in range(2)] == [1, 1]


async def test_another_script_by_the_same_name_is_not_what_was_allowed(tmp_path: Path) -> None:
    door = Door(tmp_path, "allow-always")
    script = door.work / "build.sh"
    script.write_text("#!/bin/sh\necho one\n")
    script.chmod(0o755)
    assert await door.asks("./build.sh") == 1
    assert await door.asks("./build.sh") == 0
    script.write_text("#!/bin/sh\necho two\n")
    assert await door.asks("./build.sh") == 1


async def test_what_was_taken_back_is_asked_about_again(tmp_path: Path) -> None:
    door = Door(tmp_path, "allow-always", security="full", ask="off")
    assert [await door.asks("ls -la") for _ in range(2)] == [1, 0]
    (entry,) = door.file.read().agents["main"].allowlist
    door.file.withdraw(entry["id"], None, 0)
    assert await door.asks("ls -la") == 1


async def test_too_much_at_once_is_asked_about_whatever_was_settled(tmp_path: Path) -> None:
    door = Door(tmp_path, "allow-always")
    assert [await door.asks("ls -la") for _ in range(2)] == [1, 0]
    assert await door.asks("ls -la", bulk="it deletes a lot") == 1
    assert door.why.startswith("it deletes a lot")


async def test_code_in_an_argument_is_never_settled(tmp_path: Path) -> None:
    door = Door(tmp_path, "allow-always")
    assert [await door.asks("python3 -c 'print(1)'") for _ in range(2)] == [1, 1]
    assert not door.approver.asked[0].standing
    assert ALWAYS_NOTE not in door.why


async def test_in_a_sandbox_the_same_command_is_not_asked_about_twice(tmp_path: Path) -> None:
    boxed = BoundSandbox(sandbox=None, box=SandboxSpec(name="b", root=str(tmp_path), workdir="/workspace"))  # type: ignore[arg-type]
    tool = ExecTool(shell="/bin/sh", env={}, boxed=boxed)
    door = Door(tmp_path, "allow-always")
    assert [await door.asks("make", tool=tool) for _ in range(3)] == [1, 0, 0]
    assert await door.asks("make install", tool=tool) == 1
    assert await door.asks("make", tool=tool, ask="always") == 1
    assert not door.file.read().agents


async def test_a_conversation_that_starts_over_asks_again(openclaw_home: TemporaryHome) -> None:
    openclaw_home.use_model(**SETTINGS)
    model = ScriptedModel(*[each for _ in range(3) for each in (calls("exec", command="curl --version"), says("done"))])
    owner = Owner("allow-always")
    async with house(openclaw_home, Cast(please=model), owner) as here:
        for number in range(2):
            await here.say(f"r{number}", "please", origins=PAGE)
            await here.outcome(f"r{number}")
        (asked,) = owner.asked
        assert "page.example" in asked.why
        assert ALWAYS_NOTE in asked.why
        await here.lifecycle.reset(here.sessions.key("main"))
        await here.say("r2", "please", origins=PAGE)
        await here.outcome("r2")
        assert len(owner.asked) == 2
        assert "you allowed it before" in owner.asked[1].why
