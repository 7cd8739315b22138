"""Front matter: what is simple is read without the YAML library, and the same as with it."""

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from openclaw.extensions import front_matter
from openclaw.skills.find import bundled

PIECES = (
    *("name:", "a:", "b-c:", "null:", "description:", "requires:", "x", "Is it?", "a b", "a: b", "a #b", "# c", "-"),
    *("'quoted'", "'it''s'", '"two words"', '"a \\" b"', "'open", "[git]", "[a, b.c,d]", "[]", "[a b]", "[null, x]"),
    *(
        "{a: b}",
        "&x",
        "*x",
        "!t",
        "|",
        ">-",
        "---",
        "~",
        "null",
        "é",
        "🌿",
        "12",
        "1.5",
        "true",
        "%",
        "@",
        "`",
        "a:",
        ":",
    ),
)
LINES = st.builds(
    lambda indent, *pieces: " " * indent + " ".join(pieces),
    st.integers(0, 5),
    *[st.sampled_from(("", *PIECES))] * 3,
)


def read(head: str) -> tuple[object, object]:
    """The keys and notes, or why there are none."""
    try:
        found = front_matter.read(f"---\n{head}\n---\nbody")
    except front_matter.Malformed as error:
        return "malformed", str(error)
    return found.fields, found.notes


def line_is_named(found: tuple[object, object]) -> bool:
    """Whether a message names a line, which the comment above has moved."""
    return "line " in str(found[1])


@given(st.lists(LINES, min_size=1, max_size=6).map("\n".join))
@example("a: b\n  c: d")
@example("a:\n  b: c\n d: e")
@example("a:\na: b")
@example("a:\n  b:\n    c: [x, y]\n  d: 'e'\nf: g")
def test_what_is_read_without_the_library_is_what_the_library_reads(head: str) -> None:
    # A comment is never simple, so that the second reading is the library's.
    with_library = read(f"# read by the library\n{head}")
    if not line_is_named(with_library):
        assert read(head) == with_library


def test_more_values_than_are_read_are_refused_in_any_form() -> None:
    words = ", ".join(["a"] * (front_matter.MAX_NODES + 1))
    assert "nested deeper" in str(read(f"name: x\nlist: [{words}]"))


@pytest.mark.slow
def test_the_bundled_skills_are_read_without_the_library() -> None:
    paths = [str(path) for path in bundled().glob("*/SKILL.md")]
    assert len(paths) > 5
    program = (
        "import sys, pathlib; from openclaw.extensions import front_matter\n"
        f"for path in {paths!r}: assert front_matter.read(pathlib.Path(path).read_text()).fields['name']\n"
        "assert 'yaml' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True, cwd=Path.cwd())
