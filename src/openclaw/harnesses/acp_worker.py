"""The worker process of one external coding agent: runs the official ACP library, with the agent as its child."""

import asyncio
import os
from collections.abc import Mapping
from functools import partial
from typing import Any

import msgspec
from acp import PROTOCOL_VERSION, RequestError, spawn_agent_process, text_block
from acp.schema import AllowedOutcome, ClientCapabilities, DeniedOutcome, Implementation, RequestPermissionResponse
from msgspec import Struct, field

from openclaw.process.group import descendants, kill
from openclaw.process.stdio_rpc import (
    RequestLoop,
    StderrTail,
    WorkerMessage,
    WorkerOutput,
    WorkerRequest,
    describe_error,
    run_worker,
)
from openclaw.version import __version__

READY_SECONDS = 60.0
MOST_TEXT = 200_000
LIMIT = 16 * 1024 * 1024


class AcpStart(Struct, frozen=True, kw_only=True):
    """How the agent is started."""

    command: str
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    cwd: str


class AcpClientSide:
    """The client side of ACP: the agent may only ask for a person's permission. It reads, writes and runs things
    itself."""

    def __init__(self, output: WorkerOutput) -> None:
        self._output = output
        self._asked: dict[int, asyncio.Future[str | None]] = {}
        self._count = 0

    def on_connect(self, conn: Any) -> None:
        return None

    async def session_update(self, session_id: str, update: Any, **given: Any) -> None:
        kind = update.session_update
        if kind in ("agent_message_chunk", "agent_thought_chunk"):
            text = getattr(update.content, "text", "") or f"[{update.content.type}]"
            self._output.say(
                WorkerMessage(body={"said" if kind == "agent_message_chunk" else "thought": text[:MOST_TEXT]})
            )
        elif kind == "tool_call":
            self._output.say(WorkerMessage(body={"tool": (update.title or "")[:300]}))

    async def request_permission(self, session_id: str, tool_call: Any, options: Any, **given: Any) -> Any:
        self._count += 1
        answer: asyncio.Future[str | None] = asyncio.get_running_loop().create_future()
        self._asked[self._count] = answer
        shown = tool_call.model_dump(
            mode="json", exclude_none=True, include={"title", "kind", "raw_input", "locations"}
        )
        choices = [{"id": each.option_id, "kind": each.kind} for each in options]
        self._output.say(WorkerMessage(body={"permission": self._count, "about": shown, "options": choices}))
        chosen = await answer
        if chosen is None:
            return RequestPermissionResponse(outcome=DeniedOutcome(outcome="cancelled"))
        return RequestPermissionResponse(outcome=AllowedOutcome(outcome="selected", option_id=chosen))

    def heard(self, body: Any) -> None:
        """Takes a person's answer."""
        waiting = self._asked.pop(body["permission"], None)
        if waiting is not None and not waiting.done():
            waiting.set_result(body.get("option"))

    def drop(self) -> None:
        """Cancels open permission requests when nobody waits for the work any more."""
        for waiting in self._asked.values():
            if not waiting.done():
                waiting.set_result(None)
        self._asked.clear()

    async def ext_method(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        raise RequestError.method_not_found(method)

    async def ext_notification(self, method: str, params: dict[str, Any]) -> None:
        return None


async def _answer(
    connection: Any, client: AcpClientSide, session_id: str, stderr: StderrTail, ask: WorkerRequest
) -> WorkerMessage:
    """Sends a prompt to the agent; what it says meanwhile goes through `client`."""
    try:
        ended = await connection.prompt(session_id=session_id, prompt=[text_block(ask.body["prompt"])])
    except RequestError as error:
        return WorkerMessage(id=ask.id, error=f"it answered with an error: {error}"[:1000])
    except (ConnectionError, OSError) as error:
        why = stderr.after(f"its process ended ({describe_error(error)})")
        return WorkerMessage(id=ask.id, error=why, over=True)
    except asyncio.CancelledError:
        client.drop()
        await connection.cancel(session_id=session_id)
        raise
    return WorkerMessage(id=ask.id, body={"stop_reason": ended.stop_reason})


async def serve_agent(body: Any, questions: "asyncio.Queue[WorkerRequest | None]", output: WorkerOutput) -> None:
    """Starts the agent, reports that it is ready, and passes requests on until the input ends."""
    start = msgspec.convert(body, AcpStart)
    stderr, client = StderrTail(), AcpClientSide(output)
    leaders: set[int] = set()
    untyped: Any = client  # the protocol of the library has methods that are never called here
    try:
        async with spawn_agent_process(
            untyped,
            start.command,
            *start.args,
            env=dict(start.env),
            cwd=start.cwd,
            transport_kwargs={"stderr": stderr.file.fileno(), "limit": LIMIT},
        ) as (connection, process):
            leaders = descendants()
            gone = asyncio.create_task(_gone(process, stderr, output))
            try:
                async with asyncio.timeout(READY_SECONDS):
                    await connection.initialize(
                        protocol_version=PROTOCOL_VERSION,
                        client_capabilities=ClientCapabilities(),
                        client_info=Implementation(name="openclaw-py", version=__version__),
                    )
                    session = await connection.new_session(cwd=start.cwd, mcp_servers=[])
                output.say(WorkerMessage(ready=True))
                answer = partial(_answer, connection, client, session.session_id, stderr)
                await RequestLoop(output, answer, client.heard).serve(questions)
            finally:
                leaders |= descendants()
                gone.cancel()
    except TimeoutError:
        output.say(WorkerMessage(error=stderr.after(f"it was not ready within {READY_SECONDS:g} s")))
    except RequestError as error:
        output.say(WorkerMessage(error=stderr.after(f"it refused to begin: {error}")))
    except (OSError, ValueError) as error:
        output.say(WorkerMessage(error=stderr.after(describe_error(error))))
    finally:
        kill(leaders)


async def _gone(process: Any, stderr: StderrTail, output: WorkerOutput) -> None:
    """When the agent exits: reports it to whoever waits, and ends this process."""

    await process.wait()
    await asyncio.sleep(0.1)  # its last output may still be on the way
    output.say(WorkerMessage(error=stderr.after(f"its process ended with code {process.returncode}")))
    kill(descendants())
    os._exit(3)


if __name__ == "__main__":
    run_worker(serve_agent)
