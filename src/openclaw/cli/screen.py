"""Running a turn from a terminal: stream the answer, show tool calls quietly, ask for approvals, stop on Ctrl-C."""

import asyncio
import signal
import sys
import uuid
from collections.abc import Iterator, Mapping
from contextlib import aclosing, contextmanager
from typing import Any

import click
import msgspec
from msgspec import structs

from openclaw.cli.render import note, print_json
from openclaw.core.commands import is_command
from openclaw.core.events import AttemptFailed, CompactionEnded, RunEnded, RunNotice, ToolEnded
from openclaw.core.messages import Usage
from openclaw.core.text import printable, spelled
from openclaw.core.tool import ApprovalAnswer, ApprovalRequest, Decision
from openclaw.gateway.app import App, open_app
from openclaw.process.environment import Environment
from openclaw.process.tasks import SystemClock
from openclaw.runs.reply import NoteShaped, ReplyShaped, ReplyShaper, ShapedEvent, TextShaped, ThoughtShaped
from openclaw.runs.request import RecordedEvent, RunRequest, SessionRenewed, SessionRepaired
from openclaw.sessions.reply_text import ReplyPayload

DEFAULT_TIMEOUT = 600.0
ARGUMENT_CHARS = 80
SOURCES = 5
"""Texts from elsewhere that a question names."""


class TerminalApprover:
    """Asks the person at the terminal; without one, the answer is no."""

    async def decide(self, request: ApprovalRequest) -> ApprovalAnswer:
        if not (sys.stdin.isatty() and sys.stderr.isatty()):
            return ApprovalAnswer(
                "deny",
                why=f"{request.why}, and nobody is at a terminal to approve it "
                "(run it in a terminal, or set tools.exec.security to full)",
                nobody=True,
            )
        click.echo(f"\nThe assistant wants to run, in {spelled(request.cwd)}:", err=True)
        click.echo(f"\n    {spelled(request.command)}\n", err=True)
        if request.why:
            click.echo(f"Why you are asked: {spelled(request.why)}", err=True)
        for each in request.origins[:SOURCES]:
            click.echo(f"  read before it: {spelled(each.source)} ({each.label})", err=True)
        choice = "[y]es, [a]lways, [N]o" if request.standing else "[y]es, [N]o"
        click.echo(f"Run it? {choice}: ", nl=False, err=True)
        decision = _DECISIONS.get((await _typed()).strip().lower(), "deny")
        return ApprovalAnswer(
            "allow-once" if decision == "allow-always" and not request.standing else decision, by="terminal"
        )


_DECISIONS: dict[str, Decision] = {
    "y": "allow-once",
    "yes": "allow-once",
    "a": "allow-always",
    "always": "allow-always",
}


async def _typed() -> str:
    """The next line from the terminal. Stopping does not leave a thread behind that still waits for it."""
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    try:
        loop.add_reader(sys.stdin, ready.set)
    except NotImplementedError:  # Windows
        return await asyncio.to_thread(sys.stdin.readline)
    try:
        await ready.wait()
    finally:
        loop.remove_reader(sys.stdin)
    return sys.stdin.readline()


class RunScreen:
    """What has been put on the screen so far."""

    def __init__(self, live: bool) -> None:
        self._live = live
        self._line_open = False
        self.payloads: tuple[ReplyPayload, ...] = ()
        self.end: RunEnded | None = None
        self.answered_by = ("", "")
        self.notices: list[str] = []
        self.commanded = False
        """A command was answered: there was no run."""

    def take(self, event: ShapedEvent | SessionRepaired | SessionRenewed | RecordedEvent) -> None:
        match event:
            case TextShaped(text=text):
                self._write(text)
            case ThoughtShaped(text=text):
                if self._live:
                    click.echo(printable(text), nl=False, err=True)
            case ReplyShaped(provider=provider, model=model, reasoning=reasoning):
                self.answered_by = (provider, model)
                self._close_line()
                if reasoning and self._live:
                    note(f"Reasoning:\n{reasoning}")
            case NoteShaped(payload=payload) if payload.kind == "error":
                self._write(f"{payload.text}\n")
            case ToolEnded(call=call, result=result):
                self._close_line()
                if self._live:
                    mark = "✗" if result.is_error else "·"
                    note(f"{mark} {call.name} {short(call.arguments)}".rstrip())
            case AttemptFailed(error=error, wait=wait, provider=provider, model=model):
                self._close_line()
                then = f"; trying again in {wait:.0f} s" if wait >= 1 else ""
                note(f"{provider}/{model}: {error}{then}")
            case RunNotice(text=text):
                self._close_line()
                if self._live:
                    note(printable(text))
                self.notices.append(text)
            case CompactionEnded():
                self._close_line()
                if self._live:
                    note(printable(event.line))
            case SessionRepaired(problems=problems):
                for problem in problems:
                    note(f"session mended ({problem.kind}): {problem.detail}")
            case RunEnded():
                self.end = event
                self._close_line()
            case _:
                pass

    def answer(self, text: str) -> None:
        """What was said without a model."""
        self.payloads = (ReplyPayload(text=text),)
        self.commanded = True
        self._write(f"{text}\n")

    def _write(self, text: str) -> None:
        if self._live:
            click.echo(printable(text), nl=False)
            sys.stdout.flush()
            self._line_open = not text.endswith("\n")

    def _close_line(self) -> None:
        if self._line_open:
            click.echo()
            self._line_open = False


def short(arguments: Mapping[str, Any]) -> str:
    """The arguments of a call in a few words."""
    values = [str(value).replace("\n", "⏎") for value in arguments.values()]
    text = printable(" ".join(values))
    return text if len(text) <= ARGUMENT_CHARS else text[: ARGUMENT_CHARS - 1] + "…"


async def drive(app: App, turn: RunRequest, shown: RunScreen) -> None:
    """Runs `turn` to its end, or to Ctrl-C. A command is answered here; no model sees it."""
    if is_command(turn.text):
        from openclaw.gateway import alone

        reply = await alone.answer(app, turn.key, turn.text)
        if reply is not None and not reply.message:
            shown.answer(reply.text)
            return
        turn = structs.replace(turn, text=reply.message) if reply else turn
    shaper = ReplyShaper(
        await app.preparer.reply_options(turn.key, turn.model),
        proofread=lambda text: app.memories.proofread(turn.key.agent, text),
    )
    outgoing, looked = None, False
    async with aclosing(app.turns.run(turn, app.toolset())) as events:
        async for event in events:
            if isinstance(event, SessionRepaired | SessionRenewed | RecordedEvent):
                shown.take(event)
                continue
            if not looked:  # the turn is prepared, so plugins have started
                looked = True
                app.run_hooks.messages.received(turn)
                outgoing = app.run_hooks.messages.outgoing(turn)
            for each in shaper.take(event):
                for allowed in (each,) if outgoing is None else await outgoing.take(each):
                    shown.take(allowed)
            shown.payloads = shaper.payloads if outgoing is None else await outgoing.allowed(shaper.payloads)
    app.run_hooks.messages.sent(turn, shown.payloads)


@contextmanager
def interruptible(task: "asyncio.Task[Any]") -> Iterator[None]:
    """Ctrl-C cancels `task`, once; a second one ends the process the hard way."""
    loop = asyncio.get_running_loop()

    def stop() -> None:
        task.cancel()
        loop.remove_signal_handler(signal.SIGINT)

    try:
        loop.add_signal_handler(signal.SIGINT, stop)
        loop.add_signal_handler(signal.SIGTERM, stop)
    except NotImplementedError:  # Windows: KeyboardInterrupt arrives by itself
        yield
        return
    try:
        yield
    finally:
        loop.remove_signal_handler(signal.SIGINT)
        loop.remove_signal_handler(signal.SIGTERM)


def ask(
    message: str,
    *,
    session_key: str | None,
    agent_id: str | None,
    model: str | None,
    thinking: str | None,
    timeout: float | None,
    as_json: bool,
) -> int:
    """One turn in this process; gives the exit code."""
    surroundings = Environment.of_process()

    async def main() -> int:
        clock = SystemClock()
        began = clock.now()
        shown = RunScreen(live=not as_json)
        async with open_app(surroundings, clock=clock, approver=TerminalApprover(), warn=note) as app:
            turn = RunRequest(
                run_id=str(uuid.uuid4()),
                key=app.key(session_key, agent_id),
                text=message,
                model=model,
                thinking=thinking,
                timeout=timeout,
                place=str(surroundings.cwd),
            )
            outcome = await _bounded(app, turn, shown, DEFAULT_TIMEOUT if timeout is None else timeout)
            if as_json:
                print_json(await _document(app, turn, shown, outcome, clock.now() - began))
            return _exit_code(shown, outcome, quiet=as_json)

    return asyncio.run(main())


async def _bounded(app: App, turn: RunRequest, shown: RunScreen, limit: float) -> str:
    """Drives the turn; says how it ended: done, stopped or timeout."""
    task = asyncio.ensure_future(drive(app, turn, shown))
    with interruptible(task):
        done, _ = await asyncio.wait({task}, timeout=limit or None)
        if not done:
            task.cancel()
        try:
            await task
        except asyncio.CancelledError:
            return "stopped" if done else "timeout"
    return "done"


def _exit_code(shown: RunScreen, outcome: str, *, quiet: bool) -> int:
    if outcome == "stopped":
        if not quiet:
            note("\nstopped; the conversation so far is kept")
        return 130
    if outcome == "timeout":
        if not quiet:
            click.echo("error: no answer in time; raise --timeout or set 0 for no limit", err=True)
        return 1
    if shown.end is not None and shown.end.error:
        if not quiet:
            click.echo(f"error: {printable(shown.end.error)}", err=True)
        return 1
    return 0


async def _document(app: App, turn: RunRequest, shown: RunScreen, outcome: str, seconds: float) -> dict[str, Any]:
    """What `--json` prints."""
    end = shown.end
    usage = end.usage if end else Usage()
    provider, model = shown.answered_by
    row = await app.index.get(turn.key)
    payloads = [payload.shown() for payload in shown.payloads]
    stop_reason = end.stop_reason if end else "timeout" if outcome == "timeout" else "aborted"
    if shown.commanded:
        stop_reason = "stop"
    error = (end.error if end else None) or {"timeout": "no answer in time", "stopped": "stopped"}.get(outcome)
    usage_document = msgspec.to_builtins(usage)
    cost = usage.cost.total if usage.cost else None
    status = "ok" if outcome == "done" and not error else "error"
    return {
        "runId": turn.run_id,
        "sessionKey": str(turn.key),
        "status": status,
        "summary": "completed" if status == "ok" else error,
        "payloads": payloads,
        "usage": usage_document,
        "cost": cost,
        "model": f"{provider}/{model}" if model else None,
        "stopReason": stop_reason,
        **({"error": error} if error else {}),
        "result": {
            "payloads": payloads,
            "meta": {
                "durationMs": round(seconds * 1000),
                "aborted": stop_reason == "aborted",
                "agentMeta": {
                    "sessionId": row.session_id if row else None,
                    "provider": provider or None,
                    "model": model or None,
                    "usage": usage_document,
                    "costUsd": cost,
                    "assistantTurns": end.turns if end else 0,
                },
                **({"notices": shown.notices} if shown.notices else {}),
            },
        },
    }
