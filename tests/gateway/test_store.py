"""Gateways whose state is on a PostgreSQL server."""

import pytest

from openclaw.core.secret import Secret
from openclaw.gateway.local import local_gateway
from openclaw.testing import ScriptedModel, TemporaryHome, calls, says
from tests.gateway.test_local import environment, said

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
