"""Stores every prompt sent, to the byte; equal section texts are stored once."""

import hashlib
from functools import lru_cache

import msgspec
from msgspec import Struct, structs

from openclaw.prompt.build import Prompt, assemble
from openclaw.prompt.facts import Section
from openclaw.prompt.report import PromptReport
from openclaw.storage.database import Database, find_run

KNOWN_HASHES = 2_000
KNOWN_REPORTS = 64


class _Kept(Struct, frozen=True, rename="camel"):
    """A section without its text."""

    id: str
    heading: str
    hash: str
    source: str
    label: str
    stable: bool
    raw_chars: int
    carrier: str = ""


class _Dated(Struct, frozen=True, rename="camel"):
    """A report whose content is shared with others; only time and session are its own."""

    generated_at: int
    session_id: str
    session_key: str
    rest: str
    """The hash of the shared content."""


class ArchivedPrompt(Struct, frozen=True, kw_only=True):
    """A prompt read back from the archive."""

    run_id: str
    session_key: str
    created_at: int
    prompt: Prompt
    report: PromptReport


@lru_cache(maxsize=512)
def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


@lru_cache(maxsize=64)
def _list(sections: tuple[Section, ...]) -> str:
    """Encodes the sections without their texts; the list is mostly that of an earlier turn."""
    kept = []
    for section in sections:
        fields = {name: getattr(section, name) for name in _Kept.__struct_fields__ if name != "hash"}
        kept.append(_Kept(**fields, hash=_digest(section.text)))
    return msgspec.json.encode(kept).decode()


class PromptArchive:
    def __init__(self, db: Database) -> None:
        self._db = db
        self._stored: dict[str, None] = {}
        """Hashes known to be in the database; most sections of a prompt were sent before."""
        self._reports: dict[str, PromptReport] = {}
        """Those of the latest runs: each is asked for once, when its run ends."""
        self._listed: tuple[tuple[Section, ...] | None, str] = (None, "")
        """The sections of the last prompt, which are stored, and the hash of their list: mostly those of the next."""
        self._shared: tuple[PromptReport, str] | None = None
        """The content of the last report that others may share, and how it is encoded; mostly that of the next too."""

    async def keep(self, run_id: str, session_key: str, now: int, prompt: Prompt, report: PromptReport) -> None:
        """Stores the prompt of a run."""
        parts: list[str] = []
        listed = self._listed
        if listed[0] is not prompt.sections:
            parts = [_list(prompt.sections), *(section.text for section in prompt.sections)]
            listed = (prompt.sections, _digest(parts[0]))
        row: PromptReport | _Dated = report
        if not report.changes:  # `witnessed` searches the report column, so a report with changes is stored whole
            plain = structs.replace(report, generated_at=0, session_id="", session_key="")
            if self._shared is None or self._shared[0] != plain:
                self._shared = (plain, msgspec.json.encode(plain).decode())
            parts.append(self._shared[1])
            row = _Dated(report.generated_at, report.session_id, report.session_key, _digest(parts[-1]))
        told = msgspec.json.encode(row).decode()
        texts = {digest: text for text in parts if (digest := _digest(text)) not in self._stored}
        await self._db.soon(
            *(
                (
                    "INSERT INTO prompt_texts (hash, text) VALUES (:hash, :text) ON CONFLICT (hash) DO NOTHING",
                    {"hash": digest, "text": text},
                )
                for digest, text in texts.items()
            ),
            (
                "INSERT INTO prompts (run_id, session_key, created_at, report, sections) "
                "VALUES (:run, :key, :now, :report, :sections) ON CONFLICT (run_id) DO NOTHING",
                {"run": run_id, "key": session_key, "now": now, "report": told, "sections": listed[1]},
            ),
        )
        self._listed = listed
        self._stored.update(dict.fromkeys(texts))
        self._reports[run_id] = report
        for known, most in ((self._stored, KNOWN_HASHES), (self._reports, KNOWN_REPORTS)):
            while len(known) > most:
                del known[next(iter(known))]

    async def latest_report(self, session_key: str) -> PromptReport | None:
        """The report of a session's last prompt."""
        rows = await self._db.read(
            "SELECT report FROM prompts WHERE session_key = :key ORDER BY created_at DESC, run_id LIMIT 1",
            {"key": session_key},
        )
        return await self._report(rows[0]["report"]) if rows else None

    async def report(self, run_id: str) -> PromptReport | None:
        """The report of one run's prompt."""
        if (kept := self._reports.get(run_id)) is not None:
            return kept
        rows = await self._db.read("SELECT report FROM prompts WHERE run_id = :run", {"run": run_id})
        return await self._report(rows[0]["report"]) if rows else None

    async def last_run(self, session_key: str) -> str:
        """The run of a session's last prompt; empty when there was none."""
        found = await self.recent(1, session_key)
        return found[0][0] if found else ""

    async def witnessed(self) -> list[tuple[int, str]]:
        """The audit entries that archived reports refer to, by number and hash."""
        rows = await self._db.read("SELECT report FROM prompts WHERE report LIKE '%\"changes\":[{%'")
        reports = [msgspec.json.decode(row["report"], type=PromptReport) for row in rows]
        return [(change.seq, change.hash) for report in reports for change in report.changes]

    async def find(self, wanted: str) -> ArchivedPrompt:
        """The prompt of a run, by its id or a unique prefix of it."""
        none = "is on record: `openclaw prompt runs` lists what there is"
        return await self._load(await find_run(self._db, "prompts", wanted, none))

    async def latest(self, session_key: str) -> ArchivedPrompt | None:
        """The last prompt that was sent for a session."""
        run_id = await self.last_run(session_key)
        return await self._load(run_id) if run_id else None

    async def recent(self, limit: int = 20, session_key: str | None = None) -> list[tuple[str, str, int]]:
        """Run, session and time of the latest prompts, of one session or of all."""
        rows = await self._db.read(
            "SELECT run_id, session_key, created_at FROM prompts "
            "WHERE CAST(:key AS TEXT) IS NULL OR session_key = :key ORDER BY created_at DESC, run_id LIMIT :limit",
            {"limit": limit, "key": session_key},
        )
        return [(row["run_id"], row["session_key"], row["created_at"]) for row in rows]

    async def _load(self, run_id: str) -> ArchivedPrompt:
        row = (await self._db.read("SELECT * FROM prompts WHERE run_id = :run", {"run": run_id}))[0]
        # An older format has the list itself in this column.
        listed = row["sections"] if row["sections"].startswith("[") else await self._text(row["sections"])
        sections = []
        for item in msgspec.json.decode(listed, type=list[_Kept]):
            fields = structs.asdict(item)
            text = await self._text(fields.pop("hash"))
            sections.append(msgspec.convert({**fields, "text": text}, Section))
        stable = assemble(section for section in sections if section.stable).rstrip()
        dynamic = assemble(section for section in sections if not section.stable).lstrip()
        return ArchivedPrompt(
            run_id=run_id,
            session_key=row["session_key"],
            created_at=row["created_at"],
            prompt=Prompt(sections=tuple(sections), stable=stable, dynamic=dynamic),
            report=await self._report(row["report"]),
        )

    async def _report(self, told: str) -> PromptReport:
        try:
            dated = msgspec.json.decode(told, type=_Dated)
        except msgspec.ValidationError:
            return msgspec.json.decode(told, type=PromptReport)
        report = msgspec.json.decode(await self._text(dated.rest), type=PromptReport)
        own = structs.asdict(dated)
        del own["rest"]
        return structs.replace(report, **own)

    async def _text(self, digest: str) -> str:
        rows = await self._db.read("SELECT text FROM prompt_texts WHERE hash = :hash", {"hash": digest})
        return str(rows[0]["text"])
