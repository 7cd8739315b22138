"""Editing: one place each, all together, everything else to the byte."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from openclaw.tools.edit import Edited, EditTool, NotFoundOnce, Overlapping, TextEdit, apply_edits

pytestmark = pytest.mark.anyio


async def test_a_single_edit_in_the_short_form(workspace, call):
    (workspace / "a.py").write_text("def f():\n    return 1\n")
    output = await call(EditTool(), path="a.py", oldText="return 1", newText="return 2")
    assert output.text == "Successfully replaced 1 block(s) in a.py."
    assert (workspace / "a.py").read_text() == "def f():\n    return 2\n"
    assert output.details["firstChangedLine"] == 2
    assert output.details["diff"] == "@@ -1,2 +1,2 @@\n def f():\n-    return 1\n+    return 2"


async def test_edits_are_all_matched_against_the_file_as_it_was(workspace, call):
    (workspace / "a.txt").write_text("a b\n")
    edits = [{"oldText": "a", "newText": "b"}, {"oldText": "b", "newText": "a"}]
    output = await call(EditTool(), path="a.txt", edits=edits)
    assert output.text == "Successfully replaced 2 block(s) in a.txt."
    assert (workspace / "a.txt").read_text() == "b a\n"


async def test_other_names_for_the_fields_inside_edits_are_understood(workspace, call):
    (workspace / "a.txt").write_text("one")
    await call(EditTool(), path="a.txt", edits=[{"old_string": "one", "new_string": "two"}])
    assert (workspace / "a.txt").read_text() == "two"


async def test_text_found_twice_is_not_guessed_at(workspace, call):
    (workspace / "a.txt").write_text("x = 1\ny = 2\nx = 1\n")
    output = await call(EditTool(), path="a.txt", oldText="x = 1", newText="x = 3")
    assert output.is_error
    assert output.text.startswith("Found 2 occurrences of the text in a.txt. The text must be unique")
    assert (workspace / "a.txt").read_text() == "x = 1\ny = 2\nx = 1\n"


async def test_occurrences_that_overlap_count_as_two(workspace, call):
    (workspace / "a.txt").write_text("aaa")
    assert (await call(EditTool(), path="a.txt", oldText="aa", newText="b")).text.startswith("Found 2 occurrences")


async def test_text_not_found_shows_what_is_there(workspace, call):
    (workspace / "a.txt").write_text("hello\n")
    output = await call(EditTool(), path="a.txt", oldText="goodbye", newText="x")
    assert output.is_error
    assert output.text.startswith("Could not find the exact text in a.txt.")
    assert output.text.endswith("Current contents:\n\nhello\n")


async def test_the_contents_of_a_large_file_are_not_poured_out(workspace, call):
    (workspace / "a.txt").write_text("word\n" * 5000)
    assert len((await call(EditTool(), path="a.txt", oldText="goodbye", newText="x")).text) < 500


async def test_one_bad_edit_leaves_the_whole_file(workspace, call):
    (workspace / "a.txt").write_text("one two")
    edits = [{"oldText": "one", "newText": "1"}, {"oldText": "three", "newText": "3"}]
    output = await call(EditTool(), path="a.txt", edits=edits)
    assert "edits[1].oldText" in output.text
    assert (workspace / "a.txt").read_text() == "one two"


async def test_overlapping_edits_are_refused(workspace, call):
    (workspace / "a.txt").write_text("abcdef")
    edits = [{"oldText": "cde", "newText": "x"}, {"oldText": "abc", "newText": "y"}]
    output = await call(EditTool(), path="a.txt", edits=edits)
    assert "edits[0] and edits[1] overlap" in output.text


@pytest.mark.parametrize(
    "args",
    [
        {},
        {"oldText": "one"},
        {"oldText": "", "newText": "x"},
        {"oldText": "one", "newText": "one"},
        {"edits": []},
        {"edits": [{"oldText": "one"}]},
        {"edits": "one"},
        {"oldText": "one", "newText": "half \udc00"},
    ],
)
async def test_an_edit_that_says_nothing_is_an_error(workspace, call, args):
    (workspace / "a.txt").write_text("one")
    assert (await call(EditTool(), path="a.txt", **args)).is_error
    assert (workspace / "a.txt").read_text() == "one"


async def test_windows_line_ends_and_the_mark_are_kept(workspace, call):
    (workspace / "a.txt").write_bytes(b"\xef\xbb\xbfone\r\ntwo\r\nthree\r\n")
    await call(EditTool(), path="a.txt", oldText="one\ntwo", newText="1\n1.5\n2")
    assert (workspace / "a.txt").read_bytes() == b"\xef\xbb\xbf1\r\n1.5\r\n2\r\nthree\r\n"


async def test_mixed_line_ends_outside_the_edit_stay_mixed(workspace, call):
    (workspace / "a.txt").write_bytes(b"a\r\nb\nc\r\nd\n")
    await call(EditTool(), path="a.txt", oldText="c", newText="C")
    assert (workspace / "a.txt").read_bytes() == b"a\r\nb\nC\r\nd\n"


async def test_bytes_of_another_encoding_survive(workspace, call):
    (workspace / "a.txt").write_bytes(b"caf\xe9 = 1\nx = 1\n")
    output = await call(EditTool(), path="a.txt", oldText="x = 1", newText="x = 2")
    assert (workspace / "a.txt").read_bytes() == b"caf\xe9 = 1\nx = 2\n"
    output.details["diff"].encode()


@pytest.mark.parametrize(
    ("content", "old"),
    [
        ("say \u201chi\u201d", 'say "hi"'),
        ("a \u2014 b", "a - b"),
        ("a\u00a0b", "a b"),
        ("one  \ntwo", "one\ntwo"),
        ("one\ntwo", "one \ntwo\t"),
    ],
)
async def test_text_that_only_looks_the_same_is_found(workspace, call, content, old):
    (workspace / "a.txt").write_text(f"before\u2019s  \n{content}\nafter  \n")
    output = await call(EditTool(), path="a.txt", oldText=old, newText="NEW")
    assert not output.is_error, output.text
    assert (workspace / "a.txt").read_text() == "before\u2019s  \nNEW\nafter  \n"


async def test_an_exact_match_beats_one_that_looks_alike(workspace, call):
    (workspace / "a.txt").write_text("'x' \u2018x\u2019")
    await call(EditTool(), path="a.txt", oldText="'x'", newText="y")
    assert (workspace / "a.txt").read_text() == "y \u2018x\u2019"


async def test_a_binary_file_is_not_edited(workspace, call):
    content = b"MZ text\n" + bytes(100)
    (workspace / "a.exe").write_bytes(content)
    output = await call(EditTool(), path="a.exe", oldText="text", newText="x")
    assert output.is_error
    assert "binary" in output.text
    assert (workspace / "a.exe").read_bytes() == content


async def test_a_zero_byte_far_inside_also_makes_it_binary(workspace, call):
    (workspace / "a.dat").write_bytes(b"text\n" * 10_000 + b"\0")
    assert "binary" in (await call(EditTool(), path="a.dat", oldText="x", newText="y")).text


async def test_a_file_too_large_to_hold_is_not_loaded(workspace, call):
    with (workspace / "a.log").open("wb") as stream:
        stream.write(b"x\n" * 10_000)
        stream.truncate(200 * 1024 * 1024)
    assert "the limit is 32 MB" in (await call(EditTool(), path="a.log", oldText="x", newText="y")).text


async def test_a_missing_file_is_an_error_with_a_hint(workspace, call):
    (workspace / "main.py").write_text("x")
    output = await call(EditTool(), path="mian.py", oldText="x", newText="y")
    assert "File not found" in output.text
    assert "Did you mean" in output.text


async def test_distant_edits_give_separate_hunks_with_right_numbers(workspace, call):
    lines = [f"line {n}" for n in range(1, 101)]
    (workspace / "a.txt").write_text("\n".join(lines) + "\n")
    edits = [
        {"oldText": "line 10\n", "newText": "ten\nten and a half\n"},
        {"oldText": "line 90\n", "newText": ""},
    ]
    diff = (await call(EditTool(), path="a.txt", edits=edits)).details["diff"]
    headers = [line for line in diff.splitlines() if line.startswith("@@")]
    assert headers == ["@@ -7,7 +7,8 @@", "@@ -87,7 +88,6 @@"]
    assert "-line 90" in diff
    assert "+ten and a half" in diff


TEXT = st.lists(st.sampled_from([*"ab \u2019\u2014\tx\n", "\r\n"]), max_size=40).map("".join)


@given(before=TEXT, inside=TEXT, after=TEXT, new=TEXT)
@settings(max_examples=100, deadline=None)
def test_a_unique_piece_is_replaced_and_the_rest_is_untouched(before, inside, after, new):
    old = f"Q{inside}Q"
    done = apply_edits(before + old + after, (TextEdit(old, new),), "")
    assert isinstance(done, Edited)
    assert done.text == before + new + after
    copied = apply_edits(before + old + after, (TextEdit(old.replace("\r\n", "\n"), new),), "")
    assert copied == done


@given(text=TEXT, old=TEXT, new=TEXT, newline=st.sampled_from(["", "\n", "\r\n"]))
@settings(max_examples=150, deadline=None)
def test_nothing_outside_a_match_ever_changes(text, old, new, newline):
    done = apply_edits(text, (TextEdit(old, new),), newline)
    if isinstance(done, Edited):
        put = new.replace("\r\n", "\n").replace("\n", newline) if newline else new
        assert put in done.text
        kept = len(done.text) - len(put)
        assert any(text[:at] + put + text[len(text) - (kept - at) :] == done.text for at in range(kept + 1)), (
            "head and tail must be the file's own"
        )


@given(pieces=st.lists(st.sampled_from("abcdefgh"), min_size=2, max_size=8, unique=True), data=st.data())
@settings(max_examples=100, deadline=None)
def test_the_order_of_edits_does_not_matter(pieces, data):
    text = "\n".join(pieces)
    edits = tuple(TextEdit(piece, piece.upper() * 2) for piece in pieces)
    shuffled = tuple(data.draw(st.permutations(edits)))
    assert apply_edits(text, edits, "\n") == apply_edits(text, shuffled, "\n")


def test_the_verdicts_name_the_edit():
    assert apply_edits("aa", (TextEdit("a", "b"),), "\n") == NotFoundOnce(0, 2)
    assert apply_edits("abc", (TextEdit("bc", "x"), TextEdit("ab", "y")), "\n") == Overlapping(0, 1)
