"""The token this installation made for itself: asked of clients when nobody configured one."""

import os
import secrets
from pathlib import Path

from openclaw.core.errors import StateError
from openclaw.core.secret import Secret
from openclaw.gateway.exposure import Exposure
from openclaw.store.atomic import private_directory


def token_path(state: Path) -> Path:
    return state / "credentials" / "gateway.token"


def shared_secret(exposure: Exposure, state: Path) -> Secret | None:
    """What clients have to present; makes the token at the first need. None when nothing is asked."""
    if exposure.mode == "none" or exposure.secret is not None:
        return exposure.secret
    return own_token(state) or _made(token_path(state))


def own_token(state: Path) -> Secret | None:
    """The token, when it has been made."""
    path = token_path(state)
    try:
        text = path.read_text().strip()
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise StateError(f"cannot read {path}: {error}") from error
    if len(text) < 32:
        raise StateError(f"{path} is damaged: delete it, a new one is made")
    return Secret(text)


def _made(path: Path) -> Secret:
    draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        private_directory(path.parent)
        fd = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            os.write(fd, secrets.token_hex(32).encode())
            os.fsync(fd)
        finally:
            os.close(fd)
        try:
            os.link(draft, path)
        except FileExistsError:
            pass  # another process was quicker; its token is the token
        finally:
            draft.unlink()
    except OSError as error:
        raise StateError(f"cannot keep a token in {path}: {error.strerror}") from error
    made = own_token(path.parent.parent)
    assert made is not None
    return made
