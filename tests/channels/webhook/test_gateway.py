"""A program that talks to the assistant over signed calls, through a real gateway."""

import asyncio
import time
from typing import Any

import pytest

from openclaw.testing import TemporaryHome, says
from openclaw.testing.server import MockModelServer
from tests.channels.http_fault import HttpFault
from tests.channels.webhook.server import SECRET, WebhookProgram, post
from tests.commandline import typed
from tests.e2e.gateway_process import GatewayProcess
from tests.plugins.support import DEADLINE

pytestmark = pytest.mark.anyio


def configure(home: TemporaryHome, model: MockModelServer, program: WebhookProgram, **more: Any) -> None:
    home.configure(
        {
            **model.settings(),
            "channels": {"webhook": {"secret": SECRET, "url": f"{program.url}/take", **more}},
            "commands": {"ownerAllowFrom": ["webhook:ada"]},
        }
    )


async def send(gateway: GatewayProcess, call: Any, path: str = "/webhook") -> int:
    """Calls until the account is connected."""
    async with asyncio.timeout(DEADLINE):
        while True:
            answer = await asyncio.to_thread(post, gateway.port, path, call)
            if answer.status_code not in (404, 405, 503):
                return answer.status_code
            await asyncio.sleep(0.05)


async def test_a_signed_message_is_answered_once_and_a_forged_one_never(openclaw_home: TemporaryHome) -> None:
    with MockModelServer([says("**Good** day."), says("Two.")]) as model, WebhookProgram() as program:
        configure(openclaw_home, model, program)
        with GatewayProcess(openclaw_home) as gateway:
            first = program.call(text="hello", id="m1", thread="t1")
            assert await send(gateway, first) == 202
            assert await send(gateway, first) == 202  # the same call, repeated by its sender
            (said,) = await asyncio.to_thread(program.hears, 1)
            assert (said["text"], said["to"], said["thread"], said["replyTo"]) == ("**Good** day.", "ada", "t1", "m1")
            assert await send(gateway, program.call("another secret of length", text="let me in")) == 401
            assert await send(gateway, program.call(text="from the past", at=time.time() - 3_600)) == 401
            assert await send(gateway, program.call(text="x", type="edit")) == 400
            program.faults = [HttpFault("/take", 503, after="1"), HttpFault("/take", cut="after")]
            assert await send(gateway, program.call(text="again")) == 202
            assert [each["text"] for each in await asyncio.to_thread(program.hears, 2)] == ["**Good** day.", "Two."]
    assert len(model.requests) == 2


async def test_files_are_fetched_from_the_programs_own_server_only(openclaw_home: TemporaryHome) -> None:
    with MockModelServer([says("Seen.")]) as model, WebhookProgram() as program:
        program.files["/x.txt"] = b"content"
        configure(openclaw_home, model, program)
        with GatewayProcess(openclaw_home) as gateway:
            files = [
                {"url": f"{program.url}/x.txt", "name": "x.txt"},
                {"url": "http://127.0.0.1:1/y.txt", "name": "y.txt"},
            ]
            assert await send(gateway, program.call(text="look", files=files)) == 202
            await asyncio.to_thread(program.hears, 1)
    (saved,) = openclaw_home.workspace.glob(".openclaw/attachments/*/1-x.txt")
    assert saved.read_bytes() == b"content" and "its address is not on" in str(model.requests[0])


def test_channels_add_tries_the_address_and_keeps_what_works(openclaw_home: TemporaryHome) -> None:
    with WebhookProgram() as program:
        command = ["channels", "add", "webhook", "--url", f"{program.url}/take", "--owner", "ada", "--secret", "-"]
        short = typed(openclaw_home)(*command, stdin="short\n")
        assert short.code and "shorter than 16 characters" in short.err
        program.faults = [HttpFault("/take", 404)]
        wrong = typed(openclaw_home)(*command, stdin=f"{SECRET}\n")
        assert wrong.code and "answered 404" in wrong.err and "ping" in wrong.err
        done = typed(openclaw_home)(*command, stdin=f"{SECRET}\n")
        assert "Webhook: this is 127.0.0.1" in done.out, done.err
        assert program.pings == 1 and SECRET not in done.out + done.err
