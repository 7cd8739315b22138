"""Reading a workspace, tidy or hostile."""

import os
from pathlib import Path

import pytest

from openclaw.workspace.budget import fit
from openclaw.workspace.files import CACHED_FILES, MAX_BYTES, FileCache, WorkspaceFile, load


def one(workspace: Path, name: str, cache: FileCache | None = None) -> WorkspaceFile:
    (file,) = load(workspace, cache=cache, names=(name,))
    return file


def test_a_file_that_is_not_text_is_not_sent(tmp_path):
    (tmp_path / "MEMORY.md").write_bytes(bytes(range(256)) * 40)
    file = one(tmp_path, "MEMORY.md")
    assert file.content == "" and "MEMORY.md is not text" in file.problem


def test_files_come_in_prompt_order_with_missing_ones_marked(tmp_path):
    for name in ("USER.md", "AGENTS.md", "MEMORY.md"):
        (tmp_path / name).write_text(f"this is {name}")
    files = load(tmp_path)
    assert [file.name for file in files] == [
        "AGENTS.md",
        "SOUL.md",
        "TOOLS.md",
        "IDENTITY.md",
        "USER.md",
        "HEARTBEAT.md",
        "MEMORY.md",
    ]
    assert [file.name for file in files if file.missing] == ["SOUL.md", "TOOLS.md", "IDENTITY.md", "HEARTBEAT.md"]
    assert files[0].content == "this is AGENTS.md" and files[0].path == str(tmp_path / "AGENTS.md")


def test_an_edit_is_seen_on_the_next_turn_and_an_untouched_file_is_not_read_again(tmp_path):
    cache = FileCache()
    path = tmp_path / "SOUL.md"
    path.write_text("one")
    first = one(tmp_path, "SOUL.md", cache)
    assert one(tmp_path, "SOUL.md", cache) is first
    path.write_text("two")
    os.utime(path, ns=(1, 1))
    assert one(tmp_path, "SOUL.md", cache).content == "two"
    path.unlink()
    assert one(tmp_path, "SOUL.md", cache).missing


def test_a_replaced_file_of_the_same_size_and_time_is_seen(tmp_path):
    cache = FileCache()
    path, other = tmp_path / "SOUL.md", tmp_path / "other"
    path.write_text("one")
    assert one(tmp_path, "SOUL.md", cache).content == "one"
    about = path.stat()
    other.write_text("two")
    os.utime(other, ns=(about.st_atime_ns, about.st_mtime_ns))
    other.replace(path)
    assert one(tmp_path, "SOUL.md", cache).content == "two"


def test_the_cache_stays_small(tmp_path):
    cache = FileCache()
    for number in range(CACHED_FILES + 1):
        (tmp_path / f"{number}.md").write_text(str(number))
        one(tmp_path, f"{number}.md", cache)
    assert len(cache) <= CACHED_FILES


def test_both_memory_files_are_loaded_only_when_they_differ(tmp_path):
    (tmp_path / "MEMORY.md").write_text("long")
    (tmp_path / "memory.md").write_text("short")
    if len(list(tmp_path.iterdir())) == 1:
        pytest.skip("the file system does not tell the two names apart")
    assert [file.name for file in load(tmp_path) if "emory" in file.name.lower()] == ["MEMORY.md", "memory.md"]
    (tmp_path / "memory.md").unlink()
    (tmp_path / "memory.md").symlink_to("MEMORY.md")
    assert [file.name for file in load(tmp_path) if "emory" in file.name.lower()] == ["MEMORY.md"]
    (tmp_path / "memory.md").unlink()
    os.link(tmp_path / "MEMORY.md", tmp_path / "memory.md")
    assert [file.name for file in load(tmp_path) if "emory" in file.name.lower()] == ["MEMORY.md"]


def test_a_link_inside_the_workspace_is_followed(tmp_path):
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "soul.txt").write_text("kind")
    (tmp_path / "SOUL.md").symlink_to("notes/soul.txt")
    assert one(tmp_path, "SOUL.md").content == "kind"


def test_a_workspace_that_is_itself_a_link_works(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "SOUL.md").write_text("kind")
    (tmp_path / "link").symlink_to("real")
    assert one(tmp_path / "link", "SOUL.md").content == "kind"


def test_a_link_that_leaves_the_workspace_is_refused(tmp_path):
    (tmp_path / "secret").write_text("password")
    workspace = tmp_path / "w"
    workspace.mkdir()
    (tmp_path / "w-other").mkdir()
    (tmp_path / "w-other" / "x").write_text("password")
    for target in ("../secret", str(tmp_path / "secret"), "../w-other/x"):
        (workspace / "SOUL.md").symlink_to(target)
        file = one(workspace, "SOUL.md")
        assert file.content == "" and "leaves the workspace" in file.problem
        (workspace / "SOUL.md").unlink()


def test_links_to_nowhere_and_in_circles_are_told_apart(tmp_path):
    (tmp_path / "SOUL.md").symlink_to("nothing")
    (tmp_path / "USER.md").symlink_to("USER.md")
    assert one(tmp_path, "SOUL.md").problem == "it is a link to a file that does not exist"
    assert one(tmp_path, "USER.md").problem == "its links go round in a circle"


def test_a_directory_a_pipe_and_a_socket_name_are_not_read(tmp_path):
    (tmp_path / "SOUL.md").mkdir()
    os.mkfifo(tmp_path / "USER.md")
    assert one(tmp_path, "SOUL.md").problem == "SOUL.md is a directory; put a text file in its place"
    assert one(tmp_path, "USER.md").problem == "USER.md is not a regular file"


def test_an_unreadable_file_says_so(tmp_path):
    path = tmp_path / "SOUL.md"
    path.write_text("x")
    path.chmod(0)
    if os.access(path, os.R_OK):
        pytest.skip("this user may read everything")
    assert one(tmp_path, "SOUL.md").problem == "no permission to read it; check its mode and owner"


def test_bad_bytes_are_shown_and_reported(tmp_path):
    (tmp_path / "SOUL.md").write_bytes(b"\xef\xbb\xbfok \xff\xfe end")
    file = one(tmp_path, "SOUL.md")
    assert file.content == "ok \ufffd\ufffd end" and "not valid UTF-8" in file.note


def test_a_huge_file_is_read_only_at_both_ends(tmp_path):
    path = tmp_path / "AGENTS.md"
    with path.open("wb") as stream:
        stream.write(b"START " + b"x" * MAX_BYTES)
        stream.seek(50 * 1024 * 1024 - MAX_BYTES)
        stream.write(b"x" * MAX_BYTES + b" END")
    file = one(tmp_path, "AGENTS.md", FileCache())
    assert len(file.content) < MAX_BYTES + 200
    assert file.content.startswith("START ") and file.content.endswith(" END")
    assert "only the beginning and the end were read" in file.note
    (cut,) = fit([file]).files
    assert cut.injected_chars <= 20_000 and cut.raw_chars == 50 * 1024 * 1024 + 4 and cut.truncated


def test_a_missing_workspace_is_a_set_of_missing_files(tmp_path):
    assert all(file.missing for file in load(tmp_path / "nowhere"))
