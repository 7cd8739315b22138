"""The state of a conversation in the terminal: recorded messages, the one streaming in, those not yet recorded.

Messages are keyed by the gateway's id, so one that arrives twice is shown once. Takes events and history pages in
their wire form; touches no socket and no screen.
"""

from bisect import insort
from collections.abc import Mapping
from operator import attrgetter
from typing import Any, Literal

from msgspec import Struct, structs

from openclaw.cli.tui.rows import Item, TextItem, ToolItem, Who, card, message_items
from openclaw.cli.tui.text import one_line, sanitize, text_of
from openclaw.core.commands import is_command

Json = Mapping[str, Any]
ENDS = ("final", "aborted", "error")
WHOLE_CHARS = 200_000
"""Beyond this the gateway sends only the end of a run's text."""
MOST_ROWS = 300


class Pending(Struct, frozen=True, kw_only=True):
    """A message of ours that is not recorded yet."""

    run_id: str
    text: str
    images: tuple[Json, ...] = ()
    sent: bool = False
    """It was sent; whether it arrived is not known."""
    problem: str = ""

    @property
    def shown(self) -> str:
        count = len(self.images)
        return f"{self.text}\n[{count} image{'s' if count > 1 else ''}]".strip() if count else self.text

    def hint(self, busy: bool) -> str:
        """Its delivery state, as a hint."""
        if self.problem:
            return f"not delivered: {one_line(self.problem)}"
        if not self.sent:
            return "goes out when the gateway is back"
        return "waits for the next step" if busy else "sent"


class _Row(Struct, frozen=True, kw_only=True):
    key: str
    id: str
    seq: float
    message: Json


class _Live(Struct, frozen=True, kw_only=True):
    """The run in progress."""

    run_id: str
    number: int = 0
    """Index of the message being written within the run."""
    whole: str = ""
    """All text of the run so far."""
    base: int = 0
    """How much of it is in recorded messages."""
    thinking: str = ""
    note: str = ""

    @property
    def key(self) -> str:
        return f"{self.run_id}#{self.number}"

    @property
    def text(self) -> str:
        return self.whole[self.base :].lstrip("\n")


class ChatConversation:
    """One conversation."""

    def __init__(self) -> None:
        self.key = ""
        self.pending: list[Pending] = []
        self.more = False
        """Whether the gateway has older messages."""
        self.problem = ""
        self._rows: list[_Row] = []
        self._results: dict[str, Json] = {}
        self._tools: dict[str, ToolItem] = {}
        self._live: _Live | None = None
        self._replies: list[tuple[float, TextItem]] = []
        self._ended: set[str] = set()

    @property
    def running(self) -> str:
        """The id of the run in progress, or an empty string."""
        return self._live.run_id if self._live else ""

    @property
    def note(self) -> str:
        """A notice of the run beside its answer, such as that it tries another model."""
        return self._live.note if self._live else ""

    @property
    def held(self) -> int:
        """How many recorded messages are held: the offset of the next older page."""
        return len(self._rows)

    @property
    def asked(self) -> list[str]:
        """The people's messages, the oldest first."""
        said = [text_of(row.message).strip() for row in self._rows if row.message.get("role") == "user"]
        return [text for text in said if text]

    @property
    def last_answer(self) -> str:
        """The assistant's last answer."""
        for row in reversed(self._rows):
            if row.message.get("role") == "assistant" and (text := text_of(row.message).strip()):
                return text
        return ""

    def load(self, history: Json) -> None:
        """Starts again from the gateway's record; messages not yet sent stay."""
        key = str(history.get("sessionKey", ""))
        if key != self.key:
            self.pending, self._replies, self.problem = [], [], ""
        self.key = key
        keys = {row.id: row.key for row in self._rows}
        self._rows, self._results = [], {}
        self.page(history, keys)
        if self._rows and self._rows[-1].message.get("errorMessage"):
            self.problem = ""  # it is recorded
        running = history.get("inFlightRun")
        self._live = None
        if isinstance(running, Mapping) and str(running.get("runId")) not in self._ended:
            whole = str(running.get("text") or "")
            self._live = _Live(run_id=str(running.get("runId")), number=-1, whole=whole, base=self._recorded(whole))
        else:
            self._tools = {}

    def page(self, history: Json, keys: Mapping[str, str] | None = None) -> None:
        """Adds an older page."""
        for message in history.get("messages") or ():
            self._add(message, keys or {})
        self.more = bool(history.get("hasMore"))

    def trim(self) -> None:
        """Drops the oldest messages of a long conversation; they can be paged in again."""
        if len(self._rows) > MOST_ROWS:
            self._rows = self._rows[-MOST_ROWS // 2 :]
            self.more = True

    def marks(self, run_id: str, **changes: Any) -> None:
        """Updates the delivery state of a message."""
        self.pending = [structs.replace(p, **changes) if p.run_id == run_id else p for p in self.pending]

    def answered(self, run_id: str, text: str) -> None:
        """Shows a reply of the gateway itself, which is not recorded."""
        asked = self.forget(run_id)
        if asked is not None:
            self.note_locally(f"{run_id}?", asked.text, "you")
        if text.strip():
            self.note_locally(f"{run_id}!", text)

    def note_locally(self, key: str, text: str, who: Who = "gateway") -> None:
        """Adds a line that is not recorded."""
        seq = self._rows[-1].seq if self._rows else 0
        self._replies.append((seq, TextItem(key=key, who=who, text=sanitize(text))))

    def forget(self, run_id: str) -> Pending | None:
        """Takes a message off the waiting list."""
        found = next((each for each in self.pending if each.run_id == run_id), None)
        self.pending = [each for each in self.pending if each is not found]
        return found

    def hear(self, event: str, payload: Json) -> None:
        """Applies an event of the gateway; ignores those of other conversations."""
        if payload.get("sessionKey") != self.key:
            return
        match event:
            case "session.message":
                self._hear_recorded(payload)
            case "agent":
                self._hear_agent(payload)
            case "chat":
                self._hear_chat(payload)

    def _hear_recorded(self, payload: Json) -> None:
        message = payload.get("message") or {}
        live = self._live
        keys: dict[str, str] = {}
        if live is not None and message.get("role") == "assistant" and live.run_id == payload.get("runId"):
            if live.text:
                keys = {str(payload.get("messageId")): live.key}
            number = live.number + 1 if live.text else live.number
            self._live = structs.replace(live, number=number, base=len(live.whole), thinking="")
        self._add(message, keys)

    def _hear_agent(self, payload: Json) -> None:
        run_id, stream = str(payload.get("runId")), payload.get("stream")
        data = payload.get("data") or {}
        if run_id in self._ended:
            return
        if stream == "tool":
            self._hear_tool(data)
            return
        if stream == "lifecycle" and data.get("phase") in ("end", "error"):
            return
        live = self._live
        if live is None or live.run_id != run_id:
            self.problem = ""
            live = self._live = _Live(run_id=run_id)
        if stream == "assistant":
            whole = str(data.get("text", ""))
            if len(whole) >= WHOLE_CHARS:
                whole = live.whole + str(data.get("delta", ""))
            self._live = structs.replace(live, whole=whole, note="")
        elif stream == "thinking":
            self._live = structs.replace(live, thinking=str(data.get("text", "")))
        elif stream == "compaction":
            self._live = structs.replace(live, note="summarising" if data.get("phase") == "start" else "")
        elif stream == "lifecycle" and data.get("phase") == "fallback_step":
            note = one_line(f"{data.get('provider')}/{data.get('model')}: {data.get('error')}")
            self._live = structs.replace(live, whole=live.whole[: live.base], thinking="", note=note)
        elif stream == "lifecycle" and data.get("phase") == "model":
            self._live = structs.replace(live, note="")

    def _hear_tool(self, data: Json) -> None:
        call, phase = str(data.get("toolCallId")), data.get("phase")
        known = self._tools.get(call) or ToolItem(name=str(data.get("name", "")))
        if phase == "start":
            known = structs.replace(known, args=data.get("args"))
        elif phase == "update":
            known = structs.replace(known, output=text_of(data.get("partialResult")))
        elif phase == "result":
            state: Literal["done", "failed"] = "failed" if data.get("isError") else "done"
            known = structs.replace(known, output=text_of(data.get("result")), state=state)
        self._tools[call] = known

    def _hear_chat(self, payload: Json) -> None:
        run_id, state = str(payload.get("runId")), payload.get("state")
        if state not in ENDS:
            return
        self._ended.add(run_id)
        waiting = next((each for each in self.pending if each.run_id == run_id), None)
        if waiting is not None:
            if state == "final" and is_command(waiting.text):
                self.answered(run_id, text_of(payload.get("message")))
            elif state == "aborted":
                self.marks(run_id, problem="stopped before it was read")
            else:
                # It was merged with others and is recorded with them.
                self.forget(run_id)
        if notices := payload.get("notices"):
            self._noted(run_id, notices)
        if self._live is not None and self._live.run_id == run_id:
            self._live = None
            self.problem = str(payload.get("errorMessage") or "the run failed") if state == "error" else ""
            self._tools = {
                call: tool if tool.state != "running" else structs.replace(tool, state="failed")
                for call, tool in self._tools.items()
            }

    def _noted(self, run_id: str, notices: Any) -> None:
        """Attaches the notices of a run to its last message."""
        for row in reversed(self._rows):
            about = row.message.get("__openclaw") or {}
            if about.get("runId") == run_id:
                self._add({**row.message, "__openclaw": {**about, "notices": notices}}, {})
                return

    def _add(self, message: Json, keys: Mapping[str, str]) -> None:
        about = message.get("__openclaw") or {}
        identity = str(about.get("id") or message.get("timestamp"))
        asked = str(message.get("idempotencyKey") or about.get("idempotencyKey") or "").removesuffix(":user")
        key = keys.get(identity) or next((row.key for row in self._rows if row.id == identity), "")
        if asked and self.forget(asked) is not None:
            key = key or asked
        if message.get("role") == "toolResult":
            self._results[str(message.get("toolCallId"))] = message
        row = _Row(key=key or identity, id=identity, seq=float(about.get("seq") or 0), message=message)
        self._rows = [each for each in self._rows if each.id != identity]
        insort(self._rows, row, key=attrgetter("seq"))

    def _recorded(self, whole: str) -> int:
        """How much of a run's text is in the messages after the last question."""
        last = max((n for n, row in enumerate(self._rows) if row.message.get("role") == "user"), default=-1)
        base = 0
        for row in self._rows[last + 1 :]:
            said = text_of(row.message) if row.message.get("role") == "assistant" else ""
            skipped = len(whole) - len(whole[base:].lstrip("\n"))
            if said and whole.startswith(said, skipped):
                base = skipped + len(said)
        return base

    def items(self) -> list[Item]:
        """The items on the screen, in order."""
        shown: list[Item] = []
        called: set[str] = set()
        first = self._rows[0].seq if self._rows else 0.0
        replies = [(seq, said) for seq, said in self._replies if seq >= first or not self.more]
        for row in self._rows:
            while replies and replies[0][0] < row.seq:
                shown.append(replies.pop(0)[1])
            shown += self._shown(row, called)
        shown += [said for _, said in replies]
        live = self._live
        if live is not None and (live.text or live.thinking):
            text, thinking = sanitize(live.text), sanitize(live.thinking)
            shown.append(TextItem(key=live.key, who="assistant", text=text, thinking=thinking))
        if self.problem:
            shown.append(TextItem(key="problem", who="problem", text=sanitize(self.problem)))
        for each in self.pending:
            shown.append(TextItem(key=each.run_id, who="you", text=sanitize(each.shown), hint=each.hint(bool(live))))
        return shown

    def _shown(self, row: _Row, called: set[str]) -> list[Item]:
        """A recorded message with the cards of its calls; a result whose call is missing gets a card of its own."""
        message = row.message
        calls: list[tuple[str, str, Any]] = []
        if message.get("role") == "toolResult":
            call = str(message.get("toolCallId"))
            calls = [] if call in called else [(call, str(message.get("toolName", "")), None)]
        elif message.get("role") == "assistant" and isinstance(content := message.get("content"), list):
            blocks = [block for block in content if isinstance(block, Mapping) and block.get("type") == "toolCall"]
            calls = [(str(block.get("id")), str(block.get("name", "")), block.get("arguments")) for block in blocks]
        called.update(call for call, _, _ in calls)
        busy = self._live is not None
        cards = [
            card(call, name, args, self._tools.get(call), self._results.get(call), busy) for call, name, args in calls
        ]
        return [*message_items(row.key, message), *cards]
