"""The chat where there is no screen to draw on: a line is a message."""

import asyncio
import contextlib
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager
from typing import Any

import click
from msgspec import Struct

from openclaw.cli.client import given
from openclaw.cli.render import say
from openclaw.cli.talk.message import RUN_CAPS, ask, connect_to, open_client
from openclaw.core.errors import OpenClawError
from openclaw.core.secret import Secret
from openclaw.gateway.client_target import find_gateway
from openclaw.gateway.running import ClientTarget
from openclaw.process.environment import Environment
from openclaw.protocol.client import GatewayClient
from openclaw.version import __version__


class ChatArguments(Struct, frozen=True, kw_only=True):
    """The choices of a person."""

    session_key: str | None = None
    agent_id: str | None = None
    model: str | None = None
    thinking: str | None = None
    url: str | None = None
    token: Secret | None = None
    password: Secret | None = None
    tls_fingerprint: str = ""
    skills: tuple[str, ...] = ()
    """Directories with skills, for this chat."""

    def target(self, environment: Environment) -> ClientTarget:
        return find_gateway(
            environment,
            url=self.url,
            token=self.token.reveal() if self.token else None,
            password=self.password.reveal() if self.password else None,
            fingerprint=self.tls_fingerprint,
        )


WELCOME = """\
OpenClaw {version}, answering with {model}.
Type a message and press Enter. Ctrl-C stops an answer, Ctrl-D or /exit leaves, /help says what else there is.
"""


def _lines() -> Iterator[str]:
    """What a person types or a pipe brings, until the end."""
    at_terminal = sys.stdin.isatty()
    if at_terminal:
        with contextlib.suppress(ImportError):
            import readline  # noqa: F401 - gives input() its line editing
    while True:
        try:
            line = input("you> " if at_terminal else "").strip()
        except (EOFError, KeyboardInterrupt):
            if at_terminal:
                click.echo()
            return
        if line in ("/exit", "/quit"):
            return
        if line:
            yield line


def talk(environment: Environment, chosen: ChatArguments, *, local: bool) -> int:
    """A conversation line by line, with the running gateway or with one in this process."""
    whom = {"sessionKey": chosen.session_key, "agentId": chosen.agent_id}
    params = given(cwd=str(environment.cwd), model=chosen.model, thinking=chosen.thinking, **whom)
    with asyncio.Runner() as runner, _connecting(runner, environment, chosen, local) as connect:

        async def answer(line: str) -> int:
            async with connect() as client:
                return await ask(client, {"message": line, **params}, as_json=False, limit=0, skills=chosen.skills)

        model = chosen.model or runner.run(_model(connect, chosen.agent_id))
        if sys.stdin.isatty():
            say(WELCOME.format(version=__version__, model=model))
        code = 0
        # Between two answers the loop rests: Ctrl-C and Ctrl-D at the prompt are then those of any program.
        for line in _lines():
            try:
                code = runner.run(answer(line))
            except OpenClawError as error:
                say(f"error: {error.message}", err=True)
                code = 1
            click.echo()
        return code if not sys.stdin.isatty() else 0


Connect = Callable[[], AbstractAsyncContextManager[GatewayClient]]


@contextlib.contextmanager
def _connecting(
    runner: asyncio.Runner, environment: Environment, chosen: ChatArguments, local: bool
) -> Iterator[Connect]:
    """How each line reaches the assistant. A gateway of another process is connected to anew: it may have restarted."""
    if not local:

        def connect() -> AbstractAsyncContextManager[GatewayClient]:
            return connect_to(chosen.target(environment), RUN_CAPS)

        yield connect
        return
    leave = asyncio.Event()
    opened: asyncio.Future[GatewayClient] = runner.get_loop().create_future()

    async def hold() -> None:
        async with open_client(environment, local=True, caps=RUN_CAPS) as client:
            opened.set_result(client)
            await leave.wait()

    async def settled(*waited: "asyncio.Future[Any]") -> None:
        done, _ = await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
        for each in done:
            each.result()

    def reuse() -> AbstractAsyncContextManager[GatewayClient]:
        return contextlib.nullcontext(opened.result())

    holding = runner.get_loop().create_task(hold(), name="local gateway")
    runner.run(settled(opened, holding))
    try:
        yield reuse
    finally:
        leave.set()
        runner.run(settled(holding))


async def _model(connect: Connect, agent_id: str | None) -> str:
    """The model that is going to answer."""
    async with connect() as client:
        agents = await client.call("agents.list", {})
    wanted = agent_id or agents["defaultId"]
    return next((str(each["model"]["primary"]) for each in agents["agents"] if each["id"] == wanted), "its model")
