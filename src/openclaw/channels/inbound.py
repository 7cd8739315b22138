"""Handles what was heard on channels: judges the sender, answers commands, starts runs.

The owner is trusted; text of anyone else is labelled as a stranger's for as long as it is stored. Nothing here waits
for an answer: a run carries the address it was asked from, and its end is put into the outbox.
"""

import asyncio
import hashlib
import logging
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import structs

from openclaw.agent.settings import resolve_agent
from openclaw.channels.access import (
    LABEL_CHARS,
    Admit,
    AskToPair,
    Ignore,
    Overhear,
    Verdict,
    judge,
    may_command,
    session_key_of,
    strangers_in,
    to_group_text,
    to_prompt_text,
)
from openclaw.channels.approvals import GONE, PRESS, ChannelApprovals, confirm_press
from openclaw.channels.history import GroupHistory
from openclaw.channels.inbox import event_id
from openclaw.channels.media.inbound import IncomingMedia, ReceivedMedia
from openclaw.channels.media.voice import VoiceNotes
from openclaw.channels.pairing import SenderPairing
from openclaw.channels.questions import NOT_HEARD, ChannelQuestions
from openclaw.channels.settings import ChannelSettings
from openclaw.config.live import LiveConfig
from openclaw.core.channel import Inbound, Outbound, Platform
from openclaw.core.clock import Clock
from openclaw.core.commands import is_whole_command, parse_command
from openclaw.core.errors import InvalidRequest, OpenClawError
from openclaw.core.hooks import BeforeDispatch, ChannelPairingRequested, InboundClaim
from openclaw.core.keys import SessionKey
from openclaw.core.text import Origin, make_origin, merge_origins, sanitize_line
from openclaw.plugins.registry import PluginRegistry, start_plugins
from openclaw.runs.child_output import ChildThreads
from openclaw.runs.commands.catalog import CommandRequest, CommandResult
from openclaw.runs.commands.service import SlashCommands
from openclaw.runs.hooks.messages import MessageHooks
from openclaw.runs.inbox import Inbox
from openclaw.runs.outbox import FAILURE_REPLY, Outbox
from openclaw.runs.queue import NO_OPTIONS, QueuePolicy
from openclaw.runs.request import RunRequest
from openclaw.runs.settings import MessagesSettings
from openclaw.runs.worker import RunService
from openclaw.sessions.lifecycle import SessionLifecycle
from openclaw.sessions.service import SessionService
from openclaw.sessions.system_events import SystemEvents
from openclaw.tools.ask import PRESS as ASKED
from openclaw.workspace.seed import Workspaces

log = logging.getLogger("openclaw.channels")

PRESSED = "callback_data: "
"""What a press of a button says that the assistant has sent."""
NOTE_CHARS = 500
GROUP_HISTORY = 50
SEARCHED_CHARS = 4_000
"""How much of a message is looked at for a mention."""
_NO_SECTION = ChannelSettings()


class InboundHandler:
    """Handles the messages of all channels."""

    def __init__(
        self,
        sessions: SessionService,
        lifecycle: SessionLifecycle,
        runs: RunService,
        inbox: Inbox,
        outbox: Outbox,
        history: GroupHistory,
        media: IncomingMedia,
        notes: SystemEvents,
        platforms: Mapping[tuple[str, str], Platform],
        state_dir: Path,
        workspaces: Workspaces,
        live: LiveConfig,
        commands: SlashCommands,
        queue: QueuePolicy,
        clock: Clock,
        approvals: ChannelApprovals,
        voices: VoiceNotes,
        hooks: MessageHooks,
        plugins: PluginRegistry,
        questions: ChannelQuestions,
        threads: ChildThreads,
    ) -> None:
        self._sessions = sessions
        self._lifecycle = lifecycle
        self._runs = runs
        self._inbox = inbox
        self._outbox = outbox
        self._history = history
        self._media = media
        self._notes = notes
        self._platforms = platforms
        self._state_dir = state_dir
        self._workspaces = workspaces
        self._live = live
        self._commands = commands
        self._queue = queue
        self._clock = clock
        self._approvals = approvals
        self._voices = voices
        self._hooks = hooks
        self._plugins = plugins
        self._questions = questions
        self._threads = threads
        self._senders: dict[str, SenderPairing] = {}

    async def handle(self, message: Inbound) -> None:
        """Does what `message` calls for; done again with the same message, it changes nothing."""
        match message.kind:
            case "press" if message.button.startswith(PRESS):
                await self._approvals.press(message)
                return
            case "press" if message.button.startswith(ASKED):
                message = structs.replace(message, mentioned=True)
            case "press":
                await confirm_press(self._platforms, message, "")
                # Pressing twice says it once; who presses speaks to us.
                name = f"press:{message.about}:{hashlib.sha256(message.button.encode()).hexdigest()[:16]}"
                message = structs.replace(message, id=name, text=f"{PRESSED}{message.button}", mentioned=True)
            case "reaction":
                if message.about is None or not await self._outbox.has_sent(message.origin, message.about):
                    return  # what people think of each other's messages is not our business
                message = structs.replace(message, mentioned=True)
        try:
            if message.group is not None and not message.mentioned:
                named = self._is_named(message) or await self._follows_thread(message)
                message = structs.replace(message, mentioned=named)
            verdict = await self._judge(message)
        except OpenClawError as error:
            verdict = Ignore(error.message)
        match verdict:
            case Ignore(why):
                log.info("channel %s: a message was not heard: %s", message.channel, why)
                if message.kind == "press" and message.button.startswith(ASKED):
                    await confirm_press(self._platforms, message, NOT_HEARD)
            case Overhear(why):
                log.info("channel %s: a message was not heard: %s", message.channel, why)
                if message.kind == "message":
                    await self._history.add(message, self._history_limit(message))
            case AskToPair():
                if message.kind == "message":
                    await self._invite(message)
            case Admit(owner):
                await self._admitted(message, owner)

    async def _admitted(self, message: Inbound, owner: bool) -> None:
        if message.kind == "press" and message.button.startswith(ASKED):
            await self._choose(message, owner)
        elif message.kind == "reaction":
            what = f"reacted with {message.emoji}" if message.emoji else "took a reaction back"
            await self._note(message, owner, f"{what}, to your message {message.about}")
        elif message.kind == "edit" and message.about is not None:
            first = structs.replace(message, kind="message", id=message.about)
            known = await self._inbox.get(run_id_of(first))
            if known is None:  # it was not meant for us before
                await self._answer(first, owner)
            elif known.outcome is None:  # the run that works on it is told
                await self._answer(structs.replace(message, text=f"[edited] {message.text}"), owner)
            else:
                await self._note(message, owner, f"edited the message {message.about}: {message.text[:NOTE_CHARS]}")
        else:
            await self._answer(message, owner)

    async def _note(self, message: Inbound, owner: bool, what: str) -> None:
        """Something that is worth knowing, and no reason to speak: the next turn is told."""
        who = sanitize_line(f"{message.sender_name or ''} {message.sender}".strip())[:LABEL_CHARS]
        origins = () if owner else (_stranger(message.sender, message.channel),)
        await self._notes.add(
            await self._conversation(message, owner), f"{who} {what}", f"note:{run_id_of(message)}", origins
        )

    async def _choose(self, message: Inbound, owner: bool) -> None:
        """A press below a question is the option's words, said by whoever pressed; they are never a command."""
        key = await self._conversation(message, owner)
        chosen = await self._questions.choice(key, message)
        said = GONE
        if chosen is not None:
            await self._questions.close(message, chosen)
            words = structs.replace(message, text=chosen.option)
            # The first press counts: every other one of this question is the same run.
            if await self._run(words, key, None, owner=owner, aloud=False, run_id=f"answer-{chosen.asked.id}"):
                said = chosen.option
        await confirm_press(self._platforms, message, said)

    def _section(self, message: Inbound) -> ChannelSettings:
        section = self._live.config.channels.get(message.channel)
        return section.of(message.account) if section is not None else _NO_SECTION

    def _history_limit(self, message: Inbound) -> int:
        config, agent = self._live.config, self._key(message, owner=False).agent
        given = (
            self._section(message).history_limit,
            resolve_agent(config.agents, agent).entry.group_chat.history_limit,
            config.messages.group_chat.history_limit,
        )
        return next((limit for limit in given if limit is not None), GROUP_HISTORY)

    def _is_named(self, message: Inbound) -> bool:
        """Whether a message in a group mentions the assistant in words of the owner's choice."""
        config = self._live.config
        own = resolve_agent(config.agents, self._key(message, owner=False).agent).entry.group_chat.mention_patterns
        patterns = config.messages.group_chat.mention_patterns if own is None else own
        return any(re.search(each, message.text[:SEARCHED_CHARS], re.IGNORECASE) for each in patterns or ())

    def _key(self, message: Inbound, owner: bool) -> SessionKey:
        config = self._live.config
        owners = config.commands.owner_allow_from
        return self._sessions.key(session_key_of(message, owner=owner, settings=config.session, owners=owners))

    async def _conversation(self, message: Inbound, owner: bool) -> SessionKey:
        """Whose message it is: that of a sub-agent, in its thread."""
        return await self._threads.child_at(message.origin) or self._key(message, owner)

    async def _judge(self, message: Inbound) -> Verdict:
        config = self._live.config
        section = config.channels.get(message.channel)
        settings = section and section.of(message.account)
        pairs = settings is not None and settings.dm_policy == "pairing" and message.group is None
        return judge(
            message,
            settings,
            config.commands.owner_allow_from,
            self._people(message.channel).let_in() if pairs else (),
            command=parse_command(message.text) is not None,
            activation=await self._activation(message) if message.group is not None and not message.mentioned else None,
        )

    async def _follows_thread(self, message: Inbound) -> bool:
        """Whether it was said in a thread in which we take part, where that is speaking to us."""
        platform = self._platforms.get((message.channel, message.account))
        if message.thread is None or platform is None:
            return False
        if await self._threads.child_at(message.origin) is not None:
            return True
        return platform.facts.follows_threads and await self._outbox.has_spoken_in(message.origin)

    async def _activation(self, message: Inbound) -> str | None:
        """What was chosen for a group with /activation."""
        key = self._key(message, owner=False)
        return (await self._lifecycle.preferences(key)).group_activation

    def _people(self, channel: str) -> SenderPairing:
        if channel not in self._senders:
            self._senders[channel] = SenderPairing(self._state_dir, channel, self._clock)
        return self._senders[channel]

    async def _invite(self, message: Inbound) -> None:
        """Sends an unknown sender a pairing code, once; the message is dropped."""
        name = sanitize_line(message.sender_name or "")[:LABEL_CHARS]
        asked = await asyncio.to_thread(self._people(message.channel).ask, message.sender, message.account, name)
        if asked is None:
            return
        command = f"openclaw pairing approve {message.channel} {asked.code}"
        log.info("channel %s: %s asks to be heard; to agree: %s", message.channel, message.sender, command)
        await start_plugins(self._plugins)
        event = ChannelPairingRequested(
            channel=message.channel,
            sender_id=message.sender,
            code=asked.code,
            account_id=message.account,
            metadata={"name": name} if name else {},
        )
        self._hooks.pairing(event)
        text = f"We have not met. To be heard here, ask my owner to run this within the hour:\n\n    {command}"
        await self._say(message, text, "pairing")

    async def _answer(self, message: Inbound, owner: bool) -> None:
        key, reply = await self._conversation(message, owner), None
        if key.is_acp and not owner:  # it does what it is told, and asks only about some of it
            log.info("channel %s: only the owner speaks to an external agent", message.channel)
            return
        aloud = self._live.config.tts.auto != "off" and self._voices.answers_aloud(message)
        if message.files:
            message = await self._voices.hear(message)
        if await self._claimed(message, key):
            return
        if may_command(message, self._live.config.commands, owner=owner):
            asked = CommandRequest(key=key, source=message.channel, sender=message.sender, owner=owner)
            reply = await self._commands.answer(asked, message.text)
            if reply is not None:
                if reply.text.strip():
                    await self._say(message, reply.text, "command")
                if not reply.message:
                    return
                message = structs.replace(message, text=reply.message)
        elif is_whole_command(message.text):
            log.info("channel %s: a command of %s was ignored", message.channel, message.sender)
            return
        try:
            await self._run(message, key, reply, owner=owner, aloud=aloud)
        except InvalidRequest as error:  # too many wait already
            await self._say(message, error.message if owner else FAILURE_REPLY, "failed")

    async def _claimed(self, message: Inbound, key: SessionKey) -> bool:
        """Whether a plugin takes the message; those that are still starting are waited for."""
        await start_plugins(self._plugins)
        heard: dict[str, Any] = {
            "content": message.text,
            "channel": message.channel,
            "account_id": message.account,
            "sender_id": message.sender,
            "conversation_id": message.origin.to,
            "is_group": message.group is not None,
        }
        run_id = run_id_of(message)
        owner = self._plugins.channel_owner(message.channel)
        if owner:
            own = InboundClaim(plugin_id=owner, message_id=message.id, **heard)
            if (await self._hooks.dispatch(own, key, run_id)).plugin:
                return True
        claim = await self._hooks.dispatch(BeforeDispatch(**heard), key, run_id)
        if claim.plugin and claim.reply.strip():
            await self._say(message, claim.reply, "claimed")
        return bool(claim.plugin)

    async def _run(
        self,
        message: Inbound,
        key: SessionKey,
        reply: CommandResult | None,
        *,
        owner: bool,
        aloud: bool,
        run_id: str = "",
    ) -> bool:
        """Starts a turn, unless it was started before; `reply` is what a command left of the message."""
        run_id, owners = run_id or run_id_of(message), self._live.config.commands.owner_allow_from
        before = await self._history.of(message) if message.group is not None else []
        names = strangers_in(message, before, owners)
        origins = merge_origins([_stranger(name, message.channel) for name in names])
        if message.forwarded:
            origins = merge_origins(origins, (make_origin("external", f"forwarded on {message.channel}"),))
        received = await self._receive(message, key, run_id, origins)
        if received.lines:
            message = structs.replace(message, text="\n".join(filter(None, (message.text, *received.lines))))
        grouped = message.group is not None
        turn = RunRequest(
            run_id=run_id,
            key=key,
            text=to_group_text(message, before, owners) if grouped else to_prompt_text(message, owner=owner),
            images=received.images,
            channel=message.channel,
            reply_to=message.origin,
            reply_to_id=message.about if message.kind != "message" and message.about else message.id,
            origins=origins,
            voice=aloud,
        )
        if reply is not None:  # what it says was said already
            turn = structs.replace(reply.onto(turn, turn.text), notice="")
        rules = await self._queue.rules(turn.key, message.channel, asked=reply.queue if reply else NO_OPTIONS)
        submitted = await self._runs.submit(turn, rules=rules)
        if before:
            await self._history.told(message)
        is_new = submitted.status in ("started", "queued", "steered")
        if is_new and wants_ack(message, self._live.config.messages):
            await self._acknowledge(message)
        return is_new

    async def _receive(
        self, message: Inbound, key: SessionKey, run_id: str, origins: Sequence[Origin]
    ) -> ReceivedMedia:
        if not message.files:
            return ReceivedMedia()
        limit = self._section(message).media_max_mb * 1_000_000
        return await self._media.receive(message, run_id, self._workspaces.of(key.agent), limit, origins)

    async def _acknowledge(self, message: Inbound) -> None:
        platform = self._platforms.get((message.channel, message.account))
        if platform is not None and "react" in platform.facts.actions:
            emoji = self._live.config.messages.ack_reaction
            ack = Outbound(to=message.origin, text=emoji, action="react", about=message.id)
            await self._outbox.put(ack, name=f"ack:{run_id_of(message)}")

    async def _say(self, message: Inbound, text: str, what: str) -> None:
        """Says something without a run; the same answer to the same message is one message."""
        said = Outbound(to=message.origin, text=text, reply_to=message.id)
        await self._outbox.put(said, name=f"{what}:{run_id_of(message)}")


def run_id_of(message: Inbound) -> str:
    """The platform may deliver a message again: the same one is the same run."""
    name = f"{message.channel}\0{message.account}\0{message.sender}\0{event_id(message)}"
    return f"channel-{hashlib.sha256(name.encode(errors='surrogatepass')).hexdigest()[:32]}"


def _stranger(sender: str, channel: str) -> Origin:
    return make_origin("stranger", f"{sender} on {channel}")


def wants_ack(message: Inbound, settings: MessagesSettings) -> bool:
    """Whether a reaction says that work on `message` has begun."""
    if not settings.ack_reaction or message.kind != "message":
        return False
    match settings.ack_reaction_scope:
        case "all":
            return True
        case "direct":
            return message.group is None
        case "group-all":
            return message.group is not None
        case "group-mentions":
            return message.group is not None and message.mentioned
        case _:
            return False


def join_fragments(messages: Sequence[Inbound]) -> Inbound:
    """Messages that belong together, as one: a long text the platform has split, or the pictures of an album."""
    first = messages[0]
    return structs.replace(
        first,
        text="\n".join(each.text for each in messages if each.text),
        files=tuple(file for each in messages for file in each.files),
        mentioned=any(each.mentioned for each in messages),
    )
