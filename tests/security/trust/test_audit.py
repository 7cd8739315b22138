"""The audit of changes: what is on record stays, and what is done to it shows."""

import json
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

from openclaw.security.audit import AuditChange, AuditEntry, digest
from openclaw.security.audit_log import KEEP_DAYS, AuditLog
from openclaw.testing import FakeClock

DAY = 86_400.0
START = 1_800_000_000.0


def deed(number: int = 0, refused: str = "", note: str = "") -> AuditChange:
    text = f"text {number}"
    return AuditChange(
        plugin="p", hook="before_prompt_build", field="prependContext", after=text, refused=refused, note=note
    )


def written(state: Path, count: int = 5) -> AuditLog:
    log = AuditLog(state, FakeClock())
    for number in range(count):
        log.append([deed(number)], run_id=f"run{number}", session_key="agent:main:main")
    return log


def only_file(log: AuditLog) -> Path:
    (path,) = log.directory.glob("*.jsonl")
    return path


def test_an_entry_tells_sizes_and_digests_and_never_the_text(tmp_path: Path) -> None:
    log = AuditLog(tmp_path, FakeClock())
    secret = "hunter2 is the password"
    (entry,) = log.append(
        [
            AuditChange(
                plugin="mask", hook="tool_result_persist", field="message", before=secret, after="•••", priority=3
            )
        ],
        run_id="r1",
        session_key="agent:main:main",
    )
    assert (entry.seq, entry.before_chars, entry.after_chars, entry.priority) == (1, len(secret), 3, 3)
    assert (entry.before_sha256, entry.after_sha256) == (digest(secret), digest("•••"))
    assert secret not in only_file(log).read_text()
    assert only_file(log).stat().st_mode & 0o777 == 0o600


def test_a_chain_that_was_left_alone_holds(tmp_path: Path) -> None:
    log = written(tmp_path)
    checked = log.verify()
    assert (checked.entries, checked.first, checked.last) == (5, 1, 5)
    assert checked.problems == checked.notes == ()
    assert AuditLog(tmp_path, FakeClock()).verify() == checked


def test_nothing_on_record_is_no_problem(tmp_path: Path) -> None:
    assert AuditLog(tmp_path, FakeClock()).verify().problems == ()


def lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)


def altered(text: str) -> str:
    return text.replace('"afterChars":6', '"afterChars":7', 1)


def resealed(text: str) -> str:
    """One entry altered, with a hash that fits it again."""
    import hashlib

    found = lines(text)
    entry = json.loads(found[2])
    entry["plugin"] = "innocent"
    body = json.dumps({name: value for name, value in entry.items() if name != "hash"}, separators=(",", ":"))
    entry["hash"] = hashlib.sha256(body.encode()).hexdigest()
    found[2] = json.dumps(entry, separators=(",", ":")) + "\n"
    return "".join(found)


def swapped(text: str) -> str:
    one, two, *rest = lines(text)
    return "".join([two, one, *rest])


TAMPERING: list[tuple[str, Callable[[str], str], str]] = [
    ("a number altered", altered, "it is not what was written"),
    ("an entry altered and sealed anew", resealed, "the entry before it is not the one that was there"),
    ("a field added", lambda text: text.replace('{"seq":2', '{"extra":1,"seq":2'), "taken out"),
    ("white space added", lambda text: text.replace('"seq":2,', '"seq": 2,'), "taken out"),
    ("the first taken out", lambda text: "".join(lines(text)[1:]), "older ones were taken out"),
    ("one in the middle taken out", lambda text: "".join([*lines(text)[:2], *lines(text)[3:]]), "taken out"),
    ("the end cut off", lambda text: "".join(lines(text)[:-2]), "its end was cut off"),
    ("half of the last line cut off", lambda text: text[:-30], "its end was cut off"),
    ("everything cut off", lambda text: "", "its end was cut off"),
    ("two swapped", swapped, "older ones were taken out"),
    ("one repeated", lambda text: text + lines(text)[-1], "taken out"),
]


@pytest.mark.parametrize(("change", "word"), [rule[1:] for rule in TAMPERING], ids=[rule[0] for rule in TAMPERING])
def test_tampering_shows_and_still_shows_after_more_was_written(
    tmp_path: Path, change: Callable[[str], str], word: str
) -> None:
    log = written(tmp_path)
    path = only_file(log)
    path.write_text(change(path.read_text()))
    fresh = AuditLog(tmp_path, FakeClock())
    assert any(word in problem for problem in fresh.verify().problems), fresh.verify()
    fresh.append([deed(9)])
    log.append([deed(10)])
    assert fresh.verify().problems


def test_the_last_entry_altered_shows_by_the_head(tmp_path: Path) -> None:
    log = written(tmp_path)
    path = only_file(log)
    found = lines(path.read_text())
    forged = AuditLog(tmp_path / "elsewhere", FakeClock())
    for number in range(4):
        forged.append([deed(number)], run_id=f"run{number}", session_key="agent:main:main")
    forged.append([deed(99)], run_id="run4", session_key="agent:main:main")
    path.write_text("".join([*found[:-1], lines(only_file(forged).read_text())[-1]]))
    assert "entry 5 is not the one the head remembers" in AuditLog(tmp_path, FakeClock()).verify().problems


def test_files_and_head_deleted_together_show_by_what_others_remember(tmp_path: Path) -> None:
    log = written(tmp_path)
    known = [(entry.seq, entry.hash) for entry in log.entries()]
    assert log.verify(known).problems == ()
    for path in log.directory.iterdir():
        path.unlink()
    assert AuditLog(tmp_path, FakeClock()).verify(known).problems


def test_a_line_cut_off_by_a_kill_is_set_aside_and_the_chain_goes_on(tmp_path: Path) -> None:
    log = written(tmp_path, 3)
    with only_file(log).open("ab") as file:
        file.write(b'{"seq":4,"at":17')
    fresh = AuditLog(tmp_path, FakeClock())
    fresh.append([deed(4)])
    checked = fresh.verify()
    assert (checked.entries, checked.last, checked.problems) == (4, 4, ())
    assert checked.notes == ("1 line(s) were cut off: the program was killed while writing",)


def test_a_kill_between_the_entry_and_the_head_is_no_tampering(tmp_path: Path) -> None:
    log = written(tmp_path, 3)
    head = (log.directory / "head.json").read_bytes()
    log.append([deed(4)])
    (log.directory / "head.json").write_bytes(head)
    fresh = AuditLog(tmp_path, FakeClock())
    assert fresh.verify().problems == ()
    fresh.append([deed(5)])
    assert (fresh.verify().last, fresh.verify().problems) == (5, ())


def test_what_is_older_than_a_month_is_forgotten_and_the_rest_still_holds(tmp_path: Path) -> None:
    for day in range(KEEP_DAYS + 5):
        clock = FakeClock(START + day * DAY)
        log = AuditLog(tmp_path, clock)
        log.append([deed(day), deed(day)])
    checked = log.verify()
    assert checked.problems == ()
    assert checked.notes == (f"entries before {checked.first} were forgotten with age",)
    assert len(list(log.directory.glob("*.jsonl"))) == KEEP_DAYS + 1
    oldest = min(log.directory.glob("*.jsonl"))
    oldest.unlink()
    assert "older ones were taken out" in AuditLog(tmp_path, clock).verify().problems[0]


def test_a_clock_that_goes_back_does_not_break_the_order(tmp_path: Path) -> None:
    AuditLog(tmp_path, FakeClock(START)).append([deed(1)])
    AuditLog(tmp_path, FakeClock(START - 3 * DAY)).append([deed(2)])
    assert AuditLog(tmp_path, FakeClock(START)).verify().problems == ()


def test_entries_come_latest_first_and_by_run(tmp_path: Path) -> None:
    log = written(tmp_path)
    assert [entry.seq for entry in log.entries(limit=2)] == [5, 4]
    assert [entry.run_id for entry in log.entries("run2")] == ["run2"]


KILLED = textwrap.dedent(
    """
    import sys
    from pathlib import Path
    from openclaw.process.tasks import SystemClock
    from openclaw.security.audit import AuditChange as Deed
    from openclaw.security.audit_log import AuditLog
    log = AuditLog(Path(sys.argv[1]), SystemClock())
    while True:
        (entry,) = log.append([Deed(plugin="p", hook="h", field="f", after="x" * 5000)])
        print(entry.seq, entry.hash, flush=True)
    """
)


def test_what_was_on_record_before_a_kill_is_there_and_two_writers_share_one_chain(
    tmp_path: Path,
) -> None:
    promised: list[tuple[int, str]] = []
    for _ in range(3):
        writers = [
            subprocess.Popen([sys.executable, "-c", KILLED, str(tmp_path)], stdout=subprocess.PIPE, text=True)
            for _ in range(2)
        ]
        for writer in writers:
            assert writer.stdout is not None
            for _ in range(10):
                seq, found = writer.stdout.readline().split()
                promised.append((int(seq), found))
            writer.kill()
            rest = [line.split() for line in writer.stdout.read().splitlines()]
            promised += [(int(each[0]), each[1]) for each in rest if len(each) == 2 and len(each[1]) == 64]
            writer.wait()
            writer.stdout.close()
    log = AuditLog(tmp_path, FakeClock())
    checked = log.verify()
    assert checked.problems == ()
    kept = {entry.seq: entry.hash for entry in log.entries()}
    assert len(promised) == len({seq for seq, _ in promised}) >= 60
    assert all(kept[seq] == found for seq, found in promised)


def test_an_entry_reads_back_as_it_was_written(tmp_path: Path) -> None:
    log = AuditLog(tmp_path, FakeClock())
    made = log.append([deed(1, refused="not granted", note="tool exec"), deed(2)])
    again = log.entries()
    assert [*reversed(again)] == list(made)
    assert isinstance(again[0], AuditEntry) and again[1].refused == "not granted"
