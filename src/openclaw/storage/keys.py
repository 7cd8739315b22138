"""Keys this installation made for itself: one random secret on disk, and what is derived from it."""

import hashlib
import hmac
import os
import secrets
from pathlib import Path

from openclaw.core.errors import StateError
from openclaw.core.secret import Secret
from openclaw.storage.atomic import private_directory


class StateKeys:
    """Derived keys; the secret behind them is made at the first need and never leaves this object."""

    def __init__(self, state: Path) -> None:
        self._path = state / "credentials" / "prompt.key"
        self._root: bytes | None = None

    def owners(self) -> Secret:
        """The key of owner ids in prompts."""
        return Secret(self._derive("owner-display"))

    def fence(self) -> str:
        """The id in the fences round workspace files: the same in every process, so that cached prompts hold."""
        return self._derive("fence")[:16]

    def _derive(self, purpose: str) -> str:
        if self._root is None:
            self._root = self._load()
        return hmac.new(self._root, purpose.encode(), hashlib.sha256).hexdigest()

    def _load(self) -> bytes:
        try:
            private_directory(self._path.parent)
            if not self._path.exists():
                self._make()
            key = self._path.read_bytes()
        except OSError as error:
            raise StateError(f"cannot keep a key in {self._path}: {error.strerror}") from error
        if len(key) < 32:
            raise StateError(f"{self._path} is damaged: delete it, a new one is made")
        return key

    def _make(self) -> None:
        draft = self._path.with_name(f".{self._path.name}.{secrets.token_hex(4)}")
        fd = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            os.write(fd, secrets.token_hex(32).encode())
        finally:
            os.close(fd)
        try:
            os.link(draft, self._path)
        except FileExistsError:
            pass  # another process was quicker; its key is the key
        finally:
            draft.unlink()
