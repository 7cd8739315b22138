"""Skills as a run has them: the list, the variables, and the gate in front of its tools."""

import json
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from openclaw.config.live import LiveConfig
from openclaw.config.load import LoadedConfig, load
from openclaw.core.harness import Gate
from openclaw.core.tool import ApprovalAnswer, ApprovalRequest, Effects, Output, Tool, ToolContext, ToolSpec
from openclaw.process.environment import Home
from openclaw.skills.service import SkillGate, SkillService
from tests.skills.conftest import LATER, put

pytestmark = pytest.mark.anyio


class Reads:
    """A tool that reads."""

    spec = ToolSpec(name="read", label="Read", description="", parameters={})

    def effects(self, args: Mapping[str, Any]) -> Effects:
        return Effects.READS_FILES

    def resources(self, args: Mapping[str, Any], context: ToolContext) -> frozenset[str]:
        return frozenset()

    async def call(self, args: Mapping[str, Any], context: ToolContext) -> Output:
        return Output.of("")


class Runs(Reads):
    spec = ToolSpec(name="exec", label="Exec", description="", parameters={})

    def effects(self, args: Mapping[str, Any]) -> Effects:
        return Effects.RUNS_CODE


class Behind:
    """The gate behind ours; admits everything and remembers it."""

    def __init__(self) -> None:
        self.admitted: list[str] = []

    async def admit(self, tool: Tool, args: Mapping[str, Any], context: ToolContext) -> str | None:
        self.admitted.append(tool.spec.name)
        return None


class Someone:
    def __init__(self, decision: Any) -> None:
        self._decision = decision
        self.asked: list[ApprovalRequest] = []

    async def decide(self, request: ApprovalRequest) -> ApprovalAnswer:
        self.asked.append(request)
        return ApprovalAnswer(self._decision)


class Installation:
    """An installation with settings."""

    def __init__(self, top: Path, settings: dict[str, Any]) -> None:
        self.state = top / ".openclaw"
        self.workspace = self.state / "workspace"
        self.workspace.mkdir(parents=True, mode=0o700)
        self.live = LiveConfig(self.load(settings))
        self.top = top
        self.skills = self.service(self.now)

    def load(self, settings: dict[str, Any]) -> LoadedConfig:
        home = Home(state=self.state, config=self.state / "openclaw.json")
        home.config.write_text(json.dumps(settings))
        home.config.chmod(0o600)
        return load(home, {"PATH": "/usr/bin:/bin", "SET": "1"})

    def config(self, settings: dict[str, Any]) -> None:
        """Another configuration takes effect."""
        self.live.replace(self.load(settings))

    def service(self, now: Callable[[], float]) -> SkillService:
        live = self.live
        return SkillService(live.skills, live.agents, live.variables, live.is_set, self.state, self.top, now)

    def now(self) -> float:
        return self.state.stat().st_mtime + LATER

    def look(self, agent: str = "main") -> Any:
        return self.skills.look(agent, self.workspace, self.workspace, first_use=True)

    def context(self) -> ToolContext:
        return ToolContext(call_id="1", workspace=self.workspace)


def test_an_agent_sees_its_own_skills_and_no_more(tmp_path):
    agents = {"list": [{"id": "main"}, {"id": "small", "skills": ["a"], "skillsLimits": {"maxSkillsPromptChars": 260}}]}
    home = Installation(tmp_path, {"agents": agents})
    put(home.workspace / "skills" / "a", description="Alpha. " * 30)
    put(home.workspace / "skills" / "b")
    full = home.look().prompt.text
    small = home.look("small").prompt.text
    assert "<name>a</name>" in full and "<name>b</name>" in full
    assert "<name>a</name>" in small and "<name>b</name>" not in small
    assert len(small) <= 260
    assert home.look().prompt.text == full


def test_requirements_are_met_by_variables_and_settings(tmp_path):
    home = Installation(
        tmp_path, {"logging": {"level": "debug"}, "skills": {"entries": {"a": {"env": {"OTHER": "x"}}}}}
    )
    needs = "requires: {env: [SET, OTHER], config: [logging.level], bins: [sh]}"
    put(home.workspace / "skills" / "a", more=f"metadata: {{openclaw: {{{needs}}}}}\n")
    put(home.workspace / "skills" / "b", more="metadata: {openclaw: {requires: {config: [logging.file, 'a[']}}}\n")
    shelf = home.look()
    assert shelf.get("a").verdict.eligible
    assert shelf.get("b").verdict.missing.config == ("logging.file", "a[")
    assert shelf.variables["OTHER"].reveal() == "x"


def _add(skills: Path) -> None:
    put(skills / "b")


def _change(skills: Path) -> None:
    put(skills / "a", description="Something else now.")


def _change_below(skills: Path) -> None:
    (skills / "a" / "scripts" / "do.py").write_text("print(2)  # longer\n")


def _add_below(skills: Path) -> None:
    (skills / "a" / "scripts" / "more.py").write_text("")


def _remove(skills: Path) -> None:
    shutil.rmtree(skills / "a")


def _nest(skills: Path) -> None:
    put(skills / "group" / "c")


def _mend(skills: Path) -> None:
    put(skills / "broken", name="broken")


def _link(skills: Path) -> None:
    (skills / "linked").unlink()
    (skills / "linked").symlink_to(skills / "group" / "elsewhere")


def _bring_root(skills: Path) -> None:
    put(skills.parent.parent / "skills" / "managed")


@pytest.mark.parametrize(
    "change",
    [_add, _change, _change_below, _add_below, _remove, _nest, _mend, _link, _bring_root],
    ids=lambda f: f.__name__,
)
def test_a_look_is_used_again_until_anything_on_disk_changed(tmp_path, change):
    home = Installation(tmp_path, {})
    skills = home.workspace / "skills"
    put(skills / "a")
    (skills / "a" / "scripts").mkdir()
    (skills / "a" / "scripts" / "do.py").write_text("print(1)\n")
    (skills / "group").mkdir()
    (skills / "broken").mkdir()
    (skills / "broken" / "SKILL.md").write_text("no front matter")
    put(skills / "group" / "elsewhere")
    put(skills / "group" / "other")
    (skills / "linked").symlink_to(skills / "group" / "other")
    home.look()
    before = home.look()
    assert home.look() is before
    assert home.skills.known("main", home.workspace, home.workspace, first_use=True, here=True) is before
    change(skills)
    assert home.look() is not before
    after = home.look()  # by now what is new has been accepted
    fresh = home.service(home.now).look("main", home.workspace, home.workspace, first_use=True)
    assert after == fresh


def test_what_a_turn_takes_from_skills_follows_the_configuration(tmp_path):
    home = Installation(tmp_path, {})
    put(home.workspace / "skills" / "a")
    home.look()
    before = home.look()
    home.config({"skills": {"entries": {"a": {"env": {"OTHER": "x"}}}, "limits": {"maxSkillsInPrompt": 0}}})
    after = home.look()
    assert before.prompt is not None and after.prompt is None
    assert "OTHER" not in before.variables and after.variables["OTHER"].reveal() == "x"


@pytest.mark.parametrize("watch", [True, False])
def test_a_skill_is_labelled_from_the_turn_on_in_which_it_turns_out_to_be_installed(tmp_path, watch):
    home = Installation(tmp_path, {"skills": {"load": {"watch": watch}}})
    base = put(home.workspace / "skills" / "a").parent
    (base / ".openclaw").mkdir()
    home.look()
    assert home.look().labels[str(base)] == ()
    (base / ".openclaw" / "source-origin.json").write_text("{}")
    assert [origin.label for origin in home.look().labels[str(base)]] == ["skill"]
    (base / ".openclaw" / "source-origin.json").unlink()
    assert home.look().labels[str(base)] == ()


def test_what_changed_just_now_is_looked_at_again(tmp_path):
    home = Installation(tmp_path, {})
    put(home.workspace / "skills" / "a")
    now = home.service(time.time)
    first = now.look("main", home.workspace, home.workspace, first_use=True)
    assert now.look("main", home.workspace, home.workspace, first_use=True) is not first


def test_a_skill_that_was_only_looked_at_is_accepted_when_it_is_used(tmp_path):
    home = Installation(tmp_path, {})
    put(home.workspace / "skills" / "a")
    looked = home.skills.look("main", home.workspace, home.workspace, first_use=False)
    assert looked.get("a").trust.state == "new"
    home.look()
    assert home.look().get("a").trust.state == "trusted"


def test_without_watching_the_first_look_counts(tmp_path):
    home = Installation(tmp_path, {"skills": {"load": {"watch": False}}})
    put(home.workspace / "skills" / "a")
    first = home.look()
    put(home.workspace / "skills" / "b")
    assert home.look() is first


async def admitted_by(gates: Sequence[Gate], tool: Any, args: Any, context: Any) -> str | None:
    """What the first gate that objects says, asked in order as for every call."""
    for gate in gates:
        if (refusal := await gate.admit(tool, args, context)) is not None:
            return refusal
    return None


@pytest.mark.parametrize(("decision", "admitted"), [("allow-once", ["read", "exec"]), ("deny", ["read"])])
async def test_a_person_decides_about_what_a_skill_did_not_declare(tmp_path, decision, admitted):
    home = Installation(tmp_path, {"skills": {"permissions": "enforce"}})
    path = put(home.workspace / "skills" / "a", more="allowed-tools: read\n")
    behind, someone = Behind(), Someone(decision)
    home.look()
    gates = (SkillGate(home.skills.guard(home.look()), someone), behind)
    assert await admitted_by(gates, Reads(), {"path": str(path)}, home.context()) is None
    refusal = await admitted_by(gates, Runs(), {"command": "ls -l"}, home.context())
    assert (refusal is None) == (decision == "allow-once")
    assert behind.admitted == admitted
    assert [request.command for request in someone.asked] == ["exec ls -l"]
    assert "did not declare the tool exec" in someone.asked[0].why


async def test_a_skill_that_changed_is_refused_without_asking(tmp_path):
    home = Installation(tmp_path, {})
    path = put(home.workspace / "skills" / "a")
    home.look()
    gate = SkillGate(home.skills.guard(home.look()), Someone("allow-once"))
    path.write_text(path.read_text() + "more")
    refusal = await gate.admit(Reads(), {"path": str(path)}, home.context())
    assert refusal is not None and refusal.startswith("Not read: SKILL.md of the skill a")
