"""The worker process of one external coding agent: runs the official ACP library, with the agent as its child."""

import asyncio
import os
from collections.abc import Mapping
from typing import Any

import msgspec
from acp import PROTOCOL_VERSION, RequestError, spawn_agent_process, text_block
from acp.schema import (
    AllowedOutcome,
    ClientCapabilities,
    DeniedOutcome,
    ImageContentBlock,
    Implementation,
    RequestPermissionResponse,
)
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
AUTH_REQUIRED = -32000


class AcpStart(Struct, frozen=True, kw_only=True):
    """How the agent is started."""

    command: str
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    cwd: str


class AcpClientSide:
    """The client side of ACP: the agent may only ask for permission. It reads, writes and runs things itself."""

    def __init__(self, output: WorkerOutput) -> None:
        self._output = output
        self._asked: dict[int, asyncio.Future[str | None]] = {}
        self._count = 0
        self.prompting = ""
        """The session whose prompt is under way; what is replayed of an earlier conversation is not news."""
        self.commands: dict[str, list[str]] = {}

    def on_connect(self, conn: Any) -> None:
        return None

    async def session_update(self, session_id: str, update: Any, **given: Any) -> None:
        if update.session_update == "available_commands_update":
            self.commands[session_id] = [each.name for each in update.available_commands]
        elif session_id == self.prompting:
            self._output.say(WorkerMessage(body={"update": _dump(update)}))

    async def request_permission(self, session_id: str, tool_call: Any, options: Any, **given: Any) -> Any:
        self._count += 1
        answer: asyncio.Future[str | None] = asyncio.get_running_loop().create_future()
        self._asked[self._count] = answer
        choices = [{"id": each.option_id, "kind": each.kind} for each in options]
        body = {"permission": self._count, "about": _dump(tool_call), "options": choices}
        self._output.say(WorkerMessage(body=body))
        chosen = await answer
        if chosen is None:
            return RequestPermissionResponse(outcome=DeniedOutcome(outcome="cancelled"))
        return RequestPermissionResponse(outcome=AllowedOutcome(outcome="selected", option_id=chosen))

    def answer(self, number: int, option: str | None) -> None:
        """Passes on what was decided."""
        waiting = self._asked.pop(number, None)
        if waiting is not None and not waiting.done():
            waiting.set_result(option)

    def drop(self) -> None:
        """Cancels open permission requests when nobody waits for the work any more."""
        for number in list(self._asked):
            self.answer(number, None)

    async def ext_method(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        raise RequestError.method_not_found(method)

    async def ext_notification(self, method: str, params: dict[str, Any]) -> None:
        return None


def _dump(document: Any) -> dict[str, Any]:
    """As it is on the wire, with texts cut to a length that is read."""
    shown: dict[str, Any] = document.model_dump(mode="json", by_alias=True, exclude_none=True)
    if isinstance(content := shown.get("content"), dict) and isinstance(content.get("text"), str):
        content["text"] = content["text"][:MOST_TEXT]
    return shown


class AcpConnection:
    """Answers the requests of our side with those of the protocol."""

    def __init__(self, connection: Any, client: AcpClientSide, stderr: StderrTail, cwd: str, able: Any) -> None:
        self._connection = connection
        self._client = client
        self._stderr = stderr
        self._cwd = cwd
        self._able = able
        self._sessions: set[str] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    async def answer(self, ask: WorkerRequest) -> WorkerMessage:
        try:
            return WorkerMessage(id=ask.id, body=await self._carry_out(ask.body))
        except RequestError as error:
            if error.code == AUTH_REQUIRED:
                why = "it wants you to log in: start it yourself once and follow what it says"
                return WorkerMessage(id=ask.id, error=f"{why} ({error})"[:1000])
            return WorkerMessage(id=ask.id, error=f"it answered with an error: {error}"[:1000])
        except (ConnectionError, OSError) as error:
            why = self._stderr.after(f"its process ended ({describe_error(error)})")
            return WorkerMessage(id=ask.id, error=why, over=True)

    async def _carry_out(self, body: Mapping[str, Any]) -> dict[str, Any]:
        match body:
            case {"open": wanted, "must": must}:
                return await self._open(wanted, must)
            case {"prompt": blocks, "session": session_id}:
                return await self._prompt(session_id, blocks)
            case {"commands": session_id}:
                return {"commands": self._client.commands.get(session_id, [])}
        raise RequestError.invalid_params({"details": "unknown request"})

    async def _open(self, wanted: str, must: bool) -> dict[str, Any]:
        """Continues the session `wanted`, or begins one where that cannot be and it need not."""
        images = bool(self._able and self._able.prompt_capabilities and self._able.prompt_capabilities.image)
        if wanted in self._sessions:
            return {"session": wanted, "resumed": True, "images": images}
        resumed = False
        if wanted:
            try:
                resumed = await self._resume(wanted)
            except RequestError:
                if must:
                    raise
            if must and not resumed:
                raise RequestError(-32601, "it cannot continue an earlier session")
        session_id = wanted
        if not resumed:
            session_id = (await self._connection.new_session(cwd=self._cwd, mcp_servers=[])).session_id
        self._sessions.add(session_id)
        return {"session": session_id, "resumed": resumed, "images": images}

    async def _resume(self, session_id: str) -> bool:
        """Whether the agent took up an earlier session."""
        sessions = self._able.session_capabilities if self._able else None
        if sessions is not None and sessions.resume is not None:
            await self._connection.resume_session(session_id=session_id, cwd=self._cwd, mcp_servers=[])
            return True
        if self._able is not None and self._able.load_session:
            await self._connection.load_session(session_id=session_id, cwd=self._cwd, mcp_servers=[])
            return True
        return False

    async def _prompt(self, session_id: str, blocks: list[dict[str, str]]) -> dict[str, Any]:
        content = [
            ImageContentBlock(type="image", data=each["image"], mime_type=each["mime"])
            if "image" in each
            else text_block(each["text"])
            for each in blocks
        ]
        self._client.prompting = session_id
        try:
            ended = await self._connection.prompt(session_id=session_id, prompt=content)
        finally:
            self._client.prompting = ""
            self._client.drop()
        usage = ended.usage.model_dump(mode="json", by_alias=True, exclude_none=True) if ended.usage else None
        return {"stopReason": ended.stop_reason, "usage": usage}

    def heard(self, body: Any) -> None:
        """Takes what was decided about a permission, or that the prompt is to be stopped."""
        if "permission" in body:
            self._client.answer(body["permission"], body.get("option"))
        elif "cancel" in body:
            self._client.drop()
            task = asyncio.create_task(self._cancel(body["cancel"]))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _cancel(self, session_id: str) -> None:
        try:
            await self._connection.cancel(session_id=session_id)
        except (RequestError, ConnectionError, OSError):
            return  # it has ended, which whoever waits for the prompt is told


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
                    told = await connection.initialize(
                        protocol_version=PROTOCOL_VERSION,
                        # No file system and no terminal of ours: what it does there, it does itself.
                        client_capabilities=ClientCapabilities(),
                        client_info=Implementation(name="openclaw-py", version=__version__),
                    )
                output.say(WorkerMessage(ready=True))
                agent = AcpConnection(connection, client, stderr, start.cwd, told.agent_capabilities)
                await RequestLoop(output, agent.answer, agent.heard).serve(questions)
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
