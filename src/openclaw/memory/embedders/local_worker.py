"""The child process of the local embedder: tokenizer and model. It answers an `EmbedRequest` with an `EmbedAnswer`."""

import asyncio
import hashlib
import unicodedata
import zlib
from collections.abc import Iterator
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from openclaw.core.text import compile_lazily
from openclaw.memory.embedders.signs import SignTable
from openclaw.process.stdio_rpc import WorkerMessage, WorkerOutput, WorkerRequest, run_worker

# The tokenizer.

CLS, SEP, UNKNOWN = 101, 102, 100
LONGEST_WORD = 100

_CJK = compile_lazily(
    "[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0002a6df\U0002a700-\U0002ceaf\U0002f800-\U0002fa1f]"
)


class WordPiece:
    """The WordPiece tokenizer of BERT: text to token ids, with `CLS` and `SEP`."""

    def __init__(self, vocabulary: dict[str, int]) -> None:
        self._ids = vocabulary
        self._pieces = lru_cache(maxsize=20_000)(self._word)

    @classmethod
    def shipped(cls) -> "WordPiece":
        packed = (Path(__file__).parent / "vocabulary.txt.gz").read_bytes()
        words = zlib.decompress(packed, wbits=31).decode().split("\n")
        return cls({word: number for number, word in enumerate(words)})

    def encode(self, text: str, limit: int) -> list[int]:
        """At most `limit` ids, `CLS` and `SEP` included."""
        ids = [CLS]
        for word in _words(text):
            ids += self._pieces(word)
            if len(ids) >= limit - 1:
                break
        return [*ids[: limit - 1], SEP]

    def _word(self, word: str) -> tuple[int, ...]:
        """Splits `word` greedily into the longest known pieces; `UNKNOWN` when they do not cover it."""
        if len(word) > LONGEST_WORD:
            return (UNKNOWN,)
        found: list[int] = []
        start = 0
        while start < len(word):
            for end in range(len(word), start, -1):
                piece = self._ids.get(("##" if start else "") + word[start:end])
                if piece is not None:
                    found.append(piece)
                    start = end
                    break
            else:
                return (UNKNOWN,)
        return tuple(found)


def _words(text: str) -> Iterator[str]:
    for chunk in _plain(text).split():
        start = 0
        for at, char in enumerate(chunk):
            if _alone(char):
                if start < at:
                    yield chunk[start:at]
                yield char
                start = at + 1
        if start < len(chunk):
            yield chunk[start:]


def _plain(text: str) -> str:
    """Lower-cases, drops accents and control characters, and turns all white space into spaces."""
    if text.isascii():
        if text.isprintable():
            return text.lower()
        return "".join(char if char.isprintable() else " " if char in "\t\n\r" else "" for char in text).lower()
    kept = []
    for char in text:
        kind = unicodedata.category(char)
        if char in "\t\n\r" or kind == "Zs":
            kept.append(" ")
        elif char != "\ufffd" and kind not in ("Cc", "Cf", "Co", "Cs"):
            kept.append(char)
    bare = unicodedata.normalize("NFD", "".join(kept).lower())
    return "".join(char for char in bare if unicodedata.category(char) != "Mn")


def _alone(char: str) -> bool:
    """Whether `char` is a token of its own: punctuation and ideographs."""
    code = ord(char)
    if code < 128:
        return not (char.isalnum() or code < 33)
    return unicodedata.category(char).startswith("P") or _CJK.match(char) is not None


# The model and the loop.

DIMS = 384
MAX_TOKENS = 256
BATCH_SIZE = 2
"""Batch size: on a CPU, larger batches cost memory and are no faster."""


class ModelStart(Struct, frozen=True, kw_only=True):
    """Which model to load, and how."""

    path: str
    digest: str
    threads: int


class EmbedRequest(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Texts to embed; with an index, the keys of its `count` vectors nearest to the first text are wanted too."""

    texts: tuple[str, ...]
    index: str = ""
    count: int = 0


class EmbedAnswer(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The vectors of the texts that were asked about, as little endian 32-bit floats one after the other."""

    vectors: bytes = b""
    dims: int = DIMS
    nearest: list[int] | None = None
    problem: str = ""
    """Why the model cannot be used."""


class OnnxModel:
    """all-MiniLM-L6-v2 on onnxruntime."""

    def __init__(self, path: Path, threads: int) -> None:
        # Imported by name: only the child, and only with the extra, has them.
        numpy, onnxruntime = import_module("numpy"), import_module("onnxruntime")
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.enable_cpu_mem_arena = False
        options.log_severity_level = 3
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        self._np = numpy
        try:
            self._session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        except _refusals() as error:
            raise ValueError(f"{path} is not a model that can be used here") from error
        self._inputs = {given.name for given in self._session.get_inputs()}
        self._words = WordPiece.shipped()
        self._signs: SignTable | None = None
        """Of the index asked about last: a gateway has a child for each."""

    def answer(self, asked: EmbedRequest) -> EmbedAnswer:
        vectors = self.embed(asked.texts)
        nearest = self._nearest(vectors[0], asked.index, asked.count) if asked.index else None
        return EmbedAnswer(vectors=bytes(vectors.tobytes()), nearest=nearest)

    def _nearest(self, vector: Any, index: str, count: int) -> list[int] | None:
        if self._signs is None or str(self._signs.path) != index:
            if self._signs is not None:
                self._signs.close()
            self._signs = SignTable(Path(index), DIMS, self._np)
        return self._signs.nearest(vector, count)

    def embed(self, texts: tuple[str, ...]) -> Any:
        """The unit vectors of `texts`, one in each row."""
        ids = [self._words.encode(text, MAX_TOKENS) for text in texts]
        vectors = self._np.zeros((len(ids), DIMS), dtype="<f4")
        by_length = sorted(range(len(ids)), key=lambda row: len(ids[row]))
        for start in range(0, len(by_length), BATCH_SIZE):
            rows = by_length[start : start + BATCH_SIZE]
            vectors[rows] = self._run([ids[row] for row in rows])
        return vectors

    def _run(self, ids: list[list[int]]) -> Any:
        np = self._np
        tokens = np.zeros((len(ids), max(map(len, ids))), dtype=np.int64)
        mask = np.zeros_like(tokens)
        for row, found in enumerate(ids):
            tokens[row, : len(found)] = found
            mask[row, : len(found)] = 1
        given = {"input_ids": tokens, "attention_mask": mask, "token_type_ids": np.zeros_like(tokens)}
        hidden = self._session.run(None, {name: value for name, value in given.items() if name in self._inputs})[0]
        pooled = (hidden * mask[..., None]).sum(axis=1) / mask.sum(axis=1, keepdims=True)
        return pooled / np.maximum(np.linalg.norm(pooled, axis=1, keepdims=True), 1e-12)


def _refusals() -> tuple[type[Exception], ...]:
    """The exceptions onnxruntime raises for an unusable file; they have no common base class."""
    state = import_module("onnxruntime.capi.onnxruntime_pybind11_state")
    names = (
        "Fail InvalidArgument NoSuchFile NoModel RuntimeException InvalidProtobuf NotImplemented InvalidGraph".split()
    )
    return tuple(getattr(state, name) for name in names if hasattr(state, name))


def load(path: Path, digest: str, threads: int) -> OnnxModel:
    """Loads the model in `path`; raises when the file's digest is wrong."""
    if digest and hashlib.sha256(path.read_bytes()).hexdigest() != digest:
        raise ValueError(f"{path} is not the model we know (its sha256 differs): install the extra again")
    return OnnxModel(path, threads)


async def serve(start: Any, questions: "asyncio.Queue[WorkerRequest | None]", voice: WorkerOutput) -> None:
    given, model, problem = msgspec.convert(start, ModelStart), None, ""
    try:
        model = load(Path(given.path), given.digest, given.threads)
    except (ImportError, OSError, ValueError, RuntimeError) as error:
        problem = str(error) or type(error).__name__
    voice.say(WorkerMessage(ready=True))
    while (ask := await questions.get()) is not None:
        if ask.id and not ask.stop:
            asked = msgspec.convert(ask.body, EmbedRequest)
            answer = model.answer(asked) if model is not None else EmbedAnswer(problem=problem)
            voice.say(WorkerMessage(id=ask.id, body=answer, over=model is None))


if __name__ == "__main__":
    run_worker(serve, bounded=False)
