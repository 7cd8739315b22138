"""The Authorized Senders line: who is allowlisted, without saying who they are."""

import hashlib
import hmac
from collections.abc import Sequence
from typing import Literal

from openclaw.core.secret import Secret
from openclaw.core.text import PromptText, literal

MAX_IDS_BYTES = 980
MAX_LINE_BYTES = 1024
_ENDING = ". These senders are allowlisted; do not assume they are the owner."


def authorized_senders(
    ids: Sequence[str], display: Literal["raw", "hash"] = "hash", secret: Secret | None = None
) -> PromptText | None:
    """The line for `ids`, if there are any. Without a secret a hash could be guessed, so only their number is told."""
    # Cleaned before hashing, so that the same sender is the same in both displays.
    wanted = [name for name in dict.fromkeys(literal(each).strip() for each in ids) if name and name != "*"]
    if not wanted:
        return None
    if display == "raw":
        shown = _within_budget(wanted)
    elif secret:
        shown = _within_budget([digest(name, secret) for name in wanted])
    else:
        shown = f"{len(wanted)} (ids withheld)"
    return PromptText(f"Authorized senders: {shown}{_ENDING}", "commands.ownerAllowFrom")


def digest(name: str, secret: Secret) -> str:
    """`name` as twelve hex digits that only someone with `secret` can recompute."""
    return hmac.new(secret.reveal().encode(), name.encode(), hashlib.sha256).hexdigest()[:12]


def _within_budget(names: Sequence[str]) -> str:
    """As many of `names` as fit; the prompt's line must not grow with the allowlist."""
    room = min(MAX_IDS_BYTES, MAX_LINE_BYTES - len(f"Authorized senders: {_ENDING}".encode()))
    line = ""
    for name in names:
        if len(name.encode()) > room:
            name = name.encode()[: room - 3].decode("utf-8", "ignore") + "..."
        longer = f"{line}, {name}" if line else name
        if len(longer.encode()) > room:
            break
        line = longer
    return line
