"""Finds out what is wrong with an installation, and repairs what can be repaired without losing anything."""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Literal

from msgspec import Struct

from openclaw.config.check import ConfigProblem
from openclaw.config.load import LoadedConfig, load, problems_of
from openclaw.config.paths import Home
from openclaw.core.errors import ConfigError, Conflict, InvalidRequest, OpenClawError, StateError
from openclaw.gateway.surroundings import Environment

Severity = Literal["critical", "warn", "info"]


class DoctorFix(Struct, frozen=True):
    """A repair: what it will do, in words, and the doing."""

    plan: str
    apply: Callable[[], None]
    ends_gateway: bool = False
    """The gateway cannot do it to itself: it is done from a terminal."""


class DoctorFinding(Struct, frozen=True, kw_only=True):
    """One thing that a person should know."""

    id: str
    severity: Severity
    title: str
    detail: str = ""
    remediation: str = ""
    fix: DoctorFix | None = None

    def document(self) -> dict[str, Any]:
        told: dict[str, Any] = {"checkId": self.id, "severity": self.severity, "title": self.title}
        told |= {"detail": self.detail} if self.detail else {}
        told |= {"remediation": self.remediation} if self.remediation else {}
        if self.fix is not None:
            told |= {"plan": self.fix.plan, "endsGateway": self.fix.ends_gateway}
        return {**told, "fixable": self.fix is not None}


class DoctorContext(Struct, frozen=True, kw_only=True):
    """What the checks look at."""

    surroundings: Environment
    loaded: LoadedConfig | None
    """None when neither the configuration nor the last good one can be used."""
    problems: tuple[ConfigProblem, ...]
    """Why the file itself cannot be used."""
    now: int

    @property
    def home(self) -> Home:
        return self.surroundings.home


Check = Callable[[DoctorContext], Iterable[DoctorFinding]]


def look(surroundings: Environment) -> DoctorContext:
    """The scene, read once for all checks."""
    loaded: LoadedConfig | None = None
    try:
        loaded = load(surroundings.home, surroundings.environ)
        problems = loaded.issues
    except ConfigError as error:
        problems = problems_of(error)
    return DoctorContext(surroundings=surroundings, loaded=loaded, problems=problems, now=round(time.time() * 1000))


def examine(scene: DoctorContext, checks: Sequence[Check]) -> list[DoctorFinding]:
    """Everything the checks find, the worst first."""
    order: tuple[Severity, ...] = ("critical", "warn", "info")
    found = [finding for check in checks for finding in check(scene)]
    return sorted(found, key=lambda finding: order.index(finding.severity))


def repair(findings: Iterable[DoctorFinding]) -> Iterator[tuple[DoctorFinding, str]]:
    """Applies each repair; what went wrong with it, or nothing."""
    for finding in findings:
        if finding.fix is None:
            continue
        try:
            finding.fix.apply()
        except OpenClawError as error:
            yield finding, error.message
        except OSError as error:
            yield finding, f"{error.filename or ''}: {error.strerror}".lstrip(": ")
        else:
            yield finding, ""


def report(scene: DoctorContext, findings: Sequence[DoctorFinding]) -> dict[str, Any]:
    """All of it as one document."""
    counts = summary(findings)
    told = [finding.document() for finding in findings]
    return {"ok": not counts["critical"], "ts": scene.now, "summary": counts, "findings": told}


def carry_out(findings: Sequence[DoctorFinding], check_id: str, plan: str) -> None:
    """One repair, if it would still do what was agreed to."""
    found = next((each for each in findings if each.id == check_id and each.fix and each.fix.plan == plan), None)
    if found is None:
        raise Conflict(f"{check_id} is not what it was when you looked: look again")
    if found.fix is not None and found.fix.ends_gateway:
        raise InvalidRequest("the gateway cannot do this to itself: run `openclaw doctor --fix` in a terminal")
    for _, error in repair([found]):
        if error:
            raise StateError(f"not done: {error}")


def summary(findings: Iterable[DoctorFinding]) -> dict[str, int]:
    counts = {"critical": 0, "warn": 0, "info": 0}
    for finding in findings:
        counts[finding.severity] += 1
    return counts
