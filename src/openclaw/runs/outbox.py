"""The outbox: what is said to people on channels, on record until the platform has confirmed it.

What a run says is written in the transaction that ends the run. Rows are kept in order within a conversation; a row
belongs to the process that sends it, and what was being sent when that process was killed is found as `sending`.
"""

import re
import uuid
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from typing import Any, Literal

import msgspec
from msgspec import Struct, structs

from openclaw.config.live import LiveConfig
from openclaw.config.schema import Config
from openclaw.core.channel import Address, Outbound, Receipt
from openclaw.core.clock import Clock, millis
from openclaw.core.errors import Conflict, NotFound, Unavailable
from openclaw.core.keys import normalise_agent
from openclaw.process.tasks import with_timeout
from openclaw.runs.inbox import LastRoutes, RunOutcome, Statement
from openclaw.runs.request import AlertRules, RunRequest
from openclaw.security.external import sanitize_external_text
from openclaw.sessions.reply_text import ReplyPayload
from openclaw.sessions.send_policy import SendPolicy
from openclaw.sessions.system_events import insert_event
from openclaw.storage.database import Database, Row
from openclaw.storage.owners import OwnedRows, Owner
from openclaw.tools.ask import question_buttons

TOPIC = "outbox"
SENT_KEPT_MS = 7 * 86_400_000
PREVIEWS_KEPT_MS = 30 * 86_400_000
"""A preview that cannot be taken back is forgotten after so long."""
FAILURE_REPLY = "Sorry, that did not work."
"""What others than the owner are told of a failure; the reason is for the owner only."""
DROPPED = "dropped by the operator"
State = Literal["pending", "sending", "unsure", "sent", "refused", "held"]
_INSERT = (
    "INSERT INTO outbox (message_id, channel, account, chat, thread, position, run_id, session_key, body, state, "
    "next_at, created_at, updated_at, owner) VALUES (:id, :channel, :account, :chat, :thread, "
    "(SELECT COALESCE(MAX(position), 0) + 1 FROM outbox), :run, :key, :body, 'pending', :now, :now, :now, '') "
    "ON CONFLICT (message_id) DO NOTHING"
)
MOST_AT_ONCE = 200
"""So many conversations of an account are worked on at the same time."""
_PREVIEW = "run_id = :run AND channel = :channel AND account = :account AND chat = :chat AND thread = :thread"


class OutboxEntry(Struct, frozen=True, kw_only=True):
    """One message on its way."""

    id: str
    message: Outbound
    state: State
    position: int
    run_id: str = ""
    session_key: str = ""
    pieces: tuple[str, ...] | None = None
    """Its text as it was cut for the platform, from the first attempt on."""
    receipts: tuple[Receipt, ...] = ()
    """Of the pieces that arrived."""
    attempts: int = 0
    doubled: int = 0
    """How often a piece was sent again although the first may have arrived."""
    next_at: int = 0
    error: str = ""
    owner: str = ""
    updated_at: int = 0


class OutboxCounts(Struct, kw_only=True):
    """How many messages of an account are where; of those that arrived and were refused, the last week's."""

    waiting: int = 0
    held: int = 0
    refused: int = 0
    sent: int = 0
    doubled: int = 0
    """How often a piece may have arrived twice."""
    last_sent_at: int = 0


def _entry(row: Row) -> OutboxEntry:
    return OutboxEntry(
        id=row["message_id"],
        message=msgspec.json.decode(row["body"], type=Outbound),
        state=row["state"],
        position=row["position"],
        run_id=row["run_id"],
        session_key=row["session_key"],
        pieces=msgspec.json.decode(row["pieces"], type=tuple[str, ...]) if row["pieces"] else None,
        receipts=msgspec.json.decode(row["receipts"], type=tuple[Receipt, ...]),
        attempts=row["attempts"],
        doubled=row["doubled"],
        next_at=row["next_at"],
        error=row["error"],
        owner=row["owner"],
        updated_at=row["updated_at"],
    )


def _names_preview(run_id: str, to: Address) -> dict[str, Any]:
    return {"run": run_id, "channel": to.channel, "account": to.account, "chat": to.to, "thread": to.thread or ""}


class StreamedReply(Struct, frozen=True, kw_only=True):
    """What one conversation was told of an answer before its run ended."""

    messages: tuple[tuple[str, Outbound], ...] = ()
    """Everything, in order; each has its id, so that what is on record already is not put in twice."""
    payloads: tuple[ReplyPayload, ...] = ()
    """The payloads of the run which those messages hold."""


NOTHING_STREAMED = StreamedReply()


def place_of(run_id: str, address: Address) -> str:
    """Names what a run says in one conversation."""
    return f"{run_id}:{address.channel}:{address.account}:{address.to}:{address.thread or ''}"


def replies(
    requests: Sequence[RunRequest],
    outcome: RunOutcome,
    streamed: Mapping[Address, StreamedReply] | None = None,
    prefix: Callable[[RunRequest, str, str, str], str] = lambda *_: "",
) -> list[tuple[str, Outbound]]:
    """What the end of a run says to whom, each with its id: every address that asked gets the answer once."""
    found: dict[Address, RunRequest] = {}
    for request in requests:
        if request.reply_to is not None:
            found.setdefault(request.reply_to, request)
    messages: list[tuple[str, Outbound]] = []
    for address, request in found.items():
        before = (streamed or {}).get(address, NOTHING_STREAMED)
        messages += before.messages
        begins = prefix(request, outcome.provider, outcome.model, outcome.thinking)
        for part, said in enumerate(_said(request, outcome, before.payloads, begins)):
            messages.append((reply_name(requests[0].run_id, address, part), said))
    return messages


def join_messages(messages: Sequence[tuple[str, Outbound]], channels: Collection[str]) -> list[tuple[str, Outbound]]:
    """The same messages, where all that goes to one address of these channels is one."""
    found: dict[Address | str, tuple[str, Outbound]] = {}
    for name, message in messages:
        where = message.to if message.to.channel in channels else name
        if where in found:
            first, before = found[where]
            text = "\n\n".join(filter(None, (before.text, message.text)))
            buttons = (*before.buttons, *message.buttons)
            message = structs.replace(before, text=text, media=(*before.media, *message.media), buttons=buttons)
            name = first
        found[where] = (name, message)
    return list(found.values())


def reply_name(run_id: str, address: Address, part: int = 0) -> str:
    """The name in the outbox of what the end of a run says."""
    return f"{place_of(run_id, address)}:{part}"


def alert_of(rules: AlertRules, outcome: RunOutcome) -> ReplyPayload | None:
    """What of a heartbeat's answer people are told: its last message, if it is more than an acknowledgement."""
    said = [payload for payload in outcome.payloads if payload.kind == "answer"]
    if outcome.status != "ok" or not said:
        return None
    text = said[-1].text.strip()
    acknowledges = outcome.acknowledged and len(text) <= rules.ack_chars
    return None if not said[-1].media and (acknowledges or text == rules.said_before.strip()) else said[-1]


def _said(request: RunRequest, outcome: RunOutcome, streamed: Sequence[ReplyPayload], prefix: str) -> list[Outbound]:
    if outcome.steered_into or outcome.stop_reason == "aborted":
        return []  # the run it went into answers, or a person has stopped it
    payloads = outcome.payloads
    if request.alert is not None:
        alert = alert_of(request.alert, outcome)
        payloads = (alert,) if alert is not None else ()
        outcome = structs.replace(outcome, status="ok")  # a heartbeat that failed is the log's business
    if outcome.status == "error" and not outcome.texts:
        assert request.reply_to is not None
        text = FAILURE_REPLY if request.origins else f"That did not work: {outcome.error}"
        return [Outbound(to=request.reply_to, text=text, reply_to=request.reply_to_id or None)]
    left = list(payloads)
    for payload in streamed:
        if payload in left:
            left.remove(payload)
    return [to_outbound(request, payload, prefix) for payload in left if payload.text.strip() or payload.media]


def to_outbound(request: RunRequest, payload: ReplyPayload, prefix: str = "") -> Outbound:
    """A payload as a message to the conversation that asked."""
    assert request.reply_to is not None
    return Outbound(
        to=request.reply_to,
        text=begin_with(prefix, payload.text) if payload.kind == "answer" else payload.text,
        media=payload.media,
        reply_to=payload.reply_to or request.reply_to_id or None,
        voice=payload.voice or request.voice,
        buttons=question_buttons(payload.asks) if payload.asks is not None else (),
    )


_VARIABLE = re.compile(r"\{([A-Za-z.]+)\}")
_VERSION = re.compile(r"-(\d{8}|latest)$")


def response_prefix(config: Config, agent: str, to: Address, provider: str, model: str, thinking: str) -> str:
    """What an answer of `agent` begins with where it goes; a variable nobody knows stays as it is written."""
    section = config.channels.get(to.channel)
    own = section.of(to.account).response_prefix if section is not None else None
    written = own if own is not None else config.messages.response_prefix
    if not written:
        return ""
    entry = next((each for each in config.agents.list if normalise_agent(each.id) == agent), None)
    name = (entry.identity.name or entry.name or "") if entry is not None else ""
    if written == "auto":
        return f"[{name}]" if name else ""
    known = {
        "model": _VERSION.sub("", model.rsplit("/", 1)[-1]),
        "modelfull": f"{provider}/{model}",
        "provider": provider,
        "thinkinglevel": thinking or "off",
        "think": thinking or "off",
        "identityname": name,
        "identity.name": name,
    }
    return _VARIABLE.sub(lambda found: known.get(found[1].lower(), found[0]), written)


def begin_with(prefix: str, text: str) -> str:
    """`text` behind `prefix`, which stands there once."""
    return f"{prefix} {text}" if prefix and text.strip() and not text.startswith(prefix) else text


def event_of_result(request: RunRequest, outcome: RunOutcome, now: int) -> Statement | None:
    """The write that tells the conversation `report_to` what came of a run; None when that is nothing."""
    said = outcome.texts[-1] if outcome.texts else outcome.error or ""
    if request.report_to is None or not said.strip() or outcome.steered_into:
        return None
    source = ", ".join(origin.source for origin in request.origins) or "a run"
    # Where it was delivered to a chat, the person has it: then the conversation learns of it with its next turn.
    sent = request.reply_to is not None
    line = sanitize_external_text(f"Result of {source}: {said}") + (" (already sent to the person)" if sent else "")
    wakes = "" if sent else request.report_wakes
    return insert_event(request.report_to, line, request.run_id, now, request.origins, wakes)


class AnswerStreams:
    """The answers that people see while they are written; whoever streams one enters it here."""

    def __init__(self) -> None:
        self._ends: dict[str, tuple[Address, Callable[[], StreamedReply]]] = {}

    def enter(self, run_id: str, to: Address, end: Callable[[], StreamedReply]) -> None:
        """`end` gives what was said by then, when the run has ended."""
        self._ends[run_id] = (to, end)

    def remove(self, run_id: str) -> None:
        self._ends.pop(run_id, None)

    def end(self, run_id: str) -> dict[Address, StreamedReply]:
        """What was said of a run's answer before its end, by conversation."""
        if run_id not in self._ends:
            return {}
        to, end = self._ends[run_id]
        return {to: end()}


class Outbox:
    """Messages to people on channels."""

    def __init__(
        self,
        db: Database,
        clock: Clock,
        me: Owner | None = None,
        policy: SendPolicy | None = None,
        live: LiveConfig | None = None,
    ) -> None:
        self._db = db
        self._clock = clock
        self._live = live
        self.routes = LastRoutes(db, clock, policy)
        self._owned = OwnedRows(db, "outbox", key="message_id", in_work="state = 'sending'", me=me)
        self.streams = AnswerStreams()

    def statements(self, messages: Sequence[tuple[str, Outbound]], run_id: str = "", key: str = "") -> list[Statement]:
        """The writes that put `messages` on record, for a transaction of somebody else's."""
        now = millis(self._clock)
        return [
            (
                _INSERT,
                {
                    "id": name,
                    "channel": message.to.channel,
                    "account": message.to.account,
                    "chat": message.to.to,
                    "thread": message.to.thread or "",
                    "run": run_id,
                    "key": key,
                    "body": msgspec.json.encode(message).decode(),
                    "now": now,
                },
            )
            for name, message in messages
        ]

    def end_of_run(self, asked: Sequence[RunRequest], outcome: RunOutcome, run_id: str, key: str) -> list[Statement]:
        """The writes that put the answer of a run on record, but for what was streamed."""
        told = [event_of_result(each, outcome, millis(self._clock)) for each in asked if each.report_to is not None]
        said = replies(asked, outcome, self.streams.end(run_id), self.prefix)
        if self._live is not None:
            channels = self._live.config.channels
            said = join_messages(said, [name for name, section in channels.items() if section.ONE_ANSWER])
        return [*self.statements(said, run_id, key), *(write for write in told if write is not None)]

    def prefix(self, request: RunRequest, provider: str, model: str, thinking: str) -> str:
        """What the answer to `request` begins with."""
        if self._live is None or request.reply_to is None or not provider:
            return ""
        return response_prefix(self._live.config, request.key.agent, request.reply_to, provider, model, thinking)

    async def put(self, message: Outbound, name: str = "", run_id: str = "", key: str = "") -> str:
        """Puts a message on record; the same name a second time is the same message."""
        name = name or str(uuid.uuid4())
        await self._db.write_all(*self.statements([(name, message)], run_id, key))
        await self.wake()
        return name

    async def wake(self) -> None:
        """Tells the sender that there is something to send."""
        await self._db.notify(TOPIC)

    def changes(self) -> Any:
        """Hears the name of a message whose state changed, and an empty one when there may be something to send."""
        return self._db.listen(TOPIC)

    async def has(self, name: str) -> bool:
        return bool(await self._db.look("SELECT 1 FROM outbox WHERE message_id = :id", {"id": name}))

    async def get(self, name: str) -> OutboxEntry:
        rows = await self._db.look("SELECT * FROM outbox WHERE message_id = :id", {"id": name})
        if not rows:
            raise NotFound(f"no message {name} in the outbox")
        return _entry(rows[0])

    async def change(self, entry: OutboxEntry, message: Outbound) -> OutboxEntry:
        """Puts another message in the place of one of which nothing has left yet."""
        await self._db.write(
            "UPDATE outbox SET body = :body WHERE message_id = :id",
            {"id": entry.id, "body": msgspec.json.encode(message).decode()},
        )
        return structs.replace(entry, message=message)

    async def said_by_tool(self, run_id: str, to: Address) -> str | None:
        """The name of the last message that the tools of a run have sent to an address; None without one."""
        rows = await self._db.look(
            "SELECT * FROM outbox WHERE message_id LIKE 'tool:' || :run || ':%' AND state <> 'refused' "
            "AND channel = :channel AND account = :account AND chat = :chat AND thread = :thread "
            "ORDER BY position DESC",
            _names_preview(run_id, to),
        )
        return next((entry.id for entry in map(_entry, rows) if entry.message.action == "send"), None)

    async def settled(self, name: str, seconds: float) -> OutboxEntry:
        """A message once it was sent or refused, or as it is after so many seconds."""
        deadline = self._clock.now() + seconds
        async with self.changes() as changes:
            entry = await self.get(name)
            while entry.state in ("pending", "sending", "unsure") and self._clock.now() < deadline:
                with suppress(Unavailable):
                    await with_timeout(anext(changes), deadline - self._clock.now(), self._clock, "delivery")
                entry = await self.get(name)
            return entry

    async def has_sent(self, to: Address, message_id: str) -> bool:
        """Whether we sent a message to that chat within the last week."""
        rows = await self._db.look(
            "SELECT body, receipts FROM outbox WHERE channel = :channel AND account = :account AND chat = :chat "
            "AND state <> 'pending' AND receipts LIKE :named",
            {"channel": to.channel, "account": to.account, "chat": to.to, "named": f"%{message_id}%"},
        )
        sent = [row for row in rows if msgspec.json.decode(row["body"], type=Outbound).action == "send"]
        every = [receipt for row in sent for receipt in msgspec.json.decode(row["receipts"], type=list[Receipt])]
        return any(receipt.id == message_id for receipt in every)

    async def has_spoken_in(self, to: Address) -> bool:
        """Whether we said anything in that thread within the last week."""
        rows = await self._db.look(
            "SELECT body FROM outbox WHERE channel = :channel AND account = :account AND chat = :chat "
            "AND state = 'sent' AND body LIKE :named",
            {"channel": to.channel, "account": to.account, "chat": to.to, "named": f"%{to.thread}%"},
        )
        return any(msgspec.json.decode(row["body"], type=Outbound).to.thread == to.thread for row in rows)

    async def first_waiting(self, accounts: Sequence[tuple[str, str]]) -> list[OutboxEntry]:
        """The first message of every conversation of these accounts that has one to send, the most urgent first.

        What waits for other accounts, and what waits behind the first, is not read.
        """
        found: list[Row] = []
        for channel, account in accounts:
            found += await self._db.look(
                "SELECT * FROM outbox WHERE position IN (SELECT MIN(position) FROM outbox WHERE channel = :channel "
                "AND account = :account AND state IN ('pending', 'sending', 'unsure') GROUP BY chat, thread) "
                "ORDER BY next_at, position LIMIT :most",
                {"channel": channel, "account": account, "most": MOST_AT_ONCE},
            )
        return [_entry(row) for row in found]

    def is_mine(self, entry: OutboxEntry) -> bool:
        """Whether this process is sending it."""
        return entry.owner == self._owned.me

    async def held(self) -> list[OutboxEntry]:
        """What an operator may decide on: messages whose fate is unknown, and those that were refused."""
        rows = await self._db.read(
            "SELECT * FROM outbox WHERE state = 'held' OR (state = 'refused' AND error <> :dropped) ORDER BY position",
            {"dropped": DROPPED},
        )
        return [_entry(row) for row in rows]

    async def without_end(self, kind: str) -> list[OutboxEntry]:
        """Messages called `kind:NAME` that were not refused, and to which no `kind-end:NAME` was put in."""
        rows = await self._db.read(
            "SELECT * FROM outbox AS o WHERE o.message_id LIKE :kind || ':%' AND o.state <> 'refused' AND NOT EXISTS "
            "(SELECT 1 FROM outbox AS e WHERE e.message_id = "
            ":kind || '-end' || substr(o.message_id, CAST(:place AS INTEGER)))",
            {"kind": kind, "place": len(kind) + 1},
        )
        return [_entry(row) for row in rows]

    async def take_over(self) -> int:
        """Marks what processes that are gone were sending as unsure; gives how many there were."""
        found = [_entry(row) for row in await self._owned.take()]
        for entry in found:
            await self.doubt(entry, "the gateway ended while it was sent")
        return len(found)

    async def begin(self, entry: OutboxEntry) -> bool:
        """Claims a message before its next piece leaves; false when somebody has it, or had it since it was read."""
        claimed = await self._db.write(
            "UPDATE outbox SET state = 'sending', owner = :me, attempts = attempts + 1, pieces = :pieces, "
            "updated_at = :now WHERE message_id = :id AND state IN ('pending', 'unsure') AND attempts = :tried",
            {
                "id": entry.id,
                "tried": entry.attempts,
                "me": self._owned.me,
                "pieces": msgspec.json.encode(entry.pieces or ("",)).decode(),
                "now": millis(self._clock),
            },
        )
        if claimed:
            await self._db.sync()  # after a power cut it must be known that it may have left
        return bool(claimed)

    async def arrived(self, entry: OutboxEntry, receipts: Sequence[Receipt], *, last: bool) -> None:
        """The next piece is there; a preview that it took the place of is an ordinary message from now on."""
        await self._change(entry, state="sent" if last else "pending", receipts=receipts)

    # The message that shows an answer while it is written.

    async def preview_of(self, entry: OutboxEntry) -> str | None:
        """The preview whose place the first piece of `entry` takes: that of its run, in its conversation."""
        if not entry.run_id or entry.receipts or entry.message.action != "send":
            return None
        return await self.preview(entry.run_id, entry.message.to)

    async def preview(self, run_id: str, to: Address) -> str | None:
        rows = await self._db.look(f"SELECT message_id FROM previews WHERE {_PREVIEW}", _names_preview(run_id, to))  # noqa: S608
        return str(rows[0]["message_id"]) if rows else None

    async def next_preview(self, run_id: str, to: Address) -> int | None:
        """The number of the preview that a run may show now; None when something of it waits to be sent, or it ended.

        It counts the messages that were finished before: a run that is taken up after a kill comes to the same number.
        """
        rows = await self._db.read(
            "SELECT COUNT(*) AS sent, COALESCE(SUM(CASE WHEN state IN ('sent', 'refused') THEN 0 ELSE 1 END), 0) AS "  # noqa: S608
            "waiting, (SELECT COUNT(*) FROM inputs WHERE run_id = :run AND state IN ('queued', 'running')) AS alive "
            f"FROM outbox WHERE {_PREVIEW}",
            _names_preview(run_id, to),
        )
        return int(rows[0]["sent"]) if rows[0]["alive"] and not rows[0]["waiting"] else None

    async def record_preview(self, run_id: str, to: Address, message_id: str) -> None:
        await self._db.write(
            "INSERT INTO previews (run_id, channel, account, chat, thread, message_id, created_at) VALUES "
            "(:run, :channel, :account, :chat, :thread, :id, :now) ON CONFLICT DO NOTHING",
            {**_names_preview(run_id, to), "id": message_id, "now": millis(self._clock)},
        )

    async def forget_preview(self, run_id: str, to: Address) -> None:
        await self._db.write(f"DELETE FROM previews WHERE {_PREVIEW}", _names_preview(run_id, to))  # noqa: S608

    async def left_previews(self) -> list[tuple[str, Address, str]]:
        """Previews whose place nothing will take: their run has ended, and nothing of it waits to be sent."""
        rows = await self._db.read(
            "SELECT * FROM previews AS p WHERE NOT EXISTS (SELECT 1 FROM inputs AS i WHERE i.run_id = p.run_id AND "
            "i.state IN ('queued', 'running')) AND NOT EXISTS (SELECT 1 FROM outbox AS o WHERE o.run_id = p.run_id "
            "AND o.channel = p.channel AND o.account = p.account AND o.chat = p.chat AND o.thread = p.thread "
            "AND o.state NOT IN ('sent', 'refused'))"
        )
        return [
            (
                row["run_id"],
                Address(channel=row["channel"], to=row["chat"], account=row["account"], thread=row["thread"] or None),
                row["message_id"],
            )
            for row in rows
        ]

    async def postpone(self, entry: OutboxEntry, until: int, why: str) -> None:
        await self._change(entry, state="pending", next_at=until, error=why)

    async def doubt(self, entry: OutboxEntry, why: str, until: int = 0) -> None:
        """It left, and nobody knows whether it arrived; nothing changes when it went on since `entry` was read."""
        await self._change(entry, as_read=True, state="unsure", next_at=until, error=why)

    async def count_doubled(self, entry: OutboxEntry) -> None:
        """A piece is sent again that may have arrived."""
        await self._change(entry, as_read=True, state="pending", doubled=entry.doubled + 1)

    async def refuse(self, entry: OutboxEntry, why: str) -> None:
        await self._change(entry, state="refused", error=why)

    async def hold(self, entry: OutboxEntry, why: str) -> None:
        """Keeps a message whose fate is unknown until an operator sends or drops it."""
        await self._change(entry, as_read=True, state="held", error=why)

    async def release(self, name: str) -> None:
        """An operator's word: a message that is held or was refused is sent after all."""
        sets = "state = 'pending', attempts = 0, error = ''"
        await self._decide(name, sets, "state IN ('held', 'refused')", "is not held")

    async def drop(self, name: str) -> None:
        """An operator's word: a message is not sent."""
        sets = f"state = 'refused', error = '{DROPPED}'"
        await self._decide(name, sets, "state NOT IN ('sent', 'sending')", "has left already")

    async def _decide(self, name: str, sets: str, allowed: str, otherwise: str) -> None:
        changed = await self._db.write(
            f"UPDATE outbox SET {sets}, owner = '', next_at = :now, updated_at = :now "  # noqa: S608
            f"WHERE message_id = :id AND {allowed}",
            {"id": name, "now": millis(self._clock)},
        )
        if not changed:
            entry = await self.get(name)
            raise Conflict(f"the message to {entry.message.to.to} {otherwise}: it is {entry.state}")
        await self.wake()

    async def counts(self) -> dict[tuple[str, str], OutboxCounts]:
        """What is in the outbox, by channel and account."""
        rows = await self._db.read(
            "SELECT channel, account, state, COUNT(*) AS count, SUM(doubled) AS doubled, MAX(updated_at) AS last "
            "FROM outbox GROUP BY channel, account, state"
        )
        found: dict[tuple[str, str], OutboxCounts] = {}
        for row in rows:
            counted = found.setdefault((row["channel"], row["account"]), OutboxCounts())
            counted.doubled += row["doubled"] or 0
            match row["state"]:
                case "sent":
                    counted.sent, counted.last_sent_at = row["count"], row["last"]
                case "held":
                    counted.held = row["count"]
                case "refused":
                    counted.refused = row["count"]
                case _:
                    counted.waiting += row["count"]
        return found

    async def forget_old(self) -> int:
        """Drops what arrived long ago, and previews that no answer took the place of; what is held stays."""
        before = {"before": millis(self._clock) - SENT_KEPT_MS}
        gone, _ = await self._db.write_all(
            ("DELETE FROM outbox WHERE state IN ('sent', 'refused') AND updated_at < :before", before),
            ("DELETE FROM previews WHERE created_at < :before", {"before": millis(self._clock) - PREVIEWS_KEPT_MS}),
        )
        return gone

    async def _change(self, entry: OutboxEntry, *, as_read: bool = False, **fields: Any) -> None:
        if "receipts" in fields:
            fields["receipts"] = msgspec.json.encode(list(fields["receipts"])).decode()
        fields = {"owner": "", "updated_at": millis(self._clock), **fields}
        sets = ", ".join(f"{name} = :{name}" for name in fields)
        only = " AND state = :was AND attempts = :tried" if as_read else ""
        params = {"id": entry.id, "was": entry.state, "tried": entry.attempts, **fields}
        writes: list[Statement] = [(f"UPDATE outbox SET {sets} WHERE message_id = :id{only}", params)]  # noqa: S608
        if entry.run_id and "receipts" in fields:
            gone = _names_preview(entry.run_id, entry.message.to)
            writes.append((f"DELETE FROM previews WHERE {_PREVIEW}", gone))  # noqa: S608
        await self._db.write_all(*writes)
        await self._db.notify(TOPIC, entry.id)
