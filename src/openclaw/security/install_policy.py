"""Asks the operator's policy program whether something may be installed. Any failure means no."""

import contextlib
import os
import signal
import subprocess
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct

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

    target: Literal["skill", "plugin"]
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
    if not settings.enabled or question.target not in settings.targets:
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
        child = subprocess.Popen(
            [program.command, *program.args],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=variables,
            start_new_session=True,
        )
    except OSError as error:
        return f"it cannot be started: {error.strerror}"
    said: list[bytes] = []
    talk = threading.Thread(target=_talk, args=(child, question, program.max_output_bytes, said), daemon=True)
    talk.start()
    talk.join(program.timeout_ms / 1000)
    late = talk.is_alive()
    code = _end(child, late)
    talk.join(1.0)
    if late:
        return f"it took longer than {program.timeout_ms} ms"
    data = said[0] if said else b""
    if len(data) > program.max_output_bytes:
        return "its answer was too long"
    if code != 0:
        return f"it ended with code {code}"
    try:
        return msgspec.json.decode(data, type=PolicyAnswer)
    except msgspec.DecodeError as error:
        return f"its answer was not understood: {error}"


def _talk(child: "subprocess.Popen[bytes]", question: bytes, limit: int, said: list[bytes]) -> None:
    assert child.stdin is not None and child.stdout is not None
    with contextlib.suppress(OSError):
        child.stdin.write(question)
    with contextlib.suppress(OSError):
        child.stdin.close()
    with contextlib.suppress(OSError, ValueError):
        said.append(child.stdout.read(limit + 1))


def _end(child: "subprocess.Popen[bytes]", late: bool) -> int:
    """Waits for the program, or kills it with everything it started."""
    code: int | None = None
    if not late:
        with contextlib.suppress(subprocess.TimeoutExpired):
            code = child.wait(timeout=1.0)
    if code is None:
        with contextlib.suppress(OSError):
            if hasattr(os, "killpg"):
                os.killpg(child.pid, signal.SIGKILL)
            else:
                child.kill()
        child.wait()
        code = -1
    if child.stdout is not None:
        child.stdout.close()
    return code
