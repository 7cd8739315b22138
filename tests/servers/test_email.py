"""Email against Dovecot and aiosmtpd: the message flow of a gateway with servers that others wrote."""

import asyncio
from pathlib import Path

import pytest

from openclaw.testing import TemporaryHome, says
from openclaw.testing.server import MockModelServer
from tests.channels.email.server import ADA, AUTHSERV, mail, text_of
from tests.commandline import typed
from tests.e2e.gateway_process import GatewayProcess
from tests.servers.dovecot import PASSWORD, dovecot, postbox

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.servers,
    pytest.mark.filterwarnings("ignore:Requiring AUTH while not requiring TLS"),
]


async def test_a_conversation_with_attachments_over_idle(openclaw_home: TemporaryHome, tmp_path: Path) -> None:
    content = bytes(range(256)) * 10_000
    with (
        MockModelServer([says("**Good** day."), says("Again.")]) as model,
        dovecot(tmp_path) as box,
        postbox("claw") as out,
    ):
        openclaw_home.configure(
            {
                **model.settings(),
                "channels": {"email": {"user": "claw", "senderAuth": {"trustedAuthservIds": [AUTHSERV]}}},
            }
        )
        box.receives("claw", mail("this was there before us"))
        servers = ["--imap", f"imap://127.0.0.1:{box.port}", "--smtp", f"smtp://127.0.0.1:{out.port}"]
        command = ["channels", "add", "email", "--address", "claw@claw.test", "--owner", ADA, *servers]
        wrong = typed(openclaw_home)(*command, "--password", "-", stdin="wrong\n")
        assert wrong.code and "does not accept the password of claw" in wrong.err
        added = typed(openclaw_home)(*command, "--password", "-", stdin=f"{PASSWORD}\n")
        assert "Email: this is claw@claw.test; tried, and saved." in added.out, added.err
        with GatewayProcess(openclaw_home) as gateway:
            async with asyncio.timeout(120):
                while "channel email:default: connected" not in gateway.output():
                    await asyncio.sleep(0.05)
            files = [("a.bin", "application/octet-stream", content), ("b.txt", "text/plain", b"b")]
            box.receives("claw", mail("hello", Subject="Hé", Message_ID="<one@ada.test>", files=files))
            (first,) = await asyncio.to_thread(out.until, 1)
            assert text_of(first) == "**Good** day." and first["To"] == ADA
            assert (first["Subject"], first["In-Reply-To"]) == ("Re: Hé", "<one@ada.test>")
            box.receives("claw", mail("I am Ada", verified=False))
            box.receives("claw", mail("and again", In_Reply_To=str(first["Message-ID"])))
            assert text_of((await asyncio.to_thread(out.until, 2))[1]) == "Again."
    (saved,) = openclaw_home.workspace.glob(".openclaw/attachments/*/1-a.bin")
    assert saved.read_bytes() == content and len(model.requests) == 2
