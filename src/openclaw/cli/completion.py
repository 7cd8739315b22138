"""`openclaw completion`: the script that lets a shell complete our commands, printed or installed."""

import os
from pathlib import Path

import click
from click.shell_completion import get_completion_class

from openclaw.cli.render import say
from openclaw.cli.root import root

SHELLS = ("bash", "zsh", "fish")
FILES = {
    "bash": ".local/share/bash-completion/completions/openclaw",
    "fish": ".config/fish/completions/openclaw.fish",
    "zsh": ".zshrc",
}
ZSH_LINE = 'eval "$(openclaw completion zsh)"'


@click.command("completion")
@click.argument("shell", required=False, type=click.Choice(SHELLS))
@click.option("--install", is_flag=True, help="Put it where the shell looks, instead of printing it.")
def completion_command(shell: str | None, install: bool) -> None:
    """Complete commands with Tab: prints the script for SHELL (the one you use when left out), or installs it."""
    shell = shell or Path(os.environ.get("SHELL", "")).name
    if shell not in SHELLS:
        raise click.UsageError(f"say which shell: {', '.join(SHELLS)}")
    found = get_completion_class(shell)
    assert found is not None
    script = found(root, {}, "openclaw", "_OPENCLAW_COMPLETE").source()
    if not install:
        click.echo(script)
        return
    path = Path.home() / FILES[shell]
    path.parent.mkdir(parents=True, exist_ok=True)
    if shell == "zsh":
        before = path.read_text() if path.exists() else ""
        if ZSH_LINE not in before:
            path.write_text(f"{before.rstrip()}\n{ZSH_LINE}\n".lstrip())
    else:
        path.write_text(script)
    say(f"installed in {path}; a new terminal completes openclaw with Tab")
