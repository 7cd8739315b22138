"""An operator's program has its say, and whatever goes wrong with it means no."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from openclaw.core.secret import Secret
from openclaw.security.install_policy import PolicyQuestion, ask
from openclaw.security.settings import InstallPolicySettings, PolicyCommand


def question(tmp_path: Path) -> PolicyQuestion:
    return PolicyQuestion(
        target="skill", name="thing", staged=tmp_path, kind="archive", spec="/x/thing.tgz", tree_sha256="sha256:0"
    )


def settings(program: str, **more) -> InstallPolicySettings:
    command = PolicyCommand(command=sys.executable, args=("-c", program), **more)
    return InstallPolicySettings(enabled=True, exec=command)


def answers(**answer) -> str:
    return f"import sys; sys.stdin.read(); print({json.dumps(json.dumps({'protocolVersion': 1, **answer}))})"


def asked(tmp_path: Path, policy: InstallPolicySettings, *, agrees: bool = False, environ: Any = None) -> Any:
    shown: list[str] = []

    def confirm(text: str) -> bool:
        shown.append(text)
        return agrees

    return ask(question(tmp_path), policy, environ or {}, confirm), shown


def test_without_a_policy_nobody_is_asked(tmp_path):
    assert asked(tmp_path, InstallPolicySettings())[0] == ""
    elsewhere = InstallPolicySettings(enabled=True, targets=("plugin",))
    assert asked(tmp_path, elsewhere)[0] == ""


def test_it_may_allow(tmp_path):
    assert asked(tmp_path, settings(answers(decision="allow"))) == ("", [])


def test_it_may_block_with_its_findings(tmp_path):
    finding = {"ruleId": "r1", "severity": "high", "message": "phones home"}
    why, _ = asked(tmp_path, settings(answers(decision="block", reason="no", findings=[finding])))
    assert why == "blocked by the install policy: no\n  high r1: phones home"


def test_a_warning_needs_a_yes(tmp_path):
    policy = settings(answers(decision="warn", reason="hm"))
    why, shown = asked(tmp_path, policy)
    assert "nobody agreed: hm" in why and shown == ["The install policy warns: hm"]
    assert asked(tmp_path, policy, agrees=True)[0] == ""


def test_it_is_told_what_is_to_be_installed(tmp_path):
    program = (
        "import sys, json, os; q = json.load(sys.stdin);"
        "print(json.dumps({'protocolVersion': 1, 'decision': 'block', 'reason': json.dumps([q, dict(os.environ)])}))"
    )
    policy = settings(program, pass_env=("KEPT", "ABSENT"), env={"OWN": Secret("s")})
    why, _ = asked(tmp_path, policy, environ={"KEPT": "1", "LOST": "2"})
    told, environ = json.loads(why.removeprefix("blocked by the install policy: "))
    assert told["protocolVersion"] == 1 and told["targetType"] == "skill" and told["targetName"] == "thing"
    assert told["sourcePath"] == str(tmp_path)
    assert told["source"] == {"kind": "archive", "authority": "local", "mutable": False, "network": False}
    assert told["request"] == {"kind": "skill-install", "mode": "install", "requestedSpecifier": "/x/thing.tgz"}
    assert environ["KEPT"] == "1" and environ["OWN"] == "s" and "LOST" not in environ


@pytest.mark.parametrize(
    ("program", "more", "why"),
    [
        ("print('nonsense')", {}, "not understood"),
        ('print(\'{"protocolVersion": 2, "decision": "allow"}\')', {}, "not understood"),
        ("import sys; sys.exit(3)", {}, "code 3"),
        (answers(decision="allow") + "; import sys; sys.exit(1)", {}, "code 1"),
        ("import time; time.sleep(60)", {"timeout_ms": 200}, "longer than 200 ms"),
        ("print('x' * 5000)", {"max_output_bytes": 100}, "too long"),
        ("import os; os.close(0); os.close(1)", {}, "not understood"),
    ],
)
def test_whatever_goes_wrong_means_no(tmp_path, program, more, why):
    said, _ = asked(tmp_path, settings(program, **more), agrees=True)
    assert "gave no usable answer" in said and why in said


def test_a_program_that_is_not_there_means_no(tmp_path):
    for command, why in (("/nowhere/x", "cannot be started"), ("relative", "absolute path")):
        policy = InstallPolicySettings(enabled=True, exec=PolicyCommand(command=command))
        assert why in asked(tmp_path, policy, agrees=True)[0]
    assert "names no program" in asked(tmp_path, InstallPolicySettings(enabled=True))[0]
