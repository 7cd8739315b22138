"""The commands that people allowed for good: `exec-approvals.json`.

Other programs write the file too, with fields we do not know: a change is made in the document as it was read.
"""

import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec import Struct, field

from openclaw.core.errors import Conflict, NotFound, StateError
from openclaw.core.keys import DEFAULT_AGENT
from openclaw.storage import atomic
from openclaw.storage.locks import Holder, KernelLock, shared

LOCK_SECONDS = 5.0
REVIEW = "openclaw approvals review"


# The approvals file.


class _Policy(Struct, frozen=True, kw_only=True, rename="camel"):
    security: Literal["deny", "allowlist", "full"] | None = None
    ask: Literal["off", "on-miss", "always"] | None = None
    ask_fallback: Literal["deny", "allowlist", "full"] | None = None
    auto_allow_skills: bool | None = None


class StoredAgentApprovals(_Policy, frozen=True, kw_only=True):
    allowlist: tuple[dict[str, Any], ...] = ()


class ApprovalsDocument(Struct, frozen=True, kw_only=True, rename="camel"):
    """The part of the file that we read."""

    defaults: _Policy = _Policy()
    agents: Mapping[str, StoredAgentApprovals] = field(default_factory=dict)

    def fallback(self, agent_id: str) -> Literal["deny", "allowlist", "full"]:
        """What holds for a command when nobody answers."""
        own = self.agents.get(agent_id)
        return (own.ask_fallback if own else None) or self.defaults.ask_fallback or "deny"


class _Allowed(Struct):
    """What every allowlist entry must have."""

    pattern: str
    id: str = ""


class _Accepted(Struct, frozen=True, kw_only=True):
    """The document as we, or the owner, last left it. While it is being changed both versions count."""

    digests: tuple[str, ...]
    document: str = ""


class ApprovalFile:
    """Reads and extends the file; concurrent changes by others are kept.

    Rules that another program put there count only once the owner has looked (`openclaw approvals review`).
    """

    def __init__(self, path: Path, lock_seconds: float = LOCK_SECONDS) -> None:
        self._path = path
        self._accepted_path = path.parent / "state" / "approvals-accepted.json"
        self._lock_seconds = lock_seconds

    def read(self) -> ApprovalsDocument:
        """The rules that hold: where the file was changed behind us, what both versions allow."""
        document, accepted = self._checked(self._raw()), self._accepted()
        if self._digest() in accepted.digests:
            return document
        before = msgspec.json.decode(accepted.document or "{}", type=dict[str, Any])
        return _narrower(document, self._checked(before))

    def is_changed(self) -> bool:
        """Whether another program changed the file since we, or the owner, left it."""
        return self._digest() not in self._accepted().digests

    def versions(self) -> tuple[str, str]:
        """The document as it was last accepted, and as it is."""
        return self._accepted().document, self._text()

    def accept(self) -> None:
        """The owner has looked: the file holds as it is."""
        self._checked(self._raw())
        self._accept(_Accepted(digests=(self._digest(),), document=self._text()))

    def reject(self) -> None:
        """Puts the file back as it was last accepted."""
        accepted = self._accepted()
        if accepted.document:
            atomic.replace_file(self._path, accepted.document.encode())
        else:
            self._path.unlink(missing_ok=True)
        self.accept()

    def _text(self) -> str:
        try:
            return self._path.read_text()
        except FileNotFoundError:
            return ""

    def _digest(self) -> str:
        return hashlib.sha256(self._text().encode()).hexdigest()

    def _accepted(self) -> _Accepted:
        """What was accepted; a home that knows nothing of it yet is taken as it is."""
        try:
            return msgspec.json.decode(self._accepted_path.read_bytes(), type=_Accepted)
        except FileNotFoundError:
            first = _Accepted(digests=(self._digest(),), document=self._text())
            self._accept(first)
            return first
        except (OSError, msgspec.DecodeError):
            return _Accepted(digests=())

    def _accept(self, accepted: _Accepted) -> None:
        self._accepted_path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        atomic.replace_file(self._accepted_path, msgspec.json.encode(accepted))

    @property
    def hash(self) -> str:
        """The hash that a change can be based on; empty when there is no file."""
        try:
            return hashlib.sha256(self._path.read_bytes()).hexdigest()
        except OSError:
            return ""

    def shown(self) -> dict[str, Any]:
        """The whole document for people, without its socket's token."""
        raw = self._raw()
        self._checked(raw)
        if isinstance(raw.get("socket"), dict):
            raw["socket"].pop("token", None)
        return raw

    def allow(self, agent_id: str, grants: Sequence[Mapping[str, Any]], now: int) -> None:
        """Adds `grants` to the agent's allowlist; existing ones are refreshed in place."""
        with self._changing(now) as raw:
            agent = raw.setdefault("agents", {}).setdefault(agent_id, {})
            allowlist = agent.setdefault("allowlist", [])
            for grant in grants:
                place = next((at for at, entry in enumerate(allowlist) if _what(entry) == _what(grant)), None)
                if place is None:
                    allowlist.append(dict(grant))
                elif "identity" in grant:
                    allowlist[place]["identity"] = grant["identity"]

    def withdraw(self, wanted: str, agent_id: str | None, now: int) -> list[tuple[str, dict[str, Any]]]:
        """Removes the grants with an id, an id prefix, or a pattern; returns them with their agents."""
        with self._changing(now) as raw:
            found: list[tuple[str, dict[str, Any]]] = []
            for name, agent in raw.get("agents", {}).items():
                if agent_id is not None and name != agent_id:
                    continue
                listed = agent.get("allowlist", [])
                meant = [entry for entry in listed if _is_meant(entry, wanted)]
                found += [(name, entry) for entry in meant]
                agent["allowlist"] = [entry for entry in listed if entry not in meant]
            if not found:
                raise NotFound(f"nothing on the allowlist is called {wanted!r}: openclaw approvals list shows it")
            return found

    def put(self, document: Mapping[str, Any], base_hash: str | None, now: int) -> None:
        """Replaces the document, unless somebody else changed it since `base_hash`. Our socket settings are kept."""
        with self._changing(now) as raw:
            if base_hash is not None and base_hash != self.hash:
                raise Conflict("the approvals were changed by somebody else: read them again, then set them")
            self._checked(dict(document))
            kept = {name: value for name, value in raw.items() if name == "socket"}
            raw.clear()
            raw.update({"version": 1, **document, **kept})

    @contextmanager
    def _changing(self, now: int) -> Iterator[dict[str, Any]]:
        """The document, to be changed in place; written when the block succeeds."""
        with KernelLock(self._path.with_name(self._path.name + ".lock")) as lock:
            if not lock.wait(Holder(pid=os.getpid(), created_at=now, owner="approvals"), self._lock_seconds):
                raise StateError(f"{self._path} is being changed by another process: try again")
            with shared(self._path, self._accepted_path):
                raw = self._raw()
                self._checked(raw)
                yield raw
                self._write(msgspec.json.format(msgspec.json.encode(raw), indent=2) + b"\n")

    def _write(self, written: bytes) -> None:
        if self.is_changed():
            raise StateError(f"{self._path} was changed by another program: look at it with {REVIEW}")
        # Accepted before it is there, so that no reader finds a version that nobody has accepted.
        digest = hashlib.sha256(written).hexdigest()
        self._accept(_Accepted(digests=(self._digest(), digest), document=written.decode()))
        atomic.replace_file(self._path, written)
        self._accept(_Accepted(digests=(digest,), document=written.decode()))

    def _raw(self) -> dict[str, Any]:
        """The whole document, in the current format."""
        try:
            data = self._path.read_bytes()
        except FileNotFoundError:
            return {"version": 1}
        except OSError as error:
            raise StateError(f"cannot read {self._path}: {error.strerror}") from error
        try:
            raw = msgspec.json.decode(data, type=dict[str, Any])
        except (ValueError, RecursionError) as error:
            raise self._unusable(error) from error
        agents = raw.get("agents")
        if isinstance(agents, dict) and "default" in agents:
            _merge_default(agents)
        return raw

    def _checked(self, raw: dict[str, Any]) -> ApprovalsDocument:
        try:
            document = msgspec.convert(raw, ApprovalsDocument)
            for agent in document.agents.values():
                for entry in agent.allowlist:
                    entry.setdefault("id", msgspec.convert(entry, _Allowed).id)
        except msgspec.ValidationError as error:
            raise self._unusable(error) from error
        return document

    def _unusable(self, error: Exception) -> StateError:
        return StateError(f"{self._path} cannot be read ({error}): mend it, or move it away")


_SECURITY = ("full", "allowlist", "deny")
_ASKING = ("off", "on-miss", "always")


def _narrower(one: ApprovalsDocument, other: ApprovalsDocument) -> ApprovalsDocument:
    """What both documents allow."""
    agents: dict[str, StoredAgentApprovals] = {}
    for name in {*one.agents, *other.agents}:
        here, there = one.agents.get(name), other.agents.get(name)
        known = {(*_what(entry), entry.get("identity")) for entry in (there.allowlist if there else ())}
        listed = here.allowlist if here else ()
        agents[name] = StoredAgentApprovals(
            **_stricter(here, there),
            allowlist=tuple(entry for entry in listed if (*_what(entry), entry.get("identity")) in known),
        )
    return ApprovalsDocument(defaults=_Policy(**_stricter(one.defaults, other.defaults)), agents=agents)


def _stricter(one: _Policy | None, other: _Policy | None) -> dict[str, Any]:
    both = [each for each in (one, other) if each is not None]
    security = [each.security for each in both if each.security]
    ask = [each.ask for each in both if each.ask]
    return {
        "security": max(security, key=_SECURITY.index, default=None),
        "ask": max(ask, key=_ASKING.index, default=None),
        "ask_fallback": "deny",
    }


def _is_meant(entry: Mapping[str, Any], wanted: str) -> bool:
    name = str(entry.get("id") or "")
    return bool(wanted) and (
        entry.get("pattern") == wanted or (len(wanted) >= 4 and name.startswith(wanted)) or name == wanted
    )


def _what(entry: Mapping[str, Any]) -> tuple[Any, Any]:
    return entry.get("pattern"), entry.get("argPattern")


def _merge_default(agents: dict[str, Any]) -> None:
    """`default` is an old name of the main agent; entries under the new name win."""
    old, new = agents["default"], agents.get(DEFAULT_AGENT, {})
    if not (isinstance(old, dict) and isinstance(new, dict)):
        return  # validation reports what is wrong with it
    del agents["default"]
    merged = {**old, **new}
    lists = [each.get("allowlist", []) for each in (old, new)]
    if all(isinstance(each, list) for each in lists) and any(lists):
        merged["allowlist"] = [*lists[0], *lists[1]]
    agents[DEFAULT_AGENT] = merged
