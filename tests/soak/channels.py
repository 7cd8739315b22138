"""Kills the gateway again and again while people write on Telegram and Matrix: scripts/soak channels [KILLS [SECONDS]].

Everybody asks, waits for the answer and asks the next. Nothing may be lost; on Matrix nothing may come twice; on
Telegram only what was being sent at the moment of a kill may, and the outbox has counted it.
"""

import json
import random
import re
import sqlite3
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

from msgspec import Struct

from openclaw.runs.outbox import FAILURE_REPLY
from openclaw.testing import Says, TemporaryHome
from openclaw.testing.server import MockModelServer, Reply
from tests.channels.matrix.server import TOKEN as MATRIX_TOKEN
from tests.channels.matrix.server import MatrixServer
from tests.channels.telegram.server import TOKEN as TELEGRAM_TOKEN
from tests.channels.telegram.server import TelegramServer
from tests.e2e.gateway_process import GatewayProcess

PEOPLE = 4
"""On each platform."""
LONGEST_LIFE = 4.0
"""Seconds that a gateway has at most, once it is ready. A run that is killed too often is given up, and says so."""
PATIENCE = 120.0
_QUESTION = re.compile(r"question-[a-z]+-\d+-\d+")


class EchoModel(MockModelServer):
    """Answers every question with its name."""

    def _next(self, request: dict[str, Any]) -> tuple[Reply, ...]:
        self.requests.append({})
        asked = [each for each in request["messages"] if each["role"] == "user"]
        found = _QUESTION.findall(json.dumps(asked[-1]))
        return (Says("; ".join(f"answer to {name}" for name in found) or "?"),)


class SoakReport(Struct, kw_only=True):
    """What came of it."""

    kills: int = 0
    asked: Counter[str] = Counter()
    lost: list[str] = []
    doubled: dict[str, list[str]] = {}
    """By platform: the questions that were answered more than once."""
    uncounted: list[str] = []
    """Those of them that the outbox did not count as possibly doubled."""
    given_up: list[str] = []
    """Those of which people were told that it did not work: the gateway was killed whenever it worked on them."""
    other: list[str] = []
    """What people were told beside all that."""
    seconds: float = 0.0


class Crowd:
    """People who write on both platforms."""

    def __init__(self, telegram: TelegramServer, matrix: MatrixServer) -> None:
        self._telegram = telegram
        self._matrix = matrix
        self.asked: Counter[str] = Counter()
        self.waiting: set[str] = set()
        self.given_up: list[str] = []
        self.stopping = threading.Event()
        self._threads = [
            threading.Thread(target=self._talk, args=(platform, number), name=f"{platform}-{number}")
            for platform in ("telegram", "matrix")
            for number in range(PEOPLE)
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self, seconds: float) -> None:
        """Nobody asks anything more; what was asked is waited for."""
        self.stopping.set()
        deadline = time.monotonic() + seconds
        for thread in self._threads:
            thread.join(max(0.1, deadline - time.monotonic()))

    def texts(self, platform: str) -> list[str]:
        return [text for _, text in self._shown(platform)]

    def _shown(self, platform: str) -> list[tuple[str, str]]:
        """Every message of the assistant that is there now, as it looks after its edits: its chat, and its text."""
        if platform == "telegram":
            told = list(self._telegram.sent)
            return [(str(each["chat_id"]), each["text"]) for each in told if not each.get("deleted")]
        others = list(self._matrix.other)
        gone = {each["redacts"] for each in others if "redacts" in each}
        edits = {each["m.relates_to"]["event_id"]: each["m.new_content"] for each in others if "m.new_content" in each}
        return [
            (each["room_id"], edits.get(each["event_id"], each)["body"])
            for each in list(self._matrix.sent)
            if each["event_id"] not in gone
        ]

    def _failures(self, platform: str, number: int) -> int:
        """How often a person was told that it did not work."""
        if platform == "telegram":
            mine = {str(10 + number)}
        else:
            rooms = list(self._matrix.rooms.values())
            mine = {room.id for room in rooms if f"@person{number}:test" in room.joined()}
        return sum(chat in mine and text == FAILURE_REPLY for chat, text in self._shown(platform))

    def _talk(self, platform: str, number: int) -> None:
        count = 0
        while not self.stopping.is_set():
            count += 1
            name = f"question-{platform}-{number}-{count}"
            self.asked[platform] += 1
            self.waiting.add(name)
            failures = self._failures(platform, number)
            if platform == "telegram":
                self._telegram.says(name, sender=10 + number)
            else:
                self._matrix.says(name, sender=f"@person{number}:test")
            began = time.monotonic()
            # Its name is a whole word: question-x-1-1 is not question-x-1-11.
            pattern = re.compile(rf"{re.escape(name)}\b(?!-)")
            while not any(pattern.search(text) for text in self.texts(platform)):
                if self._failures(platform, number) > failures:
                    self.given_up.append(name)
                    break
                if self.stopping.is_set() and time.monotonic() - began > PATIENCE:
                    return
                time.sleep(0.05)
            self.waiting.discard(name)


def configure(home: TemporaryHome, model: MockModelServer, telegram: TelegramServer, matrix: MatrixServer) -> None:
    anybody = {"dmPolicy": "open", "allowFrom": ["*"]}
    home.configure(
        {
            **model.settings(),
            "channels": {
                "telegram": {"botToken": TELEGRAM_TOKEN, "apiRoot": telegram.url, **anybody},
                "matrix": {
                    "homeserver": matrix.url,
                    "accessToken": MATRIX_TOKEN,
                    "autoJoin": "always",
                    **anybody,
                },
            },
        }
    )


def soak(folder: Path, kills: int, most_seconds: float = 86_400.0, seed: int = 1, say: Any = print) -> SoakReport:
    """Kills the gateway so often, or for so long, lets it finish, and counts."""
    chance = random.Random(seed)
    began = time.monotonic()
    home = TemporaryHome(folder)
    with EchoModel([Says("?")]) as model, TelegramServer() as telegram, MatrixServer() as matrix:
        configure(home, model, telegram, matrix)
        crowd = Crowd(telegram, matrix)
        # Kills in a row look like a crash loop, and a gateway in safe mode connects no channel.
        gateway = GatewayProcess(home, "--safe-mode", "off")
        gateway.start()
        crowd.start()
        try:
            number = 0
            while number < kills and time.monotonic() - began < most_seconds:
                number += 1
                time.sleep(chance.uniform(0.0, LONGEST_LIFE))
                gateway.kill()
                if number % 20 == 0:
                    asked = sum(crowd.asked.values())
                    say(f"{number} kills, {asked} questions, {time.monotonic() - began:.0f} s", flush=True)
                gateway.start()
            crowd.stop(PATIENCE)
            time.sleep(2.0)  # what comes twice comes now
            gateway.stop()
        finally:
            crowd.stopping.set()
            gateway.__exit__()
        return _count(crowd, home, number, time.monotonic() - began)


def _count(crowd: Crowd, home: TemporaryHome, kills: int, seconds: float) -> SoakReport:
    report = SoakReport(kills=kills, asked=crowd.asked, lost=sorted(crowd.waiting), seconds=seconds)
    report.given_up = crowd.given_up
    for platform in ("telegram", "matrix"):
        texts = crowd.texts(platform)
        answers = Counter(name for text in texts for name in _QUESTION.findall(text))
        report.doubled[platform] = sorted(name for name, count in answers.items() if count > 1)
        report.other += [text for text in texts if not _QUESTION.search(text) and text != FAILURE_REPLY]
    counted = _possibly_doubled(home.state)
    for names in report.doubled.values():
        report.uncounted += [name for name in names if name not in counted]
    return report


def _possibly_doubled(state: Path) -> set[str]:
    """The questions whose answers the outbox counted, and those whose preview left without its receipt."""
    found: set[str] = set()
    for path in state.rglob("*.sqlite"):
        with sqlite3.connect(path) as db:
            if db.execute("SELECT 1 FROM sqlite_master WHERE name = 'outbox'").fetchone():
                rows = db.execute("SELECT body FROM outbox WHERE doubled > 0").fetchall()
                found |= {name for (body,) in rows for name in _QUESTION.findall(body)}
    return found


def show(report: SoakReport) -> str:
    doubled = {platform: len(names) for platform, names in report.doubled.items()}
    return (
        f"{report.kills} kills in {report.seconds:.0f} s; asked {dict(report.asked)}; lost {len(report.lost)} "
        f"{report.lost[:5]}; doubled {doubled}, of these not counted by the outbox {len(report.uncounted)} "
        f"{report.uncounted[:5]}; given up and told so {len(report.given_up)}; "
        f"said beside all that {len(report.other)} {report.other[:3]}"
    )


def is_good(report: SoakReport) -> bool:
    return not (report.lost or report.doubled["matrix"] or report.uncounted or report.other)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="openclaw-soak-") as made:
        wanted = [int(each) for each in sys.argv[1:]] or [200]
        result = soak(Path(made), *wanted)
    print(show(result))
    sys.exit(0 if is_good(result) else 1)
