"""Messages in and out as plugins see them: what comes in is told, what goes out may be reworded or held back.

Where a plugin listens to what goes out, a reply is not shown word by word: it is held until it is whole and agreed to.
The transcript keeps what the model wrote.
"""

from collections.abc import Sequence

from msgspec import structs

from openclaw.core.clock import Clock, millis
from openclaw.core.hooks import HookContext, MessageReceived, MessageSending, MessageSent
from openclaw.delivery import shape as shapes
from openclaw.delivery.shape import ReplyPayload
from openclaw.hooks import points
from openclaw.hooks.dispatch import HookDispatcher
from openclaw.hooks.merge import SendingMerged
from openclaw.trust.auditlog import AuditLog
from openclaw.turns.hooking import audit_change, context_of
from openclaw.turns.ledger import RunOutcome
from openclaw.turns.shaping import NoteShaped, ReplyShaped, ShapedEvent, TextShaped, ThoughtShaped
from openclaw.turns.turn import RunRequest


class MessageHooks:
    """The message points of this process."""

    def __init__(self, hooks: HookDispatcher, audit: AuditLog, clock: Clock) -> None:
        self._hooks = hooks
        self._audit = audit
        self._clock = clock

    def received(self, turn: RunRequest) -> None:
        """Tells of what a person wrote; errands of the gateway itself are no messages."""
        if turn.trigger != "user" or turn.compact is not None or not self._hooks.has("message_received"):
            return
        event = MessageReceived(sender=turn.channel or "local", content=turn.text, timestamp=millis(self._clock))
        self._hooks.tell("message_received", event, context_of(turn))

    def outgoing(self, turn: RunRequest) -> "OutgoingMessage | None":
        """Who has a say in what `turn` says; None when nobody has."""
        return OutgoingMessage(self, str(turn.key), context_of(turn)) if self._hooks.has("message_sending") else None

    async def decided(self, to: str, text: str, context: HookContext) -> SendingMerged:
        """What becomes of one message; on record when it is not what it was."""
        merged = await self._hooks.ask(points.SENDING, MessageSending(to=to, content=text), context)
        if merged.changes:
            deeds = [audit_change("message_sending", change, note=f"to {to}") for change in merged.changes]
            await self._audit.record(deeds, run_id=context.run_id, session_key=context.session_key)
        return merged

    def sent(self, turn: RunRequest, payloads: Sequence[ReplyPayload]) -> None:
        """Tells of everything that was delivered."""
        if self._hooks.has("message_sent"):
            for payload in payloads:
                self.tell_sent(str(turn.key), payload.text, context_of(turn))

    def tell_sent(self, to: str, text: str, context: HookContext, error: str | None = None) -> None:
        if self._hooks.has("message_sent"):
            event = MessageSent(to=to, content=text, success=error is None, error=error)
            self._hooks.tell("message_sent", event, context)


class OutgoingMessage:
    """What one run says, held until plugins have agreed to it."""

    def __init__(self, messages: MessageHooks, to: str, context: HookContext) -> None:
        self._messages = messages
        self._to = to
        self._context = context
        self._known: dict[str, str | None] = {}
        """What became of each text: it is shown as it comes and delivered at the end, and decided once."""

    async def take(self, event: ShapedEvent) -> list[ShapedEvent]:
        """The event as it may be seen."""
        match event:
            case TextShaped() | ThoughtShaped():
                return []
            case ReplyShaped():
                return await self._replied(event)
            case NoteShaped(payload=payload):
                allowed = await self._allowed(payload)
                return [NoteShaped(allowed)] if allowed is not None else []
            case _:
                return [event]

    async def settled(self, outcome: RunOutcome) -> RunOutcome:
        """The outcome with what may be delivered."""
        payloads = await self.allowed(outcome.payloads)
        texts = tuple(each.text for each in payloads if each.kind in ("answer", "error") and each.text)
        return structs.replace(
            outcome, payloads=payloads, texts=texts, silent=outcome.silent or bool(outcome.texts and not texts)
        )

    async def allowed(self, payloads: Sequence[ReplyPayload]) -> tuple[ReplyPayload, ...]:
        """What of `payloads` is delivered, in the words it is delivered in."""
        decided = [await self._allowed(each) for each in payloads]
        return tuple(each for each in decided if each is not None)

    async def _replied(self, event: ReplyShaped) -> list[ShapedEvent]:
        reasoning = event.reasoning
        if reasoning:
            shown = await self._allowed(shapes.reasoning(reasoning))
            reasoning = "" if shown is None else shown.text.removeprefix("Reasoning:\n")
        if event.payload is None:
            return [structs.replace(event, text="", reasoning=reasoning)]
        payload = await self._allowed(event.payload)
        if payload is None:
            return [structs.replace(event, text="", payload=None, reasoning=reasoning, silent=True)]
        said = [TextShaped(payload.text)] if payload.text else []
        return [*said, structs.replace(event, text=payload.text, payload=payload, reasoning=reasoning)]

    async def _allowed(self, payload: ReplyPayload) -> ReplyPayload | None:
        if not payload.text:
            return payload
        if payload.text not in self._known:
            merged = await self._messages.decided(self._to, payload.text, self._context)
            self._known[payload.text] = None if merged.cancelled is not None else merged.content
        text = self._known[payload.text]
        return None if text is None else structs.replace(payload, text=text)
