"""Nodes that are not set up alike are noticed: by the command line, and by the doctor."""

import asyncio
import json
from pathlib import Path

import pytest

from openclaw.core.secret import Secret
from openclaw.gateway.cluster.setups import NodeSetup, differences
from openclaw.testing import says
from openclaw.testing.server import MockModelServer
from tests.commandline import typed
from tests.gateway.cluster.nodes import Node, settings, until_spread


def test_what_differs_is_named_with_who_has_what() -> None:
    one = NodeSetup({"agents": "a", "channels": "x"}, ("channel matrix (default)",))
    assert differences({"one": one, "two": one}) == differences({"one": one}) == []
    other = NodeSetup({"agents": "a", "channels": "y", "tools": "z"}, ())
    assert differences({"one": one, "two": other, "three": one}) == [
        "the configuration differs in channels, tools: one, three / two. Give every node the same file",
        "no credential for channel matrix (default) on two. Enter it there, too",
    ]


@pytest.mark.anyio
@pytest.mark.servers
async def test_a_credential_or_a_setting_that_one_node_lacks_is_said(tmp_path: Path, postgres_url: Secret) -> None:
    with MockModelServer([says("Hello.")]) as model:
        config = settings(tmp_path, model)
        one = Node(tmp_path, "one", postgres_url.reveal(), config)
        two = Node(tmp_path, "two", postgres_url.reveal(), {**config, "session": {"idleMinutes": 5}})
        key = {"type": "api_key", "provider": "anthropic", "key": "sk-very-secret"}
        stored = one.home.state / "agents" / "main" / "agent" / "auth-profiles.json"
        stored.parent.mkdir(parents=True)
        stored.write_text(json.dumps({"version": 1, "profiles": {"anthropic:default": key}}))
        stored.chmod(0o600)
        with one, two:
            async with one.client() as here:
                await until_spread(here, "one", "two")
                async with asyncio.timeout(60):
                    while len(told := (await here.call("cluster.status"))["differences"]) < 2:
                        await asyncio.sleep(0.1)
                assert told == [
                    "the configuration differs in session: one / two. Give every node the same file",
                    "no credential for models of anthropic (agent main) on two. Enter it there, too",
                ]
                assert "sk-very-secret" not in str(await here.call("cluster.status"))
            assert told[1] in (await asyncio.to_thread(typed(two.home), "cluster", "status")).out
            examined = (await asyncio.to_thread(typed(two.home), "doctor")).out
            assert "nodes are not set up alike: no credential for models of anthropic" in " ".join(examined.split())
