"""Asks and tells plugins of messages: those that come in, and those that are about to go out."""

from collections.abc import Sequence
from typing import Any

from msgspec import structs

from openclaw.core.clock import Clock, millis
from openclaw.core.hooks import (
    BeforeDispatch,
    ChannelPairingRequested,
    HookContext,
    HookName,
    InboundClaim,
    MessageReceived,
    MessageSending,
    MessageSent,
    ReplyPayloadSending,
)
from openclaw.core.keys import SessionKey
from openclaw.plugins.hooks import points
from openclaw.plugins.hooks.dispatch import HookDispatcher, audit_change
from openclaw.plugins.hooks.points import ReplyMerged, SendingMerged
from openclaw.runs.inbox import RunOutcome
from openclaw.runs.reply import NoteShaped, ReplyShaped, ShapedEvent, TextShaped, ThoughtShaped
from openclaw.runs.request import RunRequest
from openclaw.security.audit_log import AuditLog
from openclaw.sessions import reply_text as shapes
from openclaw.sessions.reply_text import ReplyPayload

NO_REPLY = ReplyMerged()


def hook_context(turn: RunRequest, session_id: str = "", workspace: str = "") -> HookContext:
    """The context of a turn, for plugins."""
    return HookContext(
        agent_id=turn.key.agent,
        session_key=str(turn.key),
        session_id=session_id,
        workspace_dir=workspace,
        channel=turn.channel,
        trigger=turn.trigger,
        run_id=turn.run_id,
    )


HOLDING: tuple[HookName, ...] = ("message_sending", "reply_payload_sending", "before_agent_finalize")


class MessageHooks:
    """The message points: received, sending, sent."""

    def __init__(self, hooks: HookDispatcher, audit: AuditLog, clock: Clock) -> None:
        self.hooks = hooks
        self._audit = audit
        self._clock = clock

    def received(self, turn: RunRequest) -> None:
        """Notifies of a person's message; runs the gateway starts itself are none."""
        if turn.trigger != "user" or turn.compact is not None or not self.hooks.has("message_received"):
            return
        event = MessageReceived(sender=turn.channel or "local", content=turn.text, timestamp=millis(self._clock))
        self.hooks.tell("message_received", event, hook_context(turn))

    async def dispatch(self, event: BeforeDispatch | InboundClaim, key: SessionKey, run_id: str) -> ReplyMerged:
        """The plugin that takes a message on a channel, and what it answers."""
        point: Any = points.CLAIM if isinstance(event, InboundClaim) else points.DISPATCH
        if not self.hooks.has(point.name):
            return NO_REPLY
        about = HookContext(agent_id=key.agent, session_key=str(key), run_id=run_id)
        context = structs.replace(about, channel=event.channel, sender_id=event.sender_id)
        merged: ReplyMerged = await self.hooks.ask(point, event, context)
        if merged.changes:
            deeds = [audit_change(point.name, change) for change in merged.changes]
            await self._audit.record(deeds, run_id=run_id, session_key=str(key))
        return merged

    def pairing(self, event: ChannelPairingRequested) -> None:
        """Notifies that somebody unknown was given a code."""
        if self.hooks.has("channel_pairing_requested"):
            context = HookContext(channel=event.channel, sender_id=event.sender_id)
            self.hooks.tell("channel_pairing_requested", event, context)

    def outgoing(self, turn: RunRequest) -> "OutgoingMessage | None":
        """The check of what `turn` says; None when no plugin has a say in it."""
        if not any(map(self.hooks.has, HOLDING)):
            return None
        return OutgoingMessage(self, str(turn.key), hook_context(turn))

    async def payload(self, to: str, payload: ReplyPayload, context: HookContext) -> ReplyPayload | None:
        """A part of an answer as plugins leave it; None when they cancel it."""
        if not self.hooks.has("reply_payload_sending"):
            return payload
        shown = {"text": payload.text, "media": list(payload.media), "kind": payload.kind}
        event = ReplyPayloadSending(to=to, payload=shown)
        merged = await self.hooks.ask(points.PAYLOAD, event, context)
        if merged.changes:
            deeds = [audit_change("reply_payload_sending", change, note=f"to {to}") for change in merged.changes]
            await self._audit.record(deeds, run_id=context.run_id, session_key=context.session_key)
        if merged.cancelled is not None:
            return None
        text, media = merged.payload.get("text", payload.text), merged.payload.get("media", payload.media)
        return structs.replace(payload, text=str(text), media=tuple(str(each) for each in media))

    async def decided(self, to: str, text: str, context: HookContext) -> SendingMerged:
        """Asks plugins about one message; a change is recorded."""
        merged = await self.hooks.ask(points.SENDING, MessageSending(to=to, content=text), context)
        if merged.changes:
            deeds = [audit_change("message_sending", change, note=f"to {to}") for change in merged.changes]
            await self._audit.record(deeds, run_id=context.run_id, session_key=context.session_key)
        return merged

    def sent(self, turn: RunRequest, payloads: Sequence[ReplyPayload]) -> None:
        """Notifies of everything that was delivered."""
        if self.hooks.has("message_sent"):
            for payload in payloads:
                self.tell_sent(str(turn.key), payload.text, hook_context(turn))

    def tell_sent(self, to: str, text: str, context: HookContext, error: str | None = None) -> None:
        if self.hooks.has("message_sent"):
            event = MessageSent(to=to, content=text, success=error is None, error=error)
            self.hooks.tell("message_sent", event, context)


class OutgoingMessage:
    """Holds back what one run says until plugins have agreed to it."""

    def __init__(self, messages: MessageHooks, to: str, context: HookContext) -> None:
        self._messages = messages
        self._to = to
        self._context = context
        self._known: dict[ReplyPayload, ReplyPayload | None] = {}
        """What became of each payload: it is shown as it comes and delivered at the end, and decided once."""

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
        """The payloads that are delivered, as plugins left them."""
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
        if payload not in self._known:
            self._known[payload] = await self._decide(payload)
        return self._known[payload]

    async def _decide(self, payload: ReplyPayload) -> ReplyPayload | None:
        left = await self._messages.payload(self._to, payload, self._context)
        if left is None or not left.text:
            return left
        merged = await self._messages.decided(self._to, left.text, self._context)
        return None if merged.cancelled is not None else structs.replace(left, text=merged.content)
