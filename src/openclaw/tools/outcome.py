"""How a command ended, as the model reads it."""

import signal
from pathlib import Path
from typing import Any

from msgspec import structs

from openclaw.core.tool import Output
from openclaw.tools import group
from openclaw.tools.child import ChildEnded


def outcome(ended: ChildEnded, text: str, cwd: Path, leader: int | None, **details: Any) -> Output:
    """The answer for a command that has ended, with `text` of its output.

    `leader` is the first process of its family; None for one that leaves nothing behind.
    """
    number = -ended.code if ended.code is not None and ended.code < 0 else None
    name = _signal_name(number) if number else None
    if ended.crowd:
        reason, note = "signal", _crowd_note(ended.crowd)
    elif ended.timed_out:
        reason, note = "overall-timeout", _timeout_note(ended.limit)
    elif ended.code is None:
        reason, note = "signal", "(Command was stopped)"
    elif name:
        reason, note = "signal", f"(Command ended by signal {name})"
    else:
        reason, note = "exit", f"(Command exited with code {ended.code})" if ended.code else ""
    notes = [note] if note else []
    if reason != "overall-timeout" and leader is not None and group.lingers(leader):
        notes.append(f"[Processes it started are still running; to stop them: kill -- -{leader}]")
    # A shell says 126 and 127 when there was nothing it could run.
    failed = reason != "exit" or ended.code in (126, 127)
    about: dict[str, Any] = {
        "status": "failed" if failed else "completed",
        "exitCode": ended.code if reason == "exit" else None,
        "exitSignal": name,
        "exitReason": reason,
        "durationMs": round(ended.seconds * 1000),
        "timedOut": ended.timed_out,
        "cwd": str(cwd),
        **details,
    }
    said = "\n\n".join([text or "(no output)", *notes])
    output = Output.failed(said, **about) if failed else Output.of(said, **about)
    return structs.replace(output, end_matters=True)


def _crowd_note(count: int) -> str:
    return (
        f"Command was stopped with everything it had started: it had {count} processes at once, more than "
        "tools.exec.maxProcesses allows. Start fewer at a time."
    )


def _timeout_note(timeout: float) -> str:
    return (
        f"Command timed out after {timeout:g} seconds. It was stopped with everything it had started; "
        "check what it already changed before you run it again, and give a larger timeoutSeconds if it needs longer."
    )


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return str(number)
