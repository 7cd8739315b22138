"""Shows answers while they are written: one message that is edited, or finished parts as messages.

A preview is one message of a turn in the conversation that asked; the sender of the outbox puts the answer in its
place. What must arrive goes through the outbox: a preview may be skipped, an answer never.
"""

import asyncio
import hashlib
import logging
import random
from collections.abc import Callable, Mapping
from functools import partial
from typing import Literal

from msgspec import structs

from openclaw.agent.settings import AgentDefaults, AgentsSettings, BlockChunkSettings, HumanDelaySettings
from openclaw.channels.blocks import BlockStream, cut_blocks
from openclaw.channels.chunking import cut_text
from openclaw.channels.settings import ChannelSettings, StreamingSettings
from openclaw.config.live import LiveConfig
from openclaw.core.channel import Address, ChannelFacts, MessageRefused, Outbound, Platform, TryLater
from openclaw.core.clock import Clock
from openclaw.core.errors import OpenClawError
from openclaw.core.events import (
    AttemptFailed,
    CompactionEnded,
    CompactionStarted,
    ModelCalled,
    RunEnded,
    ToolEnded,
    ToolStarted,
)
from openclaw.core.keys import normalise_agent
from openclaw.core.text import compile_lazily
from openclaw.process.tasks import run_shielded, wait_first
from openclaw.runs.events import RunAccepted, RunEvent, RunPublisher, RunResumed, RunSettled
from openclaw.runs.inbox import RunOutcome
from openclaw.runs.outbox import Outbox, StreamedReply, begin_with, place_of, to_outbound
from openclaw.runs.reply import ReplyShaped, TextShaped
from openclaw.runs.request import RunRequest
from openclaw.sessions.reply_text import ReplyPayload

log = logging.getLogger("openclaw.channels")

LEAST_SHOWN = 30
"""A preview begins with so many characters, or with a sentence."""
SHOWN_LINES, SHOWN_CHARS = 8, 120
PREVIEW_CHUNK = BlockChunkSettings(min_chars=200, max_chars=800)
LOOK_AGAIN = 60.0
PAUSE = 2.0
"""Seconds until the next attempt when a platform refuses an edit without saying for how long."""
COMPACTING = "This conversation has become long: I am making notes of its older part, then I answer."
STOPPED = "(stopped)"
NO_ANSWER = "(no answer)"
_SENTENCE = compile_lazily(r"[.!?…](?:\s|\Z)|\n")

StreamMode = Literal["off", "partial", "block", "progress", "messages"]
PREVIEWS: tuple[StreamMode, ...] = ("partial", "block", "progress")


def stream_mode(facts: ChannelFacts, settings: StreamingSettings, defaults: AgentDefaults) -> StreamMode:
    """How an answer is shown while it is written: previews and blocks exclude each other, what is explicit wins."""
    edits = "edit" in facts.actions and facts.edits_often
    if settings.block.enabled:
        return "messages"
    if edits and settings.mode is not None and settings.mode != "off":
        return settings.mode
    if settings.block.enabled is None and defaults.block_streaming_default == "on":
        return "messages"
    return "partial" if edits and settings.mode is None else "off"


class LiveReply:
    """What one run has said so far in the conversation that asked."""

    def __init__(self, request: RunRequest, to: Address) -> None:
        self.request = request
        self.to = to
        self.node = ""
        """Where the run is, when that is another node: then that one puts finished messages into the outbox."""
        self.is_lost = False
        """That node is not heard any more."""
        self.follower: Callable[[RunEvent], None] | None = None
        self.earlier: int | None = 0
        """How many messages the outbox had of the run before we heard of it; None: not counted yet."""
        self.mode: StreamMode | None = None
        self.blocks: BlockStream | None = None
        self.text = ""
        """The message being written."""
        self.began: float | None = None
        """When its first words came."""
        self.finished: ReplyPayload | None = None
        """The message that was written last, as long as it may be the answer."""
        self.frozen = False
        """The message is complete, or the run has ended: nothing more is shown of it."""
        self.tools: dict[str, str] = {}
        self.streamed = StreamedReply()
        self.stored = 0
        """How many of the streamed messages are in the outbox."""
        self.number = 0
        """Counts the messages that were written."""
        self.prefix = ""
        """What the answer begins with."""
        self.limit = 0
        """The longest message that is sent there."""
        self.pauses: Callable[[], float] = lambda: 0.0
        """Seconds between two blocks."""
        self.outcome: RunOutcome | None = None
        # Of the preview.
        self.dirty = False
        self.shown = ""
        self.due = 0.0
        self.given_up = False
        self.may_be_there = False
        """Its first words may have been sent before, and stand there as they were then."""
        self.lock = asyncio.Lock()
        """Held while the preview is sent or edited: the answer waits for it."""
        self.task: asyncio.Task[None] | None = None

    @property
    def run_id(self) -> str:
        return self.request.run_id

    @property
    def has_block_waiting(self) -> bool:
        return not self.node and self.stored < len(self.streamed.messages)

    @property
    def was_stopped(self) -> bool:
        """A person stopped the run, and had seen a part of the answer."""
        stopped = self.outcome is not None and self.outcome.stop_reason == "aborted"
        return stopped and bool(self.shown) and self.mode in ("partial", "block")

    def begin_again(self) -> None:
        """Another process carries the run out from now on: it says anew what was not finished."""
        self.mode, self.blocks, self.finished, self.frozen = None, None, None, False
        self.streamed, self.stored = StreamedReply(), 0
        self.is_lost, self.earlier = False, None
        self.tools.clear()
        self.void()

    def write(self, text: str, now: float) -> None:
        self.began = now if self.began is None else self.began
        self.text += text
        self.frozen = False
        if self.blocks is not None:
            self._give(self.blocks.add(text))

    def void(self) -> None:
        self.text, self.began = "", None
        self.dirty = self.dirty and self.mode == "progress"
        if self.blocks is not None:
            self.blocks.void()

    def finish_message(self, payload: ReplyPayload | None) -> None:
        self.frozen, self.finished = True, payload
        if self.blocks is not None:
            self._give(self.blocks.end_message(payload.text if payload is not None else ""))
            if payload is None:
                return
            self.finished = None
            self._take_over(payload)
            if payload.asks is not None:
                self._end_with_buttons(payload)
            if payload.media:
                self._give(self.blocks.end_message("", last=True))
                alone = to_outbound(self.request, structs.replace(payload, text=""))
                self._add(f"media:{hashlib.sha256(repr(payload.media).encode()).hexdigest()[:16]}", alone)

    def _end_with_buttons(self, payload: ReplyPayload) -> None:
        """The last part of a question gets its buttons; it was added just now, so it is not on its way yet."""
        assert self.blocks is not None
        self._give(self.blocks.end_message("", last=True))
        if self.has_block_waiting:
            *earlier, (name, message) = self.streamed.messages
            message = structs.replace(message, buttons=to_outbound(self.request, payload).buttons)
            self.streamed = structs.replace(self.streamed, messages=(*earlier, (name, message)))

    def next_message(self) -> None:
        """The run goes on: the message written last is no answer yet, and need not wait for it."""
        if self.finished is not None and self.mode in ("partial", "block"):
            name = f"{len(self.streamed.payloads)}:{hashlib.sha256(self.finished.text.encode()).hexdigest()[:16]}"
            self._add(name, to_outbound(self.request, self.finished, self.prefix))
            self._take_over(self.finished)
            self.shown, self.given_up, self.number = "", False, self.number + 1
        self.finished = None
        self.void()

    def tell(self, name: str, text: str) -> None:
        """Says something beside the answer, at once."""
        self._add(
            f"{name}:{len(self.streamed.messages)}", to_outbound(self.request, ReplyPayload(text=text, kind="notice"))
        )

    def end(self) -> StreamedReply:
        """Everything that was streamed; what is kept back of blocks is given now."""
        if self.blocks is not None:
            self._give(self.blocks.end_message("", last=True))
        return self.streamed

    def _give(self, blocks: list[tuple[str, str]]) -> None:
        for name, text in blocks:
            block = to_outbound(self.request, ReplyPayload(text=text), self.prefix)
            self._add(name, structs.replace(block, pause=self.pauses() if self.streamed.messages else 0.0))

    def _add(self, name: str, message: Outbound) -> None:
        if self.streamed.messages:
            message = structs.replace(message, reply_to=None)
        named = (f"{place_of(self.run_id, self.to)}:block:{name}", message)
        self.streamed = structs.replace(self.streamed, messages=(*self.streamed.messages, named))

    def _take_over(self, payload: ReplyPayload) -> None:
        self.streamed = structs.replace(self.streamed, payloads=(*self.streamed.payloads, payload))

    def preview(self, facts: ChannelFacts) -> str:
        """The text to show now; empty when there is not enough of it."""
        if self.mode == "progress":
            lines = list(self.tools.values())[-SHOWN_LINES:]
            return "\n".join(lines)
        text = self.text.strip()
        if self.mode == "block":
            cut, _ = cut_blocks(text, PREVIEW_CHUNK, self.limit, ended=False)
            text = "\n\n".join(cut)
        if not self.shown and len(text) < LEAST_SHOWN and not _SENTENCE.search(text):
            return ""
        return next(iter(cut_text(begin_with(self.prefix, text), self.limit, facts.unit)), "")


class ReplyStreams:
    """Streams the answers of all runs that were asked for on a channel."""

    def __init__(
        self,
        outbox: Outbox,
        platforms: Mapping[tuple[str, str], Platform],
        publisher: RunPublisher,
        clock: Clock,
        live: LiveConfig,
        accounts: Mapping[tuple[str, str], Platform] | None = None,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        """`platforms` are the accounts we speak for, `accounts` also those another process speaks for."""
        self._outbox = outbox
        self._platforms = platforms
        self._accounts = platforms if accounts is None else accounts
        self._publisher = publisher
        self._clock = clock
        self._live = live
        self._random = jitter
        self._replies: dict[str, LiveReply] = {}
        self._stirred = asyncio.Event()
        self._sweeps = True
        """Previews may be left of runs that ended, and not all were taken back."""
        self._misses = False
        """Ends of runs may have been missed: previews are looked for now and then."""
        self._swept_at = 0.0
        publisher.subscribe_to_replies(self._begin)

    # What runs say; nothing here waits.

    def _begin(self, told: RunEvent) -> None:
        event = told.event
        if not isinstance(event, RunAccepted | RunResumed):
            return
        request = event.request
        if request.reply_to is None or request.trigger != "user":
            return  # what nobody asked for in that conversation is not shown before it is finished
        reply = self._replies.get(request.run_id)
        if reply is None:
            reply = self._replies[request.run_id] = LiveReply(request, request.reply_to)
            reply.follower = partial(self._take, reply)
            self._publisher.follow(request.run_id, reply.follower)
        elif isinstance(event, RunAccepted):
            return
        else:
            reply.begin_again()
        reply.may_be_there = isinstance(event, RunResumed)
        reply.node = told.node
        if not reply.node:
            self._outbox.streams.enter(request.run_id, request.reply_to, reply.end)

    def lose_node(self, node: str) -> None:
        """A node is not heard any more: what its runs say arrives when it is complete, unless one is taken up."""
        for reply in self._replies.values():
            if reply.node == node and reply.outcome is None:
                reply.is_lost = self._misses = True
        self._stirred.set()

    def _take(self, reply: LiveReply, told: RunEvent) -> None:
        match told.event:
            case ModelCalled(provider=provider, model=model, thinking=thinking):
                reply.next_message()
                reply.prefix = self._outbox.prefix(reply.request, provider, model, thinking)
            case AttemptFailed():
                reply.void()
            case TextShaped(text=text):
                known = reply.mode is not None
                self._choose_mode(reply)
                reply.write(text, self._clock.now())
                if reply.dirty and known and not reply.has_block_waiting:
                    return  # it is looked at when it is due
                reply.dirty = True
            case ReplyShaped(payload=payload):
                self._choose_mode(reply)
                reply.finish_message(payload)
            case ToolStarted(call=call):
                self._choose_mode(reply)
                reply.next_message()
                reply.tools[call.id] = f"… {call.name[:SHOWN_CHARS]}"
                reply.dirty = True
            case ToolEnded(call=call, result=result):
                reply.tools[call.id] = f"{'✗' if result.is_error else '✓'} {call.name[:SHOWN_CHARS]}"
                reply.dirty = True
            case CompactionStarted() if self._tells_compactions(reply):
                reply.tell("compaction", COMPACTING)
            case CompactionEnded() as done if self._tells_compactions(reply):
                reply.tell("compacted", done.line)
            case RunEnded():
                reply.frozen = True
            case RunSettled(outcome=outcome):
                reply.outcome = outcome
            case _:
                return
        if not reply.node or (reply.to.channel, reply.to.account) in self._platforms:
            self._stirred.set()
        elif reply.outcome is not None:
            self._forget(reply)

    def _forget(self, reply: LiveReply) -> None:
        self._replies.pop(reply.run_id, None)
        self._outbox.streams.remove(reply.run_id)
        if reply.follower is not None:
            self._publisher.unfollow(reply.run_id, reply.follower)

    def _tells_compactions(self, reply: LiveReply) -> bool:
        """Whether people are told of compactions; whoever asks for one is answered anyway."""
        return self._live.config.agents.defaults.compaction.notify_user and reply.request.compact is None

    def _choose_mode(self, reply: LiveReply) -> None:
        platform = self._accounts.get((reply.to.channel, reply.to.account))
        if reply.mode is not None or platform is None:
            return
        config = self._live.config
        section = config.channels.get(reply.to.channel)
        own = section.of(reply.to.account) if section is not None else ChannelSettings()
        defaults = config.agents.defaults
        reply.mode = "off" if own.ONE_ANSWER else stream_mode(platform.facts, own.streaming, defaults)
        reply.limit = own.limit(platform.facts.limit)
        if reply.mode == "messages" and not reply.node:
            at_end = defaults.block_streaming_break == "message_end"
            chunk = defaults.block_streaming_chunk
            if own.streaming.chunk_mode == "newline":  # every paragraph, as soon as it is there
                chunk = structs.replace(chunk, min_chars=1, break_preference="paragraph")
            delay = _human_delay(config.agents, reply.request.key.agent)
            reply.pauses = lambda: delay.seconds(self._random())
            reply.blocks = BlockStream(
                chunk,
                reply.limit - (len(reply.prefix) + 1 if reply.prefix else 0),
                at_end=at_end,
                coalesce=defaults.block_streaming_coalesce.min_chars,
            )

    # Showing it.

    async def keep(self) -> None:
        """Shows what there is to show, until it is cancelled; a conversation does not wait for another."""
        try:
            while True:
                self._stirred.clear()
                wait = LOOK_AGAIN
                if self._sweeps or (self._misses and self._clock.now() >= self._swept_at + LOOK_AGAIN):
                    self._sweeps, self._swept_at = False, self._clock.now()
                    await self._end_left_previews()
                for reply in list(self._replies.values()):
                    if reply.has_block_waiting:
                        await self._store(reply)
                    wait = min(wait, self._start(reply))
                await wait_first(self._stirred.wait(), self._clock.sleep(wait))
        finally:
            tasks = [reply.task for reply in self._replies.values() if reply.task is not None]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def wake(self) -> None:
        """An account was connected: previews that an earlier process left there can be taken back, or gone on with."""
        self._sweeps = True
        for reply in self._replies.values():
            reply.may_be_there = not reply.shown
        self._stirred.set()

    async def settled(self, run_id: str, to: Address) -> None:
        """Waits for a preview that is on its way: what comes after it must not be overtaken."""
        reply = self._replies.get(run_id)
        if reply is not None and reply.to == to:
            async with reply.lock:
                pass

    async def _store(self, reply: LiveReply) -> None:
        """Puts finished parts into the outbox; the end of the run does the same with what it finds missing."""
        for name, message in reply.streamed.messages[reply.stored :]:
            reply.stored += 1
            await self._outbox.put(message, name, reply.run_id, str(reply.request.key))

    def _start(self, reply: LiveReply) -> float:
        """Begins what is due for one conversation; gives the seconds until something is."""
        if reply.task is not None and not reply.task.done():
            return LOOK_AGAIN  # its end stirs
        if reply.is_lost:
            self._forget(reply)
            return LOOK_AGAIN
        if reply.outcome is not None:
            reply.task = asyncio.create_task(self._finish(reply), name=f"preview:{reply.run_id}")
            reply.task.add_done_callback(self._stir)
            return LOOK_AGAIN
        platform = self._platforms.get((reply.to.channel, reply.to.account))
        if platform is None or reply.mode not in PREVIEWS or reply.given_up or not reply.dirty:
            return LOOK_AGAIN
        if reply.mode != "progress" and (reply.frozen or reply.began is None):
            return LOOK_AGAIN
        # An answer that is written within one pause is sent at once, and nothing flickers.
        due = max(reply.due, (reply.began or 0.0) + platform.facts.edit_every)
        now = self._clock.now()
        if due > now:
            return due - now
        reply.task = asyncio.create_task(self._show(reply, platform), name=f"preview:{reply.run_id}")
        reply.task.add_done_callback(self._stir)
        return LOOK_AGAIN

    def _stir(self, _: "asyncio.Task[None]") -> None:
        self._stirred.set()

    async def _show(self, reply: LiveReply, platform: Platform) -> None:
        reply.dirty = False
        async with reply.lock:
            text = reply.preview(platform.facts)
            if not text or text == reply.shown or reply.outcome is not None:
                return
            reply.due = self._clock.now() + platform.facts.edit_every
            number = await self._outbox.next_preview(reply.run_id, reply.to)
            if number is None or self._is_behind(reply, number):  # its end, or a message before it, is on its way
                reply.dirty = True
                return
            message = reply.number
            try:
                # The platform's answer is waited for even when the gateway stops: its id must be on record.
                await run_shielded(self._put_up(reply, platform, text, number))
                reply.shown = text if reply.number == message else ""
            except TryLater as error:
                log.debug("channel %s: a preview waits: %s", reply.to.channel, error.message)
                reply.due = self._clock.now() + (error.after if error.after is not None else PAUSE)
                reply.dirty = True
            except OpenClawError as error:
                log.warning("channel %s: no preview: %s", reply.to.channel, error.message)
                # What is edited, or has a name, may be repeated; else it can only be guessed whether it is there.
                repeatable = bool(reply.shown) or platform.facts.idempotent
                reply.given_up = isinstance(error, MessageRefused) or not repeatable
                reply.may_be_there = not reply.shown
                reply.dirty = True
            except Exception:  # the platform's code may be a plugin's
                log.exception("channel %s: a preview failed", reply.to.channel)
                reply.given_up = True

    def _is_behind(self, reply: LiveReply, number: int) -> bool:
        """Whether the node of the run has finished messages of which we have not heard: ours are older."""
        known = len(reply.streamed.messages)
        if reply.earlier is None:
            reply.earlier = number - known
        return bool(reply.node) and number > reply.earlier + known

    async def _put_up(self, reply: LiveReply, platform: Platform, text: str, number: int) -> None:
        name = f"{place_of(reply.run_id, reply.to)}:preview:{number}"
        known = await self._outbox.preview(reply.run_id, reply.to)
        if known is None:
            reply_to = reply.request.reply_to_id or None
            first = Outbound(to=reply.to, text=text, reply_to=None if number else reply_to, key=_key(name))
            known = (await platform.send(first)).id
            await self._outbox.record_preview(reply.run_id, reply.to, known)
            if not (reply.may_be_there and platform.facts.idempotent):
                return
        await platform.send(Outbound(to=reply.to, text=text, action="edit", about=known, key=_key(f"{name}:{text}")))
        reply.may_be_there = False

    async def _finish(self, reply: LiveReply) -> None:
        async with reply.lock:
            await self._end_left_previews(reply)
            if not reply.node:
                await self._take_ack_back(reply)
        self._forget(reply)

    async def _take_ack_back(self, reply: LiveReply) -> None:
        """Takes the reaction back that said the message was seen, where that is wanted."""
        name = f"ack:{reply.run_id}"
        if self._live.config.messages.remove_ack_after_reply and await self._outbox.has(name):
            gone = Outbound(to=reply.to, text="", action="react", about=reply.request.reply_to_id)
            await self._outbox.put(gone, f"{name}:end")

    async def _end_left_previews(self, reply: LiveReply | None = None) -> None:
        """Takes back previews of runs that ended without an answer; a run that was stopped leaves what it said."""
        for run_id, to, message_id in await self._outbox.left_previews():
            platform = self._platforms.get((to.channel, to.account))
            if platform is None or (run_id in self._replies if reply is None else run_id != reply.run_id):
                continue  # it is done when its account is connected, or by the one who follows the run
            if reply is not None and reply.was_stopped:
                text = f"{reply.text.strip() or reply.shown}\n\n{STOPPED}"
                end = Outbound(to=to, text=text, action="edit", about=message_id)
            elif "delete" in platform.facts.actions:
                end = Outbound(to=to, text="", action="delete", about=message_id)
            else:
                end = Outbound(to=to, text=NO_ANSWER, action="edit", about=message_id)
            await self._outbox.put(end, f"{place_of(run_id, to)}:preview-end", run_id)


def _human_delay(agents: AgentsSettings, agent: str) -> HumanDelaySettings:
    own = next((entry.human_delay for entry in agents.list if normalise_agent(entry.id) == agent), None)
    return own if own is not None else agents.defaults.human_delay


def _key(name: str) -> str:
    return hashlib.sha256(name.encode(errors="surrogatepass")).hexdigest()[:32]
