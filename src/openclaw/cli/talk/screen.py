"""What a person at a terminal sees of a run: the answer as it comes, tool calls quietly, questions about commands."""

import asyncio
import os
import signal
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any, Protocol

import click

from openclaw.cli.render import fold, note
from openclaw.core.events import CompactionEnded
from openclaw.core.text import spell_out_invisible, strip_unprintable
from openclaw.core.tool import ApprovalAnswer, ApprovalRequest, Decision

DEFAULT_TIMEOUT = 600.0
ARGUMENT_CHARS = 80
SOURCES = 5
"""Texts from elsewhere that a question names."""
GAP = "\n\n"
"""What the gateway puts between two messages of one run; here each begins on a line of its own."""


class TerminalApprover:
    """Asks the person at the terminal; without one, the answer is no. Without `asks` nobody is disturbed."""

    def __init__(self, *, asks: bool = True) -> None:
        self._asks = asks

    async def decide(self, request: ApprovalRequest) -> ApprovalAnswer:
        if not (self._asks and sys.stdin.isatty() and sys.stderr.isatty()):
            way = "run it in a terminal, or set tools.exec.security to full"
            why = f"{request.why}, and nobody is at a terminal to approve it ({way})"
            return ApprovalAnswer("deny", why=why, nobody=True)
        click.echo(f"\nThe assistant wants to run, in {spell_out_invisible(request.cwd)}:", err=True)
        click.echo(f"\n    {spell_out_invisible(request.command)}\n", err=True)
        if request.why:
            click.echo(fold(f"Why you are asked: {spell_out_invisible(request.why)}", sys.stderr), err=True)
        for each in request.origins[:SOURCES]:
            line = f"  read before it: {spell_out_invisible(each.source)} ({each.label})"
            click.echo(fold(line, sys.stderr), err=True)
        choice = "[y]es, [a]lways, [N]o" if request.standing else "[y]es, [N]o"
        click.echo(f"Run it? {choice}: ", nl=False, err=True)
        try:
            typed = await _typed()
        except asyncio.CancelledError:
            click.echo(err=True)  # the question is over: what follows begins a line
            raise
        decision = DECISIONS.get(typed.strip().lower(), "deny")
        if decision == "allow-always" and not request.standing:
            decision = "allow-once"
        return ApprovalAnswer(decision, by="terminal")


DECISIONS: dict[str, Decision] = {
    **dict.fromkeys(("y", "yes"), "allow-once"),
    **dict.fromkeys(("a", "always"), "allow-always"),
    **dict.fromkeys(("n", "no", "d", "deny"), "deny"),
}
"""What a person types to answer."""


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


class MarkdownPrinter(Protocol):
    """Prints Markdown that grows, block by block."""

    def add(self, text: str) -> None: ...

    def end(self) -> None: ...


def _markdown_printer() -> MarkdownPrinter | None:
    """Renders answers at a terminal; what goes into a pipe or a file stays as the model wrote it."""
    if not sys.stdout.isatty() or os.environ.get("TERM", "dumb") == "dumb" or find_spec("rich") is None:
        return None
    from openclaw.cli.tui.text import TerminalMarkdown  # with rich, which is not always installed

    return TerminalMarkdown()


class RunScreen:
    """Puts the events of one run on the terminal; without `live`, only what went wrong on the way."""

    def __init__(self, run_id: str, live: bool) -> None:
        self.run_id = run_id
        self.session_key = ""
        self.streamed = False
        self.ended = asyncio.Event()
        """Set with the last event of the run."""
        self._live = live
        self._line_open = False
        self._between = False
        """A message is complete, and nothing of the next one has come."""
        self._arguments: dict[str, str] = {}
        self._markdown = _markdown_printer() if live else None

    def take(self, payload: Mapping[str, Any]) -> None:
        """Shows one `agent` event; those of other runs are left out."""
        if payload.get("runId") != self.run_id:
            return
        self.session_key = str(payload.get("sessionKey", ""))
        data = payload.get("data") or {}
        match payload.get("stream"):
            case "assistant":
                self._say(str(data.get("delta", "")))
            case "thinking" if data.get("complete"):
                self.notice(f"Reasoning:\n{data.get('text')}")
            case "thinking" if self._live:
                click.echo(strip_unprintable(str(data.get("delta", ""))), nl=False, err=True)
            case "tool":
                self._tool(data)
            case "usage":
                self.close_line()
                self._between = True
            case "compaction" if data.get("phase") == "end":
                self._compacted(data)
            case "lifecycle":
                self._lifecycle(data)

    def close_line(self) -> None:
        if self._markdown is not None:
            self._markdown.end()
        if self._line_open:
            click.echo()
            self._line_open = False

    def show(self, text: str) -> None:
        """What was said without a run: the answer to a command."""
        if self._markdown is not None:
            self._markdown.add(text)
            self._markdown.end()
        elif self._live:
            click.echo(strip_unprintable(text))

    def notice(self, text: str) -> None:
        if self._live:
            self.close_line()
            note(strip_unprintable(text))

    def _say(self, text: str) -> None:
        if self._between and self.streamed:
            text = text.removeprefix(GAP)
        self._between, self.streamed = False, True
        if self._markdown is not None:
            self._markdown.add(text)
        elif self._live and text:
            click.echo(strip_unprintable(text), nl=False)
            sys.stdout.flush()
            self._line_open = not text.endswith("\n")

    def _tool(self, data: Mapping[str, Any]) -> None:
        call = str(data.get("toolCallId"))
        if data.get("phase") == "start":
            self.close_line()
            self._arguments[call] = short(data.get("args") or {})
        elif data.get("phase") == "result":
            self.close_line()
            mark, what = "✗" if data.get("isError") else "·", self._arguments.pop(call, "")
            self.notice(f"{mark} {data.get('name')} {what}".rstrip())

    def _compacted(self, data: Mapping[str, Any]) -> None:
        done = CompactionEnded(
            reason="threshold",
            ok=bool(data.get("ok")),
            tokens_before=int(data.get("tokensBefore") or 0),
            tokens_after=int(data.get("tokensAfter") or 0),
            error=str(data.get("error") or ""),
        )
        self.notice(done.line)

    def _lifecycle(self, data: Mapping[str, Any]) -> None:
        match data.get("phase"):
            case "fallback_step":
                self.close_line()
                wait = float(data.get("retryInMs") or 0) / 1000
                then = f"; trying again in {wait:.0f} s" if wait >= 1 else ""
                note(f"{data.get('provider')}/{data.get('model')}: {data.get('error')}{then}")
            case "repaired":
                for problem in data.get("problems") or ():
                    note(f"session mended ({problem['kind']}): {problem['detail']}")
            case "end" | "error":
                self.close_line()
                self.ended.set()


def short(arguments: Mapping[str, Any]) -> str:
    """The arguments of a call in a few words."""
    values = [str(value).replace("\n", "⏎") for value in arguments.values()]
    text = strip_unprintable(" ".join(values))
    return text if len(text) <= ARGUMENT_CHARS else text[: ARGUMENT_CHARS - 1] + "…"


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
