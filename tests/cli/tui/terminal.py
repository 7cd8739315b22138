"""A person at a terminal: tmux, with its screen read back."""

import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

TMUX = shutil.which("tmux")
PATIENCE = 300.0

needs_tmux = pytest.mark.skipif(TMUX is None, reason="needs tmux: apt-get install tmux")


class Terminal:
    """One tmux window."""

    def __init__(self, socket: Path) -> None:
        self._socket = socket
        self._code = socket.with_name("exit-code")

    def _tmux(self, *arguments: str, environ: Mapping[str, str] | None = None) -> str:
        done = subprocess.run(
            [TMUX or "tmux", "-S", str(self._socket), "-f", "/dev/null", *arguments],
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            env=environ,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def start(self, command: list[str], environ: Mapping[str, str], cwd: Path, columns: int, lines: int) -> None:
        size = ("-x", str(columns), "-y", str(lines))
        # The screen stays for a look when the command has ended; tmux does not always know the exit code.
        kept = ("sh", "-c", '"$@"; echo $? >"$0"; exec sleep 3600', str(self._code))
        there = {**environ, "TERM": "xterm-256color"}
        self._tmux("new-session", "-d", *size, "-c", str(cwd), *kept, *command, environ=there)

    def types(self, text: str) -> None:
        self._tmux("send-keys", "-l", text)

    def says(self, text: str) -> None:
        self.types(text)
        self.presses("Enter")

    def presses(self, *keys: str) -> None:
        self._tmux("send-keys", *keys)

    def pastes(self, text: str) -> None:
        self._tmux("set-buffer", text)
        self._tmux("paste-buffer", "-p")

    def resize(self, columns: int, lines: int) -> None:
        self._tmux("resize-window", "-x", str(columns), "-y", str(lines))

    def screen(self, *, colours: bool = False) -> str:
        return self._tmux("capture-pane", "-p", *(("-e",) if colours else ()))

    @property
    def title(self) -> str:
        return self._tmux("display-message", "-p", "#{pane_title}").strip()

    @property
    def clipboard(self) -> str:
        done = subprocess.run(
            [TMUX or "tmux", "-S", str(self._socket), "show-buffer"], capture_output=True, text=True, timeout=PATIENCE
        )
        return done.stdout if done.returncode == 0 else ""

    @property
    def exit_code(self) -> int | None:
        text = self._code.read_text() if self._code.exists() else ""
        return int(text) if text.endswith("\n") else None

    def until(self, what: str | Callable[[str], bool]) -> str:
        """The screen, once it shows `what`."""
        deadline = time.monotonic() + PATIENCE
        while True:
            screen = self.screen()
            if what in screen if isinstance(what, str) else what(screen):
                return screen
            assert time.monotonic() < deadline, f"no {what!r} on the screen:\n{screen}"
            time.sleep(0.05)

    def until_it_ends(self) -> int:
        deadline = time.monotonic() + PATIENCE
        while (code := self.exit_code) is None:
            assert time.monotonic() < deadline, self.screen()
            time.sleep(0.05)
        return code

    def close(self) -> None:
        subprocess.run([TMUX or "tmux", "-S", str(self._socket), "kill-server"], capture_output=True, timeout=120)


@contextmanager
def terminal(
    arguments: list[str], environ: Mapping[str, str], cwd: Path, columns: int = 80, lines: int = 24
) -> Iterator[Terminal]:
    """`openclaw ARGUMENTS` in a terminal of that size."""
    # The name of a socket may not be long, and the directories of tests are.
    with TemporaryDirectory(prefix="tmux") as place:
        shown = Terminal(Path(place) / "socket")
        try:
            shown.start([sys.executable, "-m", "openclaw", *arguments], environ, cwd, columns, lines)
            yield shown
        finally:
            shown.close()
