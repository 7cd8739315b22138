"""Accepted skills in `skills-trust.json`, by directory, with a copy of every file to diff against later."""

import contextlib
import hashlib
import secrets
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from msgspec import structs

from openclaw.core.deferred import difflib
from openclaw.core.errors import StateError
from openclaw.skills.find import Skill
from openclaw.skills.gate import AcceptedContent, Approver
from openclaw.storage.accepted import AcceptedStore
from openclaw.storage.atomic import private_directory
from openclaw.storage.digests import TreeDigest, contents

FILE = "skills-trust.json"
COPIES = "skills-trust"
MAX_COPY = 1 << 20


class AcceptedSkills(AcceptedStore[AcceptedContent]):
    """Stores accepted and refused skills, by the real path of their directory."""

    def __init__(self, state: Path) -> None:
        otherwise = "mend it, or move it away and accept your skills again"
        super().__init__(state / FILE, "skills", AcceptedContent, otherwise)
        self._copies = state / COPIES

    def accept(self, accepted: Mapping[str, AcceptedContent]) -> None:
        """Records skills by directory, with copies of their files."""
        for base, entry in accepted.items():
            self._copy(Path(base), TreeDigest(entry.tree_sha256, entry.files))
        with self.changing() as entries:
            entries.update(accepted)

    def told(self, bases: Iterable[str]) -> None:
        """Records that their owner was told of these changes."""
        with self.changing() as entries:
            entries.update({base: structs.replace(entries[base], untold=False) for base in bases if base in entries})

    def refuse(self, base: str, entry: AcceptedContent) -> None:
        self.put(base, structs.replace(entry, blocked=True))

    def diff(self, skill: Skill, accepted: AcceptedContent | None) -> tuple[str, ...]:
        """What changed since `accepted`, file by file, as unified diff lines."""
        was = {file.path: file.sha256 for file in accepted.files} if accepted else {}
        tree = skill.tree or TreeDigest("")
        now = {file.path: file.sha256 for file in tree.files}
        texts = contents(Path(skill.base_dir), tree, MAX_COPY)
        lines: list[str] = []
        for path in sorted(was.keys() | now.keys()):
            if was.get(path) == now.get(path):
                continue
            old = self._kept(was[path]) if path in was else b""
            new = texts.get(path) if path in now else b""
            lines += _compared(path, old, new, path in was, path in now)
        return tuple(lines)

    def _copy(self, base: Path, tree: TreeDigest) -> None:
        wanted = {file.path: file.sha256 for file in tree.files}
        for path, data in contents(base, tree, MAX_COPY).items():
            target = self._copies / wanted[path]
            # A file that changed since it was judged is not what was accepted: no copy of it.
            if not target.exists() and hashlib.sha256(data).hexdigest() == wanted[path]:
                self._keep(target, data)

    def _keep(self, target: Path, data: bytes) -> None:
        """Writes a copy without fsync: its name is its digest, which is checked when it is read."""
        temporary = target.with_name(f".{target.name}.{secrets.token_hex(4)}")
        try:
            private_directory(self._copies)
            temporary.write_bytes(data)
            temporary.replace(target)
        except OSError as error:
            temporary.unlink(missing_ok=True)
            raise StateError(f"cannot write {target}: {error.strerror}") from error

    def _kept(self, sha256: str) -> bytes | None:
        try:
            data = (self._copies / sha256).read_bytes()
        except OSError:
            return None
        return data if hashlib.sha256(data).hexdigest() == sha256 else None

    @contextlib.contextmanager
    def changing(self) -> Iterator[dict[str, AcceptedContent]]:
        """The entries to change; copies that none of them needs any more go."""
        with super().changing() as entries:
            yield entries
            self._sweep({file.sha256 for entry in entries.values() for file in entry.files})

    def _sweep(self, needed: set[str]) -> None:
        """Removes copies no entry refers to."""
        with contextlib.suppress(FileNotFoundError):
            for path in self._copies.iterdir():
                if path.name not in needed and not path.name.startswith("."):
                    path.unlink(missing_ok=True)


def make_entry(skill: Skill, by: Approver, now: int) -> AcceptedContent:
    """The entry for `skill` as it is now; raises `StateError` when its directory cannot be verified."""
    if skill.tree is None:
        raise StateError(f"{skill.name} cannot be accepted: {skill.problem}")
    return AcceptedContent(
        name=skill.name,
        source=skill.source,
        content_hash=skill.content_hash,
        tree_sha256=skill.tree.sha256,
        approved_at=now,
        approved_by=by,
        permissions=skill.manifest.permissions,
        files=skill.tree.files,
    )


def _compared(path: str, old: bytes | None, new: bytes | None, was: bool, is_: bool) -> list[str]:
    before, after = f"accepted/{path}" if was else "/dev/null", f"now/{path}" if is_ else "/dev/null"
    old_text, new_text = _text(old), _text(new)
    if old_text is None or new_text is None:
        return [f"--- {before}", f"+++ {after}", "(not text, or too large to show)"]
    return [line.rstrip("\n") for line in difflib.unified_diff(old_text, new_text, before, after, lineterm="")]


def _text(data: bytes | None) -> list[str] | None:
    if data is None or b"\0" in data:
        return None
    return data.decode("utf-8", "backslashreplace").splitlines()
