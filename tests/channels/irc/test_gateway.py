"""A nick on an IRC server through a real gateway."""

import asyncio
from typing import Any

import pytest

from openclaw.testing import TemporaryHome, says
from openclaw.testing.server import MockModelServer
from tests.channels.irc.server import NICK, PASSWORD, IrcTestServer
from tests.commandline import typed
from tests.e2e.gateway_process import GatewayProcess

pytestmark = pytest.mark.anyio

ADA = "account=ada"


def configure(home: TemporaryHome, model: MockModelServer, server: IrcTestServer, **more: Any) -> None:
    home.configure(
        {
            **model.settings(),
            "channels": {"irc": {"server": server.address, "nick": NICK, "password": PASSWORD, **more}},
            "commands": {"ownerAllowFrom": ["irc:ada"]},
        }
    )


async def until(server: IrcTestServer, true: Any) -> None:
    await asyncio.to_thread(server.until, true)


async def test_channels_private_messages_a_stranger_and_a_lost_connection(openclaw_home: TemporaryHome) -> None:
    answers = [says("**Good** day."), says("To all."), says("Still here.")]
    with MockModelServer(answers) as model, IrcTestServer() as server:
        configure(openclaw_home, model, server, groups={"#Club": {"allowFrom": ["ada"]}})
        with GatewayProcess(openclaw_home):
            await until(server, lambda: "JOIN #Club" in server.lines)
            server.says("hello", tags=ADA)
            assert await asyncio.to_thread(server.hears, 1) == [("ada", "\x02Good\x02 day.")]
            server.says("nobody is meant", to="#Club", tags=ADA)
            server.says("claw: and here?", to="#Club", tags=ADA)
            assert (await asyncio.to_thread(server.hears, 2))[1] == ("#club", "To all.")
            # The same nick without the account is somebody else.
            server.says("let me in")
            await until(server, lambda: any("openclaw pairing approve irc" in text for text in server.texts()))
            before = server.lines.count("welcomed")
            server.cut()
            await until(server, lambda: server.lines.count("welcomed") > before and server.connections)
            server.says("and now?", tags=ADA)
            await until(server, lambda: "Still here." in server.texts())
    assert len(model.requests) == 3 and "nobody is meant" in str(model.requests[1])


async def test_a_message_to_nobody_is_refused_with_the_servers_words(openclaw_home: TemporaryHome) -> None:
    with MockModelServer([]) as model, IrcTestServer() as server:
        server.taken = {NICK}
        configure(openclaw_home, model, server)
        with GatewayProcess(openclaw_home):
            await until(server, lambda: "welcomed" in server.lines)
            assert server.connections[0].nick == "claw1", "the nick was taken"
            command = ("message", "send", "--target", "irc:nobody", "--message", "hello")
            done = await asyncio.to_thread(typed(openclaw_home), *command)
    assert done.code and "No such nick" in done.err


def test_channels_add_tries_the_server_and_keeps_what_works(openclaw_home: TemporaryHome) -> None:
    with IrcTestServer() as server:
        command = ["channels", "add", "irc", "--server", server.address, "--nick", NICK, "--password", "-"]
        wrong = typed(openclaw_home)(*command, stdin="wrong\n")
        assert wrong.code and "does not accept the password" in wrong.err
        done = typed(openclaw_home)(*command, stdin=f"{PASSWORD}\n")
        assert "IRC: this is claw on 127.0.0.1; tried, and saved." in done.out, done.err
    with IrcTestServer(sasl=False) as server:
        command[4] = server.address
        none = typed(openclaw_home)(*command, "--account", "two", stdin=f"{PASSWORD}\n")
        assert none.code and "knows no SASL" in none.err
