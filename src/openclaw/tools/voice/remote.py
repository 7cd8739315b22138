"""The two audio calls of an OpenAI-compatible endpoint."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx2
import msgspec

from openclaw.core.errors import BadResponse, Unavailable
from openclaw.core.secret import Secret, redact
from openclaw.protocol.peer import is_loopback

MOST_BYTES = 50 * 1024 * 1024
SHOWN_CHARS = 200


async def speak(base: str, key: Secret | None, body: Mapping[str, Any], seconds: float) -> bytes:
    """The sound of a text, as Ogg Opus."""
    return await _post(f"{base}/audio/speech", key, seconds, json=dict(body))


async def transcribe(base: str, key: Secret | None, path: Path, fields: Mapping[str, str], seconds: float) -> str:
    """The words of a sound file."""
    with path.open("rb") as file:
        parts = {"file": (path.name, file.read())}
    answer = await _post(f"{base}/audio/transcriptions", key, seconds, data=dict(fields), files=parts)
    try:
        found = msgspec.json.decode(answer)
    except msgspec.DecodeError as error:
        raise BadResponse(f"{urlsplit(base).hostname} answered something that is no transcript") from error
    text = found.get("text") if isinstance(found, dict) else None
    if not isinstance(text, str):
        raise BadResponse(f"{urlsplit(base).hostname} answered without a text")
    return text


async def _post(url: str, key: Secret | None, seconds: float, **content: Any) -> bytes:
    host = urlsplit(url).hostname or ""
    headers = {"authorization": f"Bearer {key.reveal()}"} if key is not None else {}
    try:
        async with (
            httpx2.AsyncClient(timeout=seconds, trust_env=not is_loopback(host)) as client,
            client.stream("POST", url, headers=headers, **content) as answer,
        ):
            found = bytearray()
            async for piece in answer.aiter_bytes():
                found += piece
                if len(found) > MOST_BYTES:
                    raise Unavailable(f"{host} sent more than {MOST_BYTES:,} bytes of sound")
            if answer.status_code >= 300:
                said = redact(" ".join(found[:4096].decode(errors="replace").split())[:SHOWN_CHARS], key)
                raise Unavailable(f"{host} answered {answer.status_code}: {said}")
    except (httpx2.HTTPError, httpx2.InvalidURL) as error:
        raise Unavailable(f"{host or 'the address'} did not answer: {type(error).__name__}") from None
    return bytes(found)
