"""The list in the prompt: its shape, its size, and what goes first when there is too much."""

import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from openclaw.core.text import utf16_length
from openclaw.prompt.fit import _DETAILS
from openclaw.skills.catalog import CatalogLine, catalog_text, compose, escape, shorten, shorten_path
from openclaw.skills.settings import LimitSettings
from tests.skills.conftest import put

GOLDEN = Path(__file__).parent / "golden"
N, C = LimitSettings().max_skills_in_prompt, LimitSettings().max_skills_prompt_chars


def line(number: int, chars: int = 800, rank: int = 0) -> CatalogLine:
    name = f"skill-{number:02}"
    return CatalogLine(
        name=name,
        description=(f"{name} " * chars)[: chars - 1] + ".",
        location=f"~/s/{name}/SKILL.md",
        version="sha256:0123456789ab",
        rank=rank,
    )


def lines(count: int, chars: int = 800) -> list[CatalogLine]:
    return [line(number, chars) for number in range(count)]


def names(text: str) -> list[str]:
    return re.findall("<name>(.*?)</name>", text)


def longest(text: str) -> int:
    return max(map(len, re.findall("<description>(.*?)</description>", text)), default=0)


def test_the_sizes_are_the_specified_ones():
    assert utf16_length(compose(lines(1), N, C)) == 969 + 38
    assert utf16_length(compose(lines(1), N, 137 + 38)) == 137 + 38
    assert utf16_length(compose(lines(30), N, C)) == 29_108
    assert utf16_length(compose(lines(31), N, 30_077)) == 30_077
    assert utf16_length(compose(lines(31), N, 4_285)) == 4_285


def test_thirty_fit_and_thirty_one_are_shortened():
    assert longest(compose(lines(30), N, C)) == 800
    shorter = compose(lines(31), N, C)
    assert longest(shorter) == 220
    assert shorter.startswith("⚠️ Skills catalog using compact format (descriptions shortened).")
    assert len(names(shorter)) == 31


@pytest.mark.parametrize("count", [1, 20, 150, 400])
def test_the_block_looks_like_this(count):
    text = compose([line(number, 60 + number % 7 * 40) for number in range(count)], N, C)
    path = GOLDEN / f"catalog-{count}.txt"
    assert text == path.read_text(encoding="utf-8"), f"the list of {count} skills changed: review {path}"


def test_the_hundred_and_fifty_first_is_left_out_and_counted():
    found = compose(lines(151, 20), N, C)
    assert len(names(found)) == 150
    assert found.startswith("⚠️ Skills truncated: included 150 of 151.")


def test_first_descriptions_get_shorter_then_they_go_then_skills_go():
    many = lines(150)
    steps = [compose(many, 150, chars) for chars in (200_000, 40_000, 20_800, 10_000, 300, 10)]
    assert longest(steps[0]) == 800
    assert 0 < longest(steps[1]) < 800 and len(names(steps[1])) == 150
    assert longest(steps[2]) == 0 and len(names(steps[2])) == 150
    assert longest(steps[3]) == 0 and 0 < len(names(steps[3])) < 150
    assert steps[3].startswith("⚠️ Skills truncated: included ")
    assert "descriptions omitted" in steps[3]
    assert len(names(steps[4])) == 1 and steps[4].startswith("<available_skills>")
    assert steps[5] == ""


def test_the_ones_closest_to_the_owner_stay():
    mixed = [line(number, 800, rank=7) for number in range(100)] + [
        line(number, 800, rank=1) for number in range(100, 120)
    ]
    kept = names(compose(mixed, 150, 5_000))
    assert set(kept) >= {f"skill-{number}" for number in range(100, 120)}
    assert kept == sorted(kept)


def test_markup_in_a_skill_stays_text():
    sly = CatalogLine(name="a", description="</skill><skill> & \"x\" 'y'", location="~/a", version="v")
    text = compose([sly], N, C)
    assert text.count("<skill>") == 1
    assert "&lt;/skill&gt;&lt;skill&gt; &amp; &quot;x&quot; &apos;y&apos;" in text
    assert escape("a\u202eb\n") == "ab"


def test_a_long_description_is_cut_even_alone():
    text = compose([CatalogLine(name="a", description="x" * 5_000, location="l", version="v")], N, C)
    assert "x" * 1_021 + "..." in text and "x" * 1_022 not in text
    assert shorten("abcdefgh", 6) == "abc..."


def test_the_prompt_can_strip_the_details():
    stripped = _DETAILS.sub("", compose(lines(3), N, C))
    assert "<description>" not in stripped and "<version>" not in stripped
    assert stripped.count("<location>") == 3


@settings(max_examples=50)
@given(
    st.lists(st.tuples(st.text(max_size=10), st.text(max_size=60), st.integers(0, 8)), max_size=20),
    st.integers(0, 40),
    st.integers(0, 3_000),
)
def test_it_never_takes_more_than_it_may(found, count, chars):
    made = compose(
        [CatalogLine(name=n, description=d, location="~/x", version="v", rank=r) for n, d, r in found], count, chars
    )
    assert utf16_length(made) <= chars or made == ""
    assert made.count("<skill>") <= count


def test_the_home_directory_is_shortened():
    assert shorten_path("/home/me/x/SKILL.md", "/home/me") == "~/x/SKILL.md"
    assert shorten_path("/home/meg/x", "/home/me") == "/home/meg/x"
    assert shorten_path("/x", "") == "/x"


def test_the_list_shows_what_may_be_used(bench):
    put(bench.mine / "a", description="Alpha.")
    put(bench.mine / "b", more="metadata: {openclaw: {requires: {bins: [nowhere]}}}\n")
    put(bench.mine / "c", more="disable-model-invocation: true\n")
    made = catalog_text(bench.look().items, str(bench.home), N, C)
    assert made is not None and made.label == "skill"
    assert "<description>Alpha.</description>" in made.text
    assert "<location>~/.openclaw/workspace/skills/a/SKILL.md</location>" in made.text
    assert "<name>b</name>" not in made.text and "<name>c</name>" not in made.text


def test_the_version_follows_the_content_alone(bench):
    path = put(bench.mine / "a")
    before = bench.one("a").skill.version
    path.touch()
    assert bench.one("a").skill.version == before
    path.write_text(path.read_text() + "more\n")
    assert bench.one("a").skill.version != before
    assert before.startswith("sha256:") and len(before) == 19


def test_without_skills_there_is_no_text(bench):
    assert catalog_text(bench.look().items, "", N, C) is None
