"""Records every model call, request and stream, so that the request can be rebuilt to the byte.

Storage is content-addressed: a message, a tool list or a prompt is one compressed blob however many calls carry it.
Each blob has the hour it was last used in, and the oldest hours are deleted first. What a call shares with no other
(which messages it carries, its options, its stream) is in its row.
"""

import asyncio
import base64
import hashlib
import logging
import zlib
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import msgspec
from msgspec import Struct, field, structs

from openclaw.budget.settings import RecordSettings
from openclaw.core.clock import Clock, millis
from openclaw.core.errors import InvalidRequest, NotFound, ProviderError
from openclaw.core.events import CallDelta, Done, ModelEvent, TextDelta, ThinkingDelta
from openclaw.core.messages import Assistant, Message, grow
from openclaw.core.provider import CacheRetention, Model, ModelRequest, System, ThinkingLevel, ToolChoice
from openclaw.core.settings import Live
from openclaw.core.tool import ToolSpec
from openclaw.storage.database import Database, find_run

log = logging.getLogger(__name__)

HOUR_MS = 3_600_000
PAGE = 64
"""Message hashes per page blob: a long conversation costs one hash per page and call, not one per message."""
SHORT = 512
"""Up to this many bytes a blob is not compressed: it would become hardly smaller. Nor would a page of hashes."""
MOST_SEEN = 8_192
"""How many blobs are remembered as stored; one that is forgotten is stored once more."""
LARGE = 131_072
"""From this many bytes on, a request is encoded in a thread."""
NEVER = -1
LONGEST_TAPE = 8_000_000
"""Most characters of a stream recorded event by event; of a longer one only the finished message is kept."""


class Failure(Struct, frozen=True, rename="camel"):
    """The provider error a stream ended with."""

    reason: str
    message: str
    status: int | None = None
    retry_after: float | None = None

    def error(self) -> ProviderError:
        error = ProviderError(self.message, status=self.status, retry_after=self.retry_after)
        error.reason = self.reason
        return error


class StreamRecording(Struct):
    """Collects the events of one stream as they arrive, in the form they are stored in."""

    events: list[tuple[Any, ...]] = field(default_factory=list)
    message: Assistant | None = None
    sent: bytes = b""
    failure: Failure | None = None
    chars: int = 0

    def add(self, event: ModelEvent) -> None:
        plain: tuple[str, ...]
        match event:
            case TextDelta():
                plain = ("text", event.text)
            case ThinkingDelta():
                plain = ("thinking", event.text)
            case CallDelta():
                plain = ("call", event.id, event.name, event.fragment)
            case Done():
                self.message, self.sent = event.message, event.sent
                self.events.append(("done", event.message))
                return
        self.chars += len(plain[-1])
        if self.chars <= LONGEST_TAPE:
            self.events.append(plain)

    def failed(self, error: ProviderError) -> None:
        self.failure = Failure(error.reason, error.message, error.status, error.retry_after)


class RecordedCall(Struct, frozen=True, kw_only=True):
    """A call read back from the database."""

    call_id: str
    request: ModelRequest
    events: tuple[ModelEvent, ...]
    failure: Failure | None = None
    wire: str = ""
    """The length and the checksum of the bytes the provider was sent; in older records, their digest."""

    @property
    def reply(self) -> Assistant | None:
        return next((event.message for event in self.events if isinstance(event, Done)), None)


class _Card(Struct, frozen=True, rename="camel", omit_defaults=True):
    """A request as the hashes of its parts, and its options."""

    model: str
    stable: str
    dynamic: str
    tools: str
    pages: tuple[str, ...]
    last: Sequence[str] = ()
    """The messages after the full pages; older records have a page of them."""
    thinking: ThinkingLevel = "off"
    max_tokens: int | None = None
    temperature: float | None = None
    cache_key: str = ""
    cache_retention: CacheRetention = "short"
    tool_choice: ToolChoice = "auto"


_OPTIONS = _Card.__struct_fields__[6:]


class _Stream(Struct, frozen=True, omit_defaults=True):
    events: Sequence[tuple[Any, ...]]
    failure: Failure | None = None


def _model_bytes(model: Model) -> bytes:
    """Leaves the headers out: they may hold credentials, and no request body contains them."""
    return msgspec.json.encode(structs.replace(model, headers={}))


_STEADY: dict[str, Callable[[Any], bytes]] = {
    "model": _model_bytes,
    "stable": str.encode,
    "dynamic": str.encode,
    "tools": msgspec.json.encode,
}
"""How the parts that rarely change between calls are encoded."""


class _MessageNames:
    """The hashes of each full page of a conversation's messages, and of the messages after them."""

    def __init__(self, recorder: "CallRecorder") -> None:
        self.pages: list[str] = []
        self.last: list[str] = []
        self.fresh: dict[str, bytes] = {}
        """Messages and pages that have not been stored yet."""
        self.hour = NEVER
        """The hour in which the others were marked as used."""

    def add(self, message: Message) -> None:
        data = msgspec.json.encode(message)
        self.last.append(digest(data))
        self.fresh[self.last[-1]] = data
        if len(self.last) == PAGE:
            page = msgspec.json.encode(self.last)
            self.pages.append(digest(page))
            self.fresh[self.pages[-1]] = page
            self.last = []


class CallRecorder:
    """Writes and reads the recorded calls of this installation."""

    def __init__(
        self,
        db: Database,
        clock: Clock,
        settings: Live[RecordSettings],
        encode: Callable[[ModelRequest], bytes],
    ) -> None:
        self._db = db
        self._clock = clock
        self._settings = settings
        self.encode = encode
        self._seen: dict[str, None] = {}
        """Blobs known to be stored and marked as used in this hour, which later calls may share."""
        self._steady: dict[str, tuple[Any, str]] = {}
        """Model, prompt and tools of the last call with their hashes; they rarely change between calls."""
        self._swept_in = -1
        self._added = 0
        self._full = False

    async def keep(
        self, call_id: str, run_id: str, request: ModelRequest, tape: StreamRecording, large: int = 0
    ) -> None:
        """Stores a call of about `large` bytes; one that cannot be encoded is left out, and the run goes on."""
        settings = self._settings.current
        if not settings.enabled:
            return
        hour = millis(self._clock) // HOUR_MS
        if hour != self._swept_in or self._added > settings.max_megabytes << 16:
            await self.forget_old()
        if self._full:
            return
        work = partial(self._split, request, tape, hour)
        try:
            blobs, row, names = work() if large < LARGE else await asyncio.to_thread(work)
        except (TypeError, ValueError, UnicodeEncodeError, RecursionError) as error:
            log.warning("the call %s was not recorded: %s", call_id, error)
            return
        await self._db.soon(
            *(
                (
                    "INSERT INTO record_blobs (hash, seen_hour, bytes, data) VALUES (:hash, :hour, :bytes, :data) "
                    "ON CONFLICT (hash) DO UPDATE SET seen_hour = excluded.seen_hour",
                    {"hash": name, "hour": hour, "bytes": len(text), "data": text},
                )
                for name, text in blobs.items()
            ),
            (
                "INSERT INTO call_records (call_id, run_id, place, hour, request, stream, wire, bytes) VALUES (:call, "
                ":run, (SELECT COUNT(*) + 1 FROM call_records WHERE run_id = :run), :hour, :request, :stream, :wire, "
                ":bytes)",
                {"call": call_id, "run": run_id, "hour": hour, **row},
            ),
        )
        self._added += row["bytes"] + sum(map(len, blobs.values()))
        self._seen.update(dict.fromkeys(blobs))
        if len(self._seen) > MOST_SEEN:
            self._seen = dict.fromkeys(list(self._seen)[MOST_SEEN // 2 :])
        names.hour = hour
        names.fresh.clear()

    def _split(
        self, request: ModelRequest, tape: StreamRecording, hour: int
    ) -> tuple[dict[str, str], dict[str, Any], _MessageNames]:
        """The blobs of a call that are not yet stored or marked in this hour, and its row."""
        parts: dict[str, bytes] = {}
        steady: dict[str, Any] = {"model": request.model, **structs.asdict(request.system), "tools": request.tools}
        for kind, part in steady.items():
            last, name = self._steady.get(kind, (None, ""))
            if last != part or name not in self._seen:
                data = _STEADY[kind](part)
                parts[name := digest(data)] = data
                self._steady[kind] = (part, name)
            steady[kind] = name
        names = grow(_MessageNames, request.messages, self)
        marked = names
        if names.hour not in (hour, NEVER):
            marked = _MessageNames(self)
            for message in request.messages:
                marked.add(message)
        parts |= marked.fresh
        options = {name: getattr(request, name) for name in _OPTIONS}
        card = msgspec.json.encode(_Card(**steady, pages=tuple(names.pages), last=names.last, **options))
        stream = _pack(msgspec.json.encode(_Stream(tape.events, tape.failure)))
        row = {
            "request": card.decode(),
            "stream": stream,
            "wire": checksum(tape.sent or self.encode(request)),
            "bytes": len(card) + len(stream),
        }
        packed = {
            name: data.decode() if data.startswith(b'["') else _pack(data)  # pages of hashes as they are
            for name, data in parts.items()
            if name not in self._seen
        }
        return packed, row, names

    async def find(self, wanted: str) -> str:
        """Finds a recorded run by a unique prefix of its id."""
        none = "is on record: `openclaw runs list` shows what there is"
        return await find_run(self._db, "call_records", wanted, none)

    async def calls(self, run_id: str) -> list[RecordedCall]:
        """The calls of a run, in order."""
        rows = await self._db.read("SELECT * FROM call_records WHERE run_id = :run ORDER BY place", {"run": run_id})
        cache: dict[str, bytes] = {}
        found = []
        for row in rows:
            stream = msgspec.json.decode(await self._blob(row["stream"], cache), type=_Stream)
            events = tuple(_event(each) for each in stream.events)
            request = await self._request(row["request"], cache)
            named = {"call_id": row["call_id"], "wire": row["wire"], "failure": stream.failure}
            found.append(RecordedCall(request=request, events=events, **named))
        return found

    async def _request(self, name: str, cache: dict[str, bytes]) -> ModelRequest:
        card = msgspec.json.decode(await self._blob(name, cache), type=_Card)
        names: list[str] = []
        for page in card.pages:
            names += msgspec.json.decode(await self._blob(page, cache), type=list[str])
        names += card.last
        messages = [msgspec.json.decode(await self._blob(each, cache), type=Message) for each in names]
        return ModelRequest(
            model=msgspec.json.decode(await self._blob(card.model, cache), type=Model),
            system=System(
                (await self._blob(card.stable, cache)).decode(), (await self._blob(card.dynamic, cache)).decode()
            ),
            messages=tuple(messages),
            tools=msgspec.json.decode(await self._blob(card.tools, cache), type=tuple[ToolSpec, ...]),
            **{name: getattr(card, name) for name in _OPTIONS},
        )

    async def _blob(self, name: str, cache: dict[str, bytes]) -> bytes:
        """The bytes of a blob, or of what stands in a row in place of its name."""
        if name.startswith(_PACKED):
            return _unpack(name)
        if name not in cache:
            rows = await self._db.read("SELECT data FROM record_blobs WHERE hash = :hash", {"hash": name})
            if not rows:
                raise NotFound("a part of this run is no longer on record: it was kept too long ago")
            cache[name] = _unpack(rows[0]["data"])
        return cache[name]

    async def forget_old(self) -> int:
        """Deletes calls that are too old, and the oldest when all are too large; gives how many it deleted."""
        settings, now = self._settings.current, millis(self._clock) // HOUR_MS
        oldest = now - settings.keep_days * 24
        hours = await self._db.read(
            "SELECT seen_hour, SUM(bytes) AS bytes FROM (SELECT seen_hour, bytes FROM record_blobs "
            "UNION ALL SELECT hour, bytes FROM call_records) AS kept GROUP BY seen_hour ORDER BY seen_hour"
        )
        left = sum(row["bytes"] for row in hours)
        most = settings.max_megabytes << 20
        for row in hours:
            if row["seen_hour"] >= oldest and (left <= most or row["seen_hour"] >= now):
                break
            oldest = max(oldest, row["seen_hour"] + 1)
            left -= row["bytes"]
        if now != self._swept_in:
            self._seen = {}
        self._swept_in, self._added = now, 0
        if left > most and not self._full:
            log.warning("nothing more is recorded in this hour: %d MB are used (record.maxMegabytes)", left >> 20)
        self._full = left > most
        _, gone = await self._db.write_all(
            ("DELETE FROM record_blobs WHERE seen_hour < :oldest", {"oldest": oldest}),
            ("DELETE FROM call_records WHERE hour < :oldest", {"oldest": oldest}),
        )
        return gone


def _event(plain: tuple[Any, ...]) -> ModelEvent:
    match plain:
        case ("text", str(text)):
            return TextDelta(text)
        case ("thinking", str(text)):
            return ThinkingDelta(text)
        case ("call", str(call_id), str(name), str(fragment)):
            return CallDelta(call_id, name, fragment)
        case ("done", message):
            return Done(msgspec.convert(message, Assistant))
    raise InvalidRequest(f"a recorded stream holds something unknown: {plain[:1]!r}")


_PACKED = ("{", "[", "eJ")
"""How packed bytes begin: JSON, or what zlib compressed; no hash begins so."""


def _pack(data: bytes) -> str:
    """Short JSON as it is, and everything else compressed."""
    if len(data) < SHORT and data[:1] in (b"{", b"["):
        return data.decode()
    return base64.b64encode(zlib.compress(data, 6)).decode()


def _unpack(text: str) -> bytes:
    return text.encode() if text[:1] in ("{", "[") else zlib.decompress(base64.b64decode(text))


def digest(data: bytes) -> str:
    """The hash that names a blob."""
    return hashlib.blake2b(data, digest_size=16).hexdigest()


def checksum(data: bytes) -> str:
    """Tells a request from one that was built wrongly.

    The whole conversation is in it at every call, and a digest of that takes eight times as long.
    """
    return f"{len(data)}:{zlib.crc32(data):08x}"


def is_sent(data: bytes, wire: str) -> bool:
    """Whether `data` is what the record says was sent; a record without it fits everything."""
    return wire in ("", checksum(data), hashlib.sha256(data).hexdigest())
