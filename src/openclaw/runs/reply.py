"""Shapes a model's raw text into what people see; the only place that does. Pure but for its state of the run.

`ReplyShaper` takes the events of a run and emits them without raw text: `TextShaped` for words, `ThoughtShaped` for
reasoning (only when the session asked for it), `ReplyShaped` for a finished message. Every consumer behind it gets
only these types. The transcript is written before this point and keeps the text as it came.
"""

import logging
from collections.abc import Callable, Collection, Mapping
from typing import Any

from msgspec import Struct, structs

from openclaw.core.channel import Address
from openclaw.core.events import (
    AttemptFailed,
    Event,
    MessageEnded,
    ModelCalled,
    PlainEvent,
    RunEnded,
    RunNotice,
    TextDelta,
    ThinkingDelta,
    ToolEnded,
)
from openclaw.core.messages import Assistant, Thinking, ToolCall, Usage
from openclaw.runs.request import AlertRules
from openclaw.sessions import reply_text as shapes
from openclaw.sessions.reply_parse import HEARTBEAT, Directives
from openclaw.sessions.reply_text import (
    ReplyOptions,
    ReplyPayload,
    ReplyStream,
    ShapedReply,
    is_duplicate,
    normalise_media,
    shape,
)

log = logging.getLogger(__name__)

MESSAGING_TOOLS = frozenset({"message"})
_SENDS = frozenset({"", "send", "reply", "thread-reply", "sendattachment", "upload-file"})
_TELLS = _SENDS | {"broadcast", "poll"}
THOUGHT_ONLY = "The model thought about it, but wrote no answer. Ask again; /reasoning on shows what it thought."
_WRAPPERS = "*_~`\"'.!,:;-–— \t\r\n"
_ELSEWHERE = ("to", "target", "targets", "channel", "accountId", "threadId")


def acknowledges(text: str) -> bool:
    """Whether a message begins or ends with HEARTBEAT_OK."""
    bare = text.upper().strip(_WRAPPERS)
    return bare.startswith(HEARTBEAT) or bare.endswith(HEARTBEAT)


def is_quiet(rules: AlertRules, text: str) -> bool:
    """Whether the last message of a heartbeat is nothing to tell: an acknowledgement, silence, or said before."""
    shaped = shape(text)
    if shaped.directives.media:
        return False
    said = shaped.text.strip()
    return not said or said == rules.said_before.strip() or (acknowledges(text) and len(said) <= rules.ack_chars)


class TextShaped(Struct, frozen=True):
    """Text to append to the message being written."""

    text: str


class ThoughtShaped(Struct, frozen=True):
    """Reasoning as it is written, for a session that shows it."""

    text: str


class ReplyShaped(Struct, frozen=True, kw_only=True):
    """A message is complete. `text` is all of it that people see; empty when the model chose silence."""

    text: str = ""
    payload: ReplyPayload | None = None
    reasoning: str = ""
    silent: bool = False
    calls: tuple[ToolCall, ...] = ()
    usage: Usage = Usage()
    provider: str = ""
    model: str = ""


class NoteShaped(Struct, frozen=True):
    """A note of the runtime beside the answer: a tool summary, or the failure when there is no answer."""

    payload: ReplyPayload


ShapedEvent = TextShaped | ThoughtShaped | ReplyShaped | NoteShaped | PlainEvent

_PLAIN = ReplyOptions()


class ReplyShaper:
    """Shapes the events of one run."""

    def __init__(
        self,
        manner: ReplyOptions = _PLAIN,
        not_ours: Collection[str] = (),
        proofread: Callable[[str], str] = str,
        here: Address | None = None,
    ) -> None:
        self._manner = manner
        self._proofread = proofread
        """The last look at an answer before it leaves."""
        self._not_ours = frozenset(not_ours)
        """Functions of the caller: whatever they are called, they deliver nothing."""
        self._here = here
        """Where the answer goes: what a messaging tool sends there needs no answer that repeats it."""
        self.sent: list[str] = []
        """What a messaging tool has said to the conversation the answer goes to."""
        self._spoke = False
        """Whether a messaging tool has told anybody anything."""
        self._hidden = False
        """Whether the last message was nothing but reasoning."""
        self.notices: list[str] = []
        """What the person should know of the answer, beside what the run says itself."""
        self._sent_media: set[str] = set()
        self._begin()
        self._failed: ToolEnded | None = None
        self._payloads: list[ReplyPayload] = []
        self._silent = False
        self.acknowledged = False
        """Whether the last message began or ended with HEARTBEAT_OK."""

    @property
    def payloads(self) -> tuple[ReplyPayload, ...]:
        """What is delivered, in order of their kinds: reasoning, tools, answers, notices, errors."""
        return tuple(each for kind in shapes.KINDS for each in self._payloads if each.kind == kind)

    @property
    def texts(self) -> tuple[str, ...]:
        """The answers, message by message."""
        return tuple(each.text for each in self._payloads if each.kind in ("answer", "error") and each.text)

    @property
    def silent(self) -> bool:
        """Whether the model chose silence, and nothing else was said."""
        return self._silent and not self._answered

    @property
    def _answered(self) -> bool:
        return any(payload.kind in ("answer", "error") for payload in self._payloads)

    def take(self, event: Event) -> list[ShapedEvent]:
        """The event as people may see it: none, one or several events."""
        match event:
            case TextDelta(text=text):
                words, thoughts = self._stream.feed(text)
                shown: list[ShapedEvent] = []
                if words and not self._quiet:
                    self._given.append(words)
                    shown.append(TextShaped(words))
                return [ThoughtShaped(thoughts), *shown] if thoughts and self._manner.reasoning == "stream" else shown
            case ThinkingDelta(text=text):
                return [ThoughtShaped(text)] if text and self._manner.reasoning == "stream" else []
            case MessageEnded(message=message):
                return self._ended(message)
            case ModelCalled() | AttemptFailed():
                self._begin()
                return [event]
            case ToolEnded():
                return [event, *self._tool(event)]
            case RunNotice(text=text, delivered=True):
                return [event, self._note(text)]
            case RunEnded():
                return [event] if event.error else [*self._last_word(), event]
            case _:
                return [event]

    def _begin(self) -> None:
        """Starts a new message."""
        self._stream = ReplyStream(self._manner.enforce_final, self._proofread)
        self._given: list[str] = []
        """What people have seen of it."""
        self._quiet = bool(self.sent) or self._manner.by_tool
        """Nothing of it is shown before its end: it may only repeat what a tool has sent."""

    def _ended(self, message: Assistant) -> list[ShapedEvent]:
        finished = message.stop_reason in ("stop", "toolUse")
        shaped = shape(message.text, enforce_final=self._manner.enforce_final, finished=finished)
        if HEARTBEAT in message.text.upper() and HEARTBEAT not in shaped.text.upper():
            log.info("took a stray %s out of an answer", HEARTBEAT)
        if self._manner.by_tool and message.asks is None:
            shaped = structs.replace(shaped, text="", reasoning="", silent=True, directives=Directives())
        elif self.sent and is_duplicate(shaped.text, self.sent):
            shaped = structs.replace(shaped, text="", silent=True)
        elif "#" in shaped.text:
            shaped = structs.replace(shaped, text=self._proofread(shaped.text))
        self._silent = shaped.silent
        self._hidden = bool(shaped.reasoning.strip()) and not (shaped.silent or shaped.text.strip() or message.calls)
        self.acknowledged = HEARTBEAT in message.text.upper() and acknowledges(message.text)
        directives = shaped.directives
        if self._sent_media:
            media = tuple(each for each in directives.media if normalise_media(each) not in self._sent_media)
            directives = structs.replace(directives, media=media)
        payload = shapes.answer_payload(shaped.text, directives)
        if payload is not None and message.asks is not None:
            payload = structs.replace(payload, asks=message.asks)
        reasoning = self._reasoning(message, shaped) if self._manner.reasoning == "on" else ""
        if reasoning:
            self._payloads.append(shapes.reasoning(reasoning))
        if payload is not None:
            self._payloads.append(payload)
        given = "".join(self._given)
        rest = shaped.text.removeprefix(given) if shaped.text.startswith(given) else ""
        self._begin()
        replied = ReplyShaped(
            text=shaped.text,
            payload=payload,
            reasoning=reasoning,
            silent=shaped.silent,
            calls=message.calls,
            usage=message.usage,
            provider=message.provider,
            model=message.model,
        )
        return [*([TextShaped(rest)] if rest else []), replied]

    def _reasoning(self, message: Assistant, shaped: ShapedReply) -> str:
        native = [block.thinking for block in message.content if isinstance(block, Thinking) and not block.redacted]
        return "\n\n".join(part.strip() for part in (*native, shaped.reasoning) if part.strip())

    def _tool(self, ended: ToolEnded) -> list[ShapedEvent]:
        self._failed = ended if ended.result.is_error else None
        if ended.call.name in MESSAGING_TOOLS - self._not_ours and not ended.result.is_error:
            self._spoke = self._spoke or str(ended.call.arguments.get("action") or "").lower() in _TELLS
            self._delivered(ended.call.arguments)
            self._begin()
        if self._manner.verbose == "off":
            return []
        payload = shapes.tool_summary(ended.call, ended.result, self._manner.verbose)
        self._payloads.append(payload)
        return [NoteShaped(payload)]

    def _delivered(self, arguments: Mapping[str, Any]) -> None:
        """Remembers what a messaging tool sent into this very conversation."""
        action = str(arguments.get("action") or "").lower()
        if action not in _SENDS or not self._is_here(arguments):
            return
        text = next((arguments[name] for name in ("message", "text", "content", "caption") if arguments.get(name)), "")
        self.sent.append(str(text))
        files = arguments.get("attachments") or ()
        media = [arguments.get(name) for name in ("media", "mediaUrl", "filePath", "path")]
        media += [file.get("media") for file in files if isinstance(file, Mapping)] if isinstance(files, list) else []
        self._sent_media |= {normalise_media(each) for each in media if isinstance(each, str) and each}

    def _is_here(self, arguments: Mapping[str, Any]) -> bool:
        """Whether a messaging tool was told to send to where the answer goes; it is when it was told nowhere."""
        named = {name: str(arguments[name]) for name in _ELSEWHERE if arguments.get(name)}
        here = self._here
        if not named or here is None:
            return not named
        own = {"channel": here.channel, "accountId": here.account, "threadId": here.thread or ""}
        chats = (here.to, f"{here.channel}:{here.to}")
        return all(value == own[name] if name in own else value in chats for name, value in named.items())

    def _last_word(self) -> list[ShapedEvent]:
        """What a run without an answer ends with: its last tool's failure, or that there was only reasoning."""
        if self._answered or self._spoke:
            return []
        if self._failed is not None:
            payload = shapes.tool_failure(self._failed.call, self._failed.result, self._manner.verbose)
            self._payloads.append(payload)
            return [NoteShaped(payload)]
        if self._hidden:
            self.notices.append(THOUGHT_ONLY)
            return [self._note(THOUGHT_ONLY)]
        return []

    def _note(self, text: str) -> NoteShaped:
        payload = ReplyPayload(text=text, kind="notice")
        self._payloads.append(payload)
        return NoteShaped(payload)
