"""The model on this machine and its process."""

import asyncio
import os
import signal
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openclaw.core.embedder import EmbedderEndpoint, Vector
from openclaw.core.errors import ModelNotFound
from openclaw.memory import embedders
from openclaw.memory.embedders import local
from openclaw.memory.embedders.local_worker import CLS, SEP, WordPiece

INSTALLED = not local.problem()
needs_model = pytest.mark.skipif(not INSTALLED, reason="the extra `local` is not installed")
WORDS = WordPiece.shipped()


def build() -> local.LocalEmbedder:
    embedder = embedders.open_embedder(EmbedderEndpoint(provider="local"))
    assert isinstance(embedder, local.LocalEmbedder)
    return embedder


def cosine(one: Vector, other: Vector) -> float:
    return sum(a * b for a, b in zip(one, other, strict=True))


def test_words_become_the_models_pieces():
    assert WORDS.encode("Hello, world!", 256) == [101, 7592, 1010, 2088, 999, 102]
    assert WORDS.encode("unaffable", 256) == [101, 14477, 20961, 3468, 102]
    assert WORDS.encode("café 世界", 256) == [101, 7668, 1745, 100, 102] or WORDS.encode("café", 256) == [
        101,
        7668,
        102,
    ]


@given(st.text(max_size=300), st.integers(2, 40))
def test_any_text_has_pieces_within_the_limit(text, limit):
    ids = WORDS.encode(text, limit)
    assert ids[0] == CLS and ids[-1] == SEP and len(ids) <= limit
    assert all(0 <= number < 30_522 for number in ids)


@pytest.mark.anyio
@needs_model
async def test_what_means_the_same_lies_close_together():
    embedder = build()
    try:
        teeth, dentist, router = await embedder.embed(
            ["when do I get my teeth checked?", "appointment with the dentist", "the password of the router"]
        )
        assert cosine(teeth, dentist) > cosine(teeth, router) + 0.2
        assert cosine(teeth, teeth) == pytest.approx(1, abs=1e-3)
    finally:
        await embedder.close()
    assert embedder.pid is None


@pytest.mark.anyio
@needs_model
async def test_a_question_does_not_wait_for_all_notes_that_are_embedded():
    embedder = build()
    try:
        notes = asyncio.ensure_future(
            embedder.embed([f"appointment {number} with the dentist" for number in range(60)])
        )
        await asyncio.sleep(0)
        question = asyncio.ensure_future(embedder.embed(["when do I get my teeth checked?"]))
        done, _ = await asyncio.wait({notes, question}, return_when=asyncio.FIRST_COMPLETED)
        assert done == {question}
        assert len({tuple(vector) for vector in await notes}) == 60
    finally:
        await embedder.close()


@pytest.mark.anyio
@needs_model
async def test_a_script_it_cannot_read_gets_zeros():
    embedder = build()
    try:
        chinese, english, nothing = await embedder.embed(["我的猫叫什么名字", "the cat", "  "])
        assert not any(chinese) and any(english) and not any(nothing)
    finally:
        await embedder.close()


@pytest.mark.anyio
@needs_model
async def test_a_killed_child_is_started_again():
    embedder = build()
    try:
        await embedder.embed(["a"])
        first = embedder.pid
        assert first is not None
        os.kill(first, signal.SIGKILL)
        assert any((await embedder.embed(["a"]))[0])
        assert embedder.pid not in (None, first)
    finally:
        await embedder.close()


@pytest.mark.anyio
@needs_model
async def test_an_idle_child_leaves_and_comes_back():
    spec = find_spec(local.WEIGHTS)
    assert spec is not None and spec.origin is not None
    embedder = local.LocalEmbedder(Path(spec.origin).with_name("model.onnx"), local.DIGEST, idle=0.1)
    try:
        await embedder.embed(["a"])
        async with asyncio.timeout(120):
            while embedder.pid is not None:
                await asyncio.sleep(0.02)
        assert any((await embedder.embed(["a"]))[0])
    finally:
        await embedder.close()


PARENT = """
import asyncio, os
from openclaw.core.embedder import EmbedderEndpoint; from openclaw.core.embedder import Vector
from openclaw.memory import embedders as catalog
async def main():
    embedder = catalog.open_embedder(EmbedderEndpoint(provider="local"))
    await embedder.embed(["a"])
    print(embedder.pid, flush=True)
    await asyncio.sleep(60)
asyncio.run(main())
"""


@pytest.mark.anyio
@needs_model
@pytest.mark.skipif(sys.platform == "win32", reason="asks the system by process id")
async def test_no_child_outlives_us_however_we_die():
    parent = await asyncio.create_subprocess_exec(sys.executable, "-c", PARENT, stdout=asyncio.subprocess.PIPE)
    assert parent.stdout is not None
    async with asyncio.timeout(120):
        child = int(await parent.stdout.readline())
        parent.kill()
        await parent.wait()
        while Path(f"/proc/{child}").exists() and "Z" not in Path(f"/proc/{child}/stat").read_text().split(")")[1][:3]:
            await asyncio.sleep(0.05)


@pytest.mark.anyio
@needs_model
async def test_another_file_than_the_one_we_know_is_refused(tmp_path):
    (tmp_path / "model.onnx").write_bytes(b"not a model")
    for digest in (local.DIGEST, ""):
        embedder = local.LocalEmbedder(tmp_path / "model.onnx", digest)
        with pytest.raises(ModelNotFound):
            await embedder.embed(["a"])
        await embedder.close()


def test_without_the_extra_one_clear_line_says_what_to_do(tmp_path):
    missing = EmbedderEndpoint(provider="local", model_path=str(tmp_path / "none.onnx"))
    assert "no model at" in embedders.embedder_problem(missing)
    with pytest.raises(ModelNotFound):
        embedders.open_embedder(missing)
