"""Records every model call, request and stream, so that the request can be rebuilt to the byte.

Storage is content-addressed: a message, a tool list or a prompt is one compressed blob however many calls carry it.
Each blob has the hour it was last used in, and the oldest hours are deleted first.
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
from msgspec import Struct, structs

from openclaw.budget.settings import RecordSettings
from openclaw.core.clock import Clock, millis
from openclaw.core.errors import InvalidRequest, NotFound, ProviderError
from openclaw.core.events import CallDelta, Done, ModelEvent, TextDelta, ThinkingDelta
from openclaw.core.messages import Assistant, Message, cache_on_message
from openclaw.core.provider import CacheRetention, Model, ModelRequest, System, ThinkingLevel, ToolChoice
from openclaw.core.settings import Live
from openclaw.core.tool import ToolSpec
from openclaw.storage.database import Database

log = logging.getLogger(__name__)

HOUR_MS = 3_600_000
PAGE = 64
"""Message hashes per page blob: a long conversation costs one hash per page and call, not one per message."""
LARGE = 131_072
"""From this many bytes on, a request is encoded in a thread."""
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


class StreamRecording:
    """Collects the events of one stream as they arrive."""

    def __init__(self) -> None:
        self.events: list[ModelEvent] = []
        self.message: Assistant | None = None
        self.sent = b""
        self.failure: Failure | None = None
        self.chars = 0

    def add(self, event: ModelEvent) -> None:
        if isinstance(event, Done):
            self.message, self.sent = event.message, event.sent
            event = Done(event.message)
        else:
            self.chars += len(event.fragment if isinstance(event, CallDelta) else event.text)
            if self.chars > LONGEST_TAPE:
                return
        self.events.append(event)

    def failed(self, error: ProviderError) -> None:
        self.failure = Failure(error.reason, error.message, error.status, error.retry_after)


class RecordedCall(Struct, frozen=True, kw_only=True):
    """A call read back from the database."""

    call_id: str
    request: ModelRequest
    events: tuple[ModelEvent, ...]
    failure: Failure | None = None
    wire: str = ""
    """Digest of the bytes the provider was sent."""

    @property
    def reply(self) -> Assistant | None:
        return next((event.message for event in self.events if isinstance(event, Done)), None)


class _Card(Struct, frozen=True, rename="camel", omit_defaults=True):
    """A request as the hashes of its parts."""

    model: str
    stable: str
    dynamic: str
    tools: str
    pages: tuple[str, ...]
    thinking: ThinkingLevel = "off"
    max_tokens: int | None = None
    temperature: float | None = None
    cache_key: str = ""
    cache_retention: CacheRetention = "short"
    tool_choice: ToolChoice = "auto"


class _Taken(Struct, frozen=True):
    """A call split into blobs, as it is written to the database."""

    card: str
    stream: str
    wire: str
    packed: dict[str, str]


class _Stream(Struct, frozen=True, omit_defaults=True):
    events: tuple[tuple[Any, ...], ...]
    failure: Failure | None = None


def _model_bytes(model: Model) -> bytes:
    """Leaves the headers out: they may hold credentials, and no request body contains them."""
    return msgspec.json.encode(structs.replace(model, headers={}))


@cache_on_message
def _name(message: Message) -> str:
    return digest(msgspec.json.encode(message))


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
        self._seen: dict[str, int] = {}
        """Blobs known to be stored, and the hour they were last marked as used."""
        self._standing: dict[str, tuple[Any, str]] = {}
        self._swept_in = -1
        self._added = 0
        self._full = False

    async def keep(
        self, call_id: str, run_id: str, request: ModelRequest, tape: StreamRecording, large: int = 0
    ) -> None:
        """Keeps one call, `large` by so many bytes. What cannot be written down is left out; no run fails for it."""
        settings = self._settings.current
        if not settings.enabled:
            return
        hour = millis(self._clock) // HOUR_MS
        if hour != self._swept_in or self._added > settings.max_megabytes << 16:
            await self.forget_old()
        if self._full:
            return
        work = partial(self._take_apart, request, tape, hour)
        try:
            taken = work() if large < LARGE else await asyncio.to_thread(work)
        except (TypeError, ValueError, UnicodeEncodeError, RecursionError) as error:
            log.warning("the call %s was not recorded: %s", call_id, error)
            return
        await self._db.write_all(
            *(
                (
                    "INSERT INTO record_blobs (hash, seen_hour, bytes, data) VALUES (:hash, :hour, :bytes, :data) "
                    "ON CONFLICT (hash) DO UPDATE SET seen_hour = excluded.seen_hour",
                    {"hash": name, "hour": hour, "bytes": len(text), "data": text},
                )
                for name, text in taken.packed.items()
            ),
            (
                "INSERT INTO call_records (call_id, run_id, place, hour, request, stream, wire) VALUES (:call, :run, "
                "(SELECT COUNT(*) + 1 FROM call_records WHERE run_id = :run), :hour, :request, :stream, :wire)",
                {
                    "call": call_id,
                    "run": run_id,
                    "hour": hour,
                    "request": taken.card,
                    "stream": taken.stream,
                    "wire": taken.wire,
                },
            ),
        )
        self._added += sum(map(len, taken.packed.values()))
        self._seen.update(dict.fromkeys(taken.packed, hour))

    def _take_apart(self, request: ModelRequest, tape: StreamRecording, hour: int) -> "_Taken":
        """Splits a call into blobs and compresses those not yet stored or marked in this hour."""
        parts: dict[str, bytes] = {}

        def put(data: bytes) -> str:
            name = digest(data)
            parts[name] = data
            return name

        def standing(kind: str, part: Any, encode: Callable[[Any], bytes]) -> str:
            """The hash of a part that rarely changes between calls, cached."""
            last, name = self._standing.get(kind, (None, ""))
            if last == part and self._seen.get(name) == hour:
                return name
            name = put(encode(part))
            self._standing[kind] = (part, name)
            return name

        names = []
        for message in request.messages:
            name = _name(message)
            if self._seen.get(name) != hour:
                parts[name] = msgspec.json.encode(message)
            names.append(name)
        card = _Card(
            model=standing("model", request.model, _model_bytes),
            stable=standing("stable", request.system.stable, str.encode),
            dynamic=put(request.system.dynamic.encode()),
            tools=standing("tools", request.tools, msgspec.json.encode),
            pages=tuple(put(msgspec.json.encode(names[at : at + PAGE])) for at in range(0, len(names), PAGE)),
            thinking=request.thinking,
            max_tokens=request.max_tokens,
            temperature=request.temperature,
            cache_key=request.cache_key,
            cache_retention=request.cache_retention,
            tool_choice=request.tool_choice,
        )
        return _Taken(
            card=put(msgspec.json.encode(card)),
            stream=put(encode_stream(tape.events, tape.failure)),
            wire=digest(tape.sent or self.encode(request)),
            packed={name: _pack(data) for name, data in parts.items() if self._seen.get(name) != hour},
        )

    async def find(self, wanted: str) -> str:
        """Finds a recorded run by a unique prefix of its id."""
        rows = await self._db.read(
            "SELECT DISTINCT run_id FROM call_records WHERE substr(run_id, 1, :size) = :start LIMIT 2",
            {"start": wanted, "size": len(wanted)},
        )
        if any(row["run_id"] == wanted for row in rows):
            return wanted
        if len(rows) > 1:
            raise InvalidRequest(f"{wanted!r} fits several runs: give more of the id")
        if not rows:
            raise NotFound(f"no run {wanted!r} is on record: `openclaw runs list` shows what there is")
        return str(rows[0]["run_id"])

    async def calls(self, run_id: str) -> list[RecordedCall]:
        """The calls of a run, in order."""
        rows = await self._db.read("SELECT * FROM call_records WHERE run_id = :run ORDER BY place", {"run": run_id})
        cache: dict[str, bytes] = {}
        found = []
        for row in rows:
            stream = msgspec.json.decode(await self._blob(row["stream"], cache), type=_Stream)
            events = tuple(_event(each) for each in stream.events)
            request = await self._request(row["request"], cache)
            found.append(
                RecordedCall(
                    call_id=row["call_id"], request=request, events=events, failure=stream.failure, wire=row["wire"]
                )
            )
        return found

    async def _request(self, name: str, cache: dict[str, bytes]) -> ModelRequest:
        card = msgspec.json.decode(await self._blob(name, cache), type=_Card)
        names: list[str] = []
        for page in card.pages:
            names += msgspec.json.decode(await self._blob(page, cache), type=list[str])
        messages = [msgspec.json.decode(await self._blob(each, cache), type=Message) for each in names]
        return ModelRequest(
            model=msgspec.json.decode(await self._blob(card.model, cache), type=Model),
            system=System(
                (await self._blob(card.stable, cache)).decode(), (await self._blob(card.dynamic, cache)).decode()
            ),
            messages=tuple(messages),
            tools=msgspec.json.decode(await self._blob(card.tools, cache), type=tuple[ToolSpec, ...]),
            thinking=card.thinking,
            max_tokens=card.max_tokens,
            temperature=card.temperature,
            cache_key=card.cache_key,
            cache_retention=card.cache_retention,
            tool_choice=card.tool_choice,
        )

    async def _blob(self, name: str, cache: dict[str, bytes]) -> bytes:
        if name not in cache:
            rows = await self._db.read("SELECT data FROM record_blobs WHERE hash = :hash", {"hash": name})
            if not rows:
                raise NotFound("a part of this run is no longer on record: it was kept too long ago")
            cache[name] = zlib.decompress(base64.b64decode(rows[0]["data"]))
        return cache[name]

    async def forget_old(self) -> int:
        """Forgets runs that are too old, and the oldest when all together are too large; gives how many calls went."""
        settings, now = self._settings.current, millis(self._clock) // HOUR_MS
        oldest = now - settings.keep_days * 24
        hours = await self._db.read(
            "SELECT seen_hour, SUM(bytes) AS bytes FROM record_blobs GROUP BY seen_hour ORDER BY seen_hour"
        )
        left = sum(row["bytes"] for row in hours)
        most = settings.max_megabytes << 20
        for row in hours:
            if row["seen_hour"] >= oldest and (left <= most or row["seen_hour"] >= now):
                break
            oldest = max(oldest, row["seen_hour"] + 1)
            left -= row["bytes"]
        self._swept_in, self._added = now, 0
        if left > most and not self._full:
            log.warning("nothing more is recorded in this hour: %d MB are used (record.maxMegabytes)", left >> 20)
        self._full = left > most
        _, gone = await self._db.write_all(
            ("DELETE FROM record_blobs WHERE seen_hour < :oldest", {"oldest": oldest}),
            ("DELETE FROM call_records WHERE hour < :oldest", {"oldest": oldest}),
        )
        return gone


def encode_stream(events: Sequence[ModelEvent], failure: Failure | None) -> bytes:
    return msgspec.json.encode(_Stream(tuple(_plain(event) for event in events), failure))


def _plain(event: ModelEvent) -> tuple[Any, ...]:
    match event:
        case TextDelta(text=text):
            return ("text", text)
        case ThinkingDelta(text=text):
            return ("thinking", text)
        case CallDelta():
            return ("call", event.id, event.name, event.fragment)
        case Done(message=message):
            return ("done", message)


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


def digest(data: bytes) -> str:
    """The hash that names a blob."""
    return hashlib.sha256(data).hexdigest()


def _pack(data: bytes) -> str:
    return base64.b64encode(zlib.compress(data, 6)).decode()
