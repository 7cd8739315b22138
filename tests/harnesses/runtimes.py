"""One home with all three runtimes, each from the same script: what a person writes decides what happens."""

import asyncio
import shlex
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from openclaw.core.errors import BadRequest
from openclaw.core.events import Done, ModelEvent, TextDelta
from openclaw.core.messages import Assistant, Text, ToolCall, ToolResult, Usage, User
from openclaw.core.provider import ModelRequest
from openclaw.gateway.app import App
from openclaw.sessions.files import load
from openclaw.sessions.transcript import MessageEntry
from openclaw.testing import TemporaryHome
from tests.commandline import forked

HERE = Path(__file__).parent
KINDS = {"embedded": "openclaw", "codex": "codex", "acp": "acp/coder"}


class ScriptedLoop:
    """A provider for our own loop that does what the words of the last message say."""

    def __init__(self, place: Path) -> None:
        self._place = place

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        last = request.messages[-1]
        asked = [message.text for message in request.messages if isinstance(message, User)]
        text, content = asked[-1], list[Text | ToolCall]()
        if isinstance(last, ToolResult):
            said = "acted" if last.tool_name == "ls" else "refused" if last.is_error else "permitted"
        elif "crash" in text:
            yield TextDelta("Working. ")
            raise BadRequest("the model is gone")
        elif "permit" in text:
            said, content = "", [ToolCall("call_1", "exec", {"command": "sh -c 'echo > made.txt'"})]
        elif "act" in text:
            said, content = "", [ToolCall("call_1", "ls", {})]
        elif "recall" in text:
            said = "Before: " + "\n".join(message.text for message in request.messages[:-1])
        elif "wait" in text:
            yield TextDelta("Waiting. ")
            while not (self._place / "go").exists():
                await asyncio.sleep(0.02)
            said = "Done waiting."
        else:
            said = "spoken"
        if said:
            yield TextDelta(said)
            content = [Text(said)]
        yield Done(
            Assistant(
                content=tuple(content),
                api=request.model.api,
                provider=request.model.provider,
                model=request.model.id,
                usage=Usage(input=100, output=20, total_tokens=120),
                stop_reason="stop" if said else "toolUse",
            )
        )

    async def close(self) -> None:
        return None


class Runtimes:
    """A home in which each runtime can be chosen."""

    def __init__(self, home: TemporaryHome, *able: str, started: bool = False) -> None:
        """The external agent is `able` to do more; one that is `started`, not forked, is a child of who asks for it."""
        self.home = home
        self.place = home.root / "scripted"
        self.place.mkdir()
        self.model = ScriptedLoop(self.place)
        program = home.root / "codex"
        words = (sys.executable, str(HERE / "codex" / "scripted.py"), str(self.place))
        program.write_text(f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n')
        program.chmod(0o755)
        further = (str(self.place), "load", *able)
        own = [sys.executable, str(HERE / "acp" / "coder.py"), *further]
        command, *args = own if started else forked("tests.harnesses.acp.coder", *further)
        access = {"baseUrl": "http://127.0.0.1:9/v1", "apiKey": "mock-key-123456", "api": "openai-responses"}
        home.configure(
            {
                "env": {"vars": {"OPENCLAW_CODEX_APP_SERVER_BIN": str(program)}},
                "models": {"providers": {"mock": {**access, "models": [{"id": "mock-model"}]}}},
                "agents": {"defaults": {"model": "mock/mock-model"}},
                "acp": {"agents": {"coder": {"command": command, "args": args}}, "defaultAgent": "coder"},
            }
        )

    async def choose(self, app: App, kind: str) -> None:
        await app.lifecycle.prefer(app.key("main", None), {"agent_runtime": KINDS[kind]})

    def messages(self) -> list[User | Assistant | ToolResult]:
        (path,) = self.home.transcripts()
        return [entry.message for entry in load(path).entries if isinstance(entry, MessageEntry)]

    def check(self) -> list[User | Assistant | ToolResult]:
        """The transcript, in which every call has its result before the next message."""
        said, waiting = self.messages(), list[str]()
        for message in said:
            if isinstance(message, ToolResult):
                assert message.tool_call_id == waiting.pop(0)
            else:
                assert not waiting
                waiting = [call.id for call in message.calls] if isinstance(message, Assistant) else []
        return said

    def go(self) -> None:
        (self.place / "go").touch()


def texts(said: list[Any], kind: type[Any]) -> list[str]:
    return [message.text for message in said if isinstance(message, kind)]
