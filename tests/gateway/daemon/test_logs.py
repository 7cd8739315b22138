"""The log: private, bounded, with ids, without credentials, and never in the way."""

import io
import json
import logging
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from openclaw.config.schema import Config
from openclaw.config.settings import EnvSettings
from openclaw.core.keys import SessionKey
from openclaw.core.secret import REDACTED, Secret
from openclaw.gateway import logs as gateway_logs
from openclaw.gateway.logs import DailyFile, LogFiles, LogLine, Logs, format_log_line, log_context
from openclaw.runs.request import RunRequest
from openclaw.security.redaction import Redactor, secret_variables, secrets_in
from tests.gateway.daemon.support import mode_of

KEY = "k9Qz" * 9

CORPUS = [
    f"key sk-ant-api03-{KEY}",
    f"key sk-proj-{KEY}",
    f"token ghp_{KEY}",
    f"token github_pat_11ABC_{KEY}",
    f"token glpat-{KEY}",
    f"token xoxb-123456789012-{KEY}",
    f"token xapp-1-A0-{KEY}",
    f"telegram 123456789:{KEY}",
    f"google AIza{KEY}",
    f"google ya29.{KEY}",
    "aws AKIA" + "ABCD" * 4,
    f"hugging hf_{KEY}",
    f"groq gsk_{KEY}",
    f"sendgrid SG.{KEY}.{KEY}",
    f"jwt eyJhbGciOiJIUzI1NiJ9.{KEY}.{KEY}",
    f"Authorization: Bearer {KEY}",
    f"authorization: basic {KEY}",
    f"{{'authorization': 'Bearer {KEY}'}}",
    f"x-api-key: {KEY}",
    f"Cookie: session={KEY}; theme=dark",
    f'{{"apiKey": "{KEY}"}}',
    f'{{"gateway": {{"auth": {{"token": "{KEY}"}}}}}}',
    f'"password": "two words {KEY}"',
    f"OPENAI_API_KEY={KEY}",
    f"export DISCORD_BOT_TOKEN={KEY}",
    f"client_secret: {KEY}",
    f"accessToken={KEY}",
    f"openclaw gateway run --token {KEY}",
    f"run --password={KEY}",
    f"https://user:{KEY}@example.org/",
    f"https://example.org/hook?token={KEY}&x=1",
    f"https://hooks.slack.com/services/{KEY}",
    f"https://discord.com/api/webhooks/1/{KEY}",
    f"-----BEGIN OPENSSH PRIVATE KEY-----\n{KEY}\n-----END OPENSSH PRIVATE KEY-----",
    f"-----BEGIN PRIVATE KEY-----\n{KEY}",
]

HARMLESS = [
    "gateway 0.1.0 listens on http://127.0.0.1:18789 (auth: token)",
    "session agent:main:main used 1234 tokens: input 1000, output 234",
    "no API key for anthropic: set models.providers.anthropic.apiKey",
    "config change applied: gateway.auth.token, tools.deny",
    "missing ${OPENAI_API_KEY} in /home/me/.openclaw/openclaw.json",
    "run 3f2b9c1e-77aa-4bcd-9e00-1234567890ab ended after 12 ms",
]


@pytest.mark.parametrize("text", CORPUS)
def test_no_credential_gets_into_the_log(text: str) -> None:
    clean = Redactor()(text)
    assert KEY not in clean and ("ABCD" * 4) not in clean
    assert REDACTED in clean


@pytest.mark.parametrize("text", HARMLESS)
def test_harmless_lines_stay_readable(text: str) -> None:
    assert Redactor()(text) == text


def test_a_configured_credential_is_known_by_value_in_every_spelling() -> None:
    redact = Redactor()
    redact.know([Secret('plum "tree" & pear'), Secret("short"), Secret('plum "tree" & pear, longer')])
    for text in (
        'it was plum "tree" & pear',
        "q=plum%20%22tree%22%20%26%20pear",
        "q=plum+%22tree%22+%26+pear",
        json.dumps({"said": 'plum "tree" & pear, longer'}),
    ):
        assert "plum" not in redact(text) and "longer" not in redact(text)
    assert redact("a short walk") == "a short walk"
    assert "plum" not in repr(redact)


def test_every_credential_of_a_configuration_is_found() -> None:
    config = Config(env=EnvSettings(vars={"MY_KEY": Secret("first-value")}))
    assert [secret.reveal() for secret in secrets_in(config)] == ["first-value"]
    environ = {
        "MY_API_KEY": "second-value",
        "HOME": "/home/me",
        "TOKEN": "tiny",
        "GH_TOKEN": "third-value",
        "MAX_TOKENS": "100000",
    }
    assert [secret.reveal() for secret in secret_variables(environ)] == ["second-value", "third-value"]


@settings(max_examples=50, deadline=None)
@given(st.text(max_size=400))
def test_redaction_takes_any_text(text: str) -> None:
    Redactor()(text)


def test_redaction_is_quick_on_hostile_text() -> None:
    redact = Redactor()
    started = time.process_time()
    for hostile in ("-a" * 8_000, "token=" * 3_000, "x" * 16_000, '"password":"' * 1_300, "Bearer " * 2_000):
        redact(hostile)
    assert time.process_time() - started < 2.0


class Clock:
    def __init__(self) -> None:
        self.time = 1_800_000_000.0

    def __call__(self) -> float:
        return self.time


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Logs]:
    logs = Logs(DailyFile(LogFiles(directory=tmp_path / "logs")), Redactor())
    with logs.writing():
        logs.configure(level="info")
        yield logs


def lines(logs: Logs) -> list[LogLine]:
    return [line for text in gateway_logs.last(logs.file.place, 1_000) if (line := gateway_logs.read(text))]


def test_a_line_has_its_time_level_subsystem_and_ids(log: Logs) -> None:
    logger = logging.getLogger("openclaw.runs.queue")
    key = SessionKey("main", "main")
    with log_context(RunRequest(run_id="r1", key=key, text="")):
        with log_context(RunRequest(run_id="r2", key=key, text="")):
            logger.warning("hello %s", "world")
        logger.debug("too quiet")
    logger.info("outside")
    inside, outside = lines(log)
    assert (inside.level, inside.subsystem, inside.message) == ("warn", "runs.queue", "hello world")
    assert (inside.run_id, inside.session_key) == ("r2", "agent:main:main")
    assert (outside.run_id, outside.session_key) == ("", "")
    assert mode_of(log.file.path) == 0o600 and mode_of(log.file.path.parent) == 0o700


def test_tracebacks_are_kept_without_their_credentials(log: Logs) -> None:
    try:
        raise ValueError(f"bad header Authorization: Bearer {KEY}")
    except ValueError:
        logging.getLogger("openclaw.x").exception("failed")
    (line,) = lines(log)
    assert "ValueError" in line.error and KEY not in line.error


def test_a_line_that_cannot_be_made_is_dropped_and_the_work_goes_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    class Broken:
        def __str__(self) -> str:
            raise RuntimeError(KEY)

    log = Logs(DailyFile(LogFiles(directory=tmp_path)), Redactor())
    logger = logging.getLogger("openclaw.x")
    with log.writing():
        log.configure(level="info")
        logger.info("%s", Broken())
        logger.info("%d", "not a number")
        logger.info("fine")
    assert [line.message for line in lines(log)] == ["fine"]
    assert log.dropped == 2
    said = capsys.readouterr().err
    assert said.count("could not be written") == 1 and KEY not in said


def test_a_log_that_cannot_be_written_stops_nothing(tmp_path: Path) -> None:
    (tmp_path / "logs").write_text("a file in the way")
    logs = Logs(DailyFile(LogFiles(directory=tmp_path / "logs")), Redactor())
    with logs.writing():
        logs.configure(level="info")
        logging.getLogger("openclaw.x").info("hello")
    assert logs.dropped == 1


def test_files_follow_the_days_and_stay_within_their_bounds(tmp_path: Path) -> None:
    clock = Clock()
    place = LogFiles(directory=tmp_path)
    file = DailyFile(place, now=clock, file_bytes=100, total_bytes=350)
    for day in range(4):
        for number in range(4):
            file.write(f"{day}-{number} " + "x" * 60 + "\n")
        clock.time += 86_400
    file.close()
    found = place.files()
    assert sum(path.stat().st_size for path in found) <= 350
    assert all(path.stat().st_size <= 100 for path in found)
    assert found[-1].read_text().startswith("3-3")
    assert found[-1].name.endswith(".3.log")
    again = DailyFile(place, now=lambda: clock.time - 86_400, file_bytes=100, total_bytes=350)
    again.write("4-0 " + "x" * 60 + "\n")
    again.close()
    assert place.files()[-1].name.endswith(".4.log")


@pytest.mark.parametrize(
    ("style", "expected"),
    [
        ("compact", "error it broke\n    Traceback"),
        ("pretty", "error gateway [agent:main:main]: it broke\n    Traceback"),
    ],
)
def test_console_lines_are_for_people(style: str, expected: str) -> None:
    line = LogLine(
        time="2026-01-02T03:04:05.678Z",
        level="error",
        subsystem="gateway",
        message="it \x1b[2Jbroke",
        session_key="agent:main:main",
        error="Traceback",
    )
    text = format_log_line(line, style)  # type: ignore[arg-type]
    assert "\x1b" not in text
    assert text.replace("[2J", "").endswith(expected)


def test_the_console_has_a_level_and_style_of_its_own(log: Logs) -> None:
    console = io.StringIO()
    log.configure(level="info", console_level="error", style="json", console=console)
    logging.getLogger("openclaw.x").warning("only in the file")
    logging.getLogger("openclaw.x").error("in both")
    assert json.loads(console.getvalue())["message"] == "in both"
    log.configure(level="error")
    logging.getLogger("openclaw.x").warning("nowhere")
    assert [line.message for line in lines(log)] == ["only in the file", "in both"]


def test_the_tail_has_a_cursor(tmp_path: Path) -> None:
    path = tmp_path / "x.log"
    path.write_text("one\ntwo\nthr")
    piece = gateway_logs.tail(path)
    assert (piece.lines, piece.cursor, piece.size) == (("one", "two"), 8, 11)
    with path.open("a") as file:
        file.write("ee\nfour\n")
    piece = gateway_logs.tail(path, cursor=piece.cursor)
    assert piece.lines == ("three", "four") and not piece.truncated
    assert gateway_logs.tail(path, cursor=10_000).reset
    limited = gateway_logs.tail(path, cursor=0, max_bytes=8)
    assert limited.lines == ("four",) and limited.truncated
    assert gateway_logs.tail(path, limit=1).lines == ("four",)


def test_following_goes_on_in_the_next_file(tmp_path: Path) -> None:
    place = LogFiles(directory=tmp_path)
    first, second = place.path("2026-01-01"), place.path("2026-01-02")
    first.write_text("before\n")
    steps = iter([(first, "before\nadded\n"), (second, "next day\n")])

    def wait(seconds: float) -> None:
        path, text = next(steps)
        path.write_text(text)

    coming = gateway_logs.follow(place, wait=wait)
    assert [next(coming), next(coming)] == ["added", "next day"]


def test_the_last_lines_may_be_in_several_files(tmp_path: Path) -> None:
    place = LogFiles(directory=tmp_path)
    place.path("2026-01-01").write_text("a\nb\n")
    place.path("2026-01-02").write_text("c\n")
    place.path("2026-01-02", 1).write_text("d\n")
    assert gateway_logs.last(place, 3) == ["b", "c", "d"]


def test_a_line_that_repeats_is_limited_and_counted(tmp_path: Path) -> None:
    now = 0.0
    throttle = gateway_logs.LogThrottle(now=lambda: now)

    def said(message: str, level: int = logging.WARNING) -> logging.LogRecord | None:
        record = logging.LogRecord("openclaw.gateway", level, "", 0, message, (), None)
        return record if throttle.filter(record) else None

    assert sum(said("no descriptors") is not None for _ in range(1_000)) == gateway_logs.LIKE_LINES
    assert said("something else") and said("no descriptors", logging.INFO)
    now = gateway_logs.LIKE_SECONDS
    again = said("no descriptors")
    assert again is not None
    assert gateway_logs.as_line(again, Redactor()).message == (
        f"no descriptors ({1_000 - gateway_logs.LIKE_LINES} more like this were left out)"
    )
