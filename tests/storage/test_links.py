"""The path of a file without links."""

import os
import socket
from pathlib import Path

import pytest

from openclaw.storage.links import real_path


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "file").write_text("x")
    (tmp_path / "a" / "gone (deleted)").write_text("x")
    (tmp_path / "link").symlink_to("a/b")
    (tmp_path / "again").symlink_to(tmp_path / "link")
    (tmp_path / "dangling").symlink_to("nowhere/at/all")
    (tmp_path / "self").symlink_to("self")
    os.mkfifo(tmp_path / "pipe")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "socket"))
    (tmp_path / "shut").mkdir()
    (tmp_path / "shut" / "in").write_text("x")
    return tmp_path


@pytest.mark.parametrize(
    "name",
    [
        *("a/file", "a/gone (deleted)", "link", "link/..", "link/../file", "again/x", "dangling", "dangling/x", "self"),
        *("pipe", "socket", "a/file/below", "missing", "missing/../a/file", "shut/in", "", "a//b/./", "\udcff"),
    ],
)
def test_it_is_what_looking_at_each_directory_gives(tree: Path, name: str) -> None:
    (tree / "shut").chmod(0o000)
    try:
        assert real_path(f"{tree}/{name}") == os.path.realpath(f"{tree}/{name}")
        assert real_path(tree / name) == os.path.realpath(tree / name)
    finally:
        (tree / "shut").chmod(0o700)


def test_what_has_no_place_keeps_its_name(tree: Path) -> None:
    read, write = os.pipe()
    with (tree / "a" / "file").open() as file:
        (tree / "a" / "file").unlink()
        for descriptor in (read, write, file.fileno()):
            path = f"/proc/self/fd/{descriptor}"
            assert real_path(path) == os.path.realpath(path)
    os.close(read)
    os.close(write)


def test_a_relative_path_is_below_the_current_directory(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tree)
    assert real_path("link") == str((tree / "a" / "b").resolve())


def test_a_path_that_cannot_be_is_refused_as_ever() -> None:
    with pytest.raises(ValueError, match="null"):
        real_path("a\0b")
    assert real_path("/" + "x" * 5000) == "/" + "x" * 5000


def test_it_leaves_no_descriptor_open(tree: Path) -> None:
    before = [*Path("/proc/self/fd").iterdir()]
    for name in ("a/file", "missing", "pipe", "self"):
        real_path(tree / name)
    assert [*Path("/proc/self/fd").iterdir()] == before
