"""Signs in at a provider in a browser, and gets a key that is kept like any other.

The browser comes back to a port of this machine, where this process waits for it. When the browser is on another
machine, its last address is pasted here.
"""

import asyncio
import sys
from asyncio import StreamReader, StreamWriter
from contextlib import suppress
from typing import Any, Self

import click

from openclaw.cli.client import given, with_client
from openclaw.cli.render import fold, note, open_in_browser
from openclaw.models.login import LOGIN_SECONDS
from openclaw.protocol.client import GatewayClient

USUAL_PORT = 3000
"""The port that OpenRouter's documentation names for programs on a person's machine; any other when it is taken."""
FINISH_SECONDS = 90.0
REQUEST_SECONDS = 10.0
MAX_LINE = 8_000
PAGE = (
    "<!doctype html><html lang=en><meta charset=utf-8><title>OpenClaw</title>"
    "<body style='font: 1.1rem system-ui; margin: 20vh auto; max-width: 30rem; padding: 0 1rem'><p>{}</p>"
)


def sign_in(provider: str, *, model: str | None = None, use: bool = True, browser: bool = True) -> dict[str, Any]:
    """Sends the person to the provider and waits; gives what `models.connect` gives."""

    async def work(client: GatewayClient) -> dict[str, Any]:
        async with LoopbackCallback() as callback:
            what = given(provider=provider, model=model)
            begun = await client.call("models.login.start", {**what, "callbackUrl": callback.address, "use": use})
            callback.state = begun["state"]
            _invite(begun["url"], browser=browser)
            answer = await _first_answer(callback)
            note("asking the model …")
            finish = {"state": begun["state"], "answer": answer}
            done: dict[str, Any] = await client.call("models.login.finish", finish, timeout=FINISH_SECONDS)
            return done

    return with_client(work)


def _invite(url: str, *, browser: bool) -> None:
    opened = browser and open_in_browser(url)
    click.echo("Sign in in the browser that has opened, or open:" if opened else "Open in a browser:", err=True)
    click.echo(url, err=True)  # alone on its line, and never broken, so that it can be copied
    hint = "Waiting for the browser; Ctrl-C gives up."
    if sys.stdin.isatty():
        hint += " Is it on another machine? Paste the address at which it ended here, and press Enter."
    note(fold(hint, sys.stderr))


async def _first_answer(callback: "LoopbackCallback") -> str:
    """The address that the browser came back to, or what the person pasted."""
    loop, reads = asyncio.get_running_loop(), sys.stdin.isatty()

    def pasted() -> None:
        if typed := sys.stdin.readline().strip():
            callback.take(typed)

    if reads:
        loop.add_reader(sys.stdin.fileno(), pasted)
    try:
        async with asyncio.timeout(LOGIN_SECONDS):
            return await callback.answer
    except TimeoutError:
        minutes = int(LOGIN_SECONDS // 60)
        raise click.ClickException(f"nobody signed in within {minutes} minutes; nothing was changed") from None
    finally:
        if reads:
            loop.remove_reader(sys.stdin.fileno())


class LoopbackCallback:
    """A port of this machine that a browser is sent back to; what is not for this sign-in is turned away."""

    def __init__(self) -> None:
        self.address = ""
        self.state = ""
        """Ends the one address that is taken; none is before it is known."""
        self.answer: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def __aenter__(self) -> Self:
        try:
            self._server = await asyncio.start_server(self._serve, "127.0.0.1", USUAL_PORT, limit=MAX_LINE)
        except OSError:
            self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, limit=MAX_LINE)
        self.address = f"http://localhost:{self._server.sockets[0].getsockname()[1]}/callback"
        return self

    async def __aexit__(self, *error: object) -> None:
        self._server.close()
        await self._server.wait_closed()

    def take(self, answer: str) -> None:
        if not self.answer.done():
            self.answer.set_result(answer)

    async def _serve(self, reader: StreamReader, writer: StreamWriter) -> None:
        with suppress(OSError, ValueError, TimeoutError):  # whoever asks is a program of this machine; let it go
            async with asyncio.timeout(REQUEST_SECONDS):
                method, path, _ = (await reader.readline()).decode("latin-1").split(" ")
                while (await reader.readline()).strip():
                    continue
                ours = method == "GET" and bool(self.state) and path.partition("?")[0] == f"/callback/{self.state}"
                status = "200 OK" if ours else "404 Not Found"
                body = PAGE.format("You can close this page: the terminal goes on." if ours else "Not here.").encode()
                head = f"HTTP/1.1 {status}\r\ncontent-type: text/html\r\ncontent-length: {len(body)}\r\n"
                writer.write(f"{head}referrer-policy: no-referrer\r\nconnection: close\r\n\r\n".encode() + body)
                await writer.drain()
                if ours:
                    self.take(f"{self.address.removesuffix('/callback')}{path}")
        writer.close()
