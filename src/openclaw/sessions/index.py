"""The list of sessions in the database, derived from the transcripts; it can be rebuilt."""

import os
import uuid
from collections.abc import Iterable, Mapping, Sequence, Set
from datetime import datetime
from pathlib import Path, PurePath
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct, structs

from openclaw.core import keys
from openclaw.core.clock import Clock, millis
from openclaw.core.errors import InvalidRequest, NotFound, OpenClawError
from openclaw.core.keys import SessionKey
from openclaw.core.messages import Usage
from openclaw.core.progress import Report, no_report, reported
from openclaw.sessions.files import FileTranscripts, LoadedTranscript, TranscriptStore, load, lock_path
from openclaw.sessions.reset import LastContact
from openclaw.sessions.transcript import ConversationTotals, MessageEntry, TranscriptHeader, headline, tally, title_of
from openclaw.storage.database import Database, Transaction, transact
from openclaw.storage.locks import Holder, KernelLock

if TYPE_CHECKING:
    from openclaw.sessions.transcript_store import DatabaseTranscripts


class SessionRow(Struct, frozen=True, kw_only=True):
    """One session in the list."""

    session_key: str
    agent_id: str
    session_id: str
    title: str = ""
    status: str = "idle"
    """`new`: created, without messages yet. `idle`: known and not listed."""
    created_at: int = 0
    updated_at: int = 0
    model: str = ""
    provider: str = ""
    messages: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    context_tokens: int = 0
    cost_usd: float | None = None

    @property
    def key(self) -> SessionKey:
        return SessionKey(self.agent_id, self.session_key.removeprefix(f"agent:{self.agent_id}:"))

    @property
    def total_tokens(self) -> int:
        return self.input_tokens + self.output_tokens + self.cache_read_tokens + self.cache_write_tokens


_COLUMNS = SessionRow.__struct_fields__
_NEW = f"INSERT INTO sessions ({', '.join(_COLUMNS)}) VALUES ({', '.join(':' + name for name in _COLUMNS)})"  # noqa: S608
_INSERT = (
    f"{_NEW} ON CONFLICT (session_key) DO UPDATE SET title = COALESCE(NULLIF(excluded.title, ''), sessions.title), "
    + ", ".join(f"{name} = excluded.{name}" for name in _COLUMNS if name not in ("session_key", "title"))
)


# A transcript's size when it was last read or written.
_REMEMBER = (
    "INSERT INTO transcripts (session_id, session_key, agent_id, bytes) VALUES (:id, :key, :agent, :bytes) "
    "ON CONFLICT (session_id) DO UPDATE SET bytes = excluded.bytes, session_key = excluded.session_key"
)
# Preferences are in no transcript, so the row stays when its transcript is gone.
ZEROED = (
    "title = '', messages = 0, input_tokens = 0, output_tokens = 0, cache_read_tokens = 0, cache_write_tokens = 0, "
    "context_tokens = 0, cost_usd = NULL"
)
_EMPTIED = f"UPDATE sessions SET status = 'idle', updated_at = 0, {ZEROED} WHERE session_id = :id"  # noqa: S608


class Rebuilt(Struct, frozen=True):
    """The result of `rebuild`: transcripts read, and problems."""

    read: int
    problems: tuple[str, ...] = ()


class SessionIndex:
    """Maps session keys to transcripts, with title, status and totals of each."""

    def __init__(self, db: Database, state: Path, clock: Clock, lines: "DatabaseTranscripts | None" = None) -> None:
        self.lines = lines
        """Keeps the lines of transcripts in the database; None when their files are all there is."""
        self.store: TranscriptStore = lines or FileTranscripts(state)
        self._db = db
        self.state = state
        self._clock = clock

    def path(self, agent_id: str, session_id: str) -> Path:
        return self.state.joinpath("agents", agent_id, "sessions", f"{session_id}.jsonl")

    async def fetch(self, agent_id: str, session_id: str) -> Path:
        """The file of a transcript, up to date; it may not be there."""
        path = self.path(agent_id, session_id)
        await self.store.fetch(path)
        return path

    async def get(self, key: SessionKey) -> SessionRow | None:
        rows = await self._db.look("SELECT * FROM sessions WHERE session_key = :key", {"key": str(key)})
        return msgspec.convert(rows[0], SessionRow) if rows else None

    async def find(self, text: str, default_agent: str = keys.DEFAULT_AGENT) -> SessionRow:
        """Finds a session by key, session id or a unique prefix of an id."""
        wanted = text.strip()
        exact = await self.get(keys.parse_session_key(wanted, default_agent))
        if exact is not None:
            return exact
        start = wanted.lower()
        rows = [row for row in await self.list() if row.session_id.lower().startswith(start)]
        rows = [row for row in rows if row.session_id.lower() == start] or rows
        if len(rows) == 1:
            return rows[0]
        if rows:
            raise InvalidRequest(f"{wanted!r} fits {len(rows)} sessions: give more of the id")
        raise NotFound(f"no session {wanted!r}: `openclaw sessions list` shows what there is")

    async def list(self, *, agent_id: str | None = None) -> Sequence[SessionRow]:
        """The sessions, most recently used first."""
        rows = await self._db.read(
            "SELECT * FROM sessions WHERE (messages > 0 OR status IN ('running', 'new')) "
            "AND (agent_id = :agent OR :agent = '') ORDER BY updated_at DESC, session_key",
            {"agent": agent_id or ""},
        )
        return msgspec.convert(rows, list[SessionRow])

    async def resolve(self, key: SessionKey) -> SessionRow:
        """The session of `key`; creates it when there is none."""
        now = millis(self._clock)
        found = await self.get(key)
        if found is not None:
            return found
        row = SessionRow(
            session_key=str(key), agent_id=key.agent, session_id=str(uuid.uuid4()), created_at=now, updated_at=now
        )
        # Another process may have inserted first; then its row counts.
        await self._db.write(f"{_NEW} ON CONFLICT (session_key) DO NOTHING", structs.asdict(row))
        return await self.get(key) or row

    async def contact(self, row: SessionRow) -> LastContact:
        """When a session began and a person last wrote; of a rebuilt row, its last change."""
        rows = await self._db.look(
            "SELECT last_interaction FROM sessions WHERE session_key = :key", {"key": row.session_key}
        )
        last = rows[0]["last_interaction"] if rows else 0
        return LastContact(row.created_at, last or row.updated_at)

    async def started(self, row: SessionRow, run_id: str, text: str, *, by_person: bool = True) -> None:
        """Records the start of a run; `text` becomes the title of an untitled session."""
        now = millis(self._clock)
        await self._db.soon(
            (
                "UPDATE sessions SET status = 'running', updated_at = :now, "
                "last_interaction = CASE WHEN :person = 1 THEN :now ELSE last_interaction END, "
                "title = CASE WHEN title = '' THEN :title ELSE title END WHERE session_key = :key",
                {"now": now, "key": row.session_key, "title": headline(text), "person": int(by_person)},
            ),
            (
                "INSERT INTO runs (run_id, session_key, session_id, status, started_at) "
                "VALUES (:run, :key, :session, 'running', :now) ON CONFLICT (run_id) DO NOTHING",
                {"run": run_id, "key": row.session_key, "session": row.session_id, "now": now},
            ),
        )

    async def ended(
        self, row: SessionRow, run_id: str, *, status: str, stop_reason: str, error: str, usage: Usage, size: int
    ) -> None:
        """Records the end of a run: the new `row`, and the run's own usage."""
        now = millis(self._clock)
        outcome = {"run": run_id, "status": status, "now": now, "stop": stop_reason, "error": error}
        spent: dict[str, float | None] = {"input": usage.input, "output": usage.output}
        spent |= {"cache_read": usage.cache_read, "cache_write": usage.cache_write}
        spent["cost"] = usage.cost.total if usage.cost else None
        await self._db.soon(
            (_INSERT, structs.asdict(structs.replace(row, status=status, title="", updated_at=row.updated_at or now))),
            (
                "UPDATE runs SET status = :status, ended_at = :now, provider = :provider, model = :model, "
                "stop_reason = :stop, error = :error, input_tokens = :input, output_tokens = :output, "
                "cache_read_tokens = :cache_read, cache_write_tokens = :cache_write, cost_usd = :cost "
                "WHERE run_id = :run",
                {**outcome, "provider": row.provider, "model": row.model, **spent},
            ),
            (_REMEMBER, {"id": row.session_id, "key": row.session_key, "agent": row.agent_id, "bytes": size}),
        )

    async def rebuild(self, report: Report = no_report) -> Rebuilt:
        """Updates the list from the transcripts; reads only those that changed."""
        if self.lines is not None:
            for path in await self.lines.sizes():
                await self.lines.fetch(path)
        paths = [
            path
            for path in sorted(self.state.glob("agents/*/sessions/*.jsonl"))
            if keys.AGENT_ID.match(path.parent.parent.name)
        ]
        known = await self._db.read("SELECT * FROM transcripts")
        running = {row.session_id for row in await self.list() if row.status == "running"}
        there = {path.stem for path in paths} | running
        gone = {row["session_id"]: row["session_key"] for row in known if row["session_id"] not in there}
        # When a key's current transcript is gone, an older one replaces it: read those again.
        sizes = {row["session_id"]: row["bytes"] for row in known if row["session_key"] not in gone.values()}
        found, problems = _read_changed(
            reported(paths, "reading conversations", report), sizes, running, millis(self._clock)
        )

        # One transaction: an interrupted first start begins again, and never has half of the sessions.
        async def update(tx: Transaction) -> None:
            for session_id in gone:
                await tx.write(_EMPTIED, {"id": session_id})
                await tx.write("DELETE FROM transcripts WHERE session_id = :id", {"id": session_id})
            for each in found:
                await self._adopt(tx, each)

        await transact(self._db, update, "sessions")
        return Rebuilt(len(found), tuple(problems))

    async def _adopt(self, tx: Transaction, found: "_Found") -> None:
        """Adds a transcript to the list, unless a newer one has its key."""
        row = found.row
        if row is not None:
            current = await tx.read(
                "SELECT session_id, updated_at FROM sessions WHERE session_key = :key", {"key": row.session_key}
            )
            if not current or current[0]["session_id"] == row.session_id or current[0]["updated_at"] <= row.updated_at:
                await tx.write(_INSERT, structs.asdict(row))
            await tx.write(
                "UPDATE runs SET status = 'killed', ended_at = :at WHERE session_id = :id AND status = 'running'",
                {"at": row.updated_at, "id": row.session_id},
            )
        key = row.session_key if row else ""
        await tx.write(_REMEMBER, {"id": found.session_id, "key": key, "agent": found.agent_id, "bytes": found.size})


class _Found(Struct, frozen=True):
    """A file found by `rebuild`; without a row when it is not a transcript of ours."""

    session_id: str
    agent_id: str
    size: int
    row: SessionRow | None


def _read_changed(
    paths: Iterable[Path], sizes: Mapping[str, int], running: Set[str], now: int
) -> tuple[list[_Found], list[str]]:
    """Reads the transcripts that are new, changed, or marked as running by a dead process."""
    found: list[_Found] = []
    problems: list[str] = []
    stores: dict[Path, Mapping[str, SessionKey]] = {}
    for path in paths:
        agent_id = path.parent.parent.name
        try:
            size = path.stat().st_size
            if path.stem in running and _being_written(path, now):
                continue  # a live run writes it and will record its end
            if path.stem not in running and sizes.get(path.stem) == size:
                continue
            if path.parent not in stores:
                stores[path.parent] = _stored_keys(path.parent / "sessions.json", agent_id, problems)
            row = derive(load(path), path, agent_id, stores[path.parent].get(path.name))
        except (OpenClawError, OSError) as error:
            problems.append(f"{path} is not in the list: {error}")
        else:
            found.append(_Found(path.stem, agent_id, size, row))
    return found, problems


def derive(loaded: LoadedTranscript, path: Path, agent_id: str, stored: SessionKey | None = None) -> SessionRow | None:
    """Derives the row of a transcript; None when the file is not one."""
    if loaded.header is None and not any(isinstance(entry, MessageEntry) for entry in loaded.entries):
        return None
    header = loaded.header or TranscriptHeader(id=path.stem, timestamp="")
    key = keys.parse_session_key(header.session_key, agent_id) if header.session_key else stored
    total = tally(loaded.entries)
    changed = round(path.stat().st_mtime * 1000)
    row = SessionRow(
        session_key=str(key or SessionKey(agent_id, f"explicit:{path.stem.lower()}")),
        agent_id=agent_id,
        session_id=path.stem,
        title=title_of(loaded.entries),
        status=total.status,
        created_at=_millis(header.timestamp) or changed,
        updated_at=changed,
    )
    return with_totals(row, total)


def with_totals(row: SessionRow, total: ConversationTotals) -> SessionRow:
    """`row` with the figures of `total`."""
    usage, last = total.usage, total.last
    return structs.replace(
        row,
        updated_at=total.at or row.updated_at,
        messages=total.messages,
        model=last.model if last else row.model,
        provider=last.provider if last else row.provider,
        input_tokens=usage.input,
        output_tokens=usage.output,
        cache_read_tokens=usage.cache_read,
        cache_write_tokens=usage.cache_write,
        context_tokens=last.usage.prompt_tokens if last else 0,
        cost_usd=usage.cost.total if usage.cost else None,
    )


def _millis(timestamp: str) -> int:
    """A header's timestamp in milliseconds; 0 when it is invalid."""
    try:
        return round(datetime.fromisoformat(timestamp).timestamp() * 1000)
    except (ValueError, OverflowError):
        return 0


def _being_written(path: Path, now: int) -> bool:
    """Whether a live process holds the write lock of this transcript."""
    with KernelLock(lock_path(path)) as lock:
        return not lock.take(Holder(pid=os.getpid(), created_at=now, owner="sessions"))


class _StoredEntry(Struct, rename="camel"):
    session_id: str = ""
    session_file: str = ""


def _stored_keys(path: Path, agent_id: str, problems: list[str]) -> Mapping[str, SessionKey]:
    """The session keys in an existing `sessions.json`, by transcript file name."""
    try:
        stored = msgspec.json.decode(path.read_bytes(), type=dict[str, msgspec.Raw])
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        problems.append(f"{path} cannot be read ({error}): the sessions it names are listed by their ids")
        return {}
    found: dict[str, SessionKey] = {}
    for text, raw in stored.items():
        try:
            key = keys.parse_session_key(text, agent_id)
            entry = msgspec.json.decode(raw, type=_StoredEntry)
        except (OpenClawError, ValueError) as error:
            problems.append(f"{path}: {text!r} cannot be used ({error})")
            continue
        topic = text.rpartition(":topic:")[2] if ":topic:" in text else ""
        for name in (
            PurePath(entry.session_file).name,
            f"{entry.session_id}-topic-{topic}.jsonl" if topic else "",
            f"{entry.session_id}.jsonl",
        ):
            found.setdefault(name, key)
    return found
