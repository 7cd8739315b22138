"""Talking to the assistant from a terminal: a connection that lasts, one message with what comes of it, questions."""

import asyncio
import os
import time
import uuid
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, aclosing, suppress
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from openclaw.cli.client import NOT_RUNNING, find_running, is_alone
from openclaw.cli.render import ProgressLine, note, print_json, say
from openclaw.cli.talk.screen import RunScreen, TerminalApprover, interruptible
from openclaw.core.deferred import Deferred
from openclaw.core.errors import OpenClawError, StateError
from openclaw.core.messages import Usage
from openclaw.core.text import make_origin
from openclaw.core.tool import ApprovalRequest
from openclaw.gateway.running import ClientTarget, running_gateway
from openclaw.process.environment import Environment
from openclaw.protocol.client import EventGap, GatewayClient
from openclaw.protocol.connect_request import CallFailed
from openclaw.protocol.websocket import connect

if TYPE_CHECKING:
    from openclaw.models import registry
else:
    registry = Deferred("openclaw.models.registry")

T = TypeVar("T")


def run_with_client(
    work: Callable[[GatewayClient], Awaitable[T]], *, local: bool = False, caps: tuple[str, ...] = ()
) -> T:
    """Does `work` with a client of the gateway, running or in this process."""

    async def main() -> T:
        async with open_client(Environment.of_process(), local=local, caps=caps) as client:
            return await work(client)

    return asyncio.run(main())


def open_client(
    environment: Environment, *, local: bool = False, caps: tuple[str, ...] = ()
) -> AbstractAsyncContextManager[GatewayClient]:
    """A client of the running gateway, or of one in this process: when none runs, or it is to be `local`."""
    if is_alone(environment, local):
        from openclaw.gateway.local import local_gateway

        return local_gateway(environment, caps=caps, warn=note, report=ProgressLine())
    return connect_running(environment, caps=caps)


def connect_running(
    environment: Environment, *, caps: tuple[str, ...] = ()
) -> AbstractAsyncContextManager[GatewayClient]:
    """A client of the gateway that runs."""
    found = running_gateway(environment.home.state)
    if found is None:
        raise StateError(NOT_RUNNING)
    return connect_to(find_running(environment, found), caps)


def connect_to(target: ClientTarget, caps: tuple[str, ...] = ()) -> AbstractAsyncContextManager[GatewayClient]:
    """Connects to `target`, for the length of a block."""
    return connect(target.url, target.introduction(caps), target.sign(), pinned=target.fingerprint)


RUN_CAPS = ("tool-events",)
"""What a client asks for that shows a run."""
ENDING_SECONDS = 10.0


def lacks_model(hello: Mapping[str, Any]) -> bool:
    """Whether a gateway greeted us without a model to answer with."""
    defaults = (hello.get("snapshot") or {}).get("sessionDefaults") or {}
    return defaults.get("modelConfigured") is False


def shell_key_hint() -> str:
    """What to do with a key that this shell has and a gateway without a model has not; nothing when there is none."""
    for facts in registry.load().providers:
        for name in facts.env:
            if os.environ.get(name, "").strip():
                return (
                    f"{name} is set in this shell, and the running gateway does not have it: "
                    f"`openclaw models auth {facts.id} --from-env` tries it and hands it over."
                )
    return ""


async def ask(
    client: GatewayClient, params: dict[str, Any], *, as_json: bool, limit: float, skills: Sequence[str] = ()
) -> int:
    """Sends one message, with `skills` from elsewhere, and shows what comes; gives the exit code."""
    if skills:
        await client.call("skills.offer", {"paths": list(skills)})
    if lacks_model(client.hello) and (hint := shell_key_hint()):
        note(hint)
    began = time.monotonic()
    params = {"idempotencyKey": str(uuid.uuid4()), **params}
    screen = RunScreen(params["idempotencyKey"], live=not as_json)
    watching = asyncio.create_task(_watch(client, screen, asks=not as_json))
    running = asyncio.create_task(_run(client, screen, params))
    stopped = ""
    try:
        with interruptible(running):
            done, _ = await asyncio.wait({running}, timeout=limit or None)
            if not done:
                stopped = "timeout"
                running.cancel()
            try:
                final = await running
            except asyncio.CancelledError:
                stopped = stopped or "stopped"
                final = await _stop(client, screen, params)
    finally:
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)
    screen.close_line()
    result = final.get("result") or {}
    payloads = [each for each in result.get("payloads") or () if not each.get("isNotice")]
    if not screen.streamed and payloads:
        screen.show("\n".join(str(payload.get("text", "")) for payload in payloads))
    for line in (result.get("meta") or {}).get("notices") or ():
        screen.notice(str(line))
    if as_json:
        print_json(_document(final, stopped, time.monotonic() - began))
    return _exit_code(final, stopped, quiet=as_json)


async def _run(client: GatewayClient, screen: RunScreen, params: dict[str, Any]) -> dict[str, Any]:
    """The last answer to the request, once its events are shown; a run that failed is an answer too."""
    accepted, final = False, {}
    try:
        async with aclosing(client.answers("agent", params)) as answers:
            async for answer in answers:
                final = answer if isinstance(answer, dict) else {}
                if final.get("status") != "accepted":
                    break
                accepted = True
    except CallFailed as error:
        if not isinstance(error.payload, dict):
            raise
        final = error.payload
    if accepted:
        # The last event travels beside the answer, and may be behind it.
        with suppress(TimeoutError):
            async with asyncio.timeout(ENDING_SECONDS):
                await screen.ended.wait()
    return final


async def _stop(client: GatewayClient, screen: RunScreen, params: dict[str, Any]) -> dict[str, Any]:
    """Stops the run over there, and waits until it has ended."""
    key = screen.session_key or params.get("sessionKey") or "main"
    whose = {"agentId": params["agentId"]} if "agentId" in params and not screen.session_key else {}
    await client.call("chat.abort", {"sessionKey": key, "runId": screen.run_id, **whose})
    await client.call("agent.wait", {"runId": screen.run_id, "timeoutMs": int(ENDING_SECONDS * 1000)})
    history = await client.call("chat.history", {"sessionKey": key, "limit": 1, **whose})
    session = {"sessionKey": history["sessionKey"], "sessionId": history.get("sessionId")}
    return {"runId": screen.run_id, **session, "status": "error"}


async def _watch(client: GatewayClient, screen: RunScreen, *, asks: bool) -> None:
    """Shows the events of the run, and puts its questions to the person at this terminal."""
    async with asyncio.TaskGroup() as group, aclosing(client.events()) as events:
        questions = RunQuestions(client, screen, group, asks=asks)
        try:
            async for event in events:
                if isinstance(event, EventGap) or not isinstance(event.payload, dict):
                    continue
                match event.event:
                    case "agent":
                        screen.take(event.payload)
                        questions.take(event.payload)
                    case "exec.approval.requested":
                        questions.ask(approval_request(event.payload))
                    case "exec.approval.resolved":
                        questions.resolved(str(event.payload.get("id")), str(event.payload.get("decision")))
        finally:
            questions.close()


class RunQuestions:
    """The questions of a run at this terminal, one at a time; meanwhile the run may go on, or somebody else answer."""

    def __init__(self, client: GatewayClient, screen: RunScreen, group: asyncio.TaskGroup, *, asks: bool) -> None:
        self._client = client
        self._screen = screen
        self._group = group
        self._approver = TerminalApprover(asks=asks)
        self._alone = asyncio.Lock()
        self._open: dict[str, asyncio.Task[None]] = {}
        """Those without an answer yet."""

    def ask(self, request: ApprovalRequest) -> None:
        if self._screen.session_key in ("", request.session_key):
            self._open[request.id] = self._group.create_task(self._decide(request), name=f"question:{request.id}")

    async def _decide(self, request: ApprovalRequest) -> None:
        """Answers the gateway's question: the person does, or nobody can."""
        async with self._alone:
            self._screen.close_line()
            answer = await self._approver.decide(request)
        self._open.pop(request.id, None)
        try:
            if answer.nobody:
                await self._client.call("exec.approval.unattended", {"id": request.id, "why": answer.why})
            else:
                await self._client.call("exec.approval.resolve", {"id": request.id, "decision": answer.decision})
        except OpenClawError as error:
            note(error.message)

    def take(self, payload: Mapping[str, Any]) -> None:
        """Closes the question that its run does not wait for any longer, and says how to answer it later."""
        data = payload.get("data") or {}
        if payload.get("runId") != self._screen.run_id or payload.get("stream") != "tool" or "result" not in data:
            return
        details = data["result"].get("details") or {}
        if details.get("status") == "approval-pending":
            name = str(details.get("approvalId"))
            self._withdraw(name)
            self._screen.notice(
                f"It waits for your answer, and the assistant goes on. In a chat: {details.get('reply')}\n"
                f"In a terminal: openclaw approvals resolve {name} allow-once"
            )

    def resolved(self, name: str, decision: str) -> None:
        """Closes a question that was answered somewhere else, or is asked no more."""
        if self._withdraw(name):
            said = "nobody answered in time" if decision == "expired" else f"answered elsewhere: {decision}"
            self._screen.notice(f"{name}: {said}")

    def close(self) -> None:
        for name in list(self._open):
            self._withdraw(name)

    def _withdraw(self, name: str) -> bool:
        task = self._open.pop(name, None)
        return task is not None and task.cancel()


def approval_request(payload: dict[str, Any]) -> ApprovalRequest:
    """The question in an `exec.approval.requested` event."""
    request = payload.get("request") or {}
    origins = request.get("origins") or ()
    return ApprovalRequest(
        id=str(payload.get("id")),
        tool="exec",
        command=str(request.get("command")),
        cwd=str(request.get("cwd")),
        agent_id=str(request.get("agentId")),
        session_key=str(request.get("sessionKey")),
        why=str(request.get("warningText") or ""),
        origins=tuple(make_origin("external", str(each.get("source"))) for each in origins if isinstance(each, dict)),
        standing="allow-always" in (request.get("allowedDecisions") or ("allow-always",)),
    )


WHY_STOPPED = {"timeout": "no answer in time", "stopped": "stopped"}


def _document(final: dict[str, Any], stopped: str, seconds: float) -> dict[str, Any]:
    """What `--json` prints."""
    status = final.get("status", "error")
    result = final.get("result") or {"payloads": [], "meta": {"durationMs": round(seconds * 1000), "aborted": True}}
    meta = result.get("meta") or {}
    agent = meta["agentMeta"] = {
        "sessionId": final.get("sessionId"),
        "provider": None,
        "model": None,
        "usage": msgspec.to_builtins(Usage()),
        "costUsd": None,
        "assistantTurns": 0,
        **(meta.get("agentMeta") or {}),
    }
    model = agent.get("model")
    error = WHY_STOPPED.get(stopped) or (final.get("summary") if status != "ok" else None)
    stop_reason = "timeout" if stopped == "timeout" else meta.get("stopReason", "aborted")
    return {
        "runId": final.get("runId"),
        "sessionKey": final.get("sessionKey"),
        "status": status,
        "summary": error or final.get("summary"),
        "payloads": result.get("payloads", []),
        "usage": agent["usage"],
        "cost": agent["costUsd"],
        "model": f"{agent.get('provider')}/{model}" if model else None,
        "stopReason": stop_reason,
        **({"error": error} if error else {}),
        "result": result,
    }


def _exit_code(final: dict[str, Any], stopped: str, *, quiet: bool) -> int:
    if not stopped and final.get("status") == "ok":
        return 0
    if stopped == "stopped" and not quiet:
        note("\nstopped; the conversation so far is kept")
    elif not quiet:
        limit = "no answer in time; raise --timeout or set 0 for no limit" if stopped else ""
        say(f"error: {limit or final.get('summary') or 'the run failed'}", err=True)
    return 130 if stopped == "stopped" else 1
