"""May this command run: settings, grants and the command decide."""

import itertools
from typing import Any, get_args

import pytest

from openclaw.security.exec_policy import (
    Allow,
    AskPerson,
    Deny,
    ExecGrant,
    argv_pin,
    command_pin,
    decide,
    grants_for,
    stricter,
)
from openclaw.security.settings import Ask, Security
from openclaw.security.shell import CommandSegment
from openclaw.tools.settings import ExecSettings

PROGRAMS = {
    "git": "/usr/bin/git",
    "rm": "/usr/bin/rm",
    "ls": "/usr/bin/ls",
    "deploy": "/home/me/bin/deploy",
    "./deploy": "/work/deploy",
    **{name: f"/usr/bin/{name}" for name in ("cut", "uniq", "head", "tail", "tr", "wc", "sort", "grep", "sed", "awk")},
}
SAFE = ExecSettings().safe_bins


def ruled(
    command: str, *grants: ExecGrant, cwd: str = "/work", security: Any = "allowlist", ask: Any = "on-miss", **more: Any
) -> Any:
    return decide(command, cwd, security, ask, grants, PROGRAMS.get, more.get("safe_bins", SAFE))


def granted(pattern: str, arg_pattern: str | None = None) -> ExecGrant:
    return ExecGrant(pattern=pattern, arg_pattern=arg_pattern)


@pytest.mark.parametrize(
    ("security", "ask", "listed", "missed"),
    [
        ("deny", "off", Deny, Deny),
        ("deny", "always", Deny, Deny),
        ("full", "off", Allow, Allow),
        ("full", "on-miss", Allow, Allow),
        ("full", "always", AskPerson, AskPerson),
        ("allowlist", "off", Allow, Deny),
        ("allowlist", "on-miss", Allow, AskPerson),
        ("allowlist", "always", AskPerson, AskPerson),
    ],
)
def test_security_and_ask_together_decide(security: str, ask: str, listed: type, missed: type) -> None:
    grant = granted("git")
    assert type(ruled("git status", grant, security=security, ask=ask)) is listed
    assert type(ruled("rm -rf x", grant, security=security, ask=ask)) is missed


def test_the_stricter_of_two_policies_wins_on_both_counts() -> None:
    levels: list[tuple[Security, Ask]] = list(itertools.product(get_args(Security), get_args(Ask)))
    assert stricter(("full", "always"), ("allowlist", "off")) == ("allowlist", "always")
    for one, other in itertools.product(levels, levels):
        both = stricter(one, other)
        assert both == stricter(other, one) == stricter(both, one)
        assert "deny" not in (one[0], other[0]) or both[0] == "deny"


@pytest.mark.parametrize(
    ("grant", "command", "allowed"),
    [
        (granted("git"), "git status", True),
        (granted("g*"), "git status", True),
        (granted("git"), "rm x", False),
        (granted("git"), "git status && rm x", False),  # every program must be listed
        (granted("git"), "git status | git diff", True),
        (granted("git"), "git log > /etc/passwd", False),
        (granted("git"), "git $(rm x)", False),
        (granted("git"), "nothing", False),
        (granted("/usr/bin/git"), "git status", True),
        (granted("/usr/bin/*"), "rm x", True),
        (granted("/home/me/bin/*"), "deploy", True),
        (granted("deploy"), "deploy", True),
        (granted("deploy"), "./deploy", False),  # a bare name is what PATH finds, not what lies in the directory
        (granted("/work/deploy"), "./deploy", True),
        (granted("git", r"status|diff( --stat)?"), "git diff --stat", True),
        (granted("git", r"status|diff"), "git diff --stat", False),
        (granted("git", r"(unclosed"), "git status", False),
        (granted("env"), "env rm x", False),  # what is started counts, not what starts it
        (granted("env"), "env -i rm x", False),
        (granted("nice"), "nice -n 5 rm x", False),
        (granted("xargs"), "git log | xargs rm", False),
        (granted("*", command_pin("a > b", "/work")), "a > b", True),
        (granted("*", command_pin("a > b", "/work")), "a > c", False),
        (granted("*", command_pin("a > b", "/work")), f"rm {command_pin('a > b', '/work')}", False),
        (granted("/usr/bin/git", argv_pin(CommandSegment(("git", "status")), "/work")), "git status", True),
        (granted("/usr/bin/git", argv_pin(CommandSegment(("git", "status")), "/work")), "git  'status'", True),
        (granted("/usr/bin/git", argv_pin(CommandSegment(("git", "status")), "/work")), "git status -s", False),
        (granted("/usr/bin/git", argv_pin(CommandSegment(("git", "status")), "/elsewhere")), "git status", False),
        (granted("/opt/git", argv_pin(CommandSegment(("git", "status")), "/work")), "git status", False),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_a_grant_covers_what_it_says_and_no_more(grant: ExecGrant, command: str, allowed: bool) -> None:
    assert isinstance(ruled(command, grant), Allow) is allowed


def always(command: str, cwd: str = "/work") -> tuple[ExecGrant, ...]:
    return grants_for(command, cwd, PROGRAMS.get, lambda: "id")


@pytest.mark.parametrize(
    "command", ["git status", "git log | head -5", "git add . && git commit -m 'x y'", "echo $HOME"]
)
def test_always_means_this_command_in_this_directory(command: str) -> None:
    grants = always(command)
    assert isinstance(ruled(command, *grants), Allow)
    assert isinstance(ruled(command, *grants, cwd="/elsewhere"), AskPerson)
    assert isinstance(ruled(command + " --force", *grants), AskPerson)
    assert isinstance(ruled(f"{command}; rm x", *grants), AskPerson)
    assert isinstance(ruled(f"x=1 {command}", *grants), AskPerson)


@pytest.mark.parametrize(
    ("command", "safe"),
    [
        ("head", True),
        ("head -5", True),
        ("head -n 5", True),
        ("head -n5 -q", True),
        ("head --lines=5", True),
        ("head -n", False),
        ("head /etc/passwd", False),
        ("head -n 5 /etc/passwd", False),
        ("head -- /etc/passwd", False),
        ("head -", False),
        ("tail -n +3", True),
        ("tail -f", False),
        ("tail -qf", False),
        ("tail -F", False),
        ("tail --follow", False),
        ("tail --foll", False),  # the system accepts a flag's beginning; we do not
        ("tail --retry", False),
        ("cut -d, -f1", True),
        ("cut -d ',' -f 1", True),
        ("cut -f1 file", False),
        ("wc -l", True),
        ("wc --files0-from=x", False),
        ("wc --files0=x", False),
        ("uniq -c", True),
        ("uniq in out", False),
        ("tr a-z A-Z", True),
        ("tr -d '\\n'", True),
        ("tr a b c", False),
        ("sort -rn -k 2", True),
        ("sort -o x", False),
        ("sort -ro x", False),
        ("sort -T x", False),
        ("sort --compress-program=rm", False),
        ("grep -i foo", True),
        ("grep foo file", False),
        ("grep -r foo", False),
        ("grep -f file", False),
        ("sed s/a/b/", False),
        ("awk 1", False),
    ],
)
def test_a_safe_filter_reads_its_input_and_no_file(command: str, safe: bool) -> None:
    bins = (*SAFE, "sort", "grep", "sed", "awk")
    assert isinstance(ruled(f"git log | {command}", granted("git"), safe_bins=bins), Allow) is safe


def test_a_filter_is_safe_only_when_configured_and_from_the_systems_directories() -> None:
    assert isinstance(ruled("git log | sort", granted("git")), AskPerson)
    resolve = {"git": "/usr/bin/git", "head": "/work/bin/head"}.get
    assert isinstance(
        decide("git log | head", "/work", "allowlist", "on-miss", [granted("git")], resolve, SAFE), AskPerson
    )


def test_a_refusal_says_which_program_and_which_setting() -> None:
    assert ruled("rm x", ask="off") == Deny(
        "not on the allowlist (rm is not on the allowlist), and tools.exec.ask is off"
    )
    assert ruled("nothing x") == AskPerson("nothing was not found")
    assert ruled("ls > x") == AskPerson("not a plain command: it redirects output")
