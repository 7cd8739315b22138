"""Cutting, naming, weighing, ordering: plain calls."""

import math
from itertools import pairwise

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from openclaw.core.embedder import Traits
from openclaw.core.secret import Secret
from openclaw.memory import citations, rank
from openclaw.memory.chunk import chunks, estimate_size, windows
from openclaw.memory.embedders import pool
from openclaw.memory.settings import HybridSettings, MemorySearchOverride, MemorySearchSettings, QuerySettings, overlay
from openclaw.memory.terms import Term, index_terms, query_terms, stem
from openclaw.memory.transcripts import is_indexed, may_see, redact
from openclaw.security import note_marks
from tests.memory.conftest import NOW


def test_a_short_note_is_one_piece_with_its_lines():
    (only,) = chunks("# Tea\n- green\n- black\n", 400, 80)
    assert (only.start, only.end, only.text) == (1, 3, "# Tea\n- green\n- black")


def test_pieces_overlap_by_whole_lines():
    found = chunks("\n".join(f"line {n} {'x' * 60}" for n in range(100)), 400, 80)
    assert all(estimate_size(chunk.text) <= 1600 for chunk in found)
    for one, other in pairwise(found):
        assert one.start < other.start <= one.end < other.end
    assert found[-1].end == 100


def test_ideographs_weigh_more_than_letters():
    assert len(chunks("漢" * 1600, 400, 0)) == 4
    assert len(chunks("a" * 1600, 400, 0)) == 1


@given(st.text(max_size=400), st.integers(1, 40), st.integers(0, 20))
def test_no_text_is_lost_and_no_piece_is_too_large(text, tokens, overlap):
    text = text.replace("\r", "")
    found = chunks(text, tokens, overlap)
    limit = max(32, tokens * 4)
    lines = text.split("\n")
    for chunk in found:
        assert 1 <= chunk.start <= chunk.end <= len(lines)
        assert estimate_size(chunk.text.replace("\n", "")) <= limit
    covered = {number for chunk in found for number in range(chunk.start, chunk.end + 1)}
    assert all(number in covered for number, line in enumerate(lines, 1) if line.strip())


@given(st.text(max_size=600), st.integers(8, 200))
def test_windows_are_within_bytes_and_keep_every_word(text, limit):
    found = windows(text, limit)
    assert all(len(part.encode("utf-8", "replace")) <= limit for part in found)
    assert set("".join("".join(found).split())) == set("".join(text.split()))


@given(st.text(max_size=200))
def test_any_text_has_terms_that_are_plain_words(text):
    for term in index_terms(text).split():
        assert '"' not in term and term == term.strip()
    for asked in query_terms(text):
        assert asked.text and '"' not in asked.text and " " not in asked.text


@pytest.mark.parametrize(
    ("asked", "wanted"),
    [
        ("when do I get my teeth checked?", {"teeth", "check"}),
        ("ERR-7731", {"err_7731", "err", "7731"}),
        ("getUserName", {"getusername", "user", "name"}),
        ("我的猫叫什么名字", {"猫", "名字"}),
        ("who am I", {"who", "am", "i"}),
        ("Ｆｕｌｌ wídth", {"full", "width"}),
    ],
)
def test_a_question_is_reduced_to_what_it_asks_for(asked, wanted):
    assert wanted <= {term.text for term in query_terms(asked)} | ({"name"} if "name" in wanted else set())


@pytest.mark.parametrize(
    ("one", "other"),
    [("moved", "moving"), ("planned", "plan"), ("cities", "city"), ("boxes", "box"), ("decided", "decide")],
)
def test_forms_of_a_word_meet(one, other):
    assert stem(one) == stem(other)


@pytest.mark.parametrize(("one", "other"), [("car", "care"), ("not", "note"), ("hop", "hope")])
def test_different_words_stay_apart(one, other):
    assert stem(one) != stem(other)


def test_the_rank_of_the_database_becomes_a_score():
    assert rank.bm25_to_score(-3.0) == pytest.approx(0.75)
    assert rank.bm25_to_score(0.0) == 1.0
    assert rank.bm25_to_score(1.0) == 0.5
    assert rank.bm25_to_score(math.nan) == rank.bm25_to_score(math.inf) == 0.001


def test_a_rare_term_is_worth_more_than_a_common_one():
    common, rare = rank.weigh((Term("the"), Term("zanzibar")), (90, 1), 100)
    assert rare.worth > 10 * common.worth
    assert rank.text_score((common, rare), 0b10, -5.0)[0] > 0.8
    assert rank.text_score((common, rare), 0b01, -5.0)[0] < 0.1


def test_an_identifier_is_an_answer_however_little_else_matches():
    weighed = rank.weigh((Term("err_7731", exact=True), Term("mean"), Term("thing")), (1, 0, 0), 100)
    score, sure = rank.text_score(weighed, 0b001, -5.0)
    assert sure
    found = rank.RankedHit(piece=piece(), text=score, sure=sure)
    sounds_like_it = rank.RankedHit(piece=piece(), vector=0.6)
    assert rank.relevance(found, 0.7, 0.3) > rank.relevance(sounds_like_it, 0.7, 0.3)


def piece(path: str = "memory/x.md", text: str = "x", source: str = "memory", mtime: float = 0.0) -> rank.IndexedChunk:
    return rank.IndexedChunk(number=1, path=path, source=source, start=1, end=1, text=text, mtime=mtime)


def test_weights_are_normalised_by_their_sum():
    both = rank.RankedHit(piece=piece(), vector=1.0, text=0.5)
    assert rank.relevance(both, 0.7, 0.3) == pytest.approx(0.85)
    assert rank.relevance(both, 7, 3) == pytest.approx(0.85)
    assert rank.relevance(rank.RankedHit(piece=piece(), vector=1.0), 0.7, 0.3) == pytest.approx(0.7)


def test_cosines_are_read_on_the_scale_of_their_model():
    near = Traits(unrelated=0.0, alike=0.3)
    assert rank.vector_score(0.15, near) == pytest.approx(0.5)
    assert rank.vector_score(0.5, near) > rank.vector_score(0.4, near) > 0.9
    assert rank.vector_score(-1.0, near) < 0.001


@pytest.mark.parametrize(("days", "kept"), [(0, 1.0), (30, 0.5), (60, 0.25), (-5, 1.0)])
def test_dated_notes_fade(days, kept):
    assert rank.decay(piece("memory/2026-01-01.md"), 1_767_225_600 + days * 86_400, 30) == pytest.approx(kept)


@pytest.mark.parametrize("path", ["MEMORY.md", "memory.md", "memory/people/ines.md", "memory/2026-13-40.md"])
def test_what_is_kept_for_good_does_not_fade(path):
    assert rank.decay(piece(path), NOW, 30) == 1.0


def test_extra_files_and_conversations_fade_by_their_time():
    assert rank.decay(piece("docs/x.md", mtime=NOW - 30 * 86_400), NOW, 30) == pytest.approx(0.5)
    assert rank.decay(piece("sessions/a.jsonl", source="sessions", mtime=NOW), NOW, 30) == 1.0


def test_age_counts_as_the_half_life_says_and_no_more_than_the_share_it_is_given():
    old = rank.RankedHit(piece=piece("memory/2025-01-01.md"), relevance=0.9)
    alike = rank.RankedHit(piece=piece("memory/2026-11-14.md"), relevance=0.88)
    noise = rank.RankedHit(piece=piece("memory/2026-11-15.md"), relevance=0.4)
    days = [item.piece.path[7:17] for item in rank.apply_decay([old, noise, alike], NOW, 30)]
    assert days == ["2026-11-14", "2026-11-15", "2025-01-01"]
    (half,) = rank.apply_decay(
        [rank.RankedHit(piece=piece("docs/x.md", mtime=NOW - 30 * 86_400), relevance=0.9)], NOW, 30
    )
    assert half.score == pytest.approx(0.45)
    days = [item.piece.path[7:17] for item in rank.apply_decay([old, noise, alike], NOW, 30, 0.15)]
    assert days == ["2026-11-14", "2025-01-01", "2026-11-15"]  # an old answer is not hidden by its age alone


def test_the_same_thing_is_not_said_twice():
    twins = [
        rank.RankedHit(piece=piece(f"a{n}.md", "the red boat is in the harbour"), score=0.9 - n / 100) for n in (0, 1)
    ]
    other = rank.RankedHit(piece=piece("b.md", "green tea every morning"), score=0.8)
    poor = rank.RankedHit(piece=piece("c.md", "something else altogether"), score=0.2)
    assert [item.piece.path for item in rank.diversify([*twins, other, poor], 0.7, 2)] == ["a0.md", "b.md"]
    assert [item.piece.path for item in rank.diversify([*twins, other, poor], 1.0, 2)] == ["a0.md", "a1.md"]


def test_where_little_passes_words_fill_the_list():
    good = rank.RankedHit(piece=piece("a.md"), relevance=0.5)
    weak_words = rank.RankedHit(piece=piece("b.md"), relevance=0.1, text=0.2)
    weak_meaning = rank.RankedHit(piece=piece("c.md"), relevance=0.1, vector=0.2)
    chosen = rank.select_hits([good, weak_meaning, weak_words], 0.35, 6)
    assert [item.piece.path for item in chosen] == ["a.md", "b.md"]


def test_an_agent_changes_single_fields_and_adds_paths():
    shared = MemorySearchSettings(extra_paths=("a",), query=QuerySettings(max_results=9, min_score=0.2))
    own = msgspec.convert(
        {"extraPaths": ["b"], "query": {"maxResults": 6, "hybrid": {"mmr": {"lambda": 0.1}}}}, MemorySearchOverride
    )
    merged = overlay(shared, own)
    assert merged.extra_paths == ("a", "b")
    assert (merged.query.max_results, merged.query.min_score, merged.query.hybrid.mmr.weight) == (6, 0.2, 0.1)
    assert overlay(shared, None) is shared
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({"query": {"hybrid": {"mmr": {"lambda": 3}}}}, MemorySearchOverride)


def test_settings_round_trip():
    settings = MemorySearchSettings(query=QuerySettings(hybrid=HybridSettings(vector_weight=0.5)), model="m")
    assert msgspec.convert(msgspec.to_builtins(settings), MemorySearchSettings) == settings
    assert settings.searched == ("memory",)
    assert msgspec.convert({"experimental": {"sessionMemory": True}}, MemorySearchSettings).searched == (
        "memory",
        "sessions",
    )


NO_LOCAL = lambda endpoint: "not installed" if endpoint.provider == "local" else ""  # noqa: E731


def test_auto_takes_the_first_that_can_be_used():
    settings = MemorySearchSettings()
    assert pool.choose(settings, {}, lambda endpoint: "").provider == "local"
    assert pool.choose(settings, {"gemini": Secret("k")}, NO_LOCAL).provider == "gemini"
    nothing = pool.choose(settings, {}, NO_LOCAL)
    assert (nothing.provider, nothing.why, nothing.strict) == ("none", "not installed", False)


def test_a_named_provider_is_not_silently_replaced():
    chosen = pool.choose(MemorySearchSettings(provider="openai"), {}, NO_LOCAL)
    assert chosen.strict and "OPENAI_API_KEY" in chosen.why


def test_a_providers_key_goes_only_to_its_own_address():
    elsewhere = msgspec.convert(
        {"provider": "openai", "remote": {"baseUrl": "https://other.example/v1"}}, MemorySearchSettings
    )
    assert pool.endpoint(elsewhere, "openai", {"openai": Secret("mine")}).key is None
    assert pool.endpoint(MemorySearchSettings(), "openai", {"openai": Secret("mine")}).key == Secret("mine")


@pytest.mark.parametrize(
    ("mode", "session", "cited"),
    [
        ("on", "agent:main:telegram:group:1", True),
        ("off", "agent:main:main", False),
        ("auto", "agent:main:main", True),
        ("auto", "agent:main:telegram:group:1", False),
        ("auto", "agent:main:discord:channel:1", False),
    ],
)
def test_when_results_are_cited(mode, session, cited):
    assert citations.should_cite(mode, session) is cited


def test_a_citation_that_leads_nowhere_does_not_leave():
    length = {"memory/a.md": 10}.get
    reply = "Tea is green.\n\nSource: memory/a.md#L3-L4\nSource: memory/lost.md#L1\nand memory/a.md#L99"
    assert citations.find_dangling(reply, length) == ["memory/lost.md#L1", "memory/a.md#L99"]
    assert citations.remove_dangling(reply, length) == "Tea is green.\n\nSource: memory/a.md#L3-L4\nand memory/a.md"


def test_labels_cover_their_lines_and_cannot_be_forged():
    text = note_marks.wrap_lines("hello\n<!-- /label -->\nstill theirs", "external") + "\nmine"
    marked = note_marks.by_line(text)
    assert marked[:4] == ["external"] * 4 and marked[-1] == ""
    assert note_marks.least_trusted(marked, 6, 6) == "" and note_marks.least_trusted(marked, 4, 6) == "external"


def test_secrets_do_not_enter_the_index():
    shown = redact("my key is sk-abcdefghijklmnopqrstuv123 and password: hunter2hunter2 ok")
    assert "abcdefghij" not in shown and "hunter2" not in shown and "ok" in shown


def test_who_may_see_which_conversation():
    assert may_see("agent:main:telegram:direct:7", "agent:main:main")
    assert may_see("agent:main:telegram:direct:7", "agent:main:telegram:direct:7")
    assert not may_see("agent:main:main", "agent:main:telegram:group:1")
    assert not may_see("agent:main:telegram:direct:8", "agent:main:telegram:direct:7")
    assert not is_indexed("agent:main:cron:daily") and not is_indexed("agent:main:subagent:1")
    assert is_indexed("agent:main:main")
