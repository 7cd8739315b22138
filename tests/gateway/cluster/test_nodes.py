"""Real gateways on one PostgreSQL: any of them takes any request, and nothing that was accepted is lost."""

import asyncio
import signal
from pathlib import Path
from typing import Any

import openai
import pytest

from openclaw.core.secret import Secret
from openclaw.gateway.process import ask_health
from openclaw.gateway.running import RunningGateway, running_gateway
from openclaw.protocol.client import GatewayClient
from openclaw.testing import calls, says
from openclaw.testing.server import Hangs, MockModelServer, Pauses, Reply
from tests.channels.matrix.server import TOKEN as MATRIX_TOKEN
from tests.channels.matrix.server import MatrixServer
from tests.channels.webhook.server import SECRET as WEBHOOK_SECRET
from tests.channels.webhook.server import WebhookProgram, post
from tests.commandline import typed
from tests.e2e.gateway_process import collect
from tests.gateway.cluster.nodes import AGENTS, Node, agent_on, holders, nodes, settings, speaks, until, until_spread

pytestmark = [pytest.mark.anyio, pytest.mark.servers]


async def ask(client: GatewayClient, agent: str, run_id: str, text: str = "hello") -> Any:
    return await client.call(
        "agent", {"message": text, "agentId": agent, "idempotencyKey": run_id}, final=True, timeout=120
    )


def said(told: Any) -> str:
    return "".join(part["text"] for part in told["result"]["payloads"])


async def history(client: GatewayClient, agent: str) -> list[str]:
    rows = (await client.call("chat.history", {"sessionKey": f"agent:{agent}:main"}))["messages"]
    return [row["role"] for row in rows]


async def test_any_node_answers_for_any_agent_and_shows_it_as_it_is_written(
    tmp_path: Path, postgres_url: Secret
) -> None:
    with (
        MockModelServer([says("Hello from somewhere.", piece=3)]) as model,
        nodes(tmp_path, postgres_url.reveal(), settings(tmp_path, model), "one", "two") as (one, two),
    ):
        async with one.client() as here, two.client() as there:
            held = await until_spread(here, "one", "two")
            for number, agent in enumerate(AGENTS):
                client = (here, there)[number % 2]
                assert said(await ask(client, agent, f"run-{number}")) == "Hello from somewhere."
                assert await history(here, agent) == await history(there, agent) == ["user", "assistant"]
            # A client of the first node sees what a run of the second says, before it has ended.
            agent = agent_on(held, two)
            key = f"agent:{agent}:main"
            await here.call("chat.send", {"sessionKey": key, "message": "again", "idempotencyKey": "watched"})

            def is_ours(data: Any, state: str) -> bool:  # what the others said may come as late
                return (data.get("runId"), data.get("state")) == ("watched", state)

            seen = await collect(here, lambda _, data: is_ours(data, "final"), 60)
            assert any(is_ours(data, "delta") for _, data in seen)
            # The same request at another node is the same run.
            assert said(await ask(there, agent_on(held, one), "run-once")) == "Hello from somewhere."
            count = len(model.requests)
            assert said(await ask(here, agent_on(held, one), "run-once")) == "Hello from somewhere."
            assert len(model.requests) == count


async def test_what_a_killed_node_was_doing_is_answered_by_another_one(tmp_path: Path, postgres_url: Secret) -> None:
    with (
        MockModelServer([Hangs("I am th"), says("Here it is.")]) as model,
        nodes(tmp_path, postgres_url.reveal(), settings(tmp_path, model), "one", "two") as (one, two),
    ):
        async with one.client() as here:
            agent = agent_on(await until_spread(here, "one", "two"), two)
            asking = asyncio.create_task(ask(here, agent, "run"))
            await asyncio.to_thread(model.until_asked, 1)
            two.kill()
            assert "Here it is." in said(await asking)
            held = await until_spread(here, "one")
            assert held[agent] == "one"
            assert await history(here, agent) == ["user", "assistant"]
            # It comes back, and gets back what is its.
            two.start()
            assert (await until_spread(here, "one", "two"))[agent] == "two"
            async with two.client() as there:
                assert said(await ask(there, agent, "next")) == "Here it is."


async def test_a_run_is_stopped_from_any_node(tmp_path: Path, postgres_url: Secret) -> None:
    with (
        MockModelServer([Hangs("I am th")]) as model,
        nodes(tmp_path, postgres_url.reveal(), settings(tmp_path, model), "one", "two") as (one, two),
    ):
        async with one.client() as here:
            agent = agent_on(await until_spread(here, "one", "two"), two)
            asking = asyncio.create_task(here.call("agent.wait", {"runId": "run", "timeoutMs": 60_000}, timeout=90))
            key = f"agent:{agent}:main"
            await here.call("chat.send", {"sessionKey": key, "message": "go", "idempotencyKey": "run"})
            await asyncio.to_thread(model.until_asked, 1)
            assert (await here.call("chat.abort", {"sessionKey": key}))["aborted"]
            told = await here.call("agent.wait", {"runId": "run", "timeoutMs": 60_000}, timeout=90)
            assert told["stopReason"] == "aborted"
            await asking


async def test_a_question_is_answered_from_any_node(tmp_path: Path, postgres_url: Secret) -> None:
    replies: list[Reply] = [calls("exec", command="touch asked-for; echo from-the-tool"), says("Done.")]
    config = {"tools": {"exec": {"security": "allowlist", "ask": "always"}}}
    with (
        MockModelServer(replies) as model,
        nodes(tmp_path, postgres_url.reveal(), settings(tmp_path, model, **config), "one", "two") as (one, two),
    ):
        async with one.client() as here, two.client() as there:
            agent = agent_on(await until_spread(here, "one", "two"), two)
            asking = asyncio.create_task(ask(there, agent, "run"))
            seen = await collect(here, lambda name, data: name == "exec.approval.requested", 60)
            name = seen[-1][1]["id"]
            assert name in str(await here.call("exec.approval.list"))
            await here.call("exec.approval.resolve", {"id": name, "decision": "allow-once"})
            assert said(await asking) == "Done."
            assert "from-the-tool" in str(model.requests[-1]["messages"])
            assert await here.call("exec.approval.list") == []


async def test_a_node_that_was_stopped_for_long_writes_nothing_when_it_wakes_up(
    tmp_path: Path, postgres_url: Secret
) -> None:
    with (
        MockModelServer([(says("From the one that "), Pauses(), says("slept.")), says("From the other.")]) as model,
        nodes(tmp_path, postgres_url.reveal(), settings(tmp_path, model), "one", "two") as (one, two),
    ):
        async with one.client() as here:
            agent = agent_on(await until_spread(here, "one", "two"), two)
            key = f"agent:{agent}:main"
            await here.call("chat.send", {"sessionKey": key, "message": "go", "idempotencyKey": "run"})
            await asyncio.to_thread(model.until_asked, 1)
            two.signal(signal.SIGSTOP)
            told = await here.call("agent.wait", {"runId": "run", "timeoutMs": 90_000}, timeout=120)
            assert "From the other." in told["terminalReply"]["text"]
            before = await history(here, agent)
            two.signal(signal.SIGCONT)
            model.go_on()
            # It finds that it was taken for gone, and begins again as another node, which gets its agents back.
            held = await until_spread(here, "one", "two")
            assert held[agent] == "two"
            two.find()
            async with two.client() as there:
                assert await history(there, agent) == before == ["user", "assistant"]
                assert "From the other." in said(await ask(there, agent, "run"))


async def test_a_rolling_restart_loses_nothing(tmp_path: Path, postgres_url: Secret) -> None:
    with (
        MockModelServer([says("Here it is.")]) as model,
        nodes(tmp_path, postgres_url.reveal(), settings(tmp_path, model), "one", "two") as (one, two),
    ):
        async with one.client() as here:
            await until_spread(here, "one", "two")
        accepted: list[str] = []
        stopping = asyncio.Event()

        async def talk(agent: str) -> None:
            number = 0
            while not stopping.is_set():
                number += 1
                for node in (one, two) * 100:  # one of them is always there
                    try:
                        async with node.client() as client:
                            assert "Here it is." in said(await ask(client, agent, f"{agent}-{number}"))
                        accepted.append(f"{agent}-{number}")
                        break
                    except Exception as error:
                        if isinstance(error, AssertionError):
                            raise
                        await asyncio.sleep(0.05)

        async with asyncio.TaskGroup() as group:
            for agent in AGENTS[:3]:
                group.create_task(talk(agent))
            for node in (one, two):
                assert await asyncio.to_thread(node.stop) == 0
                await asyncio.to_thread(node.start)
            stopping.set()
        async with one.client() as here:
            for agent in AGENTS[:3]:
                turns = sum(name.startswith(agent) for name in accepted)
                assert turns
                roles = await history(here, agent)
                assert roles.count("user") == turns


async def test_an_agent_moves_and_a_node_drains_on_request(tmp_path: Path, postgres_url: Secret) -> None:
    with (
        MockModelServer([says("Here it is.")]) as model,
        nodes(tmp_path, postgres_url.reveal(), settings(tmp_path, model), "one", "two") as (one, two),
    ):
        async with one.client() as here:
            held = await until_spread(here, "one", "two")
            agent = agent_on(held, two)
            await here.call("cluster.move", {"agent": agent, "node": "one"})
            async with asyncio.timeout(60):
                while (await holders(here)).get(agent) != "one":
                    await asyncio.sleep(0.05)
            await here.call("cluster.drain", {"node": "one"})
            assert set((await until_spread(here, "two")).values()) == {"two"}
            assert said(await ask(here, agent, "run")) == "Here it is."
            await here.call("cluster.drain", {"node": "one", "undo": True})
            assert (await until_spread(here, "one", "two"))[agent] == "one"


async def test_one_node_speaks_for_an_account_and_another_one_after_it_is_gone(
    tmp_path: Path, postgres_url: Secret
) -> None:
    with MockModelServer([says("Hello, person.")]) as model, MatrixServer() as matrix:
        account = {"homeserver": matrix.url, "accessToken": MATRIX_TOKEN, "autoJoin": "always"}
        config = {"channels": {"matrix": {**account, "dmPolicy": "open", "allowFrom": ["*"]}}}
        with nodes(tmp_path, postgres_url.reveal(), settings(tmp_path, model, **config), "one", "two") as both:
            for count in (1, 2):
                matrix.says(f"hello {count}", sender="@person:test")
                await until(lambda count=count: len(matrix.sent) == count)
                speaking = [node for node in both if node.alive and await speaks(node)]
                assert len(speaking) == 1
                speaking[0].kill()
            assert len(model.requests) == 2


async def test_a_job_runs_once_for_each_slot_whichever_node_sees_it(tmp_path: Path, postgres_url: Secret) -> None:
    with (
        MockModelServer([says("Done.")]) as model,
        nodes(tmp_path, postgres_url.reveal(), settings(tmp_path, model), "one", "two") as (one, two),
    ):
        async with one.client() as here, two.client() as there:
            await until_spread(here, "one", "two")
            job = await here.call(
                "cron.add",
                {
                    "name": "tick",
                    "agentId": AGENTS[0],
                    "schedule": {"kind": "every", "everyMs": 1_000},
                    "sessionTarget": "isolated",
                    "wakeMode": "now",
                    "payload": {"kind": "agentTurn", "message": "tick"},
                    "delivery": {"mode": "none"},
                },
            )
            await asyncio.to_thread(model.until_asked, 3)
            await there.call("cron.remove", {"id": job["id"]})
            told = await there.call("cron.runs", {"id": job["id"]})
            slots = [run["runId"] for run in told["entries"]]
            assert len(slots) == len(set(slots)) and len(slots) <= len(model.requests) <= len(slots) + 1


async def test_an_answer_over_http_is_streamed_from_another_node(tmp_path: Path, postgres_url: Secret) -> None:
    with MockModelServer([says("Hello from somewhere.", piece=3)]) as model:
        enabled = {"gateway": {"http": {"endpoints": {"chatCompletions": {"enabled": True}}}}}
        config = settings(tmp_path, model, **enabled)
        with nodes(tmp_path, postgres_url.reveal(), config, "one", "two") as (one, two):
            async with one.client() as here:
                agent = agent_on(await until_spread(here, "one", "two"), two)
            key = one.token.reveal()
            client = openai.AsyncOpenAI(base_url=f"http://127.0.0.1:{one.port}/v1", api_key=key, max_retries=0)
            async with client:
                asked: Any = [{"role": "user", "content": "hello"}]
                stream = await client.chat.completions.create(model=f"openclaw/{agent}", messages=asked, stream=True)
                said = [chunk.choices[0].delta.content or "" async for chunk in stream if chunk.choices]
            assert "".join(said) == "Hello from somewhere."


async def test_the_command_line_shows_and_empties_nodes(tmp_path: Path, postgres_url: Secret) -> None:
    with (
        MockModelServer([says("Here it is.")]) as model,
        nodes(tmp_path, postgres_url.reveal(), settings(tmp_path, model), "one", "two") as (one, two),
    ):
        async with one.client() as here:
            await until_spread(here, "one", "two")
        shown = await asyncio.to_thread(typed(one.home), "cluster", "status")
        assert "2 node(s), 6 agent(s)" in shown.out, shown
        listed = await asyncio.to_thread(typed(one.home), "cluster", "nodes")
        assert "one (this one)" in listed.out and "two" in listed.out
        drained = await asyncio.to_thread(typed(one.home), "cluster", "drain", "two")
        assert "holds nothing any more" in drained.out, drained
        await until(lambda: ask_health(running(two)).failing == ("draining",))
        assert not ask_health(running(two)).ready
        back = await asyncio.to_thread(typed(one.home), "cluster", "drain", "two", "--undo")
        assert back.code == 0
        async with one.client() as here:
            agent = agent_on(await until_spread(here, "one", "two"), two)
        moved = await asyncio.to_thread(typed(two.home), "cluster", "move", agent, "one")
        assert moved.code == 0
        async with two.client() as there, asyncio.timeout(60):
            while (await holders(there)).get(agent) != "one":
                await asyncio.sleep(0.05)
        unknown = await asyncio.to_thread(typed(two.home), "cluster", "move", agent, "nowhere")
        assert unknown.code != 0 and "there is one, two" in unknown.err


def running(node: Node) -> RunningGateway:
    found = running_gateway(node.home.state)
    assert found is not None
    return found


async def test_a_command_without_a_gateway_of_its_own_asks_the_cluster_or_answers_itself(
    tmp_path: Path, postgres_url: Secret
) -> None:
    with MockModelServer([says("Here it is.")]) as model:
        config = settings(tmp_path, model)
        aside = Node(tmp_path, "aside", postgres_url.reveal(), config)
        with nodes(tmp_path, postgres_url.reveal(), config, "one", "two") as (one, two):
            async with one.client() as here:
                agent = agent_on(await until_spread(here, "one", "two"), two)
            words = ("agent", "--agent", agent, "--message", "hello")
            asked = await asyncio.to_thread(typed(aside.home), *words)
            assert "Here it is." in asked.out, asked
            async with one.client() as here:
                assert await history(here, agent) == ["user", "assistant"]
        # Nobody is left: it holds the agent for as long as it takes, once it is sure that they are gone.
        alone = await asyncio.to_thread(typed(aside.home), *words)
        assert "Here it is." in alone.out, alone


async def test_a_platforms_call_is_taken_by_any_node(tmp_path: Path, postgres_url: Secret) -> None:
    with MockModelServer([says("Here it is.")]) as model, WebhookProgram() as program:
        section = {"secret": WEBHOOK_SECRET, "url": f"{program.url}/take", "dmPolicy": "open", "allowFrom": ["*"]}
        config = settings(tmp_path, model, channels={"webhook": section})
        with nodes(tmp_path, postgres_url.reveal(), config, "one", "two") as both:
            for count, node in enumerate(both, 1):
                call = program.call(text=f"hello {count}")
                await until(lambda node=node, call=call: post(node.port, "/webhook", call).status_code == 202)
                await asyncio.to_thread(program.hears, count)
            assert program.texts() == ["Here it is."] * 2
