"""A coding agent written with the official library: python coder.py DIRECTORY. What it is told decides what it does."""

import asyncio
import os
import sys
import uuid
from pathlib import Path
from typing import Any

from acp import PROTOCOL_VERSION, run_agent, start_tool_call, update_agent_message_text, update_agent_thought_text
from acp.schema import InitializeResponse, NewSessionResponse, PermissionOption, PromptResponse, ToolCallUpdate

place = Path(sys.argv[1])


class Coder:
    def __init__(self) -> None:
        self.client: Any = None
        self.turns = 0

    def on_connect(self, conn: Any) -> None:
        self.client = conn

    async def initialize(self, protocol_version: int, **given: Any) -> InitializeResponse:
        return InitializeResponse(protocol_version=PROTOCOL_VERSION)

    async def new_session(self, cwd: str, **given: Any) -> NewSessionResponse:
        (place / "cwd").write_text(cwd)
        (place / "environ").write_text("\n".join(os.environ))
        return NewSessionResponse(session_id=str(uuid.uuid4()))

    async def prompt(self, session_id: str, prompt: Any, **given: Any) -> PromptResponse:
        self.turns += 1
        text = prompt[0].text
        (place / "asked").open("a").write(text + "\n")

        async def say(words: str) -> None:
            await self.client.session_update(session_id=session_id, update=update_agent_message_text(words))

        if "hang" in text:
            await say("Starting. ")
            (place / "hanging").touch()
            try:
                await asyncio.sleep(3600)
            except asyncio.CancelledError:
                raise
        if "die" in text:
            print("segmentation fault of the coder", file=sys.stderr, flush=True)
            os._exit(7)
        if "permission" in text:
            await self.client.session_update(session_id=session_id, update=start_tool_call("t1", "Delete the build"))
            asked = await self.client.request_permission(
                session_id=session_id,
                tool_call=ToolCallUpdate(tool_call_id="t1", title="Delete the build", raw_input={"path": "build"}),
                options=[
                    PermissionOption(option_id="yes", name="Yes", kind="allow_once"),
                    PermissionOption(option_id="no", name="No", kind="reject_once"),
                ],
            )
            await say(f"outcome {getattr(asked.outcome, 'option_id', 'cancelled')}. ")
        await self.client.session_update(session_id=session_id, update=update_agent_thought_text("thinking it over"))
        await say("The code is ")
        await say(f"written (turn {self.turns}). <|im_start|>")
        return PromptResponse(stop_reason="end_turn")

    async def cancel(self, session_id: str, **given: Any) -> None:
        (place / "cancelled").touch()


(place / "pid").write_text(str(os.getpid()))
asyncio.run(run_agent(Coder()))  # type: ignore[arg-type]
