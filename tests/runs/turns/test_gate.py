"""Between a model's wish to run something and its happening: what is asked, what is shown, what is remembered."""

import asyncio
import json
import stat
from pathlib import Path
from typing import Any

import pytest

from openclaw.core.errors import StateError
from openclaw.core.tool import ApprovalAnswer, ApprovalRequest, Decision, ToolContext
from openclaw.security.approvals import ApprovalFile
from openclaw.security.gates import ExecGate
from openclaw.testing import FakeClock, ScriptedApprover
from openclaw.tools.exec import ExecTool
from openclaw.tools.files import ReadTool

pytestmark = pytest.mark.anyio

EXEC = ExecTool(shell="/bin/sh", env={})
PATH = "/usr/bin:/bin"


class Door:
    """A gate with its file, its approver and a directory to work in."""

    def __init__(self, root: Path, *decisions: Decision, **settings: Any) -> None:
        self.file = root / "exec-approvals.json"
        self.workspace = root / "work"
        self.workspace.mkdir(exist_ok=True)
        self.approver = ScriptedApprover(*decisions)
        self.settings = settings

    async def asks(self, command: str, **args: Any) -> str | None:
        settings = {"security": "allowlist", "ask": "on-miss", "safe_bins": ("head",), "path": PATH} | self.settings
        gate = ExecGate(approvals=ApprovalFile(self.file), approver=self.approver, clock=FakeClock(), **settings)
        context = ToolContext(call_id="c", workspace=self.workspace, session_key="agent:main:main")
        return await gate.admit(EXEC, {"command": command, **args}, context)

    @property
    def shown(self) -> list[str]:
        return [request.command for request in self.approver.asked]

    def write(self, document: Any) -> None:
        self.file.write_text(document if isinstance(document, str) else json.dumps(document))


async def test_only_commands_are_stopped_at_the_gate(tmp_path: Path) -> None:
    door = Door(tmp_path, security="deny")
    gate = ExecGate(
        security="deny",
        ask="off",
        safe_bins=(),
        approvals=ApprovalFile(door.file),
        approver=door.approver,
        clock=FakeClock(),
        path=PATH,
    )
    context = ToolContext(call_id="c", workspace=door.workspace)
    assert await gate.admit(ReadTool(), {"path": "x"}, context) is None
    assert await gate.admit(EXEC, {"command": "ls"}, context) == (
        "Not run: running commands is switched off (tools.exec.security is deny)."
    )


async def test_a_command_that_is_not_listed_is_shown_to_a_person_as_it_would_run(tmp_path: Path) -> None:
    door = Door(tmp_path, "allow-once")
    assert await door.asks("ls -la | head -3") is None
    (request,) = door.approver.asked
    assert request.command == "ls -la | head -3"
    assert request.cwd == str(door.workspace)
    assert (request.tool, request.agent_id, request.session_key) == ("exec", "main", "agent:main:main")
    assert request.why == "ls is not on the allowlist"


async def test_yes_is_for_once(tmp_path: Path) -> None:
    door = Door(tmp_path, "allow-once", "deny")
    assert await door.asks("ls") is None
    assert await door.asks("ls") is not None
    assert not door.file.exists()


async def test_no_tells_the_model_not_to_get_round_it(tmp_path: Path) -> None:
    door = Door(tmp_path, "deny")
    assert await door.asks("ls") == ("Not run: the user said no. Do not try to get round it; ask what to do instead.")


async def test_always_is_remembered_for_exactly_this_command_in_this_directory(tmp_path: Path) -> None:
    door = Door(tmp_path, "allow-always", "deny")
    (door.workspace / "sub").mkdir()
    assert await door.asks("ls -la") is None
    assert await door.asks("ls -la") is None
    assert await door.asks("ls  '-la'", workdir=".") is None  # the same thing, written differently
    assert len(door.shown) == 1
    for other in ("ls", "ls -la /", "ls -la; ls -la x", "ls -la > x"):
        assert await door.asks(other) is not None
    assert await door.asks("ls -la", workdir="sub") is not None
    assert await door.asks("ls -la", env={"LS_COLORS": "x"}) is not None
    assert stat.S_IMODE(door.file.stat().st_mode) == 0o600


async def test_always_works_for_a_command_that_is_not_plain(tmp_path: Path) -> None:
    door = Door(tmp_path, "allow-always", "deny")
    assert await door.asks("echo $HOME > x") is None
    assert await door.asks("echo $HOME > x") is None
    assert await door.asks("echo $HOME > y") is not None


async def test_variables_are_part_of_what_is_shown_and_remembered(tmp_path: Path) -> None:
    door = Door(tmp_path, "allow-always", "deny")
    assert await door.asks("ls", env={"B": "it's", "A": "1"}) is None
    assert door.shown == ["export A=1; export B='it'\"'\"'s'; ls"]
    assert await door.asks("ls", env={"A": "1", "B": "it's"}) is None
    assert await door.asks("ls", env={"A": "2", "B": "it's"}) is not None
    assert await door.asks("ls") is not None


async def test_a_program_is_looked_up_where_the_command_runs(tmp_path: Path) -> None:
    door = Door(tmp_path, "allow-always", "deny")
    for place in ("one", "two"):
        program = door.workspace / place / "tool"
        program.parent.mkdir()
        program.write_text("#!/bin/sh\n")
        program.chmod(0o755)
    assert await door.asks("./tool", workdir="one") is None
    (grant,) = json.loads(door.file.read_text())["agents"]["main"]["allowlist"]
    assert grant["pattern"] == str(door.workspace / "one" / "tool")
    assert await door.asks("./tool", workdir="one") is None
    assert await door.asks("./tool", workdir="two") is not None


async def test_a_grant_does_not_follow_a_program_that_was_exchanged(tmp_path: Path) -> None:
    door = Door(tmp_path, "allow-always", "deny", path=f"{tmp_path}/late:{PATH}")
    assert await door.asks("ls") is None
    (tmp_path / "late").mkdir()
    (tmp_path / "late" / "ls").write_text("#!/bin/sh\nrm -rf /\n")
    (tmp_path / "late" / "ls").chmod(0o755)
    assert await door.asks("ls") is not None


async def test_a_directory_that_is_not_there_is_refused_before_anybody_is_asked(tmp_path: Path) -> None:
    door = Door(tmp_path, "allow-once")
    (door.workspace / "sub").mkdir()
    answer = await door.asks("ls", workdir="@sub")
    assert answer == f"Not run: {door.workspace}/@sub is not a directory."
    assert door.shown == []


async def test_two_questions_at_once_are_asked_one_after_the_other(tmp_path: Path) -> None:
    class Slow:
        asked = 0
        open = 0

        async def decide(self, request: ApprovalRequest) -> ApprovalAnswer:
            self.asked += 1
            self.open += 1
            assert self.open == 1
            await asyncio.sleep(0)
            self.open -= 1
            return ApprovalAnswer("allow-always")

    (tmp_path / "work").mkdir()
    slow = Slow()
    gate = ExecGate(
        security="allowlist",
        ask="on-miss",
        safe_bins=(),
        approvals=ApprovalFile(tmp_path / "a.json"),
        approver=slow,
        clock=FakeClock(),
        path=PATH,
    )
    context = ToolContext(call_id="c", workspace=tmp_path / "work")
    commands = ["ls", "ls", "ls -l"]
    answers = await asyncio.gather(*(gate.admit(EXEC, {"command": command}, context) for command in commands))
    assert answers == [None, None, None]
    assert slow.asked == 2  # the second ls was settled by the first


@pytest.mark.parametrize(
    ("document", "answer"),
    [
        ({"agents": {"main": {"allowlist": [{"pattern": "ls"}]}}}, None),
        ({"agents": {"other": {"allowlist": [{"pattern": "ls"}]}}}, "Not run: the user said no"),
        ({"agents": {"main": {"security": "deny"}}}, "Not run: running commands is switched off"),
        ({"defaults": {"ask": "always"}, "agents": {"main": {"allowlist": [{"pattern": "ls"}]}}}, "Not run: the user"),
        (
            {"agents": {"main": {"security": "full", "ask": "off"}}},
            "Not run: the user",
        ),  # a file cannot loosen settings
    ],
    ids=str,
)
async def test_the_file_can_list_programs_and_make_the_rules_stricter(
    tmp_path: Path, document: Any, answer: str | None
) -> None:
    door = Door(tmp_path, "deny")
    door.write(document)
    said = await door.asks("ls")
    assert said is None if answer is None else said is not None and said.startswith(answer)


async def test_a_home_directory_in_a_pattern_is_the_users(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    tool = tmp_path / "bin" / "tool"
    tool.parent.mkdir()
    tool.write_text("#!/bin/sh\n")
    tool.chmod(0o755)
    door = Door(tmp_path, "deny")
    door.write({"agents": {"main": {"allowlist": [{"pattern": "~/bin/*"}]}}})
    assert await door.asks(str(tool)) is None


@pytest.mark.parametrize("broken", ["{", {"agents": {"main": {"allowlist": [{"argPattern": "x"}]}}}], ids=str)
async def test_a_file_that_cannot_be_read_stops_commands_and_says_so(tmp_path: Path, broken: Any) -> None:
    door = Door(tmp_path, "allow-once")
    door.write(broken)
    with pytest.raises(StateError, match="mend it"):
        await door.asks("ls")
    assert door.shown == []


async def test_full_never_asks_and_always_asks_every_time(tmp_path: Path) -> None:
    free = Door(tmp_path, "deny", security="full", ask="off")
    assert await free.asks("rm -rf $X | sh") is None
    strict = Door(tmp_path, "allow-always", security="full", ask="always")
    assert await strict.asks("ls") is None
    assert await strict.asks("ls") is None
    assert len(strict.shown) == 2


async def test_always_is_for_the_script_as_it_was(tmp_path: Path) -> None:
    door = Door(tmp_path, "allow-always", "deny")
    script = door.workspace / "deploy.sh"
    script.write_text("#!/bin/sh\necho one\n")
    script.chmod(0o755)
    assert await door.asks("./deploy.sh") is None
    assert await door.asks("./deploy.sh") is None
    script.write_text("#!/bin/sh\necho two\n")
    assert await door.asks("./deploy.sh") is not None
    assert "is not what it was" in door.approver.asked[-1].why


async def test_always_again_renews_what_was_changed(tmp_path: Path) -> None:
    door = Door(tmp_path, "allow-always", "allow-always")
    script = door.workspace / "deploy.sh"
    script.write_text("one")
    script.chmod(0o755)
    assert await door.asks("./deploy.sh > out") is None
    script.write_text("two")
    assert await door.asks("./deploy.sh > out") is None
    assert await door.asks("./deploy.sh > out") is None
    assert len(door.approver.asked) == 2
    assert len(json.loads(door.file.read_text())["agents"]["main"]["allowlist"]) == 1


async def test_a_script_that_changes_while_a_person_is_asked_is_not_run(tmp_path: Path) -> None:
    door = Door(tmp_path)
    script = door.workspace / "deploy.sh"
    script.write_text("one")
    script.chmod(0o755)

    class Swaps:
        async def decide(self, request: ApprovalRequest) -> ApprovalAnswer:
            script.write_text("two")
            return ApprovalAnswer("allow-once")

    door.approver = Swaps()  # type: ignore[assignment]
    assert "was changed while" in str(await door.asks("./deploy.sh"))


async def test_code_in_an_argument_is_never_remembered(tmp_path: Path) -> None:
    door = Door(tmp_path, "allow-always", "deny")
    assert await door.asks("sh -c 'echo hi'") is None
    assert await door.asks("sh -c 'echo hi'") is not None
    assert not door.file.exists()


@pytest.mark.parametrize(
    ("fallback", "command", "runs"),
    [
        ({}, "ls", False),
        ({"defaults": {"askFallback": "full"}}, "ls", True),
        ({"defaults": {"askFallback": "deny"}, "agents": {"main": {"askFallback": "full"}}}, "ls", True),
        (
            {
                "defaults": {"ask": "always", "askFallback": "allowlist"},
                "agents": {"main": {"allowlist": [{"pattern": "ls"}]}},
            },
            "ls",
            True,
        ),
        (
            {
                "defaults": {"ask": "always", "askFallback": "allowlist"},
                "agents": {"main": {"allowlist": [{"pattern": "ls"}]}},
            },
            "id",
            False,
        ),
    ],
)
async def test_a_question_nobody_answers_ends_as_the_file_says(
    tmp_path: Path, fallback: dict[str, Any], command: str, runs: bool
) -> None:
    door = Door(tmp_path)
    door.write({"version": 1, **fallback})

    class Nobody:
        async def decide(self, request: ApprovalRequest) -> ApprovalAnswer:
            return ApprovalAnswer("deny", why="nobody answered in time", nobody=True)

    door.approver = Nobody()  # type: ignore[assignment]
    assert (await door.asks(command) is None) is runs


async def test_an_agent_can_have_rules_of_its_own(tmp_path: Path) -> None:
    door = Door(tmp_path, security="full", ask="off", agents={"main": ("deny", "off")})
    assert "switched off" in str(await door.asks("ls"))
