"""Gateways whose state is on a PostgreSQL server."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from urllib.parse import urlsplit

import pytest

from openclaw.core.secret import Secret
from openclaw.gateway.local import local_gateway
from openclaw.testing import ScriptedModel, TemporaryHome, calls, says
from tests.gateway.test_local import environment, said

TRIPS = 16
"""The most trips of a turn with one tool call, and so two calls of the model."""
pytestmark = [pytest.mark.anyio, pytest.mark.servers]


@pytest.fixture
def homes(tmp_path_factory: pytest.TempPathFactory, postgres_url: Secret) -> tuple[TemporaryHome, TemporaryHome]:
    one, other = (TemporaryHome(tmp_path_factory.mktemp(name)) for name in ("one", "other"))
    for home in (one, other):
        home.use_model(store={"url": postgres_url.reveal()})
    return one, other


async def test_a_conversation_goes_on_in_another_home(homes: tuple[TemporaryHome, TemporaryHome]) -> None:
    one, other = homes
    (one.workspace / "note.txt").write_text("blue")
    model = ScriptedModel([calls("read", path="note.txt")], says("It says blue."), says("Blue, as I said."))
    async with local_gateway(environment(one), open_provider=lambda endpoint: model) as client:
        assert await said(client, "what is in the note?", "r1") == "It says blue."
    async with local_gateway(environment(other), open_provider=lambda endpoint: model) as client:
        told = await client.call("chat.history", {"sessionKey": "main"})
        assert [each["role"] for each in told["messages"]] == ["user", "assistant", "toolResult", "assistant"]
        assert await said(client, "again?", "r2") == "Blue, as I said."
    assert model.saw("It says blue.")
    assert not (other.state / "state" / "openclaw-py.sqlite").exists()
    async with local_gateway(environment(one), open_provider=lambda endpoint: model) as client:
        told = await client.call("chat.history", {"sessionKey": "main"})
        assert len(told["messages"]) == 6
        await client.call("sessions.reset", {"key": "main"})
    async with local_gateway(environment(other), open_provider=lambda endpoint: model) as client:
        assert (await client.call("chat.history", {"sessionKey": "main"}))["messages"] == []


async def test_a_server_that_is_not_there_is_named_without_its_password(openclaw_home: TemporaryHome) -> None:
    from openclaw.core.errors import StateError

    openclaw_home.use_model(store={"url": "postgresql://me:hunter2@127.0.0.1:9/nowhere"})
    with pytest.raises(StateError, match=r"127\.0\.0\.1:9/nowhere cannot be reached") as raised:
        async with local_gateway(environment(openclaw_home)):
            pass
    assert "hunter2" not in raised.value.message


class CountingProxy:
    """Between a gateway and its server: counts the answers to each connection, by the name that it gave itself."""

    def __init__(self, port: int) -> None:
        self.trips: Counter[str] = Counter()
        self._port = port
        self._serving: set[asyncio.Task[None] | None] = set()

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[int]:
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        try:
            yield int(server.sockets[0].getsockname()[1])
        finally:
            server.close()
            await asyncio.wait([task for task in self._serving if task is not None])

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._serving.add(asyncio.current_task())
        try:
            start = await reader.readexactly(4)
            begun = start + await reader.readexactly(int.from_bytes(start) - 4)
        except asyncio.IncompleteReadError:
            writer.close()
            return
        there, back = await asyncio.open_connection("127.0.0.1", self._port)
        words = begun[8:].split(b"\0")
        name = words[words.index(b"application_name") + 1].decode() if b"application_name" in words else ""
        back.write(begun)
        sending = asyncio.create_task(self._copy(reader, back))
        try:
            while head := await there.readexactly(5):
                writer.write(head + await there.readexactly(int.from_bytes(head[1:]) - 4))
                self.trips[name] += head[:1] == b"Z"  # the server is ready for the next request
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            sending.cancel()
            await asyncio.gather(sending, return_exceptions=True)
            for each in (back, writer):
                each.close()
                with suppress(ConnectionError):
                    await each.wait_closed()

    async def _copy(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65_536):
            writer.write(data)
        writer.close()


async def test_a_turn_makes_few_trips_to_the_server(openclaw_home: TemporaryHome, postgres_url: Secret) -> None:
    parts = urlsplit(postgres_url.reveal())
    assert parts.port is not None
    proxy = CountingProxy(parts.port)
    (openclaw_home.workspace / "note.txt").write_text("blue")
    turns = 6
    model = ScriptedModel(*([calls("read", path="note.txt")], says("It says blue.")) * turns)
    async with proxy.serving() as port:
        url = postgres_url.reveal().replace(f":{parts.port}/", f":{port}/") + "&sslmode=disable"
        openclaw_home.use_model(store={"url": url})
        async with local_gateway(environment(openclaw_home), open_provider=lambda endpoint: model) as client:
            made = []
            for number in range(turns):
                before = proxy.trips["openclaw"]
                assert await said(client, "what is in the note?", f"r{number}") == "It says blue."
                made.append(proxy.trips["openclaw"] - before)
    # The first turns prepare their statements, and now and then something else looks at the database too.
    assert 5 < min(made) <= TRIPS, made
