"""Pairing of senders: an unknown one gets a code, and may write once the owner approves that code.

`credentials/<channel>-pairing.json` has who waits, `credentials/<channel>-allowFrom.json` who was approved.
"""

import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from msgspec import Struct

from openclaw.core.clock import Clock, millis
from openclaw.core.errors import InvalidRequest, NotFound
from openclaw.storage.atomic import JsonFile
from openclaw.storage.locks import hold_lock, shared

ALPHABET = "ABCDEFGHJKLMNPQRSTUVWXYZ23456789"
CODE_CHARS = 8
WAITS_MS = 3_600_000
MOST_WAITING = 3
CHANNEL = re.compile(r"[a-zA-Z][a-zA-Z0-9_.-]{0,63}\Z")
_OTHERWISE = "correct it, or remove it and let people ask again"


class PairingRequest(Struct, frozen=True, kw_only=True, rename="camel"):
    """A sender who waits for approval."""

    id: str
    code: str
    created_at: int
    account: str = "default"
    name: str = ""
    """What they call themselves."""


class PendingSender(Struct, frozen=True, kw_only=True):
    version: int = 1
    requests: tuple[PairingRequest, ...] = ()


class PairedSender(Struct, frozen=True, kw_only=True, rename="camel"):
    version: int = 1
    allow_from: tuple[str, ...] = ()


class SenderPairing:
    """The waiting and the approved senders of one channel. Rereads changed files: the command line writes them too."""

    def __init__(self, state: Path, channel: str, clock: Clock) -> None:
        if not CHANNEL.match(channel):
            raise InvalidRequest(f"{channel!r} is not the name of a channel")
        self._waiting = JsonFile(state / "credentials" / f"{channel}-pairing.json", PendingSender, _OTHERWISE)
        self._let_in = JsonFile(state / "credentials" / f"{channel}-allowFrom.json", PairedSender, _OTHERWISE)
        self._lock = state / "credentials" / f"{channel}-pairing.lock"
        self._channel = channel
        self._clock = clock

    def let_in(self) -> tuple[str, ...]:
        return (self._let_in.read() or PairedSender()).allow_from

    def waiting(self) -> tuple[PairingRequest, ...]:
        oldest = millis(self._clock) - WAITS_MS
        return tuple(each for each in (self._waiting.read() or PendingSender()).requests if each.created_at > oldest)

    def ask(self, sender: str, account: str, name: str = "") -> PairingRequest | None:
        """A request with a fresh code; None when the sender waits already, or too many do."""
        with self._alone():
            waiting = self.waiting()
            same = [each for each in waiting if each.account == account]
            if len(same) >= MOST_WAITING or any(each.id == sender for each in same):
                return None
            code = "".join(secrets.choice(ALPHABET) for _ in range(CODE_CHARS))
            asked = PairingRequest(id=sender, code=code, created_at=millis(self._clock), account=account, name=name)
            self._waiting.write(PendingSender(requests=(*waiting, asked)))
            return asked

    def approve(self, code: str) -> PairingRequest:
        """Approves the sender who has `code`."""
        with self._alone():
            found = self._take(code)
            self._let_in.write(PairedSender(allow_from=tuple(dict.fromkeys((*self.let_in(), found.id)))))
            self._forget(found)
            return found

    def dismiss(self, code: str) -> PairingRequest:
        """Sends the sender who has `code` away; they may ask again."""
        with self._alone():
            found = self._take(code)
            self._forget(found)
            return found

    def _take(self, code: str) -> PairingRequest:
        found = next((each for each in self.waiting() if each.code == code.strip().upper()), None)
        if found is None:
            raise NotFound(f"nobody on {self._channel} waits with the code {code}: openclaw pairing list")
        return found

    def _forget(self, request: PairingRequest) -> None:
        self._waiting.write(PendingSender(requests=tuple(each for each in self.waiting() if each != request)))

    def remove(self, sender: str) -> None:
        """Revokes the approval of a sender."""
        with self._alone():
            known = self.let_in()
            if sender not in known:
                raise NotFound(f"{sender} was not let in on {self._channel}: openclaw pairing list")
            self._let_in.write(PairedSender(allow_from=tuple(each for each in known if each != sender)))

    @contextmanager
    def _alone(self) -> Iterator[None]:
        with (
            hold_lock(self._lock, f"the list of people on {self._channel}"),
            shared(self._waiting.path, self._let_in.path),
        ):
            yield
