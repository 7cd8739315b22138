"""A silent turn before a compaction: the assistant writes down what should outlive the details of a conversation.

It has two abilities: to read files, and to append to the notes of the day. It never keeps a reply from coming.
"""

import logging
import os
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, tzinfo
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from msgspec import Struct

from openclaw.agent.loop import RunJob
from openclaw.agent.settings import MemoryFlushSettings
from openclaw.agent.toolrun import ToolRunner
from openclaw.core.clock import Clock, millis
from openclaw.core.errors import OpenClawError
from openclaw.core.messages import Message, Usage, User
from openclaw.core.provider import System
from openclaw.core.text import whole
from openclaw.core.tool import Effects, Output, Tool, ToolContext, ToolSpec
from openclaw.sessions.compact import compactions
from openclaw.sessions.transcript import AnyEntry, Custom
from openclaw.turns.aside import ModelAsker, with_timeout

log = logging.getLogger(__name__)

CUSTOM_TYPE = "openclaw.memory-flush"
NOTE_CHARS = 20_000
TIMEOUT = 180.0


class AppendNotes:
    """Appends to one file of the workspace, and to no other."""

    def __init__(self, name: str) -> None:
        self._name = name

    @property
    def spec(self) -> ToolSpec:
        return ToolSpec(
            name="append",
            label="Append",
            description=f"Append text to {self._name}. Nothing else can be written.",
            parameters={
                "type": "object",
                "properties": {"text": {"type": "string", "minLength": 1, "maxLength": NOTE_CHARS}},
                "required": ["text"],
            },
            summary="append to today's notes",
            aliases={"content": "text"},
        )

    def effects(self, args: Mapping[str, Any]) -> Effects:
        return Effects.WRITES_FILES

    def resources(self, args: Mapping[str, Any], context: ToolContext) -> frozenset[str]:
        return frozenset({str(context.workspace / self._name)})

    async def call(self, args: Mapping[str, Any], context: ToolContext) -> Output:
        path = context.workspace / self._name
        if not path.resolve().is_relative_to(context.workspace.resolve()):
            return Output.failed(f"{self._name} leads out of the workspace: nothing was written")
        try:
            _append(path, whole(args["text"]))
        except OSError as error:
            return Output.failed(f"cannot write {self._name}: {error.strerror}")
        return Output.of(f"Appended to {self._name}.")


def _append(path: Path, text: str) -> None:
    """One write, on lines of its own."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab+") as file:
        start = file.seek(0, os.SEEK_END)
        if start:
            file.seek(start - 1)
        gap = b"" if not start else b"\n" if file.read(1) == b"\n" else b"\n\n"
        file.write(gap + text.strip().encode() + b"\n")


class Flushed(Struct, frozen=True):
    """A flush is over; `entry` goes on record, so that there is one for each compaction."""

    entry: Custom
    usage: Usage


class MemoryFlush:
    """Lets the assistant write notes. `tools` makes a toolbox of the one writing tool and what may be read with."""

    def __init__(
        self,
        settings: MemoryFlushSettings,
        model: ModelAsker,
        tools: Callable[[Tool], ToolRunner],
        clock: Clock,
        *,
        workspace: Path,
        timezone: str,
    ) -> None:
        self.settings = settings
        self._model = model
        self._tools = tools
        self._clock = clock
        self._workspace = workspace
        self._zone = _zone(timezone)

    def due(self, path: Sequence[AnyEntry]) -> bool:
        """Whether there was none since the last compaction, and there is somewhere to write."""
        count = compactions(path)
        done = any(
            isinstance(entry, Custom)
            and entry.custom_type == CUSTOM_TYPE
            and isinstance(entry.data, dict)
            and entry.data.get("compactionCount") == count
            for entry in path
        )
        return self.settings.enabled and not done and os.access(self._workspace, os.W_OK)

    async def run(self, path: Sequence[AnyEntry], system: System, messages: tuple[Message, ...]) -> Flushed:
        """The turn; whatever becomes of it, it is over afterwards."""
        name = f"memory/{datetime.fromtimestamp(self._clock.now(), self._zone):%Y-%m-%d}.md"
        job = RunJob(system=system, messages=(*messages, User(content=_wish(name), timestamp=millis(self._clock))))
        usage, error = Usage(), ""
        try:
            work = self._model.ask(job, self._tools(AppendNotes(name)))
            usage = (await with_timeout(work, TIMEOUT, self._clock, "writing notes")).usage
        except OpenClawError as failure:
            log.warning("no notes were written before the compaction: %s", failure.message)
            error = failure.message
        data = {"at": millis(self._clock), "compactionCount": compactions(path), **({"error": error} if error else {})}
        return Flushed(Custom(custom_type=CUSTOM_TYPE, data=data), usage)


def _zone(name: str) -> tzinfo:
    try:
        return ZoneInfo(name) if name else UTC
    except (ZoneInfoNotFoundError, ValueError):
        return UTC


def _wish(name: str) -> str:
    return (
        "This conversation is about to be shortened; this message is from the runtime, nobody reads your answer. "
        f"If something in it should be known weeks from now (decisions, preferences, facts about people, open "
        f"promises), append it with the tool `append`, which writes to {name} and only there. Read that file first "
        "when it may already be noted. Do not write what is there already, make no other file, and change nothing "
        "else. When you are done, or when there is nothing to note, answer NO_REPLY."
    )
