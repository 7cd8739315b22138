"""Voice notes on channels: what people say becomes text, and what the assistant says becomes sound.

The text of a voice note is its sender's own words: it has the sender's label, and is never a command.
"""

import logging
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any

import msgspec
from msgspec import structs

from openclaw.channels.messages import MessageService
from openclaw.core.channel import FetchesFiles, Inbound, InboundFile, MessageRefused, Outbound, Platform
from openclaw.core.deferred import tempfile
from openclaw.core.errors import OpenClawError, Unavailable
from openclaw.core.text import sanitize_block
from openclaw.core.tool import ToolContext
from openclaw.runs.inbox import Inbox
from openclaw.runs.request import RunRequest
from openclaw.tools.voice.speech import Speech
from openclaw.tools.voice.transcribe import Transcriber, save_pieces

log = logging.getLogger("openclaw.channels")

HEARD = "[voice note]"
SOUND = ("voice", "audio")


class VoiceNotes:
    """Hears and speaks for all accounts."""

    def __init__(
        self,
        speech: Speech,
        transcriber: Transcriber,
        messages: MessageService,
        inbox: Inbox,
        platforms: Mapping[tuple[str, str], Platform],
    ) -> None:
        self.speech = speech
        self._transcriber = transcriber
        self._messages = messages
        self._inbox = inbox
        self._platforms = platforms

    def answers_aloud(self, message: Inbound) -> bool:
        """Whether the answer to `message` goes as a voice note (`tts.auto`)."""
        match self.speech.settings.auto:
            case "always":
                return True
            case "inbound":
                return any(file.kind == "voice" for file in message.files)
            case _:
                return False

    async def hear(self, message: Inbound) -> Inbound:
        """`message` with the words of its voice notes as text; files that were understood are gone from it."""
        sounds = [file for file in message.files if file.kind in SOUND]
        if not sounds or not self._transcriber.listeners:
            return message
        heard, left = [message.text] if message.text.strip() else [], list(message.files)
        for file in sounds:
            try:
                words = await self._words(message, file)
            except (Unavailable, MessageRefused) as error:
                log.warning("channel %s: a voice note was not understood: %s", message.channel, error.message)
                heard.append(f"{HEARD} [media unavailable: {error.message}]")
            else:
                heard.append(f"{HEARD} {words or '(nothing was said)'}")
            left.remove(file)
        return structs.replace(message, text="\n".join(heard), files=tuple(left))

    async def _words(self, message: Inbound, file: InboundFile) -> str:
        platform = self._platforms.get((message.channel, message.account))
        if platform is None or not isinstance(platform, FetchesFiles):
            raise Unavailable("the channel hands out no files")
        limit = self._transcriber.settings.max_bytes
        if file.size > limit:
            raise Unavailable(f"it has {file.size:,} bytes; {limit:,} is the most (tools.media.audio.maxBytes)")
        ending = PurePosixPath(file.name).suffix or (".ogg" if file.kind == "voice" else ".bin")
        with tempfile.TemporaryDirectory(prefix="openclaw-voice-") as folder:
            path = Path(folder) / f"note{ending}"
            await save_pieces(platform.fetch(file), path, limit)
            return sanitize_block(await self._transcriber.write_down(path))

    async def voiced(self, message: Outbound, name: str) -> Outbound:
        """An answer with its sound beside its text; without one when it cannot be said."""
        if self.speech.speaker is None:
            return message
        try:
            path = await self.speech.speak(message.text, name)
        except OpenClawError as error:
            log.warning("channel %s: an answer goes as text only: %s", message.to.channel, error.message)
            return message
        return structs.replace(message, media=(str(path),))

    async def send(self, context: ToolContext, path: Path) -> Mapping[str, Any] | None:
        """Sends a sound file to the conversation of a run; None when it is on no channel."""
        entry = await self._inbox.get(context.run_id) if context.run_id else None
        request = msgspec.json.decode(entry.request, type=RunRequest) if entry is not None else None
        if request is None or request.reply_to is None:
            return None
        platform = self._platforms.get((request.reply_to.channel, request.reply_to.account))
        voice = platform is not None and platform.facts.voice
        message = Outbound(to=request.reply_to, text="", media=(str(path),), voice=voice)
        return await self._messages.deliver(message, f"tool:{context.run_id}:{context.call_id}:0")
