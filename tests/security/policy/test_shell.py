"""Reading a command line: what an approver sees is what a shell does, or it is called unclear."""

import os
import shutil
import subprocess
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from openclaw.security.shell import LONGEST, CommandSegment, UnclearCommand, parse_shell

SHELLS = [found for name in ("dash", "bash", "zsh", "busybox") if (found := shutil.which(name))]


def programs(command: str) -> list[tuple[str, ...]]:
    parsed = parse_shell(command)
    assert not isinstance(parsed, UnclearCommand), f"{command!r}: {parsed.why}"
    return [segment.argv for segment in parsed]


@pytest.mark.parametrize(
    ("command", "argvs"),
    [
        ("ls", [("ls",)]),
        ("  ls   -la\t/tmp ", [("ls", "-la", "/tmp")]),
        ("git log --format='%h %s' | head -5", [("git", "log", "--format=%h %s"), ("head", "-5")]),
        ("a && b || c; d", [("a",), ("b",), ("c",), ("d",)]),
        ("a\nb\n\nc\n", [("a",), ("b",), ("c",)]),
        ("a &&\n b", [("a",), ("b",)]),
        ("a ;\n", [("a",)]),
        ("echo 'it'\"'\"'s'", [("echo", "it's")]),
        ('echo "a\\"b\\\\c\\d"', [("echo", 'a"b\\c\\d')]),
        ("echo a\\ b \\$HOME \\;", [("echo", "a b", "$HOME", ";")]),
        ("echo '' \"\"", [("echo", "", "")]),
        ("echo '$HOME `id` * ~ # >'", [("echo", "$HOME `id` * ~ # >")]),
        ("echo 'two\nlines'", [("echo", "two\nlines")]),
        ("grüße '世界' 👋", [("grüße", "世界", "👋")]),
        ("make CC=gcc --jobs=2", [("make", "CC=gcc", "--jobs=2")]),
        ("git show HEAD^", [("git", "show", "HEAD^")]),
        ("nohup nice env ls -l", [("ls", "-l")]),
        ("timeout 5 ls", [("ls",)]),
    ],
)
def test_a_plain_command_is_read_as_a_shell_reads_it(command: str, argvs: list[tuple[str, ...]]) -> None:
    assert programs(command) == argvs


@pytest.mark.parametrize(
    "command",
    [
        # expansion
        "echo $HOME", "echo ${x:-`id`}", "echo $(id)", "echo `id`", 'echo "$(id)"', 'echo "`id`"', 'echo "$x"',
        "echo $'\\x69\\x64'", 'echo $"hi"', "echo $((1+1))", "ls ~", "ls ~root/x", "dd of=~/x", "ls *",
        "ls ?", "ls [a]",
        "echo {a,b}", "echo a{1..3}", "=ls", "echo =ls",
        # redirection and process substitution
        "ls > /etc/passwd", "ls >> x", "cat < x", "ls 2>&1", "cat <<EOF\nrm -rf /\nEOF", "cat <<< x", "diff <(ls) x",
        "tee >(sh)", "ls >| x", "exec 3<> x",
        # several commands in disguise
        "ls &", "ls & rm -rf /", "ls |& sh", "ls &| x", "(rm x)", "{ rm x; }", "f() { rm x; }; f", "ls # ; comment",
        "if true; then rm x; fi", "for x in 1; do rm x; done", "while rm x; do :; done", "case x in x) rm x;; esac",
        "! ls", "time ls", "coproc ls", "[[ -e x ]]", "((x=1))", "select x", "function f", "repeat 3 rm x",
        # lines that are not what they seem
        "ls \\\n-la", 'echo "a\\\nb"', "ls \\", "ls\r\nrm x", "ls\rrm", "ls\x0brm", "ls\x00rm", "ls\x1b[2Krm x",
        "ls\u00a0-la", "ls\u3000x", "echo \u202egnp.exe", "echo a\u200bb", "echo '\u2066x'", "echo \ud800",
        # quotes that do not close, commands that are missing
        "echo 'a", 'echo "a', "a &&", "a |", "a ||\n", "&& a", "| a", "; a", "a ;; b", "a && && b", "a | | b", "", "  ",
        "\n",
        # variables that change a command, and builtins that change the shell
        "PATH=/tmp ls", "LD_PRELOAD=x ls", "A=b", "env A=b ls", "eval 'rm x'", ". ./x", "source x", "exec rm x",
        "alias ls=rm", "builtin cd", "trap 'rm x' EXIT", "set -e", "export PATH=x", "cd /etc && rm x",
        "pushd /", "hash -p x ls",
        "enable -f x y", "read x", "umask 0", "printf -v PATH x", "test -v x", "mapfile -C x", "unset PATH", "let x=1",
        "\\cd /", "'eval' x", "- ls", "noglob ls",
        # programs that start programs
        "env -S 'rm x'", "env -i ls", "nice -n 5 rm x", "nice", "env", "command -v ls", "timeout -s KILL 5 rm x",
        "timeout 5", "sudo rm x", "doas rm x", "xargs rm", "ls | xargs rm", "stdbuf -o0 rm x", "busybox rm x",
        "nohup sudo rm", "setsid -f rm x", "watch rm x", "command exec rm", "env time rm",
    ],
    ids=repr,
)  # fmt: skip
def test_a_command_that_could_mean_something_else_is_unclear(command: str) -> None:
    assert isinstance(parse_shell(command), UnclearCommand)


def test_what_nobody_can_read_nobody_can_approve() -> None:
    assert isinstance(parse_shell("echo " + "x" * LONGEST), UnclearCommand)
    assert not isinstance(parse_shell("echo " + "x" * (LONGEST - 5)), UnclearCommand)


def test_a_reason_is_given() -> None:
    assert parse_shell("echo $HOME") == UnclearCommand("it expands a variable or a command")
    assert parse_shell("sudo ls") == UnclearCommand("it starts another program through 'sudo'")


# The judge: real shells, with every program replaced by one that writes down what it was called with.

STUBS = ("alpha", "beta", "gamma")
CARRIERS = ("env", "nohup", "nice", "timeout", "setsid")
PIECES = [
    *STUBS, *STUBS, *CARRIERS, " ", " ", " ", "\t", "\n", ";", "&", "&&", "||", "|", "'", '"',
    "\\", "$", "`", "$'", "$(", ")", "(", "{", "}",
    "a", "b c", "-x", "--y=z", "=", "~", "*", "?", "[", "]", "#", "!", "^", "%", "@", "+", ",", ":",
    ".", "1", "2", "<", ">",
    "''", '""', "'a b'", '"c d"', "\\ ", "\\'", '\\"', "\\\\", "\\n", "\\\n", "é", "世", "\u00a0", "-", "--",
    "time", "if",
    "\x7f", "\r", "x=1", "{a,b}", "&& ", " | ", " ; ", " || ",
]  # fmt: skip


@pytest.fixture(scope="module")
def stubs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("stubs")
    for name in STUBS:
        stub = place / name
        stub.write_text('#!/bin/sh\nprintf "%s\\0" "${0##*/}" "$@" > "$CALLED/$$"\nexit "$STATUS"\n')
        stub.chmod(0o755)
    for name in CARRIERS:
        real = shutil.which(name)
        assert real is not None
        (place / name).symlink_to(real)
    return place


def really_run(command: str, shell: str, stubs: Path, status: str) -> "Counter[tuple[str, ...]]":
    called = stubs / "called"
    shutil.rmtree(called, ignore_errors=True)
    called.mkdir()
    env = {"PATH": str(stubs), "CALLED": str(called), "STATUS": status, "HOME": "/home", "LC_ALL": "C.UTF-8"}
    argv = [shell, "sh", "-c", command] if shell.endswith("busybox") else [shell, "-c", command]
    subprocess.run(argv, env=env, cwd=called, stdin=subprocess.DEVNULL, capture_output=True, timeout=120)
    return Counter(tuple(os.fsdecode(path.read_bytes()).split("\0")[:-1]) for path in called.iterdir())


def judged(command: str, segments: tuple[CommandSegment, ...], shell: str, stubs: Path) -> None:
    expected = Counter(segment.argv for segment in segments if segment.argv[0] in STUBS)
    # Between && and || a program runs when all succeed or when all fail; nothing else ever runs.
    succeeded, failed = (really_run(command, shell, stubs, status) for status in ("0", "1"))
    assert succeeded <= expected, (shell, command)
    assert failed <= expected, (shell, command)
    if all(segment.argv[0] in STUBS for segment in segments):
        assert set(succeeded | failed) == set(expected), (shell, command)


@settings(max_examples=500, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.sampled_from(PIECES), min_size=1, max_size=9), st.sampled_from(SHELLS))
def test_a_real_shell_runs_exactly_what_was_read(stubs: Path, pieces: list[str], shell: str) -> None:
    command = "alpha " + "".join(pieces)
    parsed = parse_shell(command)
    if not isinstance(parsed, UnclearCommand):
        judged(command, parsed, shell, stubs)


words = st.one_of(
    st.text(st.characters(codec="utf-8", exclude_characters="'\0"), max_size=8).map(lambda text: f"'{text}'"),
    st.text(st.characters(codec="utf-8", exclude_characters='"$`\\\0'), max_size=8).map(lambda text: f'"{text}"'),
    st.text("abcXYZ019-_./:,@%+^!=", min_size=1, max_size=8),
    st.characters(codec="utf-8", exclude_characters="\0").map(lambda char: f"\\{char}"),
)
simple = st.tuples(st.sampled_from(STUBS), st.lists(words, max_size=4)).map(lambda made: " ".join((made[0], *made[1])))


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(simple, min_size=1, max_size=3), st.sampled_from([" && ", " || ", " | ", "; ", "\n"]), st.data())
def test_a_real_shell_agrees_on_quotes_and_escapes(
    stubs: Path, commands: list[str], operator: str, data: st.DataObject
) -> None:
    command = operator.join(commands)
    parsed = parse_shell(command)
    if not isinstance(parsed, UnclearCommand):
        judged(command, parsed, data.draw(st.sampled_from(SHELLS)), stubs)


def test_the_judge_sees_what_runs(stubs: Path) -> None:
    ran = really_run("alpha 'a b' && beta | gamma x; echo $(alpha hidden)", SHELLS[0], stubs, "0")
    assert ran == Counter([("alpha", "a b"), ("beta",), ("gamma", "x"), ("alpha", "hidden")])
