"""What is understood of a SKILL.md, and that nothing in one can do harm."""

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from openclaw.extensions import front_matter
from openclaw.extensions.front_matter import Malformed, split_words
from openclaw.skills.find import read_manifest
from openclaw.skills.manifest import MAX_NAME, SkillManifest, find_outside_references, parse
from tests.skills.corpus import CASES, Case


def understood(case: Case) -> SkillManifest:
    manifest, problem = read_manifest(case.data, "folder")
    assert manifest is not None, problem
    return manifest


def seen(manifest: SkillManifest, key: str) -> Any:
    match key:
        case "bins" | "any_bins" | "env" | "config":
            return getattr(manifest.requires, key)
        case "tools" | "network" | "paths":
            return getattr(manifest.permissions, key)
        case "installs":
            return tuple(step.id for step in manifest.install)
        case _:
            return getattr(manifest, key)


@pytest.mark.parametrize("case", [case for case in CASES if not case.problem], ids=lambda case: case.title)
def test_a_real_skill_is_understood(case: Case):
    manifest = understood(case)
    expect = dict(case.expect)
    noted = expect.pop("noted", None)
    if expect.pop("long_description", False):
        assert len(manifest.description) > 4_000
        assert any("the list shows 1,024" in note for note in manifest.notes)
    assert {key: seen(manifest, key) for key in expect} == expect
    assert noted is None or any(noted in note for note in manifest.notes), manifest.notes


@pytest.mark.parametrize("case", [case for case in CASES if case.problem], ids=lambda case: case.title)
def test_what_cannot_be_used_says_why(case: Case):
    manifest, problem = read_manifest(case.data, "folder")
    assert manifest is None
    assert case.problem in problem


def test_the_corpus_is_large_enough():
    assert len(CASES) >= 60
    assert len({case.title for case in CASES}) == len(CASES)


PIECES = st.sampled_from(
    ["---", "\n", "name:", "description: ", "metadata:", "{", "}", "[", "]", "&a", "*a", "!!python/name:os", "|", ">",
     "\t", "  ", '"', "'", "\\", "\0", "\r", "\ufeff", "openclaw", ": ", "- ", "?", "%YAML 1.1", "#", "install", "kind"]
)  # fmt: skip


@given(st.one_of(st.text(max_size=300), st.lists(st.one_of(PIECES, st.text(max_size=8)), max_size=60).map("".join)))
@example("---\n? {a: b}\n: c\n---\n")
@example("---\ndescription: d\n? [a]\n: 1\n---")
@example("---\n%YAML 9.9\n---\n")
@example("---\ndescription: 'x\n'y'\n---\n")
def test_no_text_makes_it_fail(text: str):
    for whole in (text, f"---\n{text}\n---\n"):
        try:
            manifest = parse(whole, "folder")
        except Malformed as error:
            assert str(error)
            continue
        assert 0 < len(manifest.name) <= MAX_NAME
        assert "\n" not in manifest.name + manifest.description


@given(st.binary(max_size=300))
def test_no_bytes_make_it_fail(data: bytes):
    manifest, problem = read_manifest(data, "folder")
    assert (manifest is None) == bool(problem)


def test_an_alias_bomb_stays_small():
    levels = "\n".join(f"k{n}: &k{n} [{', '.join([f'*k{n - 1}'] * 9) if n else 'x'}]" for n in range(12))
    matter = front_matter.read(f"---\ndescription: d\n{levels}\n---\n")
    assert sum(len(str(value)) for value in matter.fields.values()) < 2_000


def test_a_damaged_key_costs_only_itself():
    manifest = parse("---\nname: a\ndescription: b: c: d\nlicense: [unclosed\nhomepage: https://x.example\n---\n", "f")
    assert (manifest.name, manifest.description, manifest.homepage) == ("a", "b: c: d", "https://x.example")


def test_a_download_step_may_not_write_elsewhere():
    step = "{id: a, kind: download, url: 'https://x.example/a', targetDir: '%s'}"
    for place in ("/usr/local/bin", "~/bin", "../up", "a/../../b"):
        text = f"---\ndescription: d\nmetadata: {{openclaw: {{install: [{step % place}]}}}}\n---\n"
        assert parse(text, "f").install == ()
    assert parse(f"---\ndescription: d\nmetadata: {{openclaw: {{install: [{step % 'bin'}]}}}}\n---\n", "f").install


@pytest.mark.parametrize(
    ("text", "expected"),
    [("a, b ,a", ("a", "b")), ("a b", ("a", "b")), ("Bash(git add:*) Read", ("Bash(git add:*)", "Read")), ("", ())],
)
def test_lists_may_be_written_as_text(text: str, expected: tuple[str, ...]):
    assert split_words(text) == expected


@pytest.mark.parametrize(
    "path",
    [
        "../../etc/passwd",
        "{baseDir}/../x",
        "~/notes.md",
        "$HOME/.config/x",
        "/etc/shadow/x",
        "C:\\Windows\\x",
        "./a/../../b",
    ],
)
def test_a_reference_that_leaves_is_seen(path: str):
    (found,) = find_outside_references(f"first\nRead `{path}` now", 10)
    assert found.line == 11
    assert found.path == path


@pytest.mark.parametrize(
    "text",
    ["run scripts/a.py", "`./scripts/a.py`", "{baseDir}/scripts/x.sh", "https://x.example/a/b", "either/or",
     "/usr/bin/env python", "a ./b/../c", "/status", "10/12/2026", "s3://bucket/x", "curl wttr.in/London"],
)  # fmt: skip
def test_a_reference_that_stays_is_not_an_issue(text: str):
    assert find_outside_references(text) == ()
