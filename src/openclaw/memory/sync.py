"""Syncs the index's terms with the files, in a thread: reads only what changed, and is usable after every step."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from threading import Event
from time import monotonic

from msgspec import Struct, structs

from openclaw.core.errors import StateError
from openclaw.memory import files, transcripts
from openclaw.memory.chunk import Chunk, chunks
from openclaw.memory.database import translate_errors
from openclaw.memory.writer import FileState, IndexWriter
from openclaw.security import note_marks

BATCH_SECONDS = 0.25
"""Longest write transaction, so that other connections are not blocked."""


class SyncPlan(Struct, frozen=True, kw_only=True):
    """The sources of an index and its chunking."""

    scope: files.NoteScope
    sources: tuple[str, ...]
    tokens: int
    overlap: int
    sessions: Path | None = None
    """The directory of the agent's transcripts."""
    delta_bytes: int = 100_000
    delta_messages: int = 50
    forgotten: frozenset[str] = frozenset()
    """Digests of forgotten texts, which must not be indexed again."""


class SyncReport(Struct, frozen=True, kw_only=True):
    """What a sync did."""

    files: int = 0
    changed: int = 0
    removed: int = 0
    problems: tuple[str, ...] = ()
    stopped: bool = False


Progress = Callable[[int, int, str], None]


class SyncRequest(Struct, frozen=True, kw_only=True):
    """What a sync covers."""

    force: bool = False
    grown: bool = False
    """Reads every conversation that has grown at all, not only those that have grown much."""
    only: frozenset[str] = frozenset()
    """Limits it to these changed files, by absolute path, where that suffices."""
    progress: Progress | None = None


EVERYTHING = SyncRequest()
KnownFiles = dict[str, dict[str, tuple[int, int]]]
"""Time and size of the files in the index: source, path."""


class _Work(Struct, frozen=True, kw_only=True):
    """A file to check; `known` when an earlier state of it is in the index."""

    path: str
    name: str
    source: str
    known: bool


def update(writer: IndexWriter, plan: SyncPlan, stop: Event, now: int, request: SyncRequest) -> SyncReport:
    """Indexes what changed since the last sync. An unreadable directory raises, and nothing is changed."""
    only, progress = request.only, request.progress
    few = files.discover_changed(plan.scope, only) if only and "memory" in plan.sources else None
    if few is not None:
        found, talks = few, []
        known = _known(writer, tuple(plan.scope.name(path) for path in only))
    else:
        found = files.discover(plan.scope) if "memory" in plan.sources else files.Discovered(())
        talks = _transcripts(plan) if "sessions" in plan.sources and plan.sessions else []
        known = _known(writer)
    work = list(_changed(found.files, talks, known, plan, request))
    here = {"memory": {file.name for file in found.files}, "sessions": {name for name, _ in talks}}
    gone = [(path, source) for source, paths in known.items() for path in paths if path not in here[source]]
    problems = list(found.skipped)
    changed = 0
    pending: list[Callable[[], None]] = []
    began = monotonic()
    for done, item in enumerate(work, 1):
        if stop.is_set():
            break
        try:
            pending.append(_read_file(writer, plan, item, now))
            changed += 1
        except StateError as error:
            problems.append(error.message)
        if monotonic() - began > BATCH_SECONDS:
            _commit(writer, pending)
            began = monotonic()
        if progress:
            progress(done, len(work), "notes")
    _commit(writer, pending)
    if not stop.is_set():
        _remove(writer, gone, now)
    problems += [
        f"{row[0]}: {row[1]}" for row in writer.index.rows("SELECT path, problem FROM files WHERE problem != ''")
    ]
    return SyncReport(
        files=sum(map(len, here.values())),
        changed=changed,
        removed=len(gone),
        problems=tuple(dict.fromkeys(problems)),
        stopped=stop.is_set(),
    )


def labelled_chunks(text: str, plan: SyncPlan, marked: Sequence[str]) -> list[tuple[Chunk, str]]:
    """Splits `text` into chunks with labels, without forgotten ones; `marked` has the label of each line."""
    return [
        (chunk, note_marks.least_trusted(marked, chunk.start, chunk.end))
        for chunk in chunks(text, plan.tokens, plan.overlap)
        if chunk.hash not in plan.forgotten
    ]


def _known(writer: IndexWriter, names: tuple[str, ...] | None = None) -> KnownFiles:
    """The state in the index of every file, or of the notes with these names."""
    sql = "SELECT path, mtime, size FROM files WHERE source = ?"
    if names is not None:
        some = f"{sql} AND path = ?"
        return {"memory": {row[0]: row[1:] for name in names for row in writer.index.rows(some, ("memory", name))}}
    known: KnownFiles = {}
    with translate_errors(writer.index.path):
        for source in ("memory", "sessions"):
            # Row by row: of many thousand files a list of rows would be in memory beside what is made of it.
            rows = writer.index.db.execute(sql, (source,))
            known[source] = {path: (mtime, size) for path, mtime, size in rows}
    return known


def _commit(writer: IndexWriter, pending: list[Callable[[], None]]) -> None:
    if pending:
        with writer.index.writing():
            for step in pending:
                step()
        pending.clear()


def _remove(writer: IndexWriter, gone: list[tuple[str, str]], now: int) -> None:
    for start in range(0, len(gone), 100):
        with writer.index.writing():
            for path, source in gone[start : start + 100]:
                writer.drop(path, source, now)
    with writer.index.writing():
        writer.prune()
        writer.catch_up()
        writer.index.note("synced_at", str(now))


def _transcripts(plan: SyncPlan) -> list[tuple[str, Path]]:
    assert plan.sessions is not None
    try:
        return [
            (f"sessions/{path.name}", path) for path in sorted(plan.sessions.glob("*.jsonl")) if not path.is_symlink()
        ]
    except OSError as error:
        raise StateError(f"cannot list {plan.sessions}: {error.strerror}. Check its permissions.") from error


def _changed(
    files: tuple[files.NoteFile, ...],
    talks: list[tuple[str, Path]],
    known: KnownFiles,
    plan: SyncPlan,
    request: SyncRequest,
) -> Iterator[_Work]:
    much = (0, 0) if request.grown else (plan.delta_bytes, plan.delta_messages)
    notes, spoken = known.get("memory", {}), known.get("sessions", {})
    for file in files:
        before = notes.get(file.name)
        if request.force or before != (file.mtime, file.size):
            yield _Work(path=file.path, name=file.name, source="memory", known=before is not None)
    for name, path in talks:
        before = spoken.get(name)
        if request.force or before is None or transcripts.has_grown(path, before[1], *much):
            yield _Work(path=str(path), name=name, source="sessions", known=before is not None)


def _read_file(writer: IndexWriter, plan: SyncPlan, item: _Work, now: int) -> Callable[[], None]:
    """Reads a file; returns the write to do."""
    state = FileState(path=item.name, source=item.source)
    if item.source == "sessions":
        talk = transcripts.read(Path(item.path))
        state = structs.replace(state, hash=talk.hash, mtime=talk.mtime, size=talk.size, owner=talk.owner)
        indexed = transcripts.is_indexed(talk.owner) and talk.lines
        spoken = labelled_chunks(talk.text, plan, talk.labels) if indexed else []
        return partial(writer.put, state, [(talk.placed(chunk), label) for chunk, label in spoken], now)
    note = files.read(item.path)
    state = structs.replace(state, hash=note.hash, mtime=note.mtime, size=note.size, problem=note.problem)
    if item.known and not plan.forgotten and writer.index.file_hash(item.name) == note.hash:
        return partial(writer.touch, state)
    return partial(writer.put, state, labelled_chunks(note.text, plan, note_marks.by_line(note.text)), now)
