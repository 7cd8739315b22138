"""The command `openclaw` in a process of its own, with a home for the test."""

import subprocess
import sys
from collections.abc import Callable
from typing import NamedTuple

from openclaw.testing import TemporaryHome


class Done(NamedTuple):
    code: int
    out: str
    err: str


Typed = Callable[..., Done]


def typed(home: TemporaryHome) -> Typed:
    """Runs a command line as a person would type it."""

    def run(*words: str, stdin: str = "") -> Done:
        done = subprocess.run(
            [sys.executable, "-m", "openclaw", *words],
            env=home.environ,
            cwd=home.workspace,
            input=stdin,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        return Done(done.returncode, done.stdout, done.stderr)

    return run
