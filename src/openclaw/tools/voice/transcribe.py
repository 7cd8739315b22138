"""Writes down what is said in a sound file: by an OpenAI-compatible endpoint, or by a program on this machine."""

from collections.abc import AsyncIterator, Mapping
from pathlib import Path

from openclaw.core.errors import OpenClawError, Unavailable
from openclaw.core.settings import Live, cache_per_settings
from openclaw.models.settings import ModelsSettings
from openclaw.process.environment import find_executable, safe_env
from openclaw.tools.settings import AudioSettings, MediaModelSettings, MediaSettings, ToolsSettings
from openclaw.tools.voice.speech import endpoint, load_remote, run_program

WHISPER = "whisper-cli"


@cache_per_settings
def choose_listeners(media: MediaSettings, path: str, model: str) -> tuple[MediaModelSettings, ...]:
    """Who is asked, one after the other: those configured, else whisper.cpp where it is installed with a model."""
    audio = media.audio
    if not audio.enabled:
        return ()
    named = tuple(each for each in media.models if not each.capabilities or "audio" in each.capabilities)
    if named:
        return named
    if audio.base_url:
        return (MediaModelSettings(provider="openai", base_url=audio.base_url),)
    program = find_executable(WHISPER, path)
    if program is None or not model:
        return ()
    args = ("-m", model, "-f", "{{MediaPath}}", "-l", audio.language or "auto", "--no-timestamps", "--no-prints")
    return (MediaModelSettings(type="cli", command=program, args=args),)


class Transcriber:
    """Turns voice notes into text."""

    def __init__(
        self, settings: Live[ToolsSettings], models: Live[ModelsSettings], variables: Live[Mapping[str, str]]
    ) -> None:
        self._settings = settings
        self._models = models
        self._variables = variables

    @property
    def settings(self) -> AudioSettings:
        return self._settings.current.media.audio

    @property
    def listeners(self) -> tuple[MediaModelSettings, ...]:
        media, variables = self._settings.current.media, self._variables.current
        path, model = variables.get("PATH", ""), variables.get("WHISPER_CPP_MODEL", "")
        return choose_listeners(media, path, model)

    async def write_down(self, path: Path) -> str:
        """The words in a file; raises `Unavailable` with what each listener said when none understood it."""
        failures: list[str] = []
        for listener in self.listeners:
            try:
                text = (await self._ask(listener, path)).strip()
            except OpenClawError as error:
                failures.append(error.message)
                continue
            return text[: self.settings.max_chars]
        raise Unavailable("; ".join(failures) or "nothing here can listen: set tools.media.models")

    async def _ask(self, listener: MediaModelSettings, path: Path) -> str:
        audio = self.settings
        seconds = float(listener.timeout_seconds or audio.timeout_seconds)
        language, prompt = listener.language or audio.language, listener.prompt or audio.prompt
        if listener.type == "cli" or listener.command:
            fills = {"{{MediaPath}}": str(path), "{{Language}}": language or "", "{{Prompt}}": prompt or ""}
            argv = [listener.command, *listener.args]
            for name, value in fills.items():
                argv = [part.replace(name, value) for part in argv]
            return await run_program(argv, b"", seconds, safe_env(self._variables.current))
        provider = listener.provider or "openai"
        base_url = listener.base_url or audio.base_url
        base, key = endpoint(base_url, None, provider, self._models.current, self._variables.current)
        fields = {"model": listener.model or "gpt-4o-mini-transcribe", "response_format": "json"}
        fields |= {name: value for name, value in (("language", language), ("prompt", prompt)) if value}
        found: str = await load_remote().transcribe(base, key, path, fields, seconds)
        return found


async def save_pieces(pieces: AsyncIterator[bytes], path: Path, limit: int) -> None:
    """Writes a stream to `path`; raises `Unavailable` when it is longer than `limit`."""
    size = 0
    with path.open("wb") as file:
        async for piece in pieces:
            size += len(piece)
            if size > limit:
                raise Unavailable(f"it has more than {limit:,} bytes")
            file.write(piece)
    if not size:
        raise Unavailable("it is empty")
