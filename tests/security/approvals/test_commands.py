"""`openclaw approvals` and `exec-policy` as a person types them, and what was allowed for good taken back."""

import json
from pathlib import Path
from typing import Any

import pytest

from openclaw.core.errors import Conflict, NotFound, StateError
from openclaw.security.approvals import ApprovalFile
from openclaw.security.effects.consent import digest_programs
from openclaw.testing import TemporaryHome
from tests.commandline import Typed, typed

GRANT = {"id": "abcd1234", "pattern": "/usr/bin/git", "argPattern": "status"}


@pytest.fixture
def cli(openclaw_home: TemporaryHome) -> Typed:
    return typed(openclaw_home)


def test_what_is_allowed_for_good_is_listed_and_taken_back(cli: Typed) -> None:
    assert "Nothing is allowed for good" in cli("approvals", "list").out
    assert cli("approvals", "allowlist", "add", "git", "--args", "status.*").code == 0
    assert cli("approvals", "allowlist", "add", "/usr/bin/ls", "--agent", "work").code == 0
    rows = json.loads(cli("approvals", "list", "--json").out)
    assert [(row["agent"], row["pattern"], row.get("argPattern")) for row in rows] == [
        ("main", "git", "status.*"),
        ("work", "/usr/bin/ls", None),
    ]
    assert "taken back from main: git" in cli("approvals", "allowlist", "remove", rows[0]["id"][:5]).out
    assert [row["pattern"] for row in json.loads(cli("approvals", "list", "--json").out)] == ["/usr/bin/ls"]
    assert json.loads(cli("approvals", "list", "--agent", "main", "--json").out) == []


def test_the_document_is_shown_and_replaced_without_its_key(cli: Typed, openclaw_home: TemporaryHome) -> None:
    path = openclaw_home.state / "exec-approvals.json"
    path.write_text(
        json.dumps({"version": 1, "socket": {"path": "/s", "token": "canary"}, "defaults": {"ask": "always"}})
    )
    shown = cli("approvals", "get", "--json").out
    assert "canary" not in shown
    assert json.loads(shown)["file"]["defaults"] == {"ask": "always"}
    new = openclaw_home.root / "new.json"
    new.write_text(json.dumps({"version": 1, "defaults": {"security": "deny"}}))
    assert "changed by somebody else" in cli("approvals", "set", "--file", str(new), "--base-hash", "0").err
    assert cli("approvals", "set", "--file", str(new), "--base-hash", json.loads(shown)["hash"]).code == 0
    written = json.loads(path.read_text())
    assert written["defaults"] == {"security": "deny"}
    assert written["socket"]["token"] == "canary"


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("approvals", "allowlist", "add", " "), "name a program"),
        (("approvals", "allowlist", "add", "git", "--args", "("), "not a regular expression"),
        (("approvals", "allowlist", "remove", "none"), "openclaw approvals list"),
        (("approvals", "set"), "give either"),
        (("approvals", "pending"), "gateway is not running"),
        (("approvals", "resolve", "x", "deny"), "gateway is not running"),
        (("exec-policy", "set"), "give --security"),
    ],
)
def test_mistakes_say_what_to_do(cli: Typed, words: tuple[str, ...], why: str) -> None:
    done = cli(*words)
    assert done.code != 0
    assert why in done.err


def test_the_policy_is_shown_as_it_holds(cli: Typed, openclaw_home: TemporaryHome) -> None:
    assert "everything runs" in cli("exec-policy", "preset", "yolo").out
    assert json.loads(cli("exec-policy", "show", "--json").out)[0]["security"] == "full"
    (openclaw_home.state / "exec-approvals.json").write_text('{"version": 1, "defaults": {"security": "allowlist"}}')
    assert json.loads(cli("exec-policy", "show", "--json").out)[0]["security"] == "allowlist"
    cli("exec-policy", "set", "--ask", "always")
    assert json.loads(cli("exec-policy", "show", "--json").out)[0]["ask"] == "always"


def test_a_grant_is_found_by_its_id_the_start_of_it_or_its_pattern(tmp_path: Path) -> None:
    for wanted in ("abcd1234", "abcd", "/usr/bin/git"):
        file = ApprovalFile(tmp_path / "exec-approvals.json")
        file.allow("main", [GRANT], 1)
        assert file.withdraw(wanted, None, 1) == [("main", GRANT)]
        assert file.read().agents["main"].allowlist == ()
    file.allow("main", [GRANT], 1)
    for wanted in ("ab", "", "git"):
        with pytest.raises(NotFound):
            file.withdraw(wanted, None, 1)
    with pytest.raises(NotFound):
        file.withdraw("abcd1234", "work", 1)


def test_a_document_that_cannot_be_used_is_not_put_in_place(tmp_path: Path) -> None:
    file = ApprovalFile(tmp_path / "exec-approvals.json")
    file.allow("main", [GRANT], 1)
    before = file.hash
    cases: list[dict[str, Any]] = [
        {"agents": []},
        {"defaults": {"security": "sometimes"}},
        {"agents": {"main": {"allowlist": [{}]}}},
    ]
    for bad in cases:
        with pytest.raises(StateError):
            file.put(bad, None, 1)
    with pytest.raises(Conflict):
        file.put({"version": 1}, "another", 1)
    assert file.hash == before


def test_what_a_command_starts_has_a_name_that_changes_with_it(tmp_path: Path) -> None:
    script = tmp_path / "deploy.sh"
    script.write_text("echo one\n")
    script.chmod(0o755)
    (tmp_path / "notes.txt").write_text("x")

    def name(*words: str) -> str:
        return digest_programs(
            words, str(tmp_path), lambda word: f"/usr/bin/{word}" if "/" not in word else str(tmp_path / word)
        )

    first = {words: name(*words) for words in (("./deploy.sh",), ("bash", "deploy.sh"))}
    assert all(first.values())
    assert name("cat", "notes.txt") == name("ls") == ""
    script.write_text("echo two\n")
    for words, before in first.items():
        assert name(*words) != before
