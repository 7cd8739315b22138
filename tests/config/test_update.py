"""Which command updates an installation: the program that made it, or none."""

import sys
from pathlib import Path

import pytest

from openclaw.config.update import find_command

EDITABLE = {"direct_url.json": '{"url": "file:///home/ada/openclaw", "dir_info": {"editable": true}}'}


def test_a_checkout_has_no_notes_of_an_installation(tmp_path: Path) -> None:
    assert find_command(tmp_path, Path("/home/ada/venv"), "/usr/bin") is None


@pytest.mark.parametrize(
    ("installed", "prefix", "programs", "command"),
    [
        ({"INSTALLER": "pip\n"}, "/home/ada/venv", (), [sys.executable, "-m", "pip", "install", "--upgrade"]),
        ({"INSTALLER": "pip"}, "/home/ada/.local/share/pipx/venvs/openclaw-py", ("pipx",), ["pipx", "upgrade"]),
        ({"INSTALLER": "uv"}, "/home/ada/.local/share/uv/tools/openclaw-py", ("uv",), ["uv", "tool", "upgrade"]),
        (
            {"INSTALLER": "uv"},
            "/home/ada/venv",
            ("uv",),
            ["uv", "pip", "install", "--python", sys.executable, "--upgrade"],
        ),
        ({"INSTALLER": "pip"}, "/home/ada/.local/share/pipx/venvs/openclaw-py", (), None),
        ({"INSTALLER": "uv"}, "/home/ada/.local/share/uv/tools/openclaw-py", (), None),
        ({"INSTALLER": "pip", **EDITABLE}, "/home/ada/venv", ("uv", "pipx"), None),
    ],
)
def test_the_program_that_installed_it_updates_it(
    tmp_path: Path, installed: dict[str, str], prefix: str, programs: tuple[str, ...], command: list[str] | None
) -> None:
    for name in programs:
        (tmp_path / name).write_text("#!/bin/sh\n")
        (tmp_path / name).chmod(0o755)
    notes = tmp_path / "openclaw_py-1.0.dist-info"
    notes.mkdir()
    for name, text in installed.items():
        (notes / name).write_text(text)
    found = find_command(tmp_path, Path(prefix), str(tmp_path))
    if found is not None:
        found = [str(Path(found[0]).name) if found[0] != sys.executable else found[0], *found[1:]]
        assert found.pop() == "openclaw-py"
    assert found == command
