"""The tools `memory_search` and `memory_get`."""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Struct, structs

from openclaw.core.errors import NotFound, OpenClawError
from openclaw.core.messages import Text
from openclaw.core.text import UNTRUSTED, Label, head, make_origin, merge_origins, neutralise
from openclaw.core.tool import Effects, Output, ToolContext, param, tool_spec
from openclaw.memory import citations, files, notes, rank
from openclaw.memory.index import MemoryIndex, SearchAnswer
from openclaw.memory.settings import Citations
from openclaw.memory.transcripts import may_see
from openclaw.security import note_marks

SNIPPET_CHARS = 700
DEADLINE = 30.0


class MemorySearchArgs(Struct, frozen=True, rename="camel"):
    query: str
    max_results: Annotated[int | None, param("default 6", minimum=1)] = None
    min_score: Annotated[float | None, param("0 to 1, default 0.35")] = None
    corpus: Literal["memory", "sessions", "all"] = "all"


class MemoryGetArgs(Struct, frozen=True):
    path: str
    start: Annotated[int | None, param("first line, from 1", minimum=1)] = msgspec.field(default=None, name="from")
    lines: Annotated[int | None, param("default 120", minimum=1)] = None
    corpus: Literal["memory", "all"] = "all"


class _MemoryTool:
    """A tool that reads the notes."""

    def effects(self, args: Mapping[str, Any]) -> Effects:
        return Effects.READS_FILES

    def resources(self, args: Mapping[str, Any], context: ToolContext) -> frozenset[str]:
        return frozenset()


class MemorySearch(_MemoryTool):
    """Searches notes by keywords and vectors."""

    spec = tool_spec(
        "memory_search",
        "Memory Search",
        "search memory; do it before you answer about the past",
        "Mandatory recall step: search MEMORY.md, memory/*.md and, where enabled, earlier conversations, by "
        "meaning and words. Gives snippets with path and lines. disabled=true: memory is unavailable, tell the "
        "user.",
        MemorySearchArgs,
        rare=("minScore", "corpus"),
        aliases={"max_results": "maxResults", "min_score": "minScore", "limit": "maxResults"},
    )

    def __init__(self, memory: MemoryIndex, mode: Citations = "auto") -> None:
        self._memory = memory
        self._mode = mode

    async def call(self, args: Mapping[str, Any], context: ToolContext) -> Output:
        try:
            wanted = msgspec.convert(dict(args), MemorySearchArgs, strict=False)
        except msgspec.ValidationError as error:
            return Output.failed(f"Invalid arguments: {error}")
        sources = None if wanted.corpus == "all" else (wanted.corpus,)
        try:
            async with asyncio.timeout(DEADLINE):
                answer = await self._memory.search(
                    wanted.query,
                    max_results=max(1, min(50, wanted.max_results)) if wanted.max_results else None,
                    min_score=wanted.min_score,
                    sources=sources,
                    visible=lambda piece: piece.source != "sessions" or may_see(piece.owner, context.session_key),
                )
        except TimeoutError:
            return _unavailable("the search took longer than 30 s", "Try again in a minute.")
        except OpenClawError as error:
            return _unavailable(error.message, "Run `openclaw memory status` to see what is wrong.")
        if answer.unavailable:
            return _unavailable(
                answer.reason,
                "Correct the embedding provider, set memorySearch.fallback, or set memorySearch.provider to auto.",
            )
        output = _document(self.document(answer, context.session_key))
        pieces = [found.piece for found in answer.results]
        return structs.replace(
            output,
            origins=merge_origins(
                make_origin(label, f"note {piece.path}:{piece.start}")
                for piece in pieces
                for label in UNTRUSTED
                if piece.label == label
            ),
            listed=tuple(str(self._memory.plan.scope.workspace / piece.path) for piece in pieces),
        )

    def document(self, answer: SearchAnswer, session_key: str) -> dict[str, Any]:
        """The answer as JSON for the model."""
        cite = citations.should_cite(self._mode, session_key)
        model = "" if answer.mode == "keyword" else answer.model
        debug = {"mode": answer.mode, "syncedAt": answer.synced_at}
        return {
            "results": [hit_to_json(found, cite) for found in answer.results],
            "provider": answer.provider,
            "citations": self._mode,
            **_present(model=model, fallback=answer.fallback, warning=_warning(answer), partial=answer.syncing),
            "debug": debug | _present(reason=answer.reason, withheld=answer.withheld),
        }


class MemoryGet(_MemoryTool):
    """Reads some lines of a note."""

    spec = tool_spec(
        "memory_get",
        "Memory Get",
        "read lines of a memory file",
        "Read lines of MEMORY.md or memory/*.md: after memory_search, only those you need.",
        MemoryGetArgs,
        rare=("corpus",),
        aliases={"file": "path", "start": "from", "startLine": "from"},
    )

    def __init__(self, memory: MemoryIndex, most: int) -> None:
        self._memory = memory
        self._most = most
        """Characters of one answer."""

    async def call(self, args: Mapping[str, Any], context: ToolContext) -> Output:
        try:
            wanted = msgspec.convert(dict(args), MemoryGetArgs, strict=False)
        except msgspec.ValidationError as error:
            return Output.failed(f"Invalid arguments: {error}")
        scope = self._memory.plan.scope
        try:
            path = notes.resolve(wanted.path, scope)
            found = await asyncio.to_thread(
                notes.excerpt, path, scope.name(path), wanted.start, wanted.lines, self._most
            )
        except NotFound:
            return _document({"status": "not_found", "text": "", "path": wanted.path})
        except OpenClawError as error:
            return _document(
                {"status": "error", "path": wanted.path, "code": error.code, "error": error.message}, failed=True
            )
        marked = await asyncio.to_thread(_labels_of, path)
        output = _document(excerpt_to_json(found))
        return structs.replace(
            output,
            origins=merge_origins(make_origin(label, f"note {found.path}") for label in marked),
            listed=(str(path),),
        )


def _labels_of(path: Path) -> list[Label]:
    """The labels of the whole note, not only of the excerpt: untrusted lines may have shaped the others."""
    marked = note_marks.by_line(files.read(path).text)
    return [label for label in UNTRUSTED if label in marked]


def excerpt_to_json(found: notes.NoteExcerpt) -> dict[str, Any]:
    """An excerpt as JSON for the model."""
    document: dict[str, Any] = {
        "status": "ok",
        "text": neutralise(found.text),
        "path": found.path,
        "from": found.start,
        "lines": found.lines,
    }
    if found.next is not None:
        document["text"] += f"\n\n[{found.total - found.next + 1} more lines. Use from={found.next} to continue.]"
        document |= {"truncated": True, "nextFrom": found.next}
    elif found.start > found.total:
        document["text"] = f"[The note has {found.total} lines.]"
    return document


def hit_to_json(found: rank.RankedHit, cite: bool) -> dict[str, Any]:
    """One result with every part of its score."""
    piece = found.piece
    snippet = neutralise(head(piece.text, SNIPPET_CHARS))
    citation = citations.format_citation(piece) if cite else ""
    scores = {"score": found.score, "vectorScore": found.vector, "textScore": found.text}
    return {
        "path": piece.path,
        "startLine": piece.start,
        "endLine": piece.end,
        **{name: round(score, 4) for name, score in scores.items() if score is not None},
        "snippet": f"{snippet.rstrip()}\n\nSource: {citation}" if cite else snippet,
        "source": piece.source,
        **_present(label=piece.label, citation=citation),
    }


def _present(**fields: Any) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value}


def _unavailable(error: str, action: str) -> Output:
    warning = "Memory cannot be searched now. Tell the user, and do not guess what the notes say."
    flags: dict[str, Any] = {"results": [], "disabled": True, "unavailable": True}
    return _document({**flags, "error": error, "warning": warning, "action": action})


def _warning(answer: SearchAnswer) -> str:
    if answer.syncing:
        return "The index is being brought up to date; notes written just now may be missing."
    if answer.waiting:
        return f"{answer.waiting} pieces of notes are found by words only so far."
    return ""


def _document(value: dict[str, Any], *, failed: bool = False) -> Output:
    text = msgspec.json.format(msgspec.json.encode(value), indent=1).decode()
    return Output(content=(Text(text),), details=value, is_error=failed)
