"""A small file is replaced whole or not at all."""

import stat
import subprocess
import sys
from pathlib import Path

import pytest

from openclaw.core.errors import StateError
from openclaw.storage import atomic


def test_the_new_content_is_there_private_and_alone(tmp_path: Path) -> None:
    path = tmp_path / "new" / "file.json"
    for content in (b"one", b"two"):
        atomic.replace_file(path, content)
        assert path.read_bytes() == content
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [file.name for file in path.parent.iterdir()] == ["file.json"]


def test_a_full_disk_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")
    code = """
import resource, sys
from pathlib import Path
from openclaw.core.errors import StateError
from openclaw.storage import atomic
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, resource.RLIM_INFINITY))
try:
    atomic.replace_file(Path(sys.argv[1]), b"n" * 5000)
except StateError as error:
    print(error)
"""
    said = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, timeout=120)
    assert "The old file is untouched" in said.stdout, said.stderr
    assert path.read_bytes() == b"old"
    assert [file.name for file in tmp_path.iterdir()] == ["file"]


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(StateError, match=r"cannot write .*inside"):
        atomic.replace_file(tmp_path / "file" / "inside", b"x")
    (tmp_path / "directory").mkdir()
    with pytest.raises(StateError, match=r"cannot write .*directory"):
        atomic.replace_file(tmp_path / "directory", b"x")
    assert sorted(file.name for file in tmp_path.iterdir()) == ["directory", "file"]
