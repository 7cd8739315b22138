"""What the plugins of a running gateway say to an install that a command is about to make."""

import asyncio
import sys
import uuid
from collections.abc import Mapping, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from openclaw.cli.render import note, print_json
from openclaw.cli.screen import TerminalApprover, interruptible, short
from openclaw.core.errors import OpenClawError, StateError
from openclaw.core.events import CompactionEnded
from openclaw.core.text import origin, printable
from openclaw.core.tool import ApprovalRequest
from openclaw.gateway import process
from openclaw.gateway.client_target import ClientTarget, call_gateway, find, joined
from openclaw.gateway.process import RunningGateway, running
from openclaw.gateway.status import services_of, wait_ready
from openclaw.process.environment import Environment
from openclaw.protocol.client import CallFailed, EventGap, GatewayClient

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from openclaw.gateway.app import App


SECONDS = 120.0
"""For all plugins together; each has its own, shorter limit."""


def objection(
    surroundings: Environment,
    *,
    target: Literal["skill", "plugin"],
    name: str,
    staged: Path,
    spec: str,
    tree_sha256: str,
    mode: Literal["install", "update"],
    findings: Sequence[Mapping[str, Any]] = (),
) -> str:
    """Why a plugin stops the install; empty when none does. Without a gateway no plugin listens; a gateway that does
    not answer is a reason to stop."""
    found = running(surroundings.home.state)
    if found is None or not found.port:
        return ""
    params = {
        "targetType": target,
        "targetName": name,
        "sourcePath": str(staged),
        "spec": spec,
        "treeSha256": tree_sha256,
        "mode": mode,
        "findings": list(findings),
    }
    try:
        answer = call_gateway(find(surroundings), "install.check", params, timeout=SECONDS)
    except (OpenClawError, OSError) as error:
        why = error.message if isinstance(error, OpenClawError) else str(error)
        return f"the plugins of the running gateway could not be asked ({why}). Stop it, or try again"
    if not answer["blocked"]:
        return ""
    return f"the plugin {answer['plugin']} objects: {answer['reason']}"


def with_assistant(work: "Callable[[App], Awaitable[None]]") -> None:
    """Does `work` with an assistant of this terminal."""
    import asyncio

    from openclaw.cli.render import note
    from openclaw.cli.screen import TerminalApprover
    from openclaw.gateway.app import open_app
    from openclaw.process.environment import Environment
    from openclaw.process.tasks import SystemClock

    async def main() -> None:
        async with open_app(
            Environment.of_process(), clock=SystemClock(), approver=TerminalApprover(), warn=note
        ) as app:
            await work(app)

    asyncio.run(main())


ENDING_SECONDS = 10.0


def ask(target: ClientTarget, params: dict[str, Any], *, as_json: bool, limit: float) -> int:
    """Sends one message to the gateway and shows what comes; gives the exit code."""
    return asyncio.run(_ask(target, {"idempotencyKey": str(uuid.uuid4()), **params}, as_json, limit))


async def _ask(target: ClientTarget, params: dict[str, Any], as_json: bool, limit: float) -> int:
    async with joined(target, caps=("tool-events",)) as client:
        screen = _Screen(client, params["idempotencyKey"], live=not as_json)
        watching = asyncio.create_task(screen.watch())
        running = asyncio.create_task(_final(client, params))
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
        screen.rest(final)
        if as_json:
            print_json(_document(final, params["idempotencyKey"]))
    return _exit_code(final, stopped, quiet=as_json)


async def _final(client: GatewayClient, params: dict[str, Any]) -> dict[str, Any]:
    """The last answer to the request; a run that failed is an answer too."""
    try:
        answer = await client.call("agent", params, timeout=None, final=True)
    except CallFailed as error:
        if isinstance(error.payload, dict):
            return error.payload
        raise
    return answer if isinstance(answer, dict) else {}


async def _stop(client: GatewayClient, screen: "_Screen", params: dict[str, Any]) -> dict[str, Any]:
    """Stops the run over there, and waits until it has ended."""
    key = screen.session_key or params.get("sessionKey") or "main"
    await client.call("chat.abort", {"sessionKey": key, "runId": screen.run_id})
    waited = await client.call("agent.wait", {"runId": screen.run_id, "timeoutMs": int(ENDING_SECONDS * 1000)})
    return {"runId": screen.run_id, "status": "error", "summary": "stopped", "result": None, "wait": waited}


class _Screen:
    """What the events of one run put on the terminal."""

    def __init__(self, client: GatewayClient, run_id: str, live: bool) -> None:
        self.run_id = run_id
        self.session_key = ""
        self._client = client
        self._live = live
        self._open = False
        self._streamed = False
        self._started: dict[str, str] = {}

    async def watch(self) -> None:
        async with aclosing(self._client.events()) as events:
            async for event in events:
                if not isinstance(event, EventGap) and isinstance(event.payload, dict):
                    await self._take(event.event, event.payload)

    async def _take(self, name: str, payload: dict[str, Any]) -> None:
        if name == "exec.approval.requested":
            await self._approve(payload)
        elif name == "agent" and payload.get("runId") == self.run_id:
            self.session_key = str(payload.get("sessionKey", ""))
            self._show(str(payload.get("stream")), payload.get("data") or {})

    def _show(self, stream: str, data: dict[str, Any]) -> None:
        if not self._live:
            return
        if stream == "assistant":
            self._streamed = True
            text = printable(str(data.get("delta", "")))
            click.echo(text, nl=False)
            sys.stdout.flush()
            self._open = not text.endswith("\n") if text else self._open
        elif stream == "tool" and data.get("phase") == "start":
            self.close_line()
            self._started[str(data.get("toolCallId"))] = short(data.get("args") or {})
        elif stream == "tool" and data.get("phase") == "result":
            self.close_line()
            what = self._started.pop(str(data.get("toolCallId")), "")
            note(f"{'✗' if data.get('isError') else '·'} {data.get('name')} {what}".rstrip())
        elif stream == "lifecycle" and data.get("phase") == "fallback_step":
            self.close_line()
            note(f"{data.get('provider')}/{data.get('model')}: {data.get('error')}")
        elif stream == "compaction" and data.get("phase") == "end":
            self.close_line()
            done = CompactionEnded(
                reason="threshold",
                ok=bool(data.get("ok")),
                tokens_before=int(data.get("tokensBefore") or 0),
                tokens_after=int(data.get("tokensAfter") or 0),
                error=str(data.get("error") or ""),
            )
            note(printable(done.line))
        elif stream == "usage":
            self.close_line()

    def close_line(self) -> None:
        if self._open:
            click.echo()
            self._open = False

    def rest(self, final: dict[str, Any]) -> None:
        """What the answer has and no event brought: the reply to a command."""
        payloads = (final.get("result") or {}).get("payloads") or []
        if self._live and not self._streamed and payloads:
            click.echo(printable("\n".join(str(payload.get("text", "")) for payload in payloads)))
        meta = (final.get("result") or {}).get("meta") or {}
        for line in meta.get("notices") or () if self._live else ():
            note(printable(str(line)))

    async def _approve(self, payload: dict[str, Any]) -> None:
        """Puts the gateway's question to the person at this terminal, if it is about their run."""
        request = payload.get("request") or {}
        if self.session_key and request.get("sessionKey") != self.session_key:
            return
        if not (self._live and sys.stdin.isatty() and sys.stderr.isatty()):
            # Whoever started this cannot be asked, and a pipe must not wait for an hour for somebody who can.
            note(f"not run: {printable(str(request.get('command')))} needs approval, and nobody is at a terminal")
            await self._resolve(payload, "deny")
            return
        self.close_line()
        answer = await TerminalApprover().decide(
            ApprovalRequest(
                id=str(payload.get("id")),
                tool="exec",
                command=str(request.get("command")),
                cwd=str(request.get("cwd")),
                agent_id=str(request.get("agentId")),
                session_key=str(request.get("sessionKey")),
                why=str(request.get("warningText") or ""),
                origins=tuple(
                    origin("external", f"{each.get('source')}")
                    for each in request.get("origins") or ()
                    if isinstance(each, dict)
                ),
                standing="allow-always" in (request.get("allowedDecisions") or ("allow-always",)),
            )
        )
        await self._resolve(payload, answer.decision)

    async def _resolve(self, payload: dict[str, Any], decision: str) -> None:
        try:
            await self._client.call("exec.approval.resolve", {"id": payload.get("id"), "decision": decision})
        except OpenClawError as error:
            note(error.message)


def _document(final: dict[str, Any], run_id: str) -> dict[str, Any]:
    """The same shape `--local` prints."""
    result = final.get("result") or {}
    meta = result.get("meta") or {}
    agent = meta.get("agentMeta") or {}
    provider, model = agent.get("provider"), agent.get("model")
    return {
        "runId": final.get("runId", run_id),
        "status": final.get("status", "error"),
        "summary": final.get("summary"),
        "payloads": result.get("payloads", []),
        "usage": agent.get("usage"),
        "cost": agent.get("costUsd"),
        "model": f"{provider}/{model}" if model else None,
        "stopReason": meta.get("stopReason", "aborted"),
        **({"error": final.get("summary")} if final.get("status") != "ok" else {}),
        "result": final.get("result"),
    }


def _exit_code(final: dict[str, Any], stopped: str, *, quiet: bool) -> int:
    if stopped == "stopped":
        if not quiet:
            note("\nstopped; the conversation so far is kept")
        return 130
    if stopped == "timeout":
        if not quiet:
            click.echo("error: no answer in time; raise --timeout or set 0 for no limit", err=True)
        return 1
    if final.get("status") == "ok":
        return 0
    if not quiet:
        click.echo(f"error: {printable(str(final.get('summary') or 'the run failed'))}", err=True)
    return 1


def gateway_up(surroundings: Environment) -> RunningGateway:
    """The running gateway; the installed service is started, or a process in the background."""
    state = surroundings.home.state
    found = running(state)
    if found is not None and found.port:
        return found
    if found is not None:
        return wait_ready(surroundings)
    services = services_of(surroundings)
    if services.state().installed:
        services.start()
        return wait_ready(surroundings)
    return process.start([], surroundings.environ, state)


def web_address(found: RunningGateway) -> str:
    """Where a browser on this machine finds the gateway."""
    if not found.port:
        raise StateError("the gateway has not said yet where it listens: try again in a moment")
    scheme = "https" if found.fingerprint else "http"
    return f"{scheme}://{process.reachable(found.address)}:{found.port}"
