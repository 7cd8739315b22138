"""What Codex asks for, as calls of our tools. What it would do itself our gates judge, and it does what they admit."""

import asyncio
import shlex
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from pathlib import Path, PurePath
from typing import Any

from msgspec import Struct

from openclaw.core.errors import InvalidRequest
from openclaw.core.harness import Perform
from openclaw.core.messages import Image, Text, ToolCall, ToolResult
from openclaw.core.text import make_origin
from openclaw.core.tool import Output, Tool, ToolContext
from openclaw.harnesses.codex.server import Frame
from openclaw.tools.ask import NAME as ASK_USER
from openclaw.tools.base import FileTool
from openclaw.tools.exec import find_forbidden
from openclaw.tools.patch import BEGIN, END
from openclaw.tools.paths import confine

COMMAND = "item/commandExecution/requestApproval"
CHANGE = "item/fileChange/requestApproval"
PERMISSIONS = "item/permissions/requestApproval"
QUESTION = "item/tool/requestUserInput"
ELICITATION = "mcpServer/elicitation/request"
TYPED = "item/commandExecution/terminalInteraction"
TYPED_UNASKED = (
    "Codex typed something to a running program, about which nobody can be asked: it was stopped. It may do so where "
    "tools.exec has security full and ask off."
)
_SHELLS = frozenset({"sh", "bash", "zsh", "dash", "ksh", "fish"})
_SHOWN = 2_000
"""How much of a command's output is shown while it runs."""
REFUSALS: Mapping[str, Mapping[str, Any]] = {
    COMMAND: {"decision": "decline"},
    CHANGE: {"decision": "decline"},
    # Nothing is permitted beyond the command or the change that was judged.
    PERMISSIONS: {"permissions": {}, "scope": "turn"},
    QUESTION: {"answers": {}},
    ELICITATION: {"action": "decline"},
}
"""The answer that says no, by request."""
ACCEPTED: Mapping[str, Any] = {"decision": "accept"}


def native_call(frame: Frame, items: Mapping[str, Mapping[str, Any]]) -> ToolCall | None:
    """The call of one of our tools that a request amounts to, given the items that have begun; None for no such."""
    params = frame.params
    item_id = str(params.get("itemId", ""))
    if frame.method == COMMAND and params.get("command") and not params.get("networkApprovalContext"):
        arguments: dict[str, Any] = {"command": inner_command(params["command"])}
        return ToolCall(item_id, "exec", {**arguments, **({"workdir": params["cwd"]} if params.get("cwd") else {})})
    if frame.method == CHANGE and item_id in items and not params.get("grantRoot"):
        changes = items[item_id].get("changes") or ()
        # A line break in a name would make other sections of it.
        plain = not any("\n" in str(each["path"]) for each in changes)
        return ToolCall(item_id, "apply_patch", {"input": patch_of(changes)}) if plain else None
    if frame.method == QUESTION and params.get("questions"):
        return ToolCall(item_id, ASK_USER, {"questions": [_question(each) for each in params["questions"]]})
    return None


def inner_command(line: str) -> str:
    """The command that a shell is started with; the whole line where it is not plainly that."""
    try:
        words = shlex.split(line)
    except ValueError:
        return line
    plain = len(words) == 3 and PurePath(words[0]).name in _SHELLS and words[1] in ("-c", "-lc")
    return words[2] if plain else line


def patch_of(changes: Any) -> str:
    """Changes of files in the language of `apply_patch`."""
    lines = [BEGIN]
    for change in changes:
        path, diff, kind = str(change["path"]), str(change.get("diff") or ""), change.get("kind") or {}
        body = diff.removesuffix("\n").split("\n")
        match kind.get("type"):
            case "add":
                lines += [f"*** Add File: {path}", *(f"+{line}" for line in body)]
            case "delete":
                lines.append(f"*** Delete File: {path}")
            case _:
                lines.append(f"*** Update File: {path}")
                if kind.get("move_path"):
                    lines.append(f"*** Move to: {kind['move_path']}")
                lines += [line for line in body if line and not line.startswith(("--- ", "+++ ", "\\ "))]
    return "\n".join([*lines, END])


def _question(given: Mapping[str, Any]) -> dict[str, Any]:
    asked: dict[str, Any] = {"question": str(given.get("question") or given.get("header") or "")}
    options = [
        {"label": str(each.get("label", "")), "description": str(each.get("description") or "")}
        for each in given.get("options") or ()
    ]
    return {**asked, "options": options} if len(options) > 1 else asked


class _Work(Struct, eq=False):
    """Something that Codex was allowed to do and has not finished."""

    done: asyncio.Future[Mapping[str, Any] | None]
    report: Callable[[str], None]
    said: str = ""


class NativeCalls:
    """What Codex does itself in one turn; each has passed our gates."""

    def __init__(self, answer: Callable[[Frame, Mapping[str, Any]], Awaitable[None]]) -> None:
        self._answer = answer
        self._working: dict[str, _Work] = {}
        self._asked: set[str] = set()
        self.items: dict[str, Mapping[str, Any]] = {}
        """What has begun, by id: a request names only that."""
        self.judged: set[str] = set()
        """Items that are on record as calls of our tools."""
        self.left = asyncio.Event()
        """Set when the turn has ended while somebody was still being asked."""

    def performer(self, frame: Frame, call: ToolCall) -> Perform:
        """What lets Codex do the work of `call`, which it asks for in `frame`."""
        self._asked.add(call.id)
        self.judged.add(call.id)
        return partial(self._perform, frame, call)

    async def finish(self, frame: Frame, call: ToolCall) -> None:
        """Says no to a request that no performer has said yes to."""
        if call.id in self._asked:
            self._asked.discard(call.id)
            await self._answer(frame, REFUSALS[frame.method])

    async def _perform(
        self, frame: Frame, call: ToolCall, tool: Tool, args: Mapping[str, Any], context: ToolContext
    ) -> Output:
        if any(args.get(name) != value for name, value in call.arguments.items()):
            raise InvalidRequest("Not run: a plugin changed the arguments, and Codex runs what it asked for.")
        if call.name == "exec" and (why := find_forbidden(args["command"])):
            raise InvalidRequest(why)
        if isinstance(tool, FileTool) and tool.workspace_only:
            for path in tool.resources(args, context):
                confine(Path(path), context.workspace)
        work = self._working[call.id] = _Work(asyncio.get_running_loop().create_future(), context.report)
        self._asked.discard(call.id)
        try:
            await self._answer(frame, ACCEPTED)
            return result_of(call, await work.done)
        finally:
            del self._working[call.id]

    def note(self, frame: Frame) -> None:
        """Follows what was admitted, by what Codex says of it."""
        item = frame.params.get("item") or {}
        match frame.method:
            case "item/started":
                self.items[item["id"]] = item
                if item["type"] in ("agentMessage", "reasoning"):
                    self._end_all()
            case "item/commandExecution/outputDelta":
                if (work := self._working.get(frame.params["itemId"])) is not None:
                    work.said += frame.params["delta"]
                    work.report(work.said[-_SHOWN:])
            case "item/completed":
                if (work := self._working.get(item["id"])) is not None and not work.done.done():
                    work.done.set_result(item)
            case "thread/tokenUsage/updated":
                # It is said when the calls of a reply have answered: what has not ended runs in the background.
                self._end_all()
            case "turn/completed":
                self._end_all()
                if self._asked:
                    self.left.set()
            case _:
                pass

    def _end_all(self) -> None:
        for work in self._working.values():
            if not work.done.done():
                work.done.set_result(None)


def result_of(call: ToolCall, item: Mapping[str, Any] | None) -> Output:
    """What came of a call that Codex carried out; None when it still runs."""
    if item is None:
        return Output(
            content=Output.of("It still runs; Codex looks after it.").content,
            details={"status": "running"},
            # What it says from now on is not seen here.
            origins=(make_origin("external", f"Codex ({call.name} in the background)"),),
        )
    status, code = str(item.get("status", "completed")), item.get("exitCode")
    text = str(item.get("aggregatedOutput") or "")
    if call.name == "apply_patch":
        changed = ", ".join(str(each["path"]) for each in item.get("changes") or ())
        text = f"Changed: {changed}" if status == "completed" else f"The patch was not applied ({status})."
    details = {"status": status, "exitCode": code, "cwd": item.get("cwd"), "durationMs": item.get("durationMs")}
    note = f"\n\n(Command exited with code {code})" if code else ""
    failed = status == "declined" or (status == "failed" and code in (None, 126, 127))
    said = (text or "(no output)") + note
    return Output.failed(said, **details) if failed else Output.of(said, **details)


def dynamic_call(frame: Frame) -> ToolCall:
    arguments = frame.params.get("arguments")
    return ToolCall(
        id=frame.params["callId"],
        name=frame.params["tool"],
        arguments=arguments if isinstance(arguments, dict) else {},
        broken=None if isinstance(arguments, dict) else str(arguments)[:2000],
    )


def result_to_json(result: ToolResult) -> dict[str, Any]:
    """The result of a tool as Codex takes it."""
    items = [
        {"type": "inputImage", "imageUrl": f"data:{part.mime_type};base64,{part.data}"}
        if isinstance(part, Image)
        else {"type": "inputText", "text": part.text}
        for part in result.content
        if isinstance(part, Text | Image)
    ]
    return {"contentItems": items, "success": not result.is_error}
