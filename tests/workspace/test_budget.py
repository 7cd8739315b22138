"""How much of a file is sent."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openclaw.core.text import head, tail, utf16_length
from openclaw.workspace.budget import SIGNATURES_KEPT, FileBudget, FileCut, fit, shorten, should_warn
from openclaw.workspace.files import WorkspaceFile


def file(name: str, content: str = "", **more: object) -> WorkspaceFile:
    return WorkspaceFile(name=name, path=f"/w/{name}", content=content, **more)  # type: ignore[arg-type]


def sizes(cut: FileCut) -> list[int]:
    return [each.injected_chars for each in cut.files]


@pytest.mark.parametrize(
    ("name", "size", "limit", "result", "kept"),
    [
        ("SOUL.md", 30_000, 20_000, 18_106, "kept 14000+4000 chars of 30000"),
        ("AGENTS.md", 37_215, 20_000, 18_110, "kept 14000+4000 chars of 37215"),
        ("SOUL.md", 3_000, 1_500, 1_453, "kept 1050+300 chars of 3000"),
        ("SOUL.md", 3_000, 1_000, 925, "[…truncated 700+200/3000]"),
        ("SOUL.md", 300, 100, 99, "[…truncated 70+8/300]"),
    ],
)
def test_the_cut_keeps_both_ends(name, size, limit, result, kept):
    text = shorten("a" * size, name, limit)
    assert utf16_length(text) == result and kept in text


def test_the_marker_tells_where_the_rest_is():
    text = fit([file("SOUL.md", "a" * 30_000)]).files[0].content.text
    assert "a\n\n[...truncated, read SOUL.md for full content...]\n…(truncated SOUL.md: kept " in text
    assert text.endswith("30000)…\n\n" + "a" * 4_000)


def test_the_total_is_shared_in_order():
    names = ("AGENTS.md", "SOUL.md", "USER.md", "MEMORY.md")
    cut = fit([file(name, "a" * 19_000) for name in names])
    assert sizes(cut) == [19_000, 19_000, 19_000, 2_808]
    assert "kept 2100+600 chars" in cut.files[-1].content.text
    assert cut.files[-1].causes == ("total-limit",) and cut.shortened and cut.total_near_limit
    assert cut.near_limit == names


def test_what_no_longer_fits_at_all_is_named():
    cut = fit([file("A.md", "a" * 100), file("B.md", "b" * 100)], FileBudget(total=150))
    assert sizes(cut) == [100, 0] and cut.files[1].spared and cut.shortened
    assert cut.files[1].causes == ("total-limit",) and cut.files[1].raw_chars == 100


def test_missing_and_unreadable_files_say_so():
    cut = fit([file("SOUL.md", missing=True), file("USER.md", problem="no permission " + "x" * 400)])
    assert cut.files[0].content.text == "[MISSING] Expected at: /w/SOUL.md"
    assert cut.files[0].injected_chars == 33 and cut.files[0].missing
    assert cut.files[1].content.text.startswith("[UNREADABLE: no permission ") and cut.files[1].injected_chars <= 320
    assert not cut.shortened


def test_text_from_strangers_gets_less_room():
    cut = fit([file("SOUL.md", "a" * 20_000, label="external"), file("USER.md", "a" * 20_000)])
    assert sizes(cut)[0] <= 4_000 and sizes(cut)[1] == 20_000


def test_a_limit_that_makes_no_sense_is_the_default():
    assert sizes(fit([file("A.md", "a" * 25_000)], FileBudget(per_file=0, total=-3))) == [18_100]


def test_right_hand_blanks_are_not_paid_for():
    assert sizes(fit([file("A.md", "text \n\n\n")])) == [4]


def test_the_same_cut_has_the_same_signature():
    files = [file("B.md", "b" * 30_000), file("A.md", "a" * 30_000)]
    one, other = fit(files).signature, fit(files[::-1]).signature
    assert one == other and one != fit([*files, file("C.md", "c" * 30_000)]).signature
    assert json.loads(one)["files"][0] == {
        "path": "/w/A.md",
        "rawChars": 30_000,
        "injectedChars": 18_100,
        "causes": ["per-file-limit"],
    }


def test_the_warning_is_given_never_once_or_always():
    cut, whole = fit([file("A.md", "a" * 30_000)]), fit([file("A.md", "a")])
    assert should_warn(cut, "off") == (False, ()) and should_warn(whole, "always") == (False, ())
    shown, seen = should_warn(cut, "once")
    assert shown and seen == (cut.signature,)
    assert should_warn(cut, "once", seen) == (False, seen) and should_warn(cut, "always", seen) == (True, seen)
    many = tuple(f"cut {n}" for n in range(40))
    assert len(should_warn(cut, "once", many)[1]) == SIGNATURES_KEPT


@given(st.text(max_size=3_000), st.integers(min_value=1, max_value=1_500))
def test_no_cut_is_longer_than_its_limit_or_splits_a_character(text, limit):
    cut = shorten(text, "SOUL.md", limit)
    assert utf16_length(cut) <= limit
    cut.encode()
    if utf16_length(text) <= limit:
        assert cut == text


@given(st.text(), st.integers(min_value=-2, max_value=40))
def test_ends_are_real_ends(text, count):
    assert text.startswith(head(text, count)) and utf16_length(head(text, count)) <= max(0, count)
    assert text.endswith(tail(text, count)) and utf16_length(tail(text, count)) <= max(0, count)


def test_a_pair_of_surrogates_counts_two_and_stays_whole():
    assert utf16_length("🦞") == 2 and head("🦞🦞", 3) == "🦞" and tail("🦞🦞", 3) == "🦞"


@given(
    st.lists(st.text(max_size=400), max_size=6),
    st.integers(min_value=1, max_value=300),
    st.integers(min_value=1, max_value=900),
)
def test_all_files_together_stay_within_the_total(contents, per_file, total):
    cut = fit([file(f"F{n}.md", text) for n, text in enumerate(contents)], FileBudget(per_file=per_file, total=total))
    assert sum(sizes(cut)) <= total and all(size <= per_file for size in sizes(cut))
    assert len(cut.files) == len(contents)
