"""The search is as good as we say, on the questions we ship."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from openclaw.core.embedder import EmbedderEndpoint
from openclaw.memory import embedders
from openclaw.memory.evaluate import (
    LITTLE_AGE,
    EvalMetrics,
    ask,
    compute_metrics,
    sample_questions,
    search_in,
    write_sample,
)
from openclaw.memory.service import open_memory
from openclaw.memory.settings import MemorySearchSettings, QuerySettings
from tests.memory.conftest import StillClock

pytestmark = pytest.mark.anyio
BOTH = MemorySearchSettings(query=QuerySettings(hybrid=LITTLE_AGE))
WORDS = replace(BOTH, provider="none")
MEANING = replace(BOTH, query=QuerySettings(hybrid=replace(LITTLE_AGE, enabled=False)))


async def measured(folder: Path, settings: MemorySearchSettings) -> dict[str, EvalMetrics]:
    write_sample(folder / "workspace")
    memory = open_memory(
        settings,
        agent_id="words" if settings is WORDS else "main",
        workspace=folder / "workspace",
        state=folder,
        home=folder,
        clock=StillClock(),
        keys={},
        build=embedders.open_embedder,
    )
    try:
        await memory.sync()
        return {row.kind: row for row in compute_metrics(await ask(search_in(memory), sample_questions()))}
    finally:
        await memory.close()


async def test_words_alone_find_every_exact_term_identifier_and_ideograph(tmp_path: Path):
    found = await measured(tmp_path, WORDS)
    assert all(found[kind].hit_at_1 == 1 for kind in ("exact", "identifier", "cjk"))


@pytest.mark.skipif(
    bool(embedders.embedder_problem(EmbedderEndpoint(provider="local"))), reason="the extra `local` is not installed"
)
async def test_both_together_are_at_least_as_good_as_either_on_every_kind_of_question(tmp_path: Path):
    words = await measured(tmp_path, WORDS)
    meaning = await measured(tmp_path, MEANING)
    both = await measured(tmp_path, BOTH)
    for kind in both:
        assert both[kind].hit_at_1 >= max(words[kind].hit_at_1, meaning[kind].hit_at_1), kind
        assert both[kind].hit_at_5 >= max(words[kind].hit_at_5, meaning[kind].hit_at_5), kind
    assert both["all"].hit_at_5 > max(words["all"].hit_at_5, meaning["all"].hit_at_5)
    assert both["paraphrase"].hit_at_5 >= 0.9
