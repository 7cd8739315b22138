"""`openclaw completion --install`: the file where each shell looks, once; and the shell completes."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from openclaw.testing import TemporaryHome
from tests.commandline import openclaw

FILES = {
    "bash": ".local/share/bash-completion/completions/openclaw",
    "fish": ".config/fish/completions/openclaw.fish",
    "zsh": ".zshrc",
}


@pytest.mark.parametrize("shell", FILES)
def test_it_is_installed_where_the_shell_looks_and_once(openclaw_home: TemporaryHome, shell: str) -> None:
    path = openclaw_home.root / FILES[shell]
    path.parent.mkdir(parents=True, exist_ok=True)
    if shell == "zsh":
        path.write_text("export EDITOR=vi\n")  # what is there stays
    environ = {**openclaw_home.environ, "SHELL": f"/bin/{shell}"}
    texts = []
    for arguments in ((shell, "--install"), ("--install",)):  # the second time by the shell in use
        done = openclaw("completion", *arguments, env=environ)
        assert done.returncode == 0 and str(path) in done.stdout, done.stderr
        texts.append(path.read_text())
    assert texts[0] == texts[1] and "openclaw" in texts[0]
    if shell == "zsh":
        assert texts[0] == 'export EDITOR=vi\neval "$(openclaw completion zsh)"\n'


def test_a_shell_that_is_not_known_is_asked_for(openclaw_home: TemporaryHome) -> None:
    done = openclaw("completion", "--install", env={**openclaw_home.environ, "SHELL": "/bin/ksh"})
    assert done.returncode == 2 and "say which shell: bash, zsh, fish" in done.stderr


def test_bash_completes_a_command(openclaw_home: TemporaryHome, tmp_path: Path) -> None:
    """The installed file, read by a real bash, asks the real program."""
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("needs bash")
    program = tmp_path / "bin" / "openclaw"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m openclaw "$@"\n')
    program.chmod(0o755)
    assert openclaw("completion", "bash", "--install", env=openclaw_home.environ).returncode == 0
    script = f"""
      source {openclaw_home.root / FILES["bash"]}
      COMP_WORDS=(openclaw models lo); COMP_CWORD=2
      _openclaw_completion openclaw lo models
      printf '%s\\n' "${{COMPREPLY[@]}}"
    """
    environ = {**openclaw_home.environ, "PATH": f"{program.parent}:{openclaw_home.environ['PATH']}"}
    done = subprocess.run([bash, "-c", script], env=environ, capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["login"], done.stderr
