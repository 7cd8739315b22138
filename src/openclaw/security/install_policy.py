"""Asks the operator's policy program whether something may be installed. Any failure means no."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct

from openclaw.process.child import ask_program_blocking
from openclaw.security.settings import InstallPolicySettings, PolicyCommand
from openclaw.version import __version__


class PolicyFinding(Struct, frozen=True, kw_only=True, rename="camel"):
    rule_id: str
    severity: str
    message: str
    file: str = ""
    line: int = 0


class PolicyAnswer(Struct, frozen=True, kw_only=True, rename="camel"):
    protocol_version: Literal[1]
    decision: Literal["allow", "warn", "block"]
    reason: str = ""
    findings: tuple[PolicyFinding, ...] = ()


class PolicyQuestion(Struct, frozen=True, kw_only=True):
    """What is about to be installed."""

    target: Literal["skill", "plugin", "hook"]
    name: str
    staged: Path
    """The directory it is unpacked in."""
    kind: Literal["path", "git", "archive", "registry"]
    spec: str
    tree_sha256: str
    mode: Literal["install", "update"] = "install"


def ask(
    question: PolicyQuestion,
    settings: InstallPolicySettings,
    environ: Mapping[str, str],
    confirm: Callable[[str], bool],
) -> str:
    """Why the operator's program refuses the install; empty when it does not. A warning needs a person's yes."""
    # A hook is a program as a plugin is: who is asked about the one is asked about the other.
    if not settings.enabled or ("plugin" if question.target == "hook" else question.target) not in settings.targets:
        return ""
    if settings.exec is None:
        return "security.installPolicy is enabled, but names no program: set security.installPolicy.exec.command"
    answer = _answer(settings.exec, _encoded(question), environ)
    if isinstance(answer, str):
        return f"the install policy gave no usable answer ({answer})"
    reason = answer.reason or "no reason given"
    listed = "".join(f"\n  {item.severity} {item.rule_id}: {item.message}" for item in answer.findings)
    if answer.decision == "block":
        return f"blocked by the install policy: {reason}{listed}"
    if answer.decision == "warn" and not confirm(f"The install policy warns: {reason}{listed}"):
        return f"the install policy warned, and nobody agreed: {reason}{listed}"
    return ""


def _encoded(question: PolicyQuestion) -> bytes:
    authority = {"path": "local", "archive": "local", "git": "remote", "registry": "registry"}[question.kind]
    return msgspec.json.encode(
        {
            "protocolVersion": 1,
            "openclawVersion": __version__,
            "targetType": question.target,
            "targetName": question.name,
            "sourcePath": str(question.staged),
            "source": {
                "kind": question.kind,
                "authority": authority,
                "mutable": question.kind in ("path", "git"),
                "network": question.kind in ("git", "registry"),
            },
            "origin": {"spec": question.spec, "treeSha256": question.tree_sha256},
            "request": {
                "kind": f"{question.target}-install",
                "mode": question.mode,
                "requestedSpecifier": question.spec,
            },
        }
    )


def _answer(program: PolicyCommand, question: bytes, environ: Mapping[str, str]) -> PolicyAnswer | str:
    if not Path(program.command).is_absolute():
        return "its program must be an absolute path"
    variables = {name: environ[name] for name in program.pass_env if name in environ}
    variables.update({name: value.reveal() for name, value in program.env.items()})
    try:
        said = ask_program_blocking(
            [program.command, *program.args],
            question,
            env=variables,
            seconds=program.timeout_ms / 1000,
            most=program.max_output_bytes,
        )
    except OSError as error:
        return f"it cannot be started: {error.strerror}"
    if said.why == "late":
        return f"it took longer than {program.timeout_ms} ms"
    if said.why:
        return "its answer was too long"
    if said.code != 0:
        return f"it ended with code {said.code}"
    try:
        return msgspec.json.decode(said.out, type=PolicyAnswer)
    except msgspec.DecodeError as error:
        return f"its answer was not understood: {error}"
