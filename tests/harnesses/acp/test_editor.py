"""`openclaw acp`, met by the official client library as an editor would: by itself, and with a gateway running."""

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractContextManager, ExitStack, asynccontextmanager, nullcontext
from typing import Any

import pytest
from acp import PROTOCOL_VERSION, RequestError, connect_to_agent, text_block
from acp.schema import AllowedOutcome, DeniedOutcome, RequestPermissionResponse, ResourceContentBlock

from openclaw.testing import TemporaryHome, calls, says
from openclaw.testing.server import Hangs, MockModelServer, Pauses
from tests.commandline import Child
from tests.e2e.gateway_process import GatewayProcess

pytestmark = pytest.mark.anyio


@pytest.fixture(params=["alone", "gateway"])
def there(request: pytest.FixtureRequest) -> Callable[[TemporaryHome], AbstractContextManager[Any]]:
    """What runs beside the editor."""
    return (lambda home: nullcontext()) if request.param == "alone" else GatewayProcess


class Editor:
    """Remembers what it was shown, and answers permissions."""

    def __init__(self, option: str | None = None) -> None:
        self.option = option
        self.updates: list[Any] = []
        self.asked: list[Any] = []
        self.moved = asyncio.Event()

    async def session_update(self, session_id: str, update: Any, **given: Any) -> None:
        self.updates.append(update)
        self.moved.set()

    async def request_permission(self, session_id: str, tool_call: Any, options: Any, **given: Any) -> Any:
        self.asked.append((session_id, tool_call, options))
        if self.option is None:
            return RequestPermissionResponse(outcome=DeniedOutcome(outcome="cancelled"))
        return RequestPermissionResponse(outcome=AllowedOutcome(outcome="selected", option_id=self.option))

    def on_connect(self, conn: Any) -> None:
        return None

    def said(self) -> str:
        return "".join(each.content.text for each in self.updates if each.session_update == "agent_message_chunk")

    async def until(self, text: str) -> None:
        async with asyncio.timeout(60):
            while text not in self.said():
                self.moved.clear()
                await self.moved.wait()


@asynccontextmanager
async def opened(home: TemporaryHome, editor: Editor) -> AsyncIterator[Any]:
    (stdin, saying), (hearing, stdout) = socket.socketpair(), socket.socketpair()
    with stdin, stdout:
        environ, (ins, outs) = {**os.environ, **home.environ}, (stdin.fileno(), stdout.fileno())
        process = Child("acp", env=environ, cwd=home.root, stdin=ins, stdout=outs, stderr=2)
    reader, listening = await asyncio.open_connection(sock=hearing, limit=1 << 24)
    _, writer = await asyncio.open_connection(sock=saying)
    connection = connect_to_agent(editor, writer, reader)  # type: ignore[arg-type]
    try:
        hello = await connection.initialize(protocol_version=PROTOCOL_VERSION)
        assert hello.protocol_version == PROTOCOL_VERSION
        assert hello.agent_info is not None and hello.agent_info.name == "openclaw"
        yield connection
    finally:
        await connection.close()
        writer.close()
        listening.close()
        await asyncio.to_thread(process.wait)


async def test_an_editor_talks_and_sees_the_answer_come(openclaw_home: TemporaryHome, there) -> None:
    with ExitStack() as stack:
        server = stack.enter_context(
            MockModelServer([(says("Hello from "), Pauses(), says("the assistant.")), says("And again.")])
        )
        openclaw_home.configure(server.settings())
        stack.enter_context(there(openclaw_home))
        editor = Editor()
        async with opened(openclaw_home, editor) as agent:
            session = await agent.new_session(cwd=str(openclaw_home.root), mcp_servers=[])
            link = ResourceContentBlock(type="resource_link", name="a.py", uri="file:///tmp/a.py")
            asked = asyncio.create_task(agent.prompt(session_id=session.session_id, prompt=[text_block("hi"), link]))
            await editor.until("Hello from")
            server.go_on()
            assert (await asked).stop_reason == "end_turn"
            assert editor.said() == "Hello from the assistant."
            assert "[file:///tmp/a.py]" in str(server.requests[0]["messages"][-1])
            await agent.prompt(session_id=session.session_id, prompt=[text_block("more")])
            assert "Hello from the assistant." in str(server.requests[1]["messages"])
        later = Editor()
        async with opened(openclaw_home, later) as agent:
            await agent.load_session(cwd=str(openclaw_home.root), session_id=session.session_id, mcp_servers=[])
            assert later.said() == "Hello from the assistant.And again."
            assert [each.content.text for each in later.updates if each.session_update == "user_message_chunk"]
            with pytest.raises(RequestError):
                await agent.load_session(cwd="/", session_id="none", mcp_servers=[])
            with pytest.raises(RequestError):
                await agent.prompt(session_id="none", prompt=[text_block("hi")])


@pytest.mark.parametrize(("option", "ran"), [("allow-once", True), ("deny", False), (None, False)])
async def test_the_person_at_the_editor_decides_about_commands(openclaw_home, there, tmp_path, option, ran) -> None:
    mark = tmp_path / "ran"
    with ExitStack() as stack:
        server = stack.enter_context(MockModelServer([calls("exec", command=f"touch {mark}"), says("Done.")]))
        openclaw_home.configure(server.settings())
        stack.enter_context(there(openclaw_home))
        editor = Editor(option)
        async with opened(openclaw_home, editor) as agent:
            session = await agent.new_session(cwd=str(openclaw_home.root), mcp_servers=[])
            await agent.prompt(session_id=session.session_id, prompt=[text_block("touch it")])
    assert mark.exists() is ran
    (asked,) = editor.asked
    assert asked[0] == session.session_id
    assert f"touch {mark}" in asked[1].title
    assert {each.option_id for each in asked[2]} == {"allow-once", "allow-always", "deny"}
    kinds = [each.session_update for each in editor.updates]
    assert "tool_call" in kinds and "tool_call_update" in kinds
    (ended,) = [
        each for each in editor.updates if each.session_update == "tool_call_update" and each.status != "in_progress"
    ]
    assert ended.status == ("completed" if ran else "failed")


async def test_a_turn_can_be_cancelled_and_the_session_goes_on(openclaw_home: TemporaryHome, there) -> None:
    with ExitStack() as stack:
        server = stack.enter_context(MockModelServer([Hangs("I think about "), says("Back again.")]))
        openclaw_home.configure(server.settings())
        stack.enter_context(there(openclaw_home))
        editor = Editor()
        async with opened(openclaw_home, editor) as agent:
            session = await agent.new_session(cwd=str(openclaw_home.root), mcp_servers=[])
            asked = asyncio.create_task(agent.prompt(session_id=session.session_id, prompt=[text_block("long")]))
            await editor.until("I think")
            with pytest.raises(RequestError):
                await agent.prompt(session_id=session.session_id, prompt=[text_block("at once")])
            await agent.cancel(session_id=session.session_id)
            assert (await asked).stop_reason == "cancelled"
            again = await agent.prompt(session_id=session.session_id, prompt=[text_block("go on")])
            assert again.stop_reason == "end_turn"
            assert editor.said().endswith("Back again.")


async def test_with_a_gateway_the_session_tools_are_there(openclaw_home: TemporaryHome) -> None:
    script: list[Any] = [calls("sessions_list"), says("One."), calls("sessions_spawn", task="look"), says("Started.")]
    with MockModelServer([*script, says("child"), says("The child is done.")]) as server:
        openclaw_home.configure(server.settings())
        with GatewayProcess(openclaw_home) as gateway:
            editor = Editor()
            async with opened(openclaw_home, editor) as agent:
                session = await agent.new_session(cwd=str(openclaw_home.root), mcp_servers=[])
                await agent.prompt(session_id=session.session_id, prompt=[text_block("which sessions")])
                offered = {tool["function"]["name"] for tool in server.requests[0]["tools"]}
                prompt = str(server.requests[0]["messages"][0]["content"])
                assert "sessions_spawn" in offered and "- sessions_list" in prompt and "- subagents" in prompt
                await agent.prompt(session_id=session.session_id, prompt=[text_block("start one")])
                (called, *_) = [each for each in editor.updates if each.session_update == "tool_call"]
                assert called.title.startswith("sessions_list")
                status = await agent.prompt(session_id=session.session_id, prompt=[text_block("/status")])
                assert status.stop_reason == "end_turn"
                assert f"acp:{session.session_id}" in editor.said()
            async with gateway.client() as client:
                rows = (await client.call("sessions.list", {}))["sessions"]
                assert any(row["key"] == f"agent:main:acp:{session.session_id}" for row in rows)


async def test_a_gateway_that_comes_back_is_taken_up_again(openclaw_home: TemporaryHome) -> None:
    with MockModelServer([says("Before."), says("After.")]) as server:
        openclaw_home.configure(server.settings())
        with GatewayProcess(openclaw_home) as gateway:
            editor = Editor()
            async with opened(openclaw_home, editor) as agent:
                session = await agent.new_session(cwd=str(openclaw_home.root), mcp_servers=[])
                await agent.prompt(session_id=session.session_id, prompt=[text_block("one")])
                gateway.stop()
                gateway.start()
                await agent.prompt(session_id=session.session_id, prompt=[text_block("two")])
                assert editor.said() == "Before.After."
