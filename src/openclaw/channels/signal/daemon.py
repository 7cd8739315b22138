"""Starts signal-cli's daemon for an account, and asks signal-cli which accounts it has."""

import os
import socket
from pathlib import Path

from openclaw.channels.signal import wire
from openclaw.core.channel import AccountClosed, TryLater
from openclaw.core.errors import InvalidRequest
from openclaw.process.child import PipedProcess, ask_program, wait_for_child
from openclaw.process.environment import safe_env

TAIL_BYTES = 4_000
LIST_SECONDS = 60.0
MISSING = (
    "{path} is not installed: get signal-cli (https://github.com/AsamK/signal-cli), or set channels.signal.httpUrl"
)


class SignalDaemon:
    """A daemon that lives as long as `keep` runs, and no longer than we do; `url` is where it will answer."""

    def __init__(self, path: str, account: str, *, attachments: bool) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"
        # Only while somebody listens: what comes meanwhile stays on Signal's servers.
        mode = ("--receive-mode", "on-connection", "--no-receive-stdout", "--ignore-stories")
        self._argv = [path, "-a", account, "daemon", "--http", f"127.0.0.1:{port}", *mode]
        self._argv += [] if attachments else ["--ignore-attachments"]
        self._account = account
        self._said = b""

    async def keep(self) -> None:
        """Runs it until it ends, which it should not, or until this is cancelled."""
        try:
            child = PipedProcess(self._argv, cwd=Path.home(), env=safe_env(os.environ))
        except FileNotFoundError as error:
            raise AccountClosed(MISSING.format(path=self._argv[0])) from error
        except OSError as error:
            raise TryLater(f"signal-cli cannot be started: {error.strerror}") from error
        ended = await wait_for_child(child, [self._hear], timeout=None)
        said = self._said.decode(errors="replace").strip().splitlines()
        if any("not registered" in line for line in said):
            raise AccountClosed(wire.unregistered(self._account))
        raise TryLater(f"signal-cli ended with {ended.code}: {said[-1][:200] if said else 'it said nothing'}")

    def _hear(self, piece: bytes) -> None:
        self._said = (self._said + piece)[-TAIL_BYTES:]


async def list_accounts(path: str) -> list[str]:
    """The numbers that signal-cli has on this machine."""
    try:
        said = await ask_program((path, "-o", "json", "listAccounts"), env=safe_env(os.environ), seconds=LIST_SECONDS)
    except OSError as error:
        raise AccountClosed(MISSING.format(path=path)) from error
    if said.code is None:
        raise TryLater(f"signal-cli gave no list of its accounts ({said.why})")
    if said.code:
        raise TryLater(f"signal-cli ended with {said.code}: {said.err.decode(errors='replace').strip()[-200:]}")
    try:
        found = wire.decode_json(said.out)
    except InvalidRequest as error:
        raise TryLater(f"signal-cli lists its accounts in a way that is not known: {error.message}") from error
    return [str(each.get("number")) for each in found if isinstance(each, dict)] if isinstance(found, list) else []
