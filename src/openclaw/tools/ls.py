"""Listing: the names in a directory, page by page."""

import heapq
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from threading import Event
from typing import Any

from msgspec import Struct, structs

from openclaw.core.errors import InvalidRequest
from openclaw.core.tool import Effects, Output, ToolContext, ToolSpec
from openclaw.tools.answer import answers, parse_args
from openclaw.tools.files import failure
from openclaw.tools.finishing import offload
from openclaw.tools.paths import exists, missing, place, shown

LIMIT = 500
MAX_BYTES = 50 * 1024


class LsArgs(Struct, frozen=True):
    path: str = "."
    limit: int = LIMIT
    after: str = ""


class Ls:
    """The `ls` tool."""

    spec = ToolSpec(
        name="ls",
        label="List",
        summary="list directory contents",
        description=f"List a directory: one JSON-quoted name a line, sorted, directories end in /, dotfiles included. "
        f"At most {LIMIT} names unless limit says otherwise; read on with after.",
        parameters={
            "type": "object",
            "properties": {
                "path": {"type": "string", "description": "Directory, absolute or from the workspace (default: it)"},
                "limit": {"type": "number", "description": f"Most names to return (default {LIMIT})"},
                "after": {"type": "string", "description": "Start after this name, to read on"},
            },
        },
    )

    def __init__(self, *, workspace_only: bool = False) -> None:
        self.workspace_only = workspace_only

    def effects(self, args: Mapping[str, Any]) -> Effects:
        return Effects.READS_FILES

    def resources(self, args: Mapping[str, Any], context: ToolContext) -> frozenset[str]:
        return frozenset()

    @answers
    async def call(self, args: Mapping[str, Any], context: ToolContext) -> Output:
        wanted = parse_args(args, LsArgs)
        if wanted.limit < 1:
            raise InvalidRequest("limit starts at 1.")
        path = place(wanted.path or ".", context.workspace, workspace_only=self.workspace_only)
        return await offload(lambda stop: _list(path, wanted, stop))


def _list(path: Path, wanted: LsArgs, stop: Event) -> Output:
    if not exists(path):
        raise missing(path, "Directory")
    if not path.is_dir():
        raise InvalidRequest(f"{shown(path)} is not a directory: use read for a file.")
    after = os.fsencode(wanted.after.removesuffix("/"))
    try:
        with os.scandir(path) as entries:
            counted = _Counted(entries, after, stop)
            chosen = heapq.nsmallest(wanted.limit, counted, key=_order)
            lines = [_line(entry) for entry in chosen]
    except OSError as error:
        raise failure(path, "list", error) from error
    if not lines:
        return Output.of("(no entries after that name)" if after else "(empty directory)", entries=0)
    lines = _fitting(lines)
    left = counted.count - len(lines)
    notice = []
    if left:
        name = json.dumps(chosen[len(lines) - 1].name, ensure_ascii=False)
        notice = ["", f"[{left} more entries. Use after={name} to continue.]"]
    text = "\n".join([*lines, *notice]).encode("utf-8", "backslashreplace").decode()
    output = Output.of(text, entries=len(lines), remaining=left)
    return structs.replace(output, listed=(str(path), *(entry.path for entry in chosen[: len(lines)])))


class _Counted:
    """The entries after a name, counted as they pass, so that a huge directory is never held whole."""

    def __init__(self, entries: Iterator[os.DirEntry[str]], after: bytes, stop: Event) -> None:
        self._entries = entries
        self._after = after
        self._stop = stop
        self.count = 0

    def __iter__(self) -> Iterator[os.DirEntry[str]]:
        for entry in self._entries:
            if self._stop.is_set():
                return
            if _order(entry) > self._after:
                self.count += 1
                yield entry


def _order(entry: os.DirEntry[str]) -> bytes:
    return os.fsencode(entry.name)


def _line(entry: os.DirEntry[str]) -> str:
    try:
        directory = entry.is_dir()
    except OSError:
        directory = False
    return json.dumps(entry.name + ("/" if directory else ""), ensure_ascii=False)


def _fitting(lines: list[str]) -> list[str]:
    """As many lines as fit the size of one answer."""
    total = 0
    for index, line in enumerate(lines):
        total += len(line.encode("utf-8", "surrogateescape")) + 1
        if total > MAX_BYTES:
            return lines[:index]
    return lines
