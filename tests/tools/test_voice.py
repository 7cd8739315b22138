"""Speech: what is said, by whom, and what becomes of sound that comes in."""

import json
import shutil
import stat
import threading
import wave
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from openclaw.core.errors import InvalidRequest, Unavailable
from openclaw.core.secret import Secret
from openclaw.core.settings import Fixed
from openclaw.models.settings import ModelsSettings, ProviderSettings
from openclaw.tools.settings import (
    AudioSettings,
    MediaModelSettings,
    MediaSettings,
    SpeechProviderSettings,
    ToolsSettings,
    TtsSettings,
)
from openclaw.tools.voice.speech import Speech, to_spoken
from openclaw.tools.voice.transcribe import Transcriber

pytestmark = pytest.mark.anyio

SPEAKS = """#!/bin/sh
while [ $# -gt 0 ]; do [ "$1" = -w ] && out=$2; shift; done
cat > "$out"
"""
ENCODES = """#!/bin/sh
for last; do :; done
echo "opus: $(cat "$4")" > "$last"
"""


def program(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def speech(tmp_path: Path, settings: TtsSettings = TtsSettings(), **models: Any) -> Speech:  # noqa: B008 (immutable)
    variables = {"PATH": f"{tmp_path}:/usr/bin:/bin"}
    known = ModelsSettings(providers={name: ProviderSettings(**value) for name, value in models.items()})
    return Speech(Fixed(settings), Fixed(known), Fixed(variables), tmp_path / "voices")


@contextmanager
def endpoint(*answers: tuple[int, bytes]) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """An OpenAI-compatible endpoint that gives these answers; what it was asked is in the list."""
    asked: list[dict[str, Any]] = []
    left = list(answers)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            asked.append({"path": self.path, "body": body, "key": self.headers.get("authorization")})
            status, content = left.pop(0)
            self.send_response(status)
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 (its name there)
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/v1", asked
    finally:
        server.shutdown()
        server.server_close()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("**Good** _day_, `Ada`.", "Good day, Ada."),
        ("# News\n- one\n- two", "News\none\ntwo"),
        ("See [the map](https://a.b/c).", "See the map."),
        ("Look at https://example.org/a/b?c=d now", "Look at example.org now"),
        ("Run:\n```sh\nrm -rf /\n```\ndone", "Run:\n (code) \ndone"),
    ],
)
def test_marks_code_and_addresses_are_not_read_aloud(text: str, said: str) -> None:
    assert to_spoken(text) == said


async def test_an_installed_program_speaks_and_an_encoder_makes_a_voice_note(tmp_path: Path) -> None:
    bare = Speech(Fixed(TtsSettings()), Fixed(ModelsSettings()), Fixed({"PATH": str(tmp_path)}), tmp_path / "voices")
    assert bare.speaker is None
    with pytest.raises(Unavailable, match="install espeak-ng"):
        await bare.speak("hello", "a")
    program(tmp_path, "espeak-ng", SPEAKS)
    program(tmp_path, "opusenc", ENCODES)
    voice = speech(tmp_path)
    found = await voice.speak("Hello *Ada*", "a")
    assert found.suffix == ".ogg" and found.read_text() == "opus: Hello Ada\n"
    assert await voice.speak("Hello *Ada*", "a") == found
    assert await voice.speak("Hello *Ada*", "b") != found


async def test_what_cannot_be_said_is_refused_with_the_reason(tmp_path: Path) -> None:
    program(tmp_path, "espeak-ng", "#!/bin/sh\necho no voice called xx >&2\nexit 3\n")
    voice = speech(tmp_path, TtsSettings(max_text_length=10))
    for text, why in (("  ", "empty"), ("a long sentence", "tts.maxTextLength")):
        with pytest.raises(InvalidRequest, match=why):
            await voice.speak(text, "a")
    with pytest.raises(Unavailable, match="no voice called xx"):
        await voice.speak("hello", "a")
    program(tmp_path, "espeak-ng", "#!/bin/sh\nexec sleep 60\n")
    with pytest.raises(Unavailable, match="took longer than"):
        await voice.speak("hello", "a", 0.2)
    assert speech(tmp_path, TtsSettings(enabled=False)).speaker is None


async def test_an_endpoint_speaks_when_it_is_named_and_its_key_stays_secret(tmp_path: Path) -> None:
    with endpoint((200, b"OggS-sound"), (401, b"wrong key sk-secret-123")) as (base, asked):
        own = SpeechProviderSettings(base_url=base, api_key=Secret("sk-secret-123"), voice="nova", speed=1.2)
        voice = speech(tmp_path, TtsSettings(providers={"openai": own}))
        found = await voice.speak("Hello", "a")
        assert found.read_bytes() == b"OggS-sound" and found.suffix == ".ogg"
        (call,) = asked
        assert call["path"] == "/v1/audio/speech" and call["key"] == "Bearer sk-secret-123"
        wanted = {"input": "Hello", "voice": "nova", "response_format": "opus", "speed": 1.2}
        assert json.loads(call["body"]) == {"model": "gpt-4o-mini-tts", **wanted}
        with pytest.raises(Unavailable, match="answered 401") as raised:
            await voice.speak("Hello", "b")
        assert "sk-secret" not in raised.value.message


def listener(variables: dict[str, str], *models: MediaModelSettings, **audio: Any) -> Transcriber:
    settings = ToolsSettings(media=MediaSettings(models=models, audio=AudioSettings(**audio)))
    return Transcriber(Fixed(settings), Fixed(ModelsSettings()), Fixed(variables))


async def test_the_first_that_understands_writes_it_down(tmp_path: Path) -> None:
    note = tmp_path / "note.ogg"
    note.write_bytes(b"OggS-sound")
    deaf = program(tmp_path, "deaf", "#!/bin/sh\necho what? >&2; exit 1\n")
    hears = program(tmp_path, "hears", '#!/bin/sh\necho "  $1 said in $2: $(cat "$3")"\n')
    args = ("Ada", "{{Language}}", "{{MediaPath}}")
    models = [MediaModelSettings(type="cli", command=str(path), args=args) for path in (deaf, hears)]
    both = listener({"PATH": "/usr/bin:/bin"}, *models, language="de")
    assert await both.write_down(note) == "Ada said in de: OggS-sound"
    with pytest.raises(Unavailable, match="what"):
        await listener({"PATH": "/usr/bin:/bin"}, models[0]).write_down(note)
    assert listener({"PATH": str(tmp_path)}).listeners == ()
    assert listener({}, *models, enabled=False).listeners == ()


async def test_whisper_cpp_is_found_when_its_model_is_named(tmp_path: Path) -> None:
    program(tmp_path, "whisper-cli", '#!/bin/sh\necho "heard with $2"\n')
    assert listener({"PATH": str(tmp_path)}).listeners == ()
    found = listener({"PATH": f"{tmp_path}:/bin:/usr/bin", "WHISPER_CPP_MODEL": "/models/base.bin"})
    note = tmp_path / "note.ogg"
    note.write_bytes(b"x")
    assert await found.write_down(note) == "heard with /models/base.bin"


async def test_an_endpoint_writes_it_down(tmp_path: Path) -> None:
    note = tmp_path / "note.ogg"
    note.write_bytes(b"OggS-sound")
    with endpoint((200, b'{"text": "buy milk"}'), (200, b"<html>"), (200, b"[]")) as (base, asked):
        found = listener({"OPENAI_API_KEY": "sk-1"}, base_url=base, language="en")
        assert await found.write_down(note) == "buy milk"
        body = asked[0]["body"]
        assert asked[0]["path"] == "/v1/audio/transcriptions" and asked[0]["key"] == "Bearer sk-1"
        assert b"OggS-sound" in body and b"gpt-4o-mini-transcribe" in body and b'name="language"\r\n\r\nen' in body
        for why in ("no transcript", "without a text"):
            with pytest.raises(Unavailable, match=why):
                await found.write_down(note)


@pytest.mark.skipif(shutil.which("espeak-ng") is None, reason="espeak-ng is not installed")
async def test_espeak_ng_really_speaks(tmp_path: Path) -> None:
    path = tmp_path / "bin"
    path.mkdir()
    (path / "espeak-ng").symlink_to(shutil.which("espeak-ng") or "")
    voice = Speech(Fixed(TtsSettings()), Fixed(ModelsSettings()), Fixed({"PATH": str(path)}), tmp_path / "voices")
    found = await voice.speak("Good morning. Your train leaves at nine.", "a")
    with wave.open(str(found)) as sound:  # without an encoder it stays a WAV file
        assert 1.0 < sound.getnframes() / sound.getframerate() < 10.0
        assert max(sound.readframes(sound.getnframes())) > 0
