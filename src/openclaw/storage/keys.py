"""Keys of this installation, derived from one random secret on disk."""

import hashlib
import hmac
import secrets
from pathlib import Path

from openclaw.core.errors import StateError
from openclaw.core.secret import Secret
from openclaw.storage.atomic import create_file, replace_file


class StateKeys:
    """Derived keys; the secret is created on first use and never leaves this object."""

    def __init__(self, state: Path) -> None:
        self._path = state / "credentials" / "prompt.key"
        self._root: bytes | None = None

    def owners(self) -> Secret:
        """The key that pseudonymises owner ids in prompts."""
        return Secret(self._derive("owner-display"))

    def fence(self) -> str:
        """The id in the fences around workspace files: the same in every process, so that cached prompts stay valid."""
        return self._derive("fence")[:16]

    def rotate(self) -> None:
        """Puts a new secret in place of the old one: names made with it mean nothing any more."""
        replace_file(self._path, secrets.token_hex(32).encode())
        self._root = None

    def _derive(self, purpose: str) -> str:
        if self._root is None:
            self._root = self._load()
        return hmac.new(self._root, purpose.encode(), hashlib.sha256).hexdigest()

    def _load(self) -> bytes:
        try:
            if not self._path.exists():
                create_file(self._path, secrets.token_hex(32).encode())
            key = self._path.read_bytes()
        except OSError as error:
            raise StateError(f"cannot keep a key in {self._path}: {error.strerror}") from error
        if len(key) < 32:
            raise StateError(f"{self._path} is damaged: delete it, a new one is made")
        return key
