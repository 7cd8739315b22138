"""The bot's account on one node, the agent on another: people see an answer being written, and get it once."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from openclaw.core.secret import Secret
from openclaw.testing import calls, says
from openclaw.testing.server import MockModelServer, Pauses
from tests.channels.matrix.server import TOKEN, MatrixServer
from tests.gateway.cluster.nodes import AGENTS, Node, holders, nodes, settings, speaks, until

pytestmark = [pytest.mark.anyio, pytest.mark.servers]

FIRST = "The weather will be fine tomorrow, with some clouds. "
THEN = "It will be warmer towards the evening. "
LAST = "Take a hat with you."


def with_matrix(root: Path, model: MockModelServer, matrix: MatrixServer, **more: Any) -> dict[str, Any]:
    account = {"homeserver": matrix.url, "accessToken": TOKEN, "autoJoin": "always", "dmPolicy": "open"}
    return settings(root, model, channels={"matrix": {**account, "allowFrom": ["*"], **more}})


async def place(account: Node, agent: Node, *others: Node) -> None:
    """Waits until the account is on one node, and the agent that answers there on another."""
    async with account.client() as client, asyncio.timeout(60):
        await client.call("cluster.move", {"agent": AGENTS[0], "node": agent.name})
        while True:
            linked = [node["name"] for node in (await client.call("cluster.status"))["nodes"] if node["linked"]]
            held = (await holders(client)).get(AGENTS[0]) == agent.name
            if held and len(linked) == 2 + len(others) and await speaks(account):
                return
            await asyncio.sleep(0.05)


def shown(matrix: MatrixServer) -> list[str]:
    """Every message of the bot as people see it now."""
    texts = {each["event_id"]: each["text"] for each in matrix.sent}
    for each in list(matrix.other):
        if "m.new_content" in each:
            texts[each["m.relates_to"]["event_id"]] = each["m.new_content"]["body"]
        elif each["type"] == "m.room.redaction":
            texts.pop(each["redacts"], None)
    return list(texts.values())


def typed(matrix: MatrixServer) -> bool:
    return any(name == "typing" and each.get("typing") for name, each in list(matrix.calls))


async def says_no_more(matrix: MatrixServer, *texts: str) -> None:
    """Waits for the answer to one more message, behind which nothing of an earlier one can come."""
    matrix.says("bye", sender="@person:test")
    await until(lambda: "Bye." in shown(matrix))
    assert shown(matrix) == [*texts, "Bye."]
    assert len(matrix.sent) == len(texts) + 1


async def test_an_answer_is_seen_while_another_node_writes_it(tmp_path: Path, postgres_url: Secret) -> None:
    looks = (says(FIRST, piece=5), Pauses(), calls("ls", path="."))
    writes = (says(THEN, piece=5), Pauses(), says(LAST), Pauses())
    with MockModelServer([looks, writes, says("Bye.")]) as model, MatrixServer() as matrix:
        config = with_matrix(tmp_path, model, matrix)
        with nodes(tmp_path, postgres_url.reveal(), config, "one", "two") as (one, two):
            await place(one, two)
            matrix.says("what is the weather?", sender="@person:test")
            await until(lambda: typed(matrix))
            await until(lambda: shown(matrix) == [FIRST.strip()])
            model.go_on()
            # The tool ends the first message; the second one is shown below it.
            await until(lambda: shown(matrix) == [FIRST.strip(), THEN.strip()])
            model.go_on()
            await until(lambda: shown(matrix) == [FIRST.strip(), THEN + LAST])
            model.go_on()
            await says_no_more(matrix, FIRST.strip(), THEN + LAST)
            assert len(model.requests) == 3


async def test_finished_parts_arrive_while_another_node_writes_the_rest(tmp_path: Path, postgres_url: Secret) -> None:
    with (
        MockModelServer([(says(f"{FIRST}\n\n{THEN}\n\n" * 2), Pauses(), says(LAST))]) as model,
        MatrixServer() as matrix,
    ):
        config = with_matrix(tmp_path, model, matrix, streaming={"block": {"enabled": True}})
        config["agents"]["defaults"]["blockStreamingChunk"] = {"minChars": 20, "maxChars": 60}
        with nodes(tmp_path, postgres_url.reveal(), config, "one", "two") as (one, two):
            await place(one, two)
            matrix.says("what is the weather?", sender="@person:test")
            await until(lambda: shown(matrix)[:1] == [FIRST.strip()])
            model.go_on()
            await until(lambda: shown(matrix)[-1:] == [LAST])
            assert " ".join(shown(matrix)) == f"{FIRST}{THEN}" * 2 + LAST


@pytest.mark.parametrize("killed", ["account", "agent"])
async def test_an_answer_that_was_seen_being_written_arrives_once_after_a_kill(
    tmp_path: Path, postgres_url: Secret, killed: str
) -> None:
    writes = (says(FIRST, piece=5), Pauses(), says(THEN, piece=5), Pauses(), says(LAST))
    again = () if killed == "account" else ((says(THEN, piece=5), Pauses(), says(LAST)),)
    with MockModelServer([writes, *again, says("Bye.")]) as model, MatrixServer() as matrix:
        config = with_matrix(tmp_path, model, matrix)
        with nodes(tmp_path, postgres_url.reveal(), config, "one", "two", "three") as (one, two, three):
            await place(one, two, three)
            matrix.says("what is the weather?", sender="@person:test")
            await until(lambda: shown(matrix) == [FIRST.strip()])
            if killed == "account":
                one.kill()
                model.go_on()
            else:
                two.kill()
            begins = FIRST + THEN if killed == "account" else THEN
            # Whoever has the account or the agent now goes on in the message that is there.
            await until(lambda: shown(matrix) == [begins.strip()])
            for _ in range(3):
                model.go_on()
            await until(lambda: shown(matrix) == [begins + LAST])
            await says_no_more(matrix, begins + LAST)
