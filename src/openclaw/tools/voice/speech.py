"""Reads text aloud: by an OpenAI-compatible endpoint, or by a program on this machine (`piper`, `espeak-ng`)."""

import asyncio
import hashlib
import re
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from msgspec import Struct

from openclaw.core.errors import InvalidRequest, Unavailable
from openclaw.core.secret import Secret
from openclaw.core.settings import Live, cache_per_settings
from openclaw.core.tool import Effects, Output, ToolContext, param, tool_spec
from openclaw.models.settings import ModelsSettings
from openclaw.process.child import ANSWER_BYTES, ask_program
from openclaw.process.environment import find_executable, safe_env
from openclaw.tools.base import ArgsTool, json_output
from openclaw.tools.settings import SpeechProviderSettings, TtsSettings

OPENAI = "https://api.openai.com/v1"
KEPT_SECONDS = 7 * 86_400
Kind = Literal["openai", "piper", "espeak-ng"]
NO_SPEECH = "nothing here can speak: install espeak-ng, or set tts.provider to openai and tts.providers.openai"
_FENCE = re.compile(r"^```.*?^```[ \t]*$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")
_URL = re.compile(r"https?://([^\s/)>\]]+)[^\s)>\]]*")
_MARKS = re.compile(r"^[ \t]*(?:#{1,6}|>|[-*+]|\|)[ \t]+|[*_~`|]+", re.MULTILINE)


def to_spoken(text: str) -> str:
    """The words of a Markdown text: no code, no addresses, no marks."""
    text = _URL.sub(r"\1", _LINK.sub(r"\1", _FENCE.sub(" (code) ", text)))
    return re.sub(r"[ \t]+", " ", _MARKS.sub("", text)).strip()


class VoiceProvider(Struct, frozen=True, kw_only=True):
    """Who speaks, and how."""

    kind: Kind
    program: str = ""
    encoder: str = ""
    """Makes an Ogg Opus file of a WAV file; without one the WAV file is sent."""
    settings: SpeechProviderSettings = SpeechProviderSettings()


@cache_per_settings
def choose_speaker(settings: TtsSettings, path: str) -> VoiceProvider | None:
    """The speaker that is configured, or the first program that is installed; None when nothing can speak.

    An endpoint is used only when the owner names it: answers would leave the machine, and cost something.
    """
    if not settings.enabled:
        return None
    wanted = settings.provider
    if wanted == "openai" or (wanted is None and "openai" in settings.providers):
        return VoiceProvider(kind="openai", settings=settings.providers.get("openai", SpeechProviderSettings()))
    encoder = find_executable("opusenc", path) or find_executable("ffmpeg", path) or ""
    for kind, needs_model in (("piper", True), ("espeak-ng", False)):
        own = settings.providers.get(kind, SpeechProviderSettings())
        program = find_executable(kind, path) if wanted in (None, kind) else None
        if program is not None and (own.model or not needs_model):
            return VoiceProvider(kind=kind, program=program, encoder=encoder, settings=own)  # type: ignore[arg-type]
    return None


class Speech:
    """Makes sound files of text."""

    def __init__(
        self,
        settings: Live[TtsSettings],
        models: Live[ModelsSettings],
        variables: Live[Mapping[str, str]],
        folder: Path,
    ) -> None:
        self._settings = settings
        self._models = models
        self._variables = variables
        self.folder = folder

    @property
    def settings(self) -> TtsSettings:
        return self._settings.current

    @property
    def speaker(self) -> VoiceProvider | None:
        return choose_speaker(self._settings.current, self._variables.current.get("PATH", ""))

    async def speak(self, text: str, name: str, seconds: float | None = None) -> Path:
        """The file in which `text` is read aloud; `name` makes a repeated call the same file."""
        speaker, settings = self.speaker, self._settings.current
        if speaker is None:
            raise Unavailable(NO_SPEECH)
        words = to_spoken(text)
        if not words:
            raise InvalidRequest("there is nothing to say: text is empty")
        if len(words) > settings.max_text_length:
            raise InvalidRequest(
                f"{len(words)} characters are too many to say: {settings.max_text_length} is the most "
                "(tts.maxTextLength)"
            )
        await asyncio.to_thread(_prepare, self.folder)
        stem = self.folder / hashlib.sha256(f"{name}\0{words}".encode()).hexdigest()[:32]
        limit = seconds or settings.timeout_ms / 1000
        if speaker.kind == "openai":
            data = await self._ask(speaker.settings, words, limit)
            return await asyncio.to_thread(_keep, stem.with_suffix(".ogg"), data)
        return await self._run(speaker, words, stem, limit)

    async def _ask(self, own: SpeechProviderSettings, words: str, seconds: float) -> bytes:
        remote = load_remote()
        base, key = endpoint(own.base_url, own.api_key, "openai", self._models.current, self._variables.current)
        body: dict[str, Any] = {
            "model": own.model or "gpt-4o-mini-tts",
            "voice": own.voice or "alloy",
            "input": words,
            "response_format": "opus",
        }
        if own.speed is not None:
            body["speed"] = own.speed
        found: bytes = await remote.speak(base, key, body, seconds)
        return found

    async def _run(self, speaker: VoiceProvider, words: str, stem: Path, seconds: float) -> Path:
        own, sound = speaker.settings, stem.with_suffix(".wav")
        env = safe_env(self._variables.current)
        if speaker.kind == "piper":
            argv = [speaker.program, "--model", str(Path(own.model or "").expanduser()), "--output_file", str(sound)]
        else:
            rate = ["-s", str(round(175 * own.speed))] if own.speed is not None else []
            argv = [speaker.program, "-v", own.voice or "en", *rate, "--stdin", "-w", str(sound)]
        await run_program(argv, words.encode(), seconds, env)
        if not speaker.encoder:
            return sound
        ogg = stem.with_suffix(".ogg")
        quality = ["--quiet", "--bitrate", "32", str(sound), str(ogg)]
        if speaker.encoder.endswith("ffmpeg"):
            quality = ["-y", "-loglevel", "error", "-i", str(sound), "-c:a", "libopus", "-b:a", "32k", str(ogg)]
        await run_program([speaker.encoder, *quality], b"", seconds, env)
        sound.unlink(missing_ok=True)
        return ogg


def endpoint(
    base_url: str | None, api_key: Secret | None, provider: str, models: ModelsSettings, variables: Mapping[str, str]
) -> tuple[str, Secret | None]:
    """The address and key of an OpenAI-compatible endpoint: its own, else those of the model provider of that name."""
    known = models.providers.get(provider)
    base = base_url or (known.base_url if known is not None else None)
    if base is None and provider != "openai":
        raise InvalidRequest(
            f"no address for {provider}: set baseUrl beside it, or models.providers.{provider}.baseUrl"
        )
    key = api_key or (known.api_key if known is not None else None)
    variable = variables.get(f"{provider.upper().replace('-', '_')}_API_KEY", "")
    return (base or OPENAI).rstrip("/"), key or (Secret(variable) if variable else None)


def load_remote() -> Any:
    """The HTTP side, loaded at its first use: it brings an HTTP client with it."""
    from openclaw.tools.voice import remote

    return remote


def _prepare(folder: Path) -> None:
    """Makes the folder and removes what was said long ago."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    for path in folder.iterdir():
        if path.is_file() and time.time() - path.stat().st_mtime > KEPT_SECONDS:
            path.unlink(missing_ok=True)


def _keep(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


# Programs that make or understand sound.

SHOWN_CHARS = 300


async def run_program(argv: Sequence[str], data: bytes, seconds: float, env: Mapping[str, str]) -> str:
    """What it prints; raises `Unavailable` with its own words when it fails or takes too long."""
    name = Path(argv[0]).name
    try:
        said = await ask_program(argv, data, env=env, seconds=seconds)
    except OSError as error:
        raise Unavailable(f"{name} cannot be started: {error.strerror}") from error
    if said.why == "late":
        raise Unavailable(f"{name} took longer than {seconds:g} s")
    if said.why:
        raise Unavailable(f"{name} wrote more than {ANSWER_BYTES >> 20} MiB and was stopped")
    if said.code:
        words = " ".join(said.err.decode(errors="replace").split())[-SHOWN_CHARS:]
        raise Unavailable(f"{name} failed with code {said.code}: {words or 'without a word'}")
    return said.out.decode(errors="replace")


# The tool.

SendVoice = Callable[[ToolContext, Path], Awaitable[Mapping[str, Any] | None]]
"""Sends a sound file to the people of a conversation; None when they are on no channel."""


class TtsArgs(Struct, frozen=True, rename="camel"):
    text: Annotated[str, param("What to say")]
    timeout_ms: Annotated[int | None, param("Longest time for making it", minimum=1)] = None


class TtsTool(ArgsTool[TtsArgs]):
    """The `tts` tool."""

    args_type = TtsArgs
    spec = tool_spec(
        "tts",
        "Speech",
        "say it in a voice note",
        "Say a text aloud. In a conversation on a channel the voice note is sent by this call; do not repeat its text.",
        TtsArgs,
        absent={"channel": "it goes to the people of this conversation; leave it out"},
    )

    def __init__(self, speech: Speech, send: SendVoice) -> None:
        self._speech = speech
        self._send = send

    def effects(self, args: Mapping[str, Any]) -> Effects:
        speaker = self._speech.speaker
        return Effects.SPENDS if speaker is not None and speaker.kind == "openai" else Effects.NONE

    async def run(self, wanted: TtsArgs, context: ToolContext) -> Output:
        seconds = wanted.timeout_ms / 1000 if wanted.timeout_ms else None
        path = await self._speech.speak(wanted.text, f"{context.run_id}:{context.call_id}", seconds)
        sent = await self._send(context, path)
        if sent is None:
            note = f"Put this on a line of its own into your answer to hand it over: MEDIA:{path}"
            return json_output({"status": "ok", "path": str(path), "note": note})
        return json_output({**sent, "path": str(path), "note": "If nothing is left to say, reply exactly NO_REPLY."})
