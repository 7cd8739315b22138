"""Finding text and files, with ripgrep and without."""

import os
import sys
from contextlib import suppress
from pathlib import Path

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from openclaw.core.errors import InvalidRequest
from openclaw.process.group import members
from openclaw.tools import search
from openclaw.tools.search import FindTool, Glob, GrepTool, RecordReader, RipgrepMatch, expand
from tests.tools.waiting import until

pytestmark = pytest.mark.anyio

RG = str(Path(sys.executable).parent / "rg")


@pytest.fixture(params=["rg", "python"])
def program(request):
    """Where ripgrep is, or that this machine has none."""
    return RG if request.param == "rg" else None


@pytest.fixture
def grep(program):
    return GrepTool(env=dict(os.environ), program=lambda env: program)


@pytest.fixture
def find(program):
    return FindTool(env=dict(os.environ), program=lambda env: program)


@pytest.fixture
def tree(workspace):
    for name, text in {
        "a.py": "import os\nx = 1\nprint(x)\n",
        "src/b.py": "x = 2\n",
        "src/c.ts": "let x = 3\n",
        "src/deep/d.py": "y = 4\n",
        "build/out.py": "x = 5\n",
        "debug.log": "x = 6\n",
        ".hidden.py": "x = 7\n",
        ".gitignore": "build/\n*.log\n",
        "src/.gitignore": "!keep.log\n",
        "src/keep.log": "x = 8\n",
        "bin.dat": "x = 9\n\0\0",
    }.items():
        (workspace / name).parent.mkdir(parents=True, exist_ok=True)
        (workspace / name).write_text(text)
    return workspace


async def test_matches_come_with_file_and_line(tree, grep, call):
    output = await call(grep, pattern="x = \\d")
    assert sorted(output.text.split("\n")) == [
        "a.py:2: x = 1",
        "src/b.py:1: x = 2",
        "src/c.ts:1: let x = 3",
        "src/keep.log:1: x = 8",
    ]


async def test_context_lines_are_marked(tree, grep, call):
    output = await call(grep, pattern="x = 1", context=1)
    assert output.text == "a.py-1- import os\na.py:2: x = 1\na.py-3- print(x)"


async def test_paths_can_be_used_in_the_next_call(tree, grep, call):
    assert (await call(grep, pattern="y", path="src/deep")).text == "src/deep/d.py:1: y = 4"
    assert (await call(grep, pattern="import", path="a.py")).text == "a.py:1: import os"


async def test_plain_text_and_letter_case(tree, grep, call):
    assert (await call(grep, pattern="PRINT(X)", literal=True)).text == "No matches found"
    assert (await call(grep, pattern="PRINT(X)", literal=True, ignoreCase=True)).text == "a.py:3: print(x)"


@pytest.mark.parametrize(
    ("glob", "found"),
    [
        ("*.ts", {"src/c.ts"}),
        ("*.{ts,log}", {"src/c.ts", "src/keep.log"}),
        ("src/*.py", {"src/b.py"}),
        ("!*.py", {"src/c.ts", "src/keep.log"}),
        ("!src/*.py", {"a.py", "src/c.ts", "src/keep.log"}),
        ("src/**", {"src/b.py", "src/c.ts", "src/keep.log"}),
        ("build/*.py", set()),
    ],
)
async def test_a_glob_narrows_and_never_brings_ignored_files_back(tree, grep, call, glob, found):
    output = await call(grep, pattern="x =", glob=glob)
    lines = [] if output.text == "No matches found" else output.text.split("\n")
    assert {line.split(":")[0] for line in lines} == found


async def test_too_many_matches_are_cut_with_advice(workspace, grep, call):
    (workspace / "a.txt").write_text("match\n" * 500)
    output = await call(grep, pattern="match", limit=7)
    assert output.text.count("match\n") == 7
    assert output.text.endswith("[7 matches limit reached. Use limit=14 or a narrower pattern.]")
    exact = await call(grep, pattern="match", limit=500)
    assert "limit reached" not in exact.text


async def test_a_million_matching_lines_end_at_once(workspace, grep, call):
    (workspace / "a.txt").write_bytes(b"match me\n" * 1_000_000)
    with anyio.fail_after(10):
        output = await call(grep, pattern="match")
    assert output.details["count"] == 100


async def test_long_lines_and_large_answers_are_cut(workspace, grep, call):
    (workspace / "a.js").write_text("needle" + "x" * 5_000_000 + "\n")
    output = await call(grep, pattern="needle")
    assert output.text == "a.js:1: needle" + "x" * 494 + "... [cut]"
    (workspace / "b.txt").write_text(("word " * 80 + "\n") * 1000)
    large = await call(grep, pattern="word", path="b.txt", limit=1000)
    assert len(large.text) < 52 * 1024
    assert "[50 KB output limit reached." in large.text


async def test_a_bad_pattern_says_why(tree, grep, call):
    output = await call(grep, pattern="(unclosed")
    assert output.is_error
    assert "regex parse error" in output.text
    assert "--" not in output.text


@pytest.mark.parametrize("pattern", ["--files", "--pre=touch pwned", "$(touch pwned)"])
async def test_a_pattern_is_never_an_option_or_a_command(workspace, grep, find, call, pattern):
    (workspace / "a.txt").write_text(f"has {pattern} inside\n")
    assert (await call(grep, pattern=pattern, literal=True)).text == f"a.txt:1: has {pattern} inside"
    await call(find, pattern=pattern)
    await call(grep, pattern="has", glob=pattern)
    assert [path.name for path in workspace.iterdir()] == ["a.txt"]


async def test_names_that_look_like_options_or_hold_newlines(workspace, grep, find, call):
    (workspace / "--help").write_text("needle\n")
    (workspace / "new\nline.txt").write_text("needle\n")
    output = await call(grep, pattern="needle")
    assert output.text == '--help:1: needle\n"new\\nline.txt":1: needle'
    assert (await call(grep, pattern="needle", path="--help")).text == "--help:1: needle"
    assert (await call(find, pattern="*")).text == '--help\n"new\\nline.txt"'


async def test_a_binary_file_named_directly_gives_no_rubbish(tree, grep, call):
    output = await call(grep, pattern="x", path="bin.dat")
    assert "\0" not in output.text
    assert not output.is_error


async def test_missing_and_strange_paths_are_errors(workspace, grep, find, call):
    os.mkfifo(workspace / "pipe")
    for tool in (grep, find):
        assert "not found" in (await call(tool, pattern="x", path="nope")).text
        with anyio.fail_after(5):
            assert (await call(tool, pattern="x", path="pipe")).is_error
    assert (await call(grep, pattern="")).is_error
    assert (await call(grep, pattern="x", limit=0)).is_error


async def test_a_confined_search_stays_inside(workspace, tmp_path, call):
    (tmp_path / "secret.txt").write_text("secret\n")
    (workspace / "door").symlink_to(tmp_path)
    for path in ("..", "door"):
        assert (await call(GrepTool(env={}, workspace_only=True), pattern="secret", path=path)).is_error
        assert (await call(FindTool(env={}, workspace_only=True), pattern="*", path=path)).is_error


async def test_files_are_found_by_name(tree, find, call):
    assert (await call(find, pattern="*.py")).text == "a.py\nsrc/b.py\nsrc/deep/d.py"
    assert (await call(find, pattern="src/*.py")).text == "src/b.py"
    assert (await call(find, pattern="**/*.{ts,log}")).text == "src/c.ts\nsrc/keep.log"
    assert (await call(find, pattern="*.py", path="src")).text == "src/b.py\nsrc/deep/d.py"
    assert (await call(find, pattern="*.rb")).text == "No files found matching pattern"


async def test_many_files_are_cut_with_advice(workspace, find, call):
    for n in range(30):
        (workspace / f"{n:02}.txt").write_text("")
    output = await call(find, pattern="*.txt", limit=10)
    assert output.text.endswith("09.txt\n\n[10 files limit reached. Use limit=20 or a narrower pattern.]")


async def test_outside_the_workspace_paths_are_absolute(tmp_path, find, call):
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "x.md").write_text("")
    assert (await call(find, pattern="*.md", path="../other")).text == f"{tmp_path}/other/x.md"


async def test_a_search_of_everything_leaves_out_the_kernels_answers(tmp_path, workspace, call):
    """Some files below /proc and /sys never end."""
    told = tmp_path / "told"
    program = tmp_path / "rg"
    program.write_text(f'#!/bin/sh\necho "$@" >> {told}\nexit 1\n')
    program.chmod(0o755)
    for tool in (GrepTool, FindTool):
        for path in ("/", str(tmp_path)):
            await call(tool(env=dict(os.environ), program=lambda env: str(program)), pattern="zzz", path=path)
    everything, some, files, few = told.read_text().splitlines()
    assert all(f"--glob=!/{name}" in everything and f"--glob=!/{name}" in files for name in ("proc", "sys", "dev"))
    assert "--glob" not in some + few


async def test_a_pattern_that_takes_forever_is_stopped(workspace, call):
    """The plain search backtracks; it must neither freeze us nor outlive its time."""
    (workspace / "a.txt").write_text("a" * 200 + "\n")
    slow = GrepTool(env=dict(os.environ), program=lambda env: None, timeout=1.0)
    beats = 0

    async def heart() -> None:
        nonlocal beats
        while True:
            await anyio.sleep(0.02)
            beats += 1

    async with anyio.create_task_group() as group:
        group.start_soon(heart)
        output = await call(slow, pattern="(a+)+$b")
        group.cancel_scope.cancel()
    assert "stopped after 1 seconds" in output.text
    assert beats > 10


async def test_cancelling_ends_the_search_program(workspace, call):
    (workspace / "a.txt").write_text("a" * 200 + "\n")
    slow = GrepTool(env=dict(os.environ), program=lambda env: None)
    async with anyio.create_task_group() as group:
        group.start_soon(lambda: call(slow, pattern="(a+)+$b"))
        children = await until(_children)
        group.cancel_scope.cancel()
    assert not any(members(pid) for pid in children)


def _children() -> set[int]:
    found = set()
    for task in Path(f"/proc/{os.getpid()}/task").iterdir():
        found |= {int(pid) for pid in (task / "children").read_text().split()}
    return found


def test_the_program_on_the_path_comes_before_our_own(tmp_path):
    mine = tmp_path / "rg"
    mine.write_text("#!/bin/sh\n")
    mine.chmod(0o755)
    assert search.find_program({"PATH": str(tmp_path)}) == str(mine)
    assert search.find_program({"PATH": str(tmp_path / "none")}) == RG


def test_our_own_is_run_only_when_it_is_the_file_we_know(tmp_path, caplog):
    ours = tmp_path / "bin" / "rg"
    ours.parent.mkdir()
    ours.write_bytes(Path(RG).read_bytes())
    ours.chmod(0o755)
    assert search.find_program({"PATH": str(ours.parent)}, ours) == str(ours)
    ours.write_bytes(b"#!/bin/sh\n")
    assert search.find_program({"PATH": str(ours.parent)}, ours) is None
    assert "not the ripgrep we know" in caplog.text


RECORDS = st.lists(
    st.builds(
        RipgrepMatch,
        st.text(st.characters(exclude_characters="\0", codec="utf-8"), min_size=1).filter(
            lambda name: not name.startswith("./") and "binary file" not in name
        ),
        st.integers(1, 10**6),
        st.booleans(),
        st.text(st.characters(exclude_characters="\n", codec="utf-8")),
    ),
    max_size=5,
)


@given(records=RECORDS, cut=st.integers(1, 20))
def test_records_are_read_whatever_the_pieces_they_arrive_in(records, cut):
    wire = b"".join(f"./{one.path}\0{one.number}{':' if one.matched else '-'}{one.text}\n".encode() for one in records)
    reader = RecordReader()
    seen = [record for at in range(0, len(wire), cut) for record in reader.feed(wire[at : at + cut])]
    assert seen == records


def test_a_notice_about_a_binary_file_is_skipped():
    wire = b'./b.bin: binary file matches (found "\\0" byte around offset 4)\n./a\x001:x\n'
    assert list(RecordReader().feed(wire)) == [RipgrepMatch("a", 1, True, "x")]


def test_braces_expand_and_explosions_are_refused():
    assert sorted(expand("{a,b}.{c,d}")) == ["a.c", "a.d", "b.c", "b.d"]
    with pytest.raises(InvalidRequest):
        expand("{a,b}" * 20)
    with pytest.raises(InvalidRequest):
        Glob(" ! ")
    with pytest.raises(InvalidRequest, match="is not a file pattern"):
        Glob("[0-.]")


@given(st.text(max_size=30))
def test_no_pattern_makes_the_matcher_stumble(pattern):
    with suppress(InvalidRequest):
        Glob(pattern).matches("a/b.py")
