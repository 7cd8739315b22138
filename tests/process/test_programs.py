"""Finding programs as a shell does."""

import os
import shutil
from pathlib import Path

import pytest

from openclaw.process.environment import find_executable


@pytest.mark.parametrize(
    "name", ["tool", "plain", "folder", "linked", "dangling", "nowhere", "first/tool", "./tool", ""]
)
@pytest.mark.parametrize("path", ["first:second", "second:first", "first", "", ":first", None])
def test_finds_what_a_shell_would_start(name: str, path: str | None, tmp_path: Path, chdir: None) -> None:
    for place in ("first", "second"):
        (tmp_path / place / "folder").mkdir(parents=True)
        program = tmp_path / place / "tool"
        program.write_text("#!/bin/sh\n")
        program.chmod(0o755)
        (tmp_path / place / "plain").write_text("no program")
        (tmp_path / place / "linked").symlink_to("tool")
        (tmp_path / place / "dangling").symlink_to("gone")
    assert find_executable(name, path) == shutil.which(name, path=path)


def test_without_a_path_it_is_that_of_the_process() -> None:
    assert find_executable("sh") == shutil.which("sh", path=os.environ["PATH"])


@pytest.fixture
def chdir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
