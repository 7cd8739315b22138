"""A coding agent written with the official library: python coder.py DIRECTORY. What it is told decides what it does.

Its sessions are in DIRECTORY, and outlive it: `load` among the further words lets them be taken up again.
"""

import asyncio
import json
import os
import sys
import uuid
from pathlib import Path
from typing import Any

from acp import (
    PROTOCOL_VERSION,
    RequestError,
    run_agent,
    start_tool_call,
    text_block,
    tool_content,
    update_agent_message_text,
    update_agent_thought_text,
    update_tool_call,
    update_user_message_text,
)
from acp.schema import (
    AgentCapabilities,
    AvailableCommand,
    AvailableCommandsUpdate,
    Cost,
    InitializeResponse,
    LoadSessionResponse,
    NewSessionResponse,
    PermissionOption,
    PromptCapabilities,
    PromptResponse,
    ToolCallUpdate,
    Usage,
    UsageUpdate,
)

place = Path(sys.argv[1])
able = sys.argv[2:]
OPTIONS = [
    PermissionOption(option_id="yes", name="Yes", kind="allow_once"),
    PermissionOption(option_id="no", name="No", kind="reject_once"),
]


class Coder:
    def __init__(self) -> None:
        self.client: Any = None
        self.turns = 0
        self.stopped = asyncio.Event()
        kept = place / "sessions.json"
        self.sessions: dict[str, list[str]] = json.loads(kept.read_text()) if kept.exists() else {}

    def on_connect(self, conn: Any) -> None:
        self.client = conn

    async def initialize(self, protocol_version: int, client_capabilities: Any = None, **given: Any) -> Any:
        (place / "capabilities").write_text(client_capabilities.model_dump_json(exclude_none=True))
        return InitializeResponse(
            protocol_version=PROTOCOL_VERSION,
            agent_capabilities=AgentCapabilities(
                load_session="load" in able, prompt_capabilities=PromptCapabilities(image="images" in able)
            ),
        )

    async def new_session(self, cwd: str, **given: Any) -> NewSessionResponse:
        if "login" in able:
            raise RequestError.auth_required()
        (place / "cwd").write_text(cwd)
        (place / "environ").write_text("\n".join(os.environ))
        session_id = str(uuid.uuid4())
        self.keep(session_id, [])
        await self.offer(session_id)
        return NewSessionResponse(session_id=session_id)

    async def load_session(self, session_id: str, cwd: str, **given: Any) -> LoadSessionResponse:
        if session_id not in self.sessions:
            raise RequestError.resource_not_found(session_id)
        (place / "loaded").open("a").write(session_id + "\n")
        for said in self.sessions[session_id]:
            await self.client.session_update(session_id=session_id, update=update_user_message_text(said))
            await self.client.session_update(session_id=session_id, update=update_agent_message_text("replayed"))
        await self.offer(session_id)
        return LoadSessionResponse()

    async def offer(self, session_id: str) -> None:
        if "compact" in able:
            offered = [AvailableCommand(name="compact", description="Shorten the conversation")]
            update = AvailableCommandsUpdate(session_update="available_commands_update", available_commands=offered)
            await self.client.session_update(session_id=session_id, update=update)

    def keep(self, session_id: str, said: list[str]) -> None:
        self.sessions[session_id] = said
        (place / "sessions.json").write_text(json.dumps(self.sessions))

    async def prompt(self, session_id: str, prompt: Any, **given: Any) -> PromptResponse:
        self.turns += 1
        self.stopped.clear()
        whole = "\n".join(getattr(each, "text", f"<{each.type}>") for each in prompt)
        text = getattr(prompt[-1], "text", "")
        (place / "asked").open("a").write(whole + "\n")
        before = "\n".join(self.sessions[session_id])
        self.keep(session_id, [*self.sessions[session_id], whole])

        async def update(what: Any) -> None:
            await self.client.session_update(session_id=session_id, update=what)

        async def say(words: str) -> None:
            await update(update_agent_message_text(words))

        def ended(reason: Any = "end_turn") -> PromptResponse:
            usage = Usage(input_tokens=100, output_tokens=20, total_tokens=120)
            return PromptResponse(stop_reason=reason, usage=usage)

        if "hang" in text:
            await say("Starting. ")
            (place / "hanging").touch()
            if "child" in text:
                child = await asyncio.create_subprocess_exec("sleep", "3600")
                (place / "child").write_text(str(child.pid))
            await asyncio.sleep(3600)
        if "die" in text:
            print("segmentation fault of the coder", file=sys.stderr, flush=True)
            os._exit(7)
        if "crash" in text:
            await say("Working. ")
            await update(start_tool_call("c1", "Build it", kind="execute", status="in_progress"))
            await asyncio.sleep(0.05)
            os._exit(7)
        if "permission" in text:
            await update(start_tool_call("t1", "Delete the build"))
            asked = await self.client.request_permission(
                session_id=session_id,
                tool_call=ToolCallUpdate(tool_call_id="t1", title="Delete the build", raw_input={"path": "build"}),
                options=OPTIONS,
            )
            await say(f"outcome {getattr(asked.outcome, 'option_id', 'cancelled')}. ")
        if "permit" in text:
            command = {"command": "sh -c 'echo > made.txt'"}
            await update(start_tool_call("p1", "Run a command", kind="execute", status="pending", raw_input=command))
            asked = await self.client.request_permission(
                session_id=session_id, tool_call=ToolCallUpdate(tool_call_id="p1"), options=OPTIONS
            )
            allowed = getattr(asked.outcome, "option_id", "") == "yes"
            if allowed:
                Path("made.txt").touch()
            await update(update_tool_call("p1", status="completed" if allowed else "failed"))
            await say("permitted" if allowed else "refused")
            return ended()
        if "speak" in text:
            await update(update_agent_thought_text("thinking it over"))
            await say("spo")
            await say("ken")
            return ended()
        if "recall" in text:
            await say(f"Before: {before or whole}")
            return ended()
        if "wait" in text:
            await say("Waiting. ")
            while not (place / "go").exists():
                await asyncio.sleep(0.02)
                if self.stopped.is_set():
                    return ended("cancelled")
            await say("Done waiting.")
            return ended()
        if "both" in text:
            await say("Looking. ")
            await update(start_tool_call("a", "Read x", kind="read", status="in_progress", raw_input={"path": "x"}))
            await update(start_tool_call("b", "Run y", kind="execute", status="in_progress"))
            await update(update_tool_call("b", status="completed", raw_output="y is done"))
            progress = [tool_content(text_block("half of x"))]
            await update(update_tool_call("a", status="in_progress", content=progress))
            whole_file = [tool_content(text_block("all of x <|im_start|>"))]
            await update(update_tool_call("a", status="completed", content=whole_file))
            await update(
                UsageUpdate(session_update="usage_update", used=10, size=100, cost=Cost(amount=0.5, currency="USD"))
            )
            await say("Both are done.")
            return ended()
        if "act" in text:
            await update(start_tool_call("x1", "List files", kind="read", status="in_progress"))
            await update(update_tool_call("x1", status="completed", content=[tool_content(text_block("a.txt"))]))
            await say("acted")
            return ended()
        if "silence" in text:
            return ended()
        await update(update_agent_thought_text("thinking it over"))
        await say("The code is ")
        await say(f"written (turn {self.turns}). <|im_start|>")
        return PromptResponse(stop_reason="end_turn")

    async def cancel(self, session_id: str, **given: Any) -> None:
        (place / "cancelled").touch()
        self.stopped.set()


(place / "pid").write_text(str(os.getpid()))
asyncio.run(run_agent(Coder()))  # type: ignore[arg-type]
