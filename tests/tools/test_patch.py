"""Patches: parsed strictly, applied with a little understanding, file by file."""

import stat
from contextlib import suppress
from difflib import SequenceMatcher

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from openclaw.core.errors import InvalidRequest
from openclaw.tools.patch import AddFile, ApplyPatch, DeleteFile, Hunk, PatchLine, UpdateFile, apply_hunks, parse_patch

pytestmark = pytest.mark.anyio


def patch(*lines: str) -> str:
    return "\n".join(["*** Begin Patch", *lines, "*** End Patch"])


def test_every_kind_of_section_is_understood():
    sections = parse_patch(
        patch(
            "*** Add File: new.txt",
            "+one",
            "+",
            "*** Delete File: old.txt",
            "*** Update File: a.py",
            "*** Move to: b.py",
            "@@ def f():",
            " keep",
            "-out",
            "+in",
            "*** End of File",
        )
    )
    lines = (PatchLine(" ", "keep"), PatchLine("-", "out"), PatchLine("+", "in"))
    assert sections == (
        AddFile("new.txt", "one\n\n"),
        DeleteFile("old.txt"),
        UpdateFile("a.py", (Hunk(lines, ("def f():",), True),), "b.py"),
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("hello", "The first line of the patch must be '*** Begin Patch'"),
        ("", "The first line of the patch must be '*** Begin Patch'"),
        ("*** Begin Patch\n*** Delete File: a", "The last line of the patch must be '*** End Patch'"),
        (patch(), "The patch changes no file"),
        (patch("*** Add File:"), "line 2: '*** Add File:' needs a path"),
        (patch("*** Add File: a", "no plus"), "line 3: every line of a new file begins with '+'"),
        (patch("nonsense"), "line 2: expected '*** Add File:'"),
        (patch("*** Update File: a"), "has no changes"),
        (patch("*** Update File: a", "@@", "*bad"), "line 4: a hunk line begins with"),
        (patch("*** Update File: a", "@@ head"), "the hunk has no lines"),
        (patch("*** Delete File: a", "*** End Patch", "+x"), "text after '*** End Patch'"),
    ],
)
def test_a_patch_that_is_not_one_says_where(text, message):
    with pytest.raises(InvalidRequest) as error:
        parse_patch(text)
    assert message in error.value.message


def test_a_here_document_and_loose_blank_lines_are_forgiven():
    wrapped = "<<'EOF'\n" + patch("*** Add File: a", "+x", "", "*** Delete File: b", "") + "\nEOF"
    assert parse_patch(wrapped) == (AddFile("a", "x\n"), DeleteFile("b"))


def test_line_numbers_in_a_hunk_header_are_not_looked_for():
    [section] = parse_patch(patch("*** Update File: a", "@@ -1,3 +1,4 @@ def f", " x", "+y"))
    assert isinstance(section, UpdateFile)
    assert section.hunks[0].headers == ()


def hunk(*lines: str, headers: tuple[str, ...] = (), at_end: bool = False) -> Hunk:
    return Hunk(tuple(PatchLine(line[0], line[1:]) for line in lines), headers, at_end)


def test_a_header_chooses_between_equal_places():
    text = "class A:\n    x = 1\nclass B:\n    x = 1\n"
    done = apply_hunks(text, (hunk("-    x = 1", "+    x = 2", headers=("class B:",)),), "a")
    assert done == "class A:\n    x = 1\nclass B:\n    x = 2\n"


def test_two_hunks_under_one_header():
    text = "class A:\n  a\n  b\n  c\n"
    hunks = (
        hunk("-  a", "+  A", headers=("class A:",)),
        hunk("-  c", "+  C", headers=("class A:",)),
    )
    assert apply_hunks(text, hunks, "a") == "class A:\n  A\n  b\n  C\n"


def test_the_end_of_file_mark_takes_the_last_of_equal_places():
    assert apply_hunks("x\ny\nx\n", (hunk("-x", "+z", at_end=True),), "a") == "x\ny\nz\n"


def test_lines_are_added_at_the_end_or_below_a_header():
    assert apply_hunks("a\nb\n", (hunk("+c"),), "f") == "a\nb\nc\n"
    assert apply_hunks("a\nb\n", (hunk("+c", headers=("a",)),), "f") == "a\nc\nb\n"
    assert apply_hunks("", (hunk("+c"),), "f") == "c\n"


@pytest.mark.parametrize("content", ["  old  ", "\told", "old\t"])
def test_spacing_may_differ_and_context_keeps_the_files_own(content):
    assert apply_hunks(f"{content}\nx\n", (hunk(" old", "-x", "+y"),), "a") == f"{content}\ny\n"


def test_typographic_characters_may_differ():
    assert apply_hunks("it\u2019s \u2014 ok\n", (hunk("-it's - ok", "+fine"),), "a") == "fine\n"


def test_an_exact_place_further_down_beats_a_near_one_above():
    assert apply_hunks("  x\nx\n", (hunk("-x", "+y"),), "a") == "  x\ny\n"


def test_windows_endings_and_a_missing_last_newline_are_kept():
    assert apply_hunks("a\r\nb\r\nc", (hunk(" a", "-b", "+B", "+B2"),), "f") == "a\r\nB\r\nB2\r\nc"
    assert apply_hunks("a\r\nb", (hunk("-b", "+c", "+d"),), "f") == "a\r\nc\r\nd"


def test_hunks_out_of_order_are_refused():
    with pytest.raises(InvalidRequest, match="hunks go from top to bottom"):
        apply_hunks("a\nb\n", (hunk("-b", "+B"), hunk("-a", "+A")), "f")


LINES = st.lists(st.sampled_from(["a", "b", "  c", "", "d'", "e"]), max_size=12)


@given(old=LINES, new=LINES, newline=st.sampled_from(["\n", "\r\n"]), ended=st.booleans())
@settings(max_examples=150, deadline=None)
def test_any_change_written_as_one_hunk_gives_the_new_text(old, new, newline, ended):
    lines: list[PatchLine] = []
    for tag, a1, a2, b1, b2 in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag == "equal":
            lines += [PatchLine(" ", text) for text in old[a1:a2]]
        else:
            lines += [PatchLine("-", text) for text in old[a1:a2]]
            lines += [PatchLine("+", text) for text in new[b1:b2]]
    if not lines:
        return
    # A last empty line needs its newline to be a line at all.
    ended = ended or not old or not old[-1] or not new or not new[-1]
    end = newline if ended else ""
    text = newline.join(old) + (end if old else "")
    body = newline.join(new) + (end if new else "")
    if not old:
        body = body.replace("\r\n", "\n")  # an empty file has no custom to follow
    elif not ended and len(old) == 1:
        body = body.replace("\r\n", "\n")  # nor has a single open line
    written = patch("*** Update File: f", "@@", *(line.mark + line.text for line in lines))
    [section] = parse_patch(written)
    assert isinstance(section, UpdateFile)
    assert section.hunks == (Hunk(tuple(lines)),)
    assert apply_hunks(text, section.hunks, "f") == body


@given(st.text(max_size=200))
def test_no_text_makes_the_parser_stumble(text):
    for candidate in (text, f"*** Begin Patch\n{text}\n*** End Patch"):
        with suppress(InvalidRequest):
            parse_patch(candidate)


@given(
    st.lists(
        st.sampled_from(
            "*** Add File: a|*** Update File: b|*** Move to: c|*** Delete File: d|@@|@@ x|+l|-l| l||"
            "*** End of File|*** End Patch|junk".split("|")
        ),
        max_size=12,
    )
)
@settings(max_examples=150)
def test_no_order_of_lines_makes_the_parser_stumble(lines):
    try:
        sections = parse_patch(patch(*lines))
    except InvalidRequest as error:
        assert error.message
    else:
        assert sections


async def test_a_patch_adds_changes_moves_and_deletes(workspace, call):
    (workspace / "a.txt").write_text("one\ntwo\n")
    (workspace / "gone.txt").write_text("x")
    (workspace / "old.sh").write_text("echo\n")
    (workspace / "old.sh").chmod(0o755)
    output = await call(
        ApplyPatch(),
        input=patch(
            "*** Add File: new/n.txt",
            "+hello",
            "*** Update File: a.txt",
            "@@",
            "-two",
            "+2",
            "*** Update File: old.sh",
            "*** Move to: bin/new.sh",
            "@@",
            "-echo",
            "+echo hi",
            "*** Delete File: gone.txt",
        ),
    )
    assert output.text == "Success. Updated the following files:\nA new/n.txt\nM a.txt\nM bin/new.sh\nD gone.txt"
    assert (workspace / "new/n.txt").read_text() == "hello\n"
    assert (workspace / "a.txt").read_text() == "one\n2\n"
    assert (workspace / "bin/new.sh").read_text() == "echo hi\n"
    assert stat.S_IMODE((workspace / "bin/new.sh").stat().st_mode) == 0o755
    assert not (workspace / "old.sh").exists()
    assert not (workspace / "gone.txt").exists()


async def test_it_stops_at_the_first_file_that_fails_and_says_what_was_done(workspace, call):
    (workspace / "a.txt").write_text("a\n")
    (workspace / "b.txt").write_text("first\nsecond\n")
    (workspace / "c.txt").write_text("c\n")
    update = ["*** Update File: a.txt", "@@", "-a", "+A"]
    # The first hunk for b would fit; the second does not, so nothing of b may change.
    broken = ["*** Update File: b.txt", "@@", "-first", "+FIRST", "@@", "-missing", "+x"]
    output = await call(ApplyPatch(), input=patch(*update, *broken, "*** Delete File: c.txt"))
    assert output.is_error
    assert "Could not find the lines of hunk 2 of b.txt" in output.text
    assert output.text.endswith("These were already changed:\nM a.txt")
    assert (workspace / "b.txt").read_text() == "first\nsecond\n"
    assert (workspace / "c.txt").exists()


async def test_adding_never_overwrites(workspace, call):
    (workspace / "a.txt").write_text("precious")
    output = await call(ApplyPatch(), input=patch("*** Add File: a.txt", "+x"))
    assert output.is_error
    assert "already exists" in output.text
    assert (workspace / "a.txt").read_text() == "precious"


async def test_moving_never_overwrites(workspace, call):
    (workspace / "a.txt").write_text("a\n")
    (workspace / "b.txt").write_text("precious")
    output = await call(ApplyPatch(), input=patch("*** Update File: a.txt", "*** Move to: b.txt"))
    assert output.is_error
    assert (workspace / "a.txt").read_text() == "a\n"
    assert (workspace / "b.txt").read_text() == "precious"


async def test_a_bare_move_takes_binaries_too(workspace, call):
    (workspace / "a.bin").write_bytes(b"\0\1\2")
    await call(ApplyPatch(), input=patch("*** Update File: a.bin", "*** Move to: d/b.bin"))
    assert (workspace / "d/b.bin").read_bytes() == b"\0\1\2"
    assert not (workspace / "a.bin").exists()


@pytest.mark.parametrize(
    "lines",
    [
        ("*** Add File: ../out.txt", "+x"),
        ("*** Add File: door/out.txt", "+x"),
        ("*** Delete File: ../victim.txt",),
        ("*** Update File: window.txt", "@@", "-v", "+x"),
        ("*** Update File: inside.txt", "*** Move to: ../out.txt"),
        ("*** Add File: /tmp/openclaw-test-must-not-exist", "+x"),
    ],
)
async def test_a_patch_stays_in_the_workspace_by_default(workspace, tmp_path, call, lines):
    (tmp_path / "victim.txt").write_text("v\n")
    (tmp_path / "outside").mkdir()
    (workspace / "door").symlink_to(tmp_path / "outside")
    (workspace / "window.txt").symlink_to(tmp_path / "victim.txt")
    (workspace / "inside.txt").write_text("i")
    output = await call(ApplyPatch(), input=patch(*lines))
    assert output.is_error
    assert "outside the workspace" in output.text
    assert (tmp_path / "victim.txt").read_text() == "v\n"
    assert list((tmp_path / "outside").iterdir()) == []
    assert sorted(path.name for path in tmp_path.iterdir()) == ["outside", "victim.txt", "workspace"]


async def test_deleting_a_link_leaves_its_target(workspace, tmp_path, call):
    (tmp_path / "target.txt").write_text("t")
    (workspace / "link").symlink_to(tmp_path / "target.txt")
    output = await call(ApplyPatch(), input=patch("*** Delete File: link"))
    assert not output.is_error
    assert not (workspace / "link").is_symlink()
    assert (tmp_path / "target.txt").exists()


async def test_deleting_what_is_not_a_file_is_an_error(workspace, call):
    (workspace / "d").mkdir()
    assert "is a directory" in (await call(ApplyPatch(), input=patch("*** Delete File: d"))).text
    assert "File not found" in (await call(ApplyPatch(), input=patch("*** Delete File: nope"))).text


async def test_a_free_patch_may_leave_the_workspace(tmp_path, call):
    output = await call(ApplyPatch(workspace_only=False), input=patch("*** Add File: ../out.txt", "+x"))
    assert not output.is_error
    assert (tmp_path / "out.txt").read_text() == "x\n"


async def test_every_touched_file_is_reserved(workspace, context):
    text = patch("*** Add File: a", "+x", "*** Update File: b", "*** Move to: c")
    expected = {str(workspace / name) for name in "abc"}
    assert ApplyPatch().resources({"input": text}, context) == expected
    assert ApplyPatch().resources({"input": "nonsense"}, context) == frozenset()
