"""Skills as a run has them: the list, the variables, and the gate in front of its tools."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from openclaw.config.load import load
from openclaw.config.paths import Home
from openclaw.core.approval import Answer, ApprovalRequest
from openclaw.core.tool import Effects, Output, Tool, ToolContext, ToolSpec
from openclaw.gateway.skills import SkillGate, Skills
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

    async def decide(self, request: ApprovalRequest) -> Answer:
        self.asked.append(request)
        return Answer(self._decision)


class Installation:
    """An installation with settings."""

    def __init__(self, top: Path, settings: dict[str, Any]) -> None:
        self.state = top / ".openclaw"
        self.workspace = self.state / "workspace"
        self.workspace.mkdir(parents=True, mode=0o700)
        home = Home(state=self.state, config=self.state / "openclaw.json")
        home.config.write_text(json.dumps(settings))
        home.config.chmod(0o600)
        loaded = load(home, {"PATH": "/usr/bin:/bin", "SET": "1"})
        self.skills = Skills(loaded, self.state, top, lambda: self.state.stat().st_mtime + LATER)

    def look(self, agent: str = "main") -> Any:
        return self.skills.look(agent, self.workspace, self.workspace, first_use=True)

    def context(self) -> ToolContext:
        return ToolContext(call_id="1", workspace=self.workspace)


def test_an_agent_sees_its_own_skills_and_no_more(tmp_path):
    agents = {"list": [{"id": "main"}, {"id": "small", "skills": ["a"], "skillsLimits": {"maxSkillsPromptChars": 260}}]}
    home = Installation(tmp_path, {"agents": agents})
    put(home.workspace / "skills" / "a", description="Alpha. " * 30)
    put(home.workspace / "skills" / "b")
    full = home.skills.snapshot("main", home.look())
    small = home.skills.snapshot("small", home.look("small"))
    assert "<name>a</name>" in full.prompt and "<name>b</name>" in full.prompt
    assert "<name>a</name>" in small.prompt and "<name>b</name>" not in small.prompt
    assert len(small.prompt) <= 260
    assert home.skills.snapshot("main", home.look()) is full


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
    assert home.skills.environment(shelf).revealed()["OTHER"] == "x"


def test_without_watching_the_first_look_counts(tmp_path):
    home = Installation(tmp_path, {"skills": {"load": {"watch": False}}})
    put(home.workspace / "skills" / "a")
    first = home.look()
    put(home.workspace / "skills" / "b")
    assert home.look() is first


@pytest.mark.parametrize(("decision", "admitted"), [("allow-once", ["read", "exec"]), ("deny", ["read"])])
async def test_a_person_decides_about_what_a_skill_did_not_declare(tmp_path, decision, admitted):
    home = Installation(tmp_path, {"skills": {"permissions": "enforce"}})
    path = put(home.workspace / "skills" / "a", more="allowed-tools: read\n")
    behind, someone = Behind(), Someone(decision)
    home.look()
    gate = SkillGate(behind, home.skills.guard(home.look()), someone)
    assert await gate.admit(Reads(), {"path": str(path)}, home.context()) is None
    refusal = await gate.admit(Runs(), {"command": "ls -l"}, home.context())
    assert (refusal is None) == (decision == "allow-once")
    assert behind.admitted == admitted
    assert [request.command for request in someone.asked] == ["exec ls -l"]
    assert "did not declare the tool exec" in someone.asked[0].why


async def test_a_skill_that_changed_is_refused_without_asking(tmp_path):
    home = Installation(tmp_path, {})
    path = put(home.workspace / "skills" / "a")
    home.look()
    gate = SkillGate(Behind(), home.skills.guard(home.look()), Someone("allow-once"))
    path.write_text(path.read_text() + "more")
    refusal = await gate.admit(Reads(), {"path": str(path)}, home.context())
    assert refusal is not None and refusal.startswith("Not read: SKILL.md of the skill a")
