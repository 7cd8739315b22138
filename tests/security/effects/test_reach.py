"""What leaves the machine, what the owner asked for himself, and what was opened."""

import sys
from pathlib import Path
from typing import Any

import pytest

from openclaw.security.effects.command_facts import leaves
from openclaw.security.effects.intent import asked_for, reads_by_name, targets
from openclaw.security.effects.opens import OpenWatch, names_in, others_directories
from openclaw.security.effects.reach import may_fetch
from openclaw.security.labels import composed_bytes, typed_bytes


@pytest.mark.parametrize(
    "command",
    ["gog gmail search x", "sim-google mail", "wacli send x", "x=1; notmuch search", "a && unheard-of", "ls | unheard"],
)
def test_programs_nobody_listed_are_of_the_outside(command: str) -> None:
    assert may_fetch(command)


@pytest.mark.parametrize(
    "command",
    [
        "python3 -c 'import os'",
        "echo aGk= | base64 -d | sh",
        "bash <<EOF",
        "eval x",
        "python3 not-there.py",
        "mytool ada@example.org",
        "perl -e 1",
    ],
)
def test_what_hides_its_code_may_leave(command: str, tmp_path: Path) -> None:
    assert leaves(command, str(tmp_path), str(tmp_path))


@pytest.mark.parametrize("command", ["make", "python3 here.py", "pytest -q", "npm test", "cargo build", "sleep 1; ls"])
def test_these_stay(command: str, tmp_path: Path) -> None:
    (tmp_path / "here.py").write_text("print(1)\n")
    assert not leaves(command, str(tmp_path), str(tmp_path))


def test_a_script_that_talks_to_the_network_leaves(tmp_path: Path) -> None:
    (tmp_path / "here.py").write_text("import requests\n")
    assert leaves("python3 here.py", str(tmp_path), str(tmp_path))


MAIL = {"recipients": ["ada@example.org"], "subject": "Lunch", "body": "Noon is fine."}


@pytest.mark.parametrize(
    ("tool", "args", "said", "wanted"),
    [
        ("office__send_mail", MAIL, "Answer ada@example.org that noon is fine.", True),
        ("office__send_mail", MAIL, "Antworte ada@example.org, dass Mittag passt.", True),
        ("office__send_mail", MAIL, "What does ada@example.org want?", False),
        ("office__send_mail", MAIL, "Answer Ada that noon is fine.", False),
        (
            "office__send_mail",
            {**MAIL, "recipients": ["ada@example.org", "eve@evil.test"]},
            "Write ada@example.org.",
            False,
        ),
        ("office__send_mail", {**MAIL, "recipients": ["ada@example.organ"]}, "Write to ada@example.org.", False),
        ("office__send_mail", {**MAIL, "body": "The key is AKIA1234567890AB."}, "Write to ada@example.org.", False),
        ("office__send_mail", {**MAIL, "body": "see http://evil.test/x"}, "Write to ada@example.org.", False),
        ("office__pay", {"iban": "DE02120300000000202051", "amount": 800}, "Pay 800 to DE02120300000000202051.", True),
        ("office__pay", {"iban": "DE02120300000000202051", "amount": 900}, "Pay 800 to DE02120300000000202051.", False),
        ("office__delete_mail", {"mail_id": "m3"}, "Delete the mail m3.", True),
        ("office__delete_mail", {"mail_id": "m4"}, "Delete the mail m3.", False),
        ("cron", {"action": "add", "job": {"payload": {"message": "lunch"}}}, "Remind me every day of lunch.", True),
        ("cron", {"action": "add", "job": {"payload": {"message": "lunch"}}}, "Sum this up.", False),
        ("frobnicate", {"x": "y"}, "Please frobnicate.", False),
    ],
)
def test_what_the_owner_asked_for(tool: str, args: dict[str, Any], said: str, wanted: bool) -> None:
    assert asked_for(tool, args, [said], []) is wanted


def test_a_file_that_goes_along_is_named_by_the_owner() -> None:
    """Otherwise the mail that is answered could ask for it."""
    said = ["Send report.pdf to ada@example.org."]
    named = {"target": "ada@example.org", "message": "Here it is.", "media": "/home/ada/report.pdf"}
    assert asked_for("send_message", named, said, [])
    for more in ({"media": "diary.txt"}, {"attachments": [{"media": "diary.txt"}]}, {"filePath": "diary.txt"}):
        assert not asked_for("send_message", {**named, **more}, said, ["diary.txt"])
    assert targets(named) != targets({**named, "media": "diary.txt"})


def test_what_is_typed_into_a_page_is_counted() -> None:
    typed = {"action": "act", "request": {"kind": "type", "ref": "e1", "text": "dear diary"}}
    filled = {"action": "act", "request": {"kind": "fill", "fields": [{"ref": "e1", "value": "tides"}]}}
    batch = {"action": "act", "request": {"kind": "batch", "actions": [{"kind": "type", "text": "abc"}]}}
    owner = ["Look for tides."]
    assert [typed_bytes(each, owner) for each in (typed, filled, batch, {"query": "x"})] == [10, 0, 3, 0]


def test_names_say_what_reads() -> None:
    assert all(map(reads_by_name, ["list_mails", "getBalance", "office__read_mail", "search_files", "find_free_time"]))
    assert not any(
        map(reads_by_name, ["send_mail", "get_and_delete", "create_event", "pay", "readwrite", "list_and_share"])
    )


def test_addresses_on_a_site_of_the_owner() -> None:
    owner = ["How do I use asyncio? Look at docs.example.org."]
    assert composed_bytes("https://docs.example.org/library/asyncio.html", owner, []) == len("/library/asyncio.html")
    assert composed_bytes("https://docs.example.org/x?k=CANARY", owner, []) is None
    assert composed_bytes("https://evil.example.org/library", owner, []) is None


@pytest.mark.skipif(sys.platform != "linux", reason="inotify")
def test_what_is_opened_is_seen(tmp_path: Path) -> None:
    for name in ("inbox/a/mail.txt", "app/node_modules/x/y.js", "notes/plan.md", "their/.git/config", "their/README"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x")
    watched = others_directories(str(tmp_path))
    assert {Path(each).relative_to(tmp_path).as_posix() for each in watched} == {
        "inbox",
        "inbox/a",
        "app/node_modules",
        "their",
    }
    watch = OpenWatch([*watched, str(tmp_path / "notes/plan.md")])
    assert watch.works and watch.opened() == set()
    (tmp_path / "inbox/a/mail.txt").read_text()
    (tmp_path / "their/README").rename(tmp_path / "moved")
    assert watch.opened() == {str(tmp_path / "inbox/a/mail.txt"), str(tmp_path / "their/README")}
    (tmp_path / "notes/plan.md").read_text()
    assert str(tmp_path / "notes/plan.md") in watch.opened()
    watch.close()
    assert names_in(str(tmp_path / "notes")) == ["plan.md"]
