"""Results that leave the machine go to the address that was checked, and to no other."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from openclaw.automation.cron.jobs import Delivery, build
from openclaw.automation.cron.service import JobDelivery
from openclaw.automation.cron.store import JobFire
from openclaw.core.errors import InvalidRequest, StateError
from openclaw.testing import ScriptedModel, TemporaryHome
from tests.automation.support import START, Place, place

pytestmark = pytest.mark.anyio


class Receiver:
    """A web server that keeps what it is sent."""

    def __init__(self, status: int = 200) -> None:
        self.status = status
        self.got: list[tuple[dict[str, str], Any]] = []
        self.port = 0

    @contextmanager
    def listening(self) -> Iterator["Receiver"]:
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                receiver.got.append(({name.lower(): value for name, value in self.headers.items()}, json.loads(body)))
                self.send_response(receiver.status)
                self.send_header("location", "http://127.0.0.1:1/elsewhere")
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002
                return

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        self.port = int(server.server_address[1])
        try:
            yield self
        finally:
            server.shutdown()
            server.server_close()
            thread.join()


class Names:
    """A look-up of names that gives another answer each time, and counts."""

    def __init__(self, *answers: str) -> None:
        self._answers = list(answers)
        self.asked: list[str] = []

    async def __call__(self, host: str, port: int) -> list[str]:
        self.asked.append(host)
        return [self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]]


def fire() -> JobFire:
    job = build({"message": "x", "everyMs": 60_000}, job_id="j1", now=round(START * 1000), local="UTC")
    return JobFire(job=job, slot=1, run_id="r1", following=None, status="ok", fired_at=round(START * 1000))


def delivery(here: Place, names: Names | None = None) -> JobDelivery:
    return JobDelivery(here.scheduler.context, names)


def to(url: str) -> Delivery:
    return Delivery(mode="webhook", to=url)


async def test_a_result_arrives_with_its_token(openclaw_home: TemporaryHome, scripted_model: ScriptedModel) -> None:
    settings = {"webhookAllowPrivate": True, "webhookToken": "t0ken"}
    with Receiver().listening() as receiver:
        async with place(openclaw_home, scripted_model, fires=False, cron=settings) as here:
            await delivery(here).deliver(fire(), to(f"http://127.0.0.1:{receiver.port}/in"), "three mails")
    ((headers, body),) = receiver.got
    assert headers["authorization"] == "Bearer t0ken"
    assert body["summary"] == "three mails" and body["jobId"] == "j1"


async def test_a_name_is_looked_up_once_and_the_answer_is_what_is_connected_to(
    openclaw_home: TemporaryHome, scripted_model: ScriptedModel
) -> None:
    names = Names("127.0.0.1", "203.0.113.9")
    with Receiver().listening() as receiver:
        async with place(openclaw_home, scripted_model, fires=False, cron={"webhookAllowPrivate": True}) as here:
            url = f"http://results.example.com:{receiver.port}/in"
            await delivery(here, names).deliver(fire(), to(url), "hi")
    ((headers, _),) = receiver.got
    assert names.asked == ["results.example.com"] and headers["host"].startswith("results.example.com")


@pytest.mark.parametrize("address", ["127.0.0.1", "10.0.0.7", "169.254.169.254", "::1", "::ffff:192.168.1.1"])
async def test_a_name_that_stands_for_an_address_inside_is_refused_before_anything_is_sent(
    openclaw_home: TemporaryHome, scripted_model: ScriptedModel, address: str
) -> None:
    with Receiver().listening() as receiver:
        async with place(openclaw_home, scripted_model, fires=False) as here:
            url = f"http://results.example.com:{receiver.port}/in"
            with pytest.raises(InvalidRequest, match="webhookAllowPrivate"):
                await delivery(here, Names(address)).deliver(fire(), to(url), "hi")
    assert receiver.got == []


async def test_a_redirect_is_not_followed_and_a_refusal_is_said(
    openclaw_home: TemporaryHome, scripted_model: ScriptedModel
) -> None:
    for status in (302, 500):
        with Receiver(status).listening() as receiver:
            async with place(openclaw_home, scripted_model, fires=False, cron={"webhookAllowPrivate": True}) as here:
                with pytest.raises(StateError, match=f"answered {status}"):
                    await delivery(here).deliver(fire(), to(f"http://127.0.0.1:{receiver.port}/"), "hi")
        assert len(receiver.got) == 1
