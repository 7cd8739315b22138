"""What a call amounts to, what the table says about it, and when the breaker trips."""

import pytest

from openclaw.core.secret import is_secret_path
from openclaw.core.text import ACTION_KINDS, LABEL_COLUMNS, MAX_ORIGINS, UNTRUSTED, Origin, make_origin, merge_origins
from openclaw.core.tool import Effects
from openclaw.security.effects.reach import may_fetch
from openclaw.security.exec_policy import Allow, AskPerson, Deny
from openclaw.security.labels import (
    DEFAULT_TABLE,
    CallFacts,
    CircuitBreaker,
    actions_of,
    build_table,
    decide,
    deletes,
)

PAGE = (make_origin("external", "web_fetch https://example.org"),)
SKILL = (make_origin("skill", "skill x"),)
STRANGER = (make_origin("stranger", "eve"),)


def test_every_field_of_the_table_is_filled() -> None:
    assert set(DEFAULT_TABLE) == set(ACTION_KINDS) and all(
        set(row) == set(LABEL_COLUMNS) for row in DEFAULT_TABLE.values()
    )


@pytest.mark.parametrize(
    "deed", ["run", "send", "schedule", "configure", "write-outside", "write-instructions", "fetch-composed"]
)
def test_foreign_text_makes_it_a_question(deed) -> None:
    for origins in (PAGE, SKILL):
        ruling = decide((deed,), origins, DEFAULT_TABLE)
        assert isinstance(ruling, AskPerson) and origins[0].source in ruling.why


@pytest.mark.parametrize("deed", ["read", "write", "fetch", "delegate"])
def test_what_the_owner_asks_for_every_day_goes_on(deed) -> None:
    assert isinstance(decide((deed,), PAGE, DEFAULT_TABLE), Allow) and isinstance(
        decide((deed,), (), DEFAULT_TABLE), Allow
    )


def test_a_label_never_loosens_anything() -> None:
    order = {"allow": 0, "ask": 1, "deny": 2}
    for row in DEFAULT_TABLE.values():
        assert all(order[row[column]] >= order[row["none"]] for column in LABEL_COLUMNS)


def test_the_strictest_field_counts() -> None:
    assert isinstance(decide(("read", "run"), (*PAGE, *STRANGER), DEFAULT_TABLE), Deny)
    assert isinstance(decide(("configure",), (), DEFAULT_TABLE), AskPerson)


def test_the_owner_changes_fields_and_modes() -> None:
    changed = build_table({"external": {"run": "deny", "delete": "allow"}})
    assert isinstance(decide(("run",), PAGE, changed), Deny) and isinstance(decide(("delete",), PAGE, changed), Allow)
    assert isinstance(decide(("run",), SKILL, changed), AskPerson)
    assert isinstance(decide(("run",), PAGE, build_table({}, "off")), Allow)
    assert isinstance(decide(("run",), PAGE, build_table({}, "deny")), Deny)
    assert isinstance(decide(("configure",), (), build_table({}, "off")), AskPerson)


@pytest.mark.parametrize(
    ("path", "deed"),
    [
        ("/w/notes/a.md", "write"),
        ("/w/AGENTS.md", "write-instructions"),
        ("/w/memory.md", "write-instructions"),
        ("/w/sub/AGENTS.md", "write"),
        ("/w/skills/x/SKILL.md", "write-instructions"),
        ("/w/.git/hooks/pre-commit", "write-instructions"),
        ("/w/src/.envrc", "write-instructions"),
        ("/home/ada/.bashrc", "write-outside"),
        ("/w2/a", "write-outside"),
    ],
)
def test_where_something_is_written(path: str, deed: str) -> None:
    assert actions_of(Effects.WRITES_FILES, CallFacts(writes=(path,), workspace="/w")) == (deed,)


@pytest.mark.parametrize(
    "path",
    ["/h/.ssh/id_ed25519", "/w/.env", "/w/.env.local", "/h/.aws/credentials", "/w/server.pem", "/w/config/secrets.yaml",
     "/s/agents/main/agent/auth-profiles.json", "/s/openclaw.json", "/s/openclaw.json.last-good", "/h/.netrc"],
)  # fmt: skip
def test_a_file_that_usually_holds_credentials_has_to_be_named(path: str) -> None:
    assert is_secret_path(path)
    assert actions_of(Effects.READS_FILES, CallFacts(reads=(path,), workspace="/w")) == ("read-secret",)
    named = CallFacts(reads=(path,), workspace="/w", named=(f"please look at {path.rpartition('/')[2]}",))
    assert actions_of(Effects.READS_FILES, named) == ("read",)


@pytest.mark.parametrize(
    "path", ["/w/.env.example", "/w/notes.md", "/w/src/keys.py", "/w/environment.md", "/w/id_cards.md"]
)
def test_ordinary_files_are_ordinary(path: str) -> None:
    assert not is_secret_path(path)


@pytest.mark.parametrize(
    "command",
    ["curl https://x", "wget x", "git clone git@h:x", "git -C a pull", "cd a && git fetch", "ssh host ls", "pip install x",  # noqa: E501
     "npm install", "python -c 'import urllib; urllib.request.urlopen(\"http://x\")'", "cat < /dev/tcp/1.2.3.4/80", "gh pr view"],  # noqa: E501
)  # fmt: skip
def test_commands_that_reach_out(command: str) -> None:
    assert may_fetch(command)


@pytest.mark.parametrize(
    "command", ["ls", "git status", "git log", "python3 a.py", "cat curl.txt", "make", "pytest -q", "npm test"]
)
def test_commands_that_do_not(command: str) -> None:
    assert not may_fetch(command)


@pytest.mark.parametrize(
    ("command", "count"),
    [("rm a", 1), ("rm a; rm b && rmdir c", 3), ("find . -name x -delete", 1), ("ls; cat rm.txt", 0), ("git clean -fd", 1),  # noqa: E501
     ("python -c 'import shutil; shutil.rmtree(\"x\")'", 1), ("echo form", 0)],
)  # fmt: skip
def test_how_much_a_command_deletes(command: str, count: int) -> None:
    assert deletes(command) == count


def test_the_breaker_counts_a_minute_and_begins_anew_after_a_yes() -> None:
    breaker = CircuitBreaker({"deletes": 3, "sends": 0})
    for second in range(3):
        assert breaker.tripped("deletes", 1, second) is None
        breaker.count("deletes", 1, second)
    assert breaker.tripped("deletes", 1, 10) == "4 deletes within a minute are more than 3"
    assert breaker.tripped("deletes", 1, 61.5) is None
    assert breaker.tripped("deletes", 4, 200) is not None
    assert breaker.tripped("sends", 1_000, 0) is None
    breaker.count("deletes", 3, 200)
    breaker.excused("deletes")
    assert breaker.tripped("deletes", 3, 201) is None


def test_origins_are_few_and_the_worst_is_never_lost() -> None:
    many = [make_origin("tool", f"tool {number}") for number in range(100)]
    kept = merge_origins(many[:50], STRANGER, many[50:], many)
    assert len(kept) <= MAX_ORIGINS + 1 and STRANGER[0] in kept and many[0] in kept and many[-1] in kept
    assert merge_origins([Origin("owner", "me"), Origin("workspace", "a")]) == ()
    assert all(Origin(label, "x").untrusted for label in UNTRUSTED)
    assert "\n" not in make_origin("external", "a\nSystem: b").source
