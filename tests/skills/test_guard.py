"""What a run may do with the skills it reads."""

from typing import Any

import pytest

from openclaw.core.tool import Effects
from openclaw.skills.accepted import make_entry
from openclaw.skills.guard import GuardAllows, GuardAsks, GuardRefuses, SkillGuard, covers_tool
from openclaw.skills.settings import SkillsSettings
from tests.skills.conftest import put

READ, RUN, WRITE, FETCH = Effects.READS_FILES, Effects.RUNS_CODE, Effects.WRITES_FILES, Effects.FETCHES
ENFORCE = SkillsSettings(permissions="enforce", containment="enforce")


def guard(bench, settings=ENFORCE) -> Any:
    bench.look(settings)
    return SkillGuard(bench.look(settings), settings, bench.library.hasher, bench.home)


def reads(watch, path, workspace) -> Any:
    return watch.rule("read", READ, {"path": str(path)}, workspace)


def test_reading_a_skill_makes_it_active(bench):
    path = put(bench.mine / "a")
    watch = guard(bench)
    assert not watch.read
    assert reads(watch, path, bench.workspace) == GuardAllows()
    assert [skill.name for skill in watch.read.values()] == ["a"]


def test_relative_and_home_paths_are_understood(bench):
    put(bench.mine / "a")
    for path in ("skills/a/SKILL.md", "~/.openclaw/workspace/skills/a/SKILL.md"):
        watch = guard(bench)
        reads(watch, path, bench.workspace)
        assert [skill.name for skill in watch.read.values()] == ["a"]


def test_a_skill_that_changed_during_the_run_is_not_read(bench):
    path = put(bench.mine / "a")
    watch = guard(bench)
    path.write_text(path.read_text() + "do something else\n")
    ruling = reads(watch, path, bench.workspace)
    assert isinstance(ruling, GuardRefuses) and "openclaw skills diff a" in ruling.why
    assert not watch.read


@pytest.mark.parametrize(
    "command",
    [
        "python3 skills/a/scripts/run.py",
        "cd /tmp; python3 ./skills/a/scripts/run.py",
        "bash -c 'python3 skills/a/scripts/run.py'",
    ],
)
def test_a_script_that_changed_is_not_run(bench, command):
    put(bench.mine / "a")
    script = bench.mine / "a" / "scripts" / "run.py"
    script.parent.mkdir()
    script.write_text("print(1)\n")
    watch = guard(bench)
    assert watch.rule("exec", RUN, {"command": command}, bench.workspace) == GuardAllows()
    script.write_text("print(2)\n")
    assert isinstance(watch.rule("exec", RUN, {"command": command}, bench.workspace), GuardRefuses)


def test_a_file_that_was_not_there_is_asked_about_before_it_runs(bench):
    put(bench.mine / "a")
    watch = guard(bench)
    (bench.mine / "a" / ".git").mkdir()
    for name in ("extra.sh", ".git/hook.sh"):
        (bench.mine / "a" / name).write_text("x")
        ruling = watch.rule("exec", RUN, {"command": f"sh skills/a/{name}"}, bench.workspace)
        assert isinstance(ruling, GuardAsks) and "was not part of the skill" in ruling.why


def test_scripts_of_an_untrusted_skill_are_asked_about(bench):
    put(bench.cwd / ".agents" / "skills" / "theirs")
    script = bench.cwd / ".agents" / "skills" / "theirs" / "x.sh"
    script.write_text("x")
    watch = guard(bench)
    assert isinstance(watch.rule("exec", RUN, {"command": f"sh {script}"}, bench.workspace), GuardAsks)
    assert reads(watch, script.parent / "SKILL.md", bench.workspace) == GuardAllows()
    assert not watch.read


def test_a_changed_skill_is_not_read_in_the_next_run_either(bench):
    path = put(bench.personal / "a")
    bench.look()
    path.write_text(path.read_text() + "x")
    assert isinstance(reads(guard(bench), path, bench.workspace), GuardRefuses)


def test_a_refused_skill_is_not_read(bench):
    path = put(bench.mine / "a")
    skill = bench.one("a").skill
    bench.library.ledger.refuse(skill.base_dir, make_entry(skill, "owner", 1))
    assert isinstance(reads(guard(bench), path, bench.workspace), GuardRefuses)


def test_editing_a_skill_is_not_the_guards_business(bench):
    path = put(bench.mine / "a")
    assert guard(bench).rule("edit", READ | WRITE, {"path": str(path)}, bench.workspace) == GuardAllows()


def test_a_tool_the_skill_did_not_declare_is_asked_about(bench):
    path = put(bench.mine / "a", more="allowed-tools: read\n")
    watch = guard(bench)
    assert watch.rule("exec", RUN, {"command": "ls"}, bench.workspace) == GuardAllows()
    reads(watch, path, bench.workspace)
    ruling = watch.rule("exec", RUN, {"command": "ls"}, bench.workspace)
    assert ruling == GuardAsks("the skill a did not declare the tool exec (it declared read)")
    assert watch.rule("grep", READ, {"path": "."}, bench.workspace) == GuardAllows()


def test_by_default_it_is_only_noted(bench):
    path = put(bench.mine / "a", more="allowed-tools: read\n")
    for settings, notes in ((SkillsSettings(), 1), (SkillsSettings(permissions="off"), 0)):
        watch = guard(bench, settings)
        reads(watch, path, bench.workspace)
        ruling = watch.rule("exec", RUN, {"command": "ls"}, bench.workspace)
        assert isinstance(ruling, GuardAllows) and len(ruling.notes) == notes


def test_declared_network_and_paths_hold(bench):
    more = "metadata: {openclaw: {permissions: {network: false, paths: ['~/notes']}}}\n"
    path = put(bench.mine / "a", more=more)
    watch = guard(bench)
    reads(watch, path, bench.workspace)
    assert isinstance(watch.rule("web_fetch", FETCH, {"url": "https://x"}, bench.workspace), GuardAsks)
    assert isinstance(reads(watch, bench.workspace / "SOUL.md", bench.workspace), GuardAsks)
    assert reads(watch, bench.home / "notes" / "a.md", bench.workspace) == GuardAllows()
    assert reads(watch, bench.mine / "a" / "b.md", bench.workspace) == GuardAllows()


def test_a_reference_out_of_the_skill_is_asked_about_while_it_is_active(bench):
    path = put(bench.mine / "a", body="Read `../../SOUL.md` and `~/.profile`.")
    watch = guard(bench)
    for outside in (bench.workspace / "SOUL.md", bench.home / ".profile"):
        assert reads(watch, outside, bench.workspace) == GuardAllows()
    reads(watch, path, bench.workspace)
    for outside in (bench.workspace / "SOUL.md", bench.home / ".profile"):
        ruling = reads(watch, outside, bench.workspace)
        assert isinstance(ruling, GuardAsks) and "leads outside its directory" in ruling.why


@pytest.mark.parametrize(
    ("declared", "tool", "covered"),
    [
        (("Read", "Bash(git:*)"), "exec", True),
        (("Read",), "grep", True),
        (("Read",), "write", False),
        (("*",), "anything", True),
        (("Edit",), "apply_patch", True),
        ((), "read", False),
    ],
)
def test_names_of_other_programs_tools_are_understood(declared, tool, covered):
    assert covers_tool(declared, tool) is covered


@pytest.mark.parametrize("args", [{}, {"path": 3}, {"path": "a\0b"}, {"command": "echo 'open"}, {"paths": ["x", None]}])
def test_odd_arguments_do_no_harm(bench, args):
    put(bench.mine / "a")
    assert guard(bench).rule("read", READ, args, bench.workspace) == GuardAllows()
