"""A node whose disk is full: others carry out what it was asked, and nobody is told of it."""

import asyncio
from pathlib import Path

import pytest

from openclaw.core.secret import Secret
from openclaw.gateway.cluster.disk import ROOM, disk_trouble
from openclaw.protocol.connect_request import CallFailed
from openclaw.testing import says
from openclaw.testing.server import MockModelServer
from tests.gateway.cluster.nodes import AGENTS, Node, agent_on, holders, settings, until_spread
from tests.gateway.cluster.test_nodes import ask, history, said
from tests.soak.cluster_faults import Disk

LONG = "hello " * 4_000
"""More than fits into the rest of the last page of a file."""
pytestmark = [pytest.mark.anyio, pytest.mark.servers]


async def test_what_a_node_without_disk_is_asked_another_one_answers(tmp_path: Path, postgres_url: Secret) -> None:
    disk = Disk(tmp_path / "two" / ".openclaw")
    if not disk.mounted:
        pytest.skip("a disk of its own cannot be mounted here: run as root")
    try:
        with MockModelServer([says("Hello there.")]) as model:
            config, url = settings(tmp_path, model), postgres_url.reveal()
            with Node(tmp_path, "one", url, config) as one, Node(tmp_path, "two", url, config) as two:
                async with asyncio.timeout(300), one.client() as client, two.client() as other:
                    agent = agent_on(await until_spread(client, "one", "two"), two)
                    assert (await ask(other, agent, "before"))["status"] == "ok"
                    disk.fill()
                    told = await ask(other, agent, "full", LONG)
                    assert told["status"] == "ok" and said(told) == "Hello there.", told
                    while set((await holders(client)).values()) != {"one"}:
                        await asyncio.sleep(0.05)
                    nodes = {node["name"]: node for node in (await client.call("cluster.status"))["nodes"]}
                    assert nodes["two"]["figures"]["trouble"] and nodes["one"]["state"] == "up"
                    disk.clear()
                    held = await until_spread(client, "one", "two")
                    assert set(held) >= set(AGENTS)
                    assert (await ask(client, agent, "after"))["status"] == "ok"
                    assert await history(client, agent) == ["user", "assistant"] * 3
    finally:
        disk.remove()


def test_a_little_room_is_none(tmp_path: Path) -> None:
    disk = Disk(tmp_path)
    if not disk.mounted:
        pytest.skip("a disk of its own cannot be mounted here: run as root")
    try:
        assert disk_trouble(tmp_path) == ""
        little = tmp_path / "little"
        little.write_bytes(bytes(ROOM // 2))
        disk.fill()
        little.unlink()
        assert "space" in disk_trouble(tmp_path)
    finally:
        disk.remove()


async def test_a_node_alone_says_what_is_wrong_with_its_disk(tmp_path: Path, postgres_url: Secret) -> None:
    disk = Disk(tmp_path / "one" / ".openclaw")
    if not disk.mounted:
        pytest.skip("a disk of its own cannot be mounted here: run as root")
    try:
        with (
            MockModelServer([says("Hello there.")]) as model,
            Node(tmp_path, "one", postgres_url.reveal(), settings(tmp_path, model)) as one,
        ):
            async with asyncio.timeout(300), one.client() as client:
                await until_spread(client, "one")
                assert (await ask(client, "a0", "before"))["status"] == "ok"
                disk.fill()
                with pytest.raises(CallFailed, match="No space left on device"):
                    await ask(client, "a0", "full", LONG)
                disk.clear()
                assert (await ask(client, "a0", "after"))["status"] == "ok"
    finally:
        disk.remove()
