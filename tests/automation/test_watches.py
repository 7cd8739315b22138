"""What has to change before a model is asked: every kind of watch, looked at for real."""

import asyncio
import os
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from zoneinfo import ZoneInfo

import msgspec
import pytest

from openclaw.automation.cron.probes import WatchProbes
from openclaw.automation.cron.watch import (
    CommandWatch,
    DueWatch,
    FileWatch,
    HttpWatch,
    MailWatch,
    SilenceWatch,
    Watch,
    changed_results,
    due_lines,
)
from openclaw.runs.request import RunRequest
from openclaw.testing import FakeClock, ScriptedModel, TemporaryHome, says
from tests.automation.support import MAIN, START, place

pytestmark = pytest.mark.anyio


class Eyes:
    """Looks again and again, and says what is new."""

    def __init__(self, workspace: Path, watch: Watch, clock: FakeClock | None = None, **environ: str) -> None:
        self._workspace = workspace
        self._watch = watch
        self._seen: dict[str, str] = {}
        self._environ = {"PATH": os.environ["PATH"], **environ}
        self.clock = clock or FakeClock(START)
        self.contact = 0
        self.says = ""

    async def news(self) -> bool:
        looking = WatchProbes(self._workspace, self._environ, self.clock, self.contact, UTC)
        look = await looking.look(self._watch)
        found = changed_results([look], self._seen)
        self._seen |= {look.name: look.mark} if look.mark else {}
        self.says = look.says
        return bool(found)


async def test_a_file_that_changes_goes_and_comes(tmp_path: Path) -> None:
    eyes = Eyes(tmp_path, FileWatch(path="note.txt"))
    assert not await eyes.news()
    (tmp_path / "note.txt").write_text("one")
    assert await eyes.news() and not await eyes.news()
    (tmp_path / "note.txt").write_text("other")
    assert await eyes.news()
    (tmp_path / "note.txt").unlink()
    assert await eyes.news() and "No such file" in eyes.says and not await eyes.news()


async def test_a_folder_that_gets_and_loses_entries(tmp_path: Path) -> None:
    (tmp_path / "inbox").mkdir()
    eyes = Eyes(tmp_path, FileWatch(path="inbox"))
    assert not await eyes.news()
    (tmp_path / "inbox" / "a").write_text("a")
    assert await eyes.news() and eyes.says == "inbox: 1 entries"
    (tmp_path / "inbox" / "a").unlink()
    assert await eyes.news() and not await eyes.news()


async def test_a_command_whose_output_or_exit_code_changes(tmp_path: Path) -> None:
    state = tmp_path / "state"
    state.write_text("echo fine; exit 0")
    eyes = Eyes(tmp_path, CommandWatch(argv=("sh", "state")))
    assert not await eyes.news() and not await eyes.news()
    state.write_text("echo broken; exit 0")
    assert await eyes.news() and eyes.says == "exit code 0\nbroken"
    state.write_text("echo broken; exit 3")
    assert await eyes.news() and eyes.says.startswith("exit code 3")


async def test_a_command_that_hangs_or_cannot_start_is_no_news_twice(tmp_path: Path) -> None:
    slow = Eyes(tmp_path, CommandWatch(argv=("sleep", "600"), timeout_seconds=0.2))
    assert not await slow.news() and not await slow.news() and slow.says == "no answer in time"
    gone = Eyes(tmp_path, CommandWatch(argv=("no-such-program-anywhere",)))
    assert not await gone.news() and not await gone.news() and "cannot start" in gone.says


class _Page:
    status = 200
    body = b"one"


@contextmanager
def served(page: _Page) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(page.status)
            self.send_header("content-length", str(len(page.body)))
            self.end_headers()
            self.wfile.write(page.body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


async def test_an_address_whose_content_or_status_changes(tmp_path: Path) -> None:
    page = _Page()
    with served(page) as url:
        eyes = Eyes(tmp_path, HttpWatch(url=url))
        assert not await eyes.news() and not await eyes.news()
        page.body = b"two"
        assert await eyes.news() and eyes.says == "HTTP 200, new content"
        page.status = 503
        assert await eyes.news()
    assert not await eyes.news() and eyes.says.startswith("no answer")  # networks come and go


async def test_silence_is_news_once_and_that_somebody_wrote_again_is_none(tmp_path: Path) -> None:
    eyes = Eyes(tmp_path, SilenceWatch(longer_than_ms=3_600_000))
    eyes.contact = round(START * 1000)
    assert not await eyes.news()
    await eyes.clock.advance(3_601)
    assert await eyes.news() and eyes.says == "nobody has written for 60 minutes"
    await eyes.clock.advance(3_601)
    assert not await eyes.news()
    eyes.contact = round(eyes.clock.now() * 1000)
    assert not await eyes.news()
    await eyes.clock.advance(3_601)
    assert await eyes.news()


def maildir(path: Path) -> Path:
    for part in ("new", "cur", "tmp"):
        (path / part).mkdir(parents=True)
    return path


async def test_new_mail_in_a_maildir_is_news_and_reading_it_is_none(tmp_path: Path) -> None:
    box = maildir(tmp_path / "Mail")
    (box / "cur" / "1700000000.a.host:2,S").write_text("old")
    eyes = Eyes(tmp_path, MailWatch(path="Mail"))
    assert not await eyes.news()
    (box / "new" / "1700000100.b.host").write_text("hello")
    (box / "new" / "1700000101.c.host").write_text("hello again")
    assert await eyes.news() and eyes.says == "2 new of 3 letters"
    assert not await eyes.news()
    (box / "new" / "1700000101.c.host").rename(box / "cur" / "1700000101.c.host:2,S")
    assert not await eyes.news()
    (box / "new" / "1700000200.d.host").write_text("one more")
    assert await eyes.news()


async def test_a_directory_that_is_no_maildir_is_said(tmp_path: Path) -> None:
    eyes = Eyes(tmp_path, MailWatch(path="nowhere"))
    assert not await eyes.news() and "is no Maildir" in eyes.says


class _Mailbox(socketserver.ThreadingTCPServer):
    """An IMAP server that knows login, status and logout."""

    allow_reuse_address = True
    daemon_threads = True
    following, unseen = 10, 0

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Imap)
        self.heard: list[str] = []


class _Imap(socketserver.StreamRequestHandler):
    server: _Mailbox

    def handle(self) -> None:
        self.wfile.write(b"* OK ready\r\n")
        for raw in self.rfile:
            tag, _, rest = raw.decode().strip().partition(" ")
            verb = rest.partition(" ")[0].upper()
            self.server.heard.append(rest)
            match verb:
                case "CAPABILITY":
                    self.wfile.write(b"* CAPABILITY IMAP4REV1\r\n")
                case "LOGIN" if "right" not in rest:
                    self.wfile.write(f"{tag} NO wrong password\r\n".encode())
                    continue
                case "STATUS":
                    counts = f"(UIDNEXT {self.server.following} UNSEEN {self.server.unseen})"
                    self.wfile.write(f'* STATUS "INBOX" {counts}\r\n'.encode())
                case "LOGOUT":
                    self.wfile.write(b"* BYE\r\n")
            self.wfile.write(f"{tag} OK done\r\n".encode())


@contextmanager
def mail_server() -> Iterator[_Mailbox]:
    server = _Mailbox()
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def over_imap(server: _Mailbox) -> MailWatch:
    port = int(server.server_address[1])
    return MailWatch(host="127.0.0.1", port=port, tls=False, user="ann", password_env="IMAP_PASSWORD")


async def test_new_mail_on_a_server_is_news_and_nothing_is_opened(tmp_path: Path) -> None:
    with mail_server() as server:
        eyes = Eyes(tmp_path, over_imap(server), IMAP_PASSWORD="right")
        assert not await eyes.news()
        server.following, server.unseen = 12, 2
        assert await eyes.news() and eyes.says == "2 unread letters"
        server.unseen = 1
        assert not await eyes.news()  # one was read
        assert {line.partition(" ")[0] for line in server.heard} <= {"CAPABILITY", "LOGIN", "STATUS", "LOGOUT"}


async def test_a_wrong_password_or_none_is_said_without_repeating_it(tmp_path: Path) -> None:
    with mail_server() as server:
        eyes = Eyes(tmp_path, over_imap(server), IMAP_PASSWORD="hunter2-is-wrong")
        assert not await eyes.news() and "no answer from 127.0.0.1" in eyes.says and "hunter2" not in eyes.says
        eyes = Eyes(tmp_path, over_imap(server))
        assert not await eyes.news() and eyes.says == "IMAP_PASSWORD is not set"


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"kind": "mail"}, "either a path"),
        ({"kind": "mail", "path": "x", "host": "y"}, "either a path"),
        ({"kind": "mail", "host": "y"}, "needs user"),
        ({"kind": "mail", "host": "mail.example.com", "user": "a", "passwordEnv": "P", "tls": False}, "TLS only"),
        ({"kind": "mail", "host": "h", "user": 'a"', "passwordEnv": "P"}, "no quotes"),
        ({"kind": "silence", "longerThanMs": 1}, "60000"),
        ({"kind": "http", "url": "file:///etc/passwd"}, "http"),
        ({"kind": "command", "argv": []}, "length"),
        ({"kind": "telepathy"}, "telepathy"),
    ],
)
async def test_what_cannot_be_watched_is_refused(given: dict[str, object], says: str) -> None:
    with pytest.raises(msgspec.ValidationError, match=says):
        msgspec.convert(given, Watch)


async def test_a_note_is_due_once_when_its_time_has_come(tmp_path: Path) -> None:
    clock = FakeClock(START)  # 2027-01-15 08:00 UTC
    (tmp_path / "memory").mkdir()
    (tmp_path / "MEMORY.md").write_text("- [ ] renew the passport, due: 2027-01-15\n- [ ] taxes (due 2027-05-31)\n")
    (tmp_path / "memory" / "2027-01-10.md").write_text("call Ann, due: 2027-01-15 09:30\n- [x] done, due: 2027-01-01\n")
    eyes = Eyes(tmp_path, DueWatch(), clock)
    assert await eyes.news() and eyes.says == "MEMORY.md:1: - [ ] renew the passport, due: 2027-01-15"
    assert not await eyes.news()
    await clock.advance(2 * 3_600)
    assert await eyes.news() and "memory/2027-01-10.md:1: call Ann" in eyes.says
    (tmp_path / "MEMORY.md").write_text("- [x] renew the passport, due: 2027-01-15\n")
    assert not await eyes.news()  # ticked off


def test_dates_that_are_none_are_due_never_and_zones_count() -> None:
    assert due_lines("due: 2027-02-30", "n", UTC) == []
    (berlin,), (utc,) = (due_lines("due: 2027-06-01 9:00", "n", zone) for zone in (ZoneInfo("Europe/Berlin"), UTC))
    assert utc.at - berlin.at == 2 * 3_600_000


async def test_a_job_that_waits_for_silence_asks_once(
    openclaw_home: TemporaryHome, scripted_model: ScriptedModel
) -> None:
    scripted_model.script(says("hello"), says("Are you well?"))
    async with place(openclaw_home, scripted_model) as here:
        await here.runs.submit(RunRequest(run_id="r1", key=MAIN, text="hi"))
        await here.runs.wait("r1", 30)
        job = await here.scheduler.book.add(
            {
                "message": "ask how they are",
                "everyMs": 3_600_000,
                "delivery": {"mode": "none"},
                "watch": [{"kind": "silence", "longerThanMs": 10_800_000}],
            }
        )
        await here.pass_time(12 * 3_600, step=600)
        assert len(scripted_model.requests) == 2 and scripted_model.saw("nobody has written for")
        statuses = [each["status"] for each in here.of(job.id, "finished")]
        assert statuses.count("ok") == 1 and set(statuses) == {"ok", "skipped"}


async def test_a_heartbeat_looks_into_mail_and_notes(
    openclaw_home: TemporaryHome, scripted_model: ScriptedModel
) -> None:
    scripted_model.script(says("New mail."), says("The passport!"))
    box = maildir(openclaw_home.workspace / "Mail")
    watch = {"heartbeat": {"every": "30m", "watch": {"maildirs": ["Mail"], "due": True}}}
    async with place(openclaw_home, scripted_model, defaults=watch) as here:
        await here.pass_time(3 * 3_600, step=300)
        assert scripted_model.requests == []
        (box / "new" / "1800010000.a.host").write_text("hello")
        await here.pass_time(3_600, step=300)
        assert len(scripted_model.requests) == 1 and scripted_model.saw("Changed: mail in Mail. 1 new of 1 letters")
        (openclaw_home.workspace / "MEMORY.md").write_text("- [ ] passport, due: 2027-01-15\n")
        await here.pass_time(3 * 3_600, step=300)
        assert len(scripted_model.requests) == 2 and scripted_model.saw("Changed: notes that are due.")


async def test_looks_do_not_wait_for_each_other_for_ever(tmp_path: Path) -> None:
    async with asyncio.timeout(60):
        eyes = [Eyes(tmp_path, CommandWatch(argv=("sleep", "600"), timeout_seconds=0.1)) for _ in range(5)]
        assert not any([await each.news() for each in eyes])
