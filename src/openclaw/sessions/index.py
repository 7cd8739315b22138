"""The list of sessions, kept in the database and derived from the transcripts: deleting it loses nothing."""

import uuid
from collections.abc import Sequence
from pathlib import Path

import msgspec
from msgspec import Struct, structs

from openclaw.core import keys
from openclaw.core.clock import Clock, millis
from openclaw.core.errors import InvalidRequest, NotFound, OpenClawError
from openclaw.core.keys import SessionKey
from openclaw.core.messages import Usage
from openclaw.sessions.files import Loaded, load
from openclaw.sessions.transcript import Tally, tally, title_of
from openclaw.store.db import Database, Row, Transaction


class SessionRow(Struct, frozen=True, kw_only=True):
    """One line of the list."""

    session_key: str
    agent_id: str
    session_id: str
    title: str = ""
    status: str = "idle"
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
    def total_tokens(self) -> int:
        return self.input_tokens + self.output_tokens + self.cache_read_tokens + self.cache_write_tokens


def _row(row: Row) -> SessionRow:
    return msgspec.convert({name: row[name] for name in SessionRow.__struct_fields__}, SessionRow)


_COLUMNS = SessionRow.__struct_fields__
_INSERT = (
    f"INSERT INTO sessions ({', '.join(_COLUMNS)}) VALUES ({', '.join(':' + name for name in _COLUMNS)}) "  # noqa: S608
    "ON CONFLICT (session_key) DO UPDATE SET "
    + ", ".join(f"{name} = excluded.{name}" for name in _COLUMNS if name not in ("session_key", "created_at"))
)


class SessionIndex:
    """Which transcript is behind which key, and what is worth showing of it."""

    def __init__(self, db: Database, state: Path, clock: Clock) -> None:
        self._db = db
        self.state = state
        self._clock = clock

    def path(self, agent_id: str, session_id: str) -> Path:
        return self.state / "agents" / agent_id / "sessions" / f"{session_id}.jsonl"

    async def get(self, key: SessionKey) -> SessionRow | None:
        rows = await self._db.read("SELECT * FROM sessions WHERE session_key = :key", {"key": str(key)})
        return _row(rows[0]) if rows else None

    async def find(self, text: str, default_agent: str = keys.DEFAULT_AGENT) -> SessionRow:
        """The session a person means by a key, a session id or the unique start of one."""
        wanted = text.strip()
        exact = await self.get(keys.parse(wanted, default_agent))
        if exact is not None:
            return exact
        rows = [row for row in await self.list() if row.session_id.startswith(wanted.lower())]
        if len(rows) == 1:
            return rows[0]
        if rows:
            raise InvalidRequest(f"{wanted!r} fits {len(rows)} sessions: give more of the id")
        raise NotFound(f"no session {wanted!r}: `openclaw sessions list` shows what there is")

    async def list(self, *, agent_id: str | None = None, limit: int = 10_000) -> Sequence[SessionRow]:
        """The sessions, most recently used first."""
        rows = await self._db.read(
            "SELECT * FROM sessions WHERE (messages > 0 OR status = 'running') "
            "AND (agent_id = :agent OR :agent = '') ORDER BY updated_at DESC, session_key LIMIT :limit",
            {"agent": agent_id or "", "limit": limit},
        )
        return [_row(row) for row in rows]

    async def resolve(self, key: SessionKey) -> SessionRow:
        """The session behind `key`, a new one when there is none yet."""
        now = millis(self._clock)
        async with self._db.transaction() as tx:
            rows = await tx.read("SELECT * FROM sessions WHERE session_key = :key", {"key": str(key)})
            if rows:
                return _row(rows[0])
            row = SessionRow(
                session_key=str(key), agent_id=key.agent, session_id=str(uuid.uuid4()), created_at=now, updated_at=now
            )
            await self._put(tx, row)
        return row

    async def started(self, row: SessionRow, run_id: str, title: str) -> None:
        now = millis(self._clock)
        async with self._db.transaction() as tx:
            await tx.write(
                "UPDATE sessions SET status = 'running', updated_at = :now, "
                "title = CASE WHEN title = '' THEN :title ELSE title END WHERE session_key = :key",
                {"now": now, "key": row.session_key, "title": title},
            )
            await tx.write(
                "INSERT INTO runs (run_id, session_key, session_id, status, started_at) "
                "VALUES (:run, :key, :session, 'running', :now) ON CONFLICT (run_id) DO NOTHING",
                {"run": run_id, "key": row.session_key, "session": row.session_id, "now": now},
            )

    async def ended(
        self, row: SessionRow, run_id: str, *, status: str, stop_reason: str, error: str, usage: Usage, size: int
    ) -> None:
        """Records the end of a run: `row` as it is now, and what the run itself used."""
        now = millis(self._clock)
        async with self._db.transaction() as tx:
            await self._put(tx, structs.replace(row, status=status, updated_at=now))
            await tx.write(
                "UPDATE runs SET status = :status, ended_at = :now, provider = :provider, model = :model, "
                "stop_reason = :stop, error = :error, input_tokens = :input, output_tokens = :output, "
                "cache_read_tokens = :cache_read, cache_write_tokens = :cache_write, cost_usd = :cost "
                "WHERE run_id = :run",
                {
                    "status": status,
                    "now": now,
                    "provider": row.provider,
                    "model": row.model,
                    "stop": stop_reason,
                    "error": error,
                    "input": usage.input,
                    "output": usage.output,
                    "cache_read": usage.cache_read,
                    "cache_write": usage.cache_write,
                    "cost": usage.cost.total if usage.cost else None,
                    "run": run_id,
                },
            )
            await self._remember(tx, row.session_id, row.session_key, row.agent_id, size)

    async def rebuild(self) -> int:
        """Reads transcripts the list does not know, or knows in another size; gives how many were read."""
        known = {row["session_id"]: row["bytes"] for row in await self._db.read("SELECT * FROM transcripts")}
        count = 0
        for path in sorted(self.state.glob("agents/*/sessions/*.jsonl")):
            session_id, agent_id = path.stem, path.parent.parent.name
            if known.get(session_id) == path.stat().st_size:
                continue
            try:
                row = derive(load(path), path, agent_id)
            except OpenClawError:
                continue  # unreadable or of a foreign name: it stays on disk and out of the list
            async with self._db.transaction() as tx:
                newest = await tx.read(
                    "SELECT session_id, updated_at FROM sessions WHERE session_key = :key", {"key": row.session_key}
                )
                if not newest or newest[0]["session_id"] == session_id or newest[0]["updated_at"] <= row.updated_at:
                    await self._put(tx, row)
                await self._remember(tx, session_id, row.session_key, agent_id, path.stat().st_size)
            count += 1
        return count

    async def _put(self, tx: Transaction, row: SessionRow) -> None:
        await tx.write(_INSERT, msgspec.structs.asdict(row))

    async def _remember(self, tx: Transaction, session_id: str, key: str, agent_id: str, size: int) -> None:
        await tx.write(
            "INSERT INTO transcripts (session_id, session_key, agent_id, bytes) VALUES (:id, :key, :agent, :bytes) "
            "ON CONFLICT (session_id) DO UPDATE SET bytes = excluded.bytes",
            {"id": session_id, "key": key, "agent": agent_id, "bytes": size},
        )


def derive(loaded: Loaded, path: Path, agent_id: str) -> SessionRow:
    """What the list says of a transcript, from the transcript alone."""
    agent_id = keys.normalise_agent(agent_id)
    key = loaded.header.session_key or _key_from_store(path) or f"agent:{agent_id}:explicit:{path.stem}"
    changed = round(path.stat().st_mtime * 1000)
    row = SessionRow(
        session_key=str(keys.parse(key, agent_id)),
        agent_id=agent_id,
        session_id=path.stem,
        title=title_of(loaded.entries),
        created_at=changed,
        updated_at=changed,
    )
    return counted(row, tally(loaded.entries))


def counted(row: SessionRow, total: Tally) -> SessionRow:
    """`row` with the figures of `total`."""
    usage, last = total.usage, total.last
    return structs.replace(
        row,
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


class _StoredEntry(Struct, rename="camel"):
    session_id: str = ""


def _key_from_store(path: Path) -> str | None:
    """The key an existing home's `sessions.json` gives for this transcript."""
    try:
        stored = msgspec.json.decode((path.parent / "sessions.json").read_bytes(), type=dict[str, _StoredEntry])
    except (OSError, msgspec.DecodeError):
        return None
    return next((key for key, entry in stored.items() if entry.session_id == path.stem), None)
