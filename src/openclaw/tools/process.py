"""The `process` tool: polls, feeds and kills background commands."""

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from msgspec import Struct, structs

from openclaw.core.errors import InvalidRequest
from openclaw.core.text import compile_lazily
from openclaw.core.tool import Effects, Output, ToolContext, param, tool_spec
from openclaw.tools.background import Background, BackgroundCommand
from openclaw.tools.base import ArgsTool
from openclaw.tools.exec import ended_output

# Keys and pastes.

_NAMED = {
    **dict.fromkeys(("enter", "return"), "\r"),
    **dict.fromkeys(("escape", "esc"), "\x1b"),
    **dict.fromkeys(("backspace", "bspace"), "\x7f"),
    "tab": "\t",
    "space": " ",
    **{name: f"\x1b[{code}~" for name, code in zip("insert delete pageup pagedown".split(), "2356", strict=True)},
    **{name: f"\x1b[{code}" for name, code in zip("up down right left home end".split(), "ABCDHF", strict=True)},
    **{f"f{number}": f"\x1bO{code}" for number, code in enumerate("PQRS", 1)},
    **{f"f{number}": f"\x1b[{code}~" for number, code in enumerate((15, 17, 18, 19, 20, 21, 23, 24), 5)},
}
_COMBINED = compile_lazily(r"([CMS])-(.+)\Z", re.IGNORECASE | re.DOTALL)
_HEX = compile_lazily(r"(?:0x)?([0-9a-fA-F]{1,2})\Z")
PASTE_START, PASTE_END = "\x1b[200~", "\x1b[201~"


def encode_key(name: str) -> str:
    """The input for the key called `name`: Enter, Up, F5, C-c, M-x, S-Tab or one character."""
    combined = _COMBINED.match(name)
    if combined is not None:
        return _combination(combined[1].upper(), combined[2], name)
    if name.lower() in _NAMED:
        return _NAMED[name.lower()]
    if len(name) == 1:
        return name
    raise InvalidRequest(f"{name!r} is not a key: use Enter, Tab, Escape, Up, F1, C-c, M-x … or one character.")


def _combination(modifier: str, base: str, name: str) -> str:
    if modifier == "M":
        return "\x1b" + encode_key(base)
    if modifier == "S":
        return "\x1b[Z" if base.lower() == "tab" else encode_key(base).upper() if len(base) == 1 else encode_key(base)
    if base.lower() == "space":
        return "\0"
    if len(base) == 1 and "@" <= base.upper() <= "_":
        return chr(ord(base.upper()) & 0x1F)
    raise InvalidRequest(f"{name!r} is not a key: Control goes with a letter or one of @[\\]^_, as in C-c.")


def encode_input(literal: str, hexes: Sequence[str], keys: Sequence[str]) -> bytes:
    """Encodes literal text, then hex bytes, then named keys."""
    data = literal.encode()
    for item in hexes:
        found = _HEX.match(item.strip())
        if found is None:
            raise InvalidRequest(f"{item!r} is not a byte in hex: write for example 1b or 0x1b.")
        data += bytes([int(found[1], 16)])
    return data + "".join(encode_key(name) for name in keys).encode()


def encode_paste(text: str, *, bracketed: bool) -> bytes:
    """`text` as a paste; embedded end-of-paste sequences are removed."""
    if not bracketed:
        return text.encode()
    while PASTE_END in text:  # removing one may leave another
        text = text.replace(PASTE_END, "")
    return f"{PASTE_START}{text}{PASTE_END}".encode()


# The tool.

LOG_LINES = 200
LONGEST_POLL_MS = 30_000
COMMAND_CHARS = 80

Action = Literal["list", "poll", "log", "write", "send-keys", "submit", "paste", "kill", "clear", "remove"]
TYPING = frozenset({"write", "send-keys", "submit", "paste"})


class ProcessArgs(Struct, frozen=True, rename="camel"):
    action: Annotated[Action, param()]
    session_id: Annotated[str, param("the name exec gave; all but list")] = ""
    data: Annotated[str, param("write: raw input")] = ""
    keys: Annotated[tuple[str, ...], param("send-keys: Enter, Up, F1, C-c, M-x, …")] = ()
    hex: Annotated[tuple[str, ...], param("send-keys: bytes in hex")] = ()
    literal: Annotated[str, param("send-keys: text before the keys")] = ""
    text: Annotated[str, param("paste")] = ""
    bracketed: Annotated[bool, param("paste: mark it as a paste (default true)")] = True
    eof: Annotated[bool, param("write: then close the input")] = False
    offset: Annotated[int | None, param("log: first line, from 0", type="number")] = None
    limit: Annotated[int | None, param(f"log: lines (default the last {LOG_LINES})", type="number")] = None
    timeout: Annotated[int, param("poll: ms to wait for something new, at most 30000", type="number", minimum=0)] = 0


class ProcessTool(ArgsTool[ProcessArgs]):
    """The `process` tool."""

    args_type = ProcessArgs
    spec = tool_spec(
        "process",
        "Process",
        "manage background commands: output, input, kill",
        "Manage commands that exec left running. poll: new output; log: all of it; submit: Enter; clear: drop finished "
        "output; remove: end and forget. You are told when one ends: no polling loops.",
        ProcessArgs,
        rare=("hex", "literal", "bracketed", "eof", "offset", "limit"),
        aliases={"session_id": "sessionId", "session": "sessionId", "timeoutMs": "timeout"},
    )

    def __init__(self, background: Background) -> None:
        self._background = background

    def effects(self, args: Mapping[str, Any]) -> Effects:
        # Input to a shell or an interpreter is code.
        if args.get("action") not in TYPING:
            return Effects.NONE
        inside = self._background.is_contained(str(args.get("sessionId")))
        return Effects.RUNS_CODE | Effects.CONTAINED if inside else Effects.RUNS_CODE

    def resources(self, args: Mapping[str, Any], context: ToolContext) -> frozenset[str]:
        return frozenset({f"process:{args.get('sessionId')}"} if args.get("sessionId") else ())

    async def run(self, wanted: ProcessArgs, context: ToolContext) -> Output:
        if wanted.action == "list":
            return self._list(context.session_key)
        if not wanted.session_id.strip():
            raise InvalidRequest(f"sessionId is missing: {wanted.action} needs one (process list shows them).")
        job = self._background.find(wanted.session_id.strip(), context.session_key)
        if wanted.action in TYPING:
            return await self._type(job, wanted)
        if wanted.action == "poll":
            return await self._poll(job, wanted)
        return _log(job, wanted) if wanted.action == "log" else await self._end(job, wanted.action)

    def _list(self, owner: str) -> Output:
        jobs = self._background.of(owner)
        lines = []
        for job in jobs:
            command = " ".join(job.command.split())
            if len(command) > COMMAND_CHARS:
                command = f"{command[: COMMAND_CHARS - 1]}…"
            lines.append(f"{job.name} {_status(job)} {_runtime(job)} :: {command}")
        rows = [_row(job) for job in jobs]
        return Output.of("\n".join(lines) or "No running or recent sessions.", status="completed", sessions=rows)

    async def _poll(self, job: BackgroundCommand, wanted: ProcessArgs) -> Output:
        if wanted.timeout < 0:
            raise InvalidRequest("timeout is in milliseconds and not negative.")
        fresh = await job.news(min(wanted.timeout, LONGEST_POLL_MS) / 1000)
        if job.ended is not None:
            return ended_output(job, job.ended, fresh, sessionId=job.name)
        notes = [fresh or "(no new output)", f"Process still running ({_runtime(job)})."]
        if job.seems_to_wait:
            notes.append("It has been quiet for a while and may be waiting for input.")
        output = Output.of("\n\n".join(notes), status="running", sessionId=job.name, waitingForInput=job.seems_to_wait)
        return structs.replace(output, end_matters=True, own=not fresh)

    async def _type(self, job: BackgroundCommand, wanted: ProcessArgs) -> Output:
        match wanted.action:
            case "write":
                data = wanted.data.encode()
            case "send-keys":
                data = encode_input(wanted.literal, wanted.hex, wanted.keys)
            case "submit":
                data = b"\r" if job.in_terminal else b"\n"
            case _:
                data = encode_paste(wanted.text, bracketed=wanted.bracketed and job.in_terminal)
        if not data and not wanted.eof:
            raise InvalidRequest(f"{wanted.action} has nothing to send: give data, keys, hex, literal or text.")
        await self._background.type(job, data)
        if wanted.eof:
            job.child.end_input()
        closed = " and closed its input" if wanted.eof else ""
        return _own(f"Sent {len(data)} bytes to {job.name}{closed}.", status="running", sessionId=job.name)

    async def _end(self, job: BackgroundCommand, action: Action) -> Output:
        """Kills, clears or removes a command."""
        running = job.ended is None
        if action == "clear" and running:
            raise InvalidRequest(f"Session {job.name} is still running: kill it first, or use remove.")
        if action == "kill" and not running:
            return _own(f"Session {job.name} has ended already.", status="completed", sessionId=job.name)
        if running:
            await self._background.kill(job)
        if action == "kill":
            return _own(f"Killed session {job.name}.", status="killed", sessionId=job.name)
        self._background.forget(job)
        done = "Cleared" if action == "clear" else "Killed and removed" if running else "Removed"
        return _own(f"{done} session {job.name}.", status="completed", sessionId=job.name)


def _log(job: BackgroundCommand, wanted: ProcessArgs) -> Output:
    if (wanted.offset or 0) < 0 or (wanted.limit is not None and wanted.limit < 1):
        raise InvalidRequest("offset starts at 0 and limit at 1.")
    lines = job.tail.text().splitlines()
    limit = wanted.limit or LOG_LINES
    start = max(0, len(lines) - limit) if wanted.offset is None else wanted.offset
    shown = lines[start : start + limit]
    notes = ["\n".join(shown) or "(no output)"]
    if start > 0 or start + len(shown) < len(lines):
        notes.append(f"[lines {start} to {start + len(shown)} of {len(lines)}; offset and limit show others]")
    output = Output.of("\n\n".join(notes), status=_status(job), sessionId=job.name, totalLines=len(lines))
    return structs.replace(output, end_matters=True, own=not any(shown))


def _own(text: str, **details: Any) -> Output:
    return structs.replace(Output.of(text, **details), own=True)


def _status(job: BackgroundCommand) -> str:
    if job.ended is None:
        return "running"
    if job.killed:
        return "killed"
    return "completed" if job.ended.code == 0 else "failed"


def _runtime(job: BackgroundCommand) -> str:
    seconds = round(job.seconds)
    return f"{seconds // 60}m{seconds % 60:02d}s" if seconds >= 60 else f"{seconds}s"


def _row(job: BackgroundCommand) -> dict[str, Any]:
    return {
        "sessionId": job.name,
        "status": _status(job),
        "pid": job.pid,
        "startedAt": job.started_at,
        "runtimeMs": round(job.seconds * 1000),
        "command": job.command,
        "cwd": str(job.cwd),
        "exitCode": job.ended.code if job.ended else None,
    }
