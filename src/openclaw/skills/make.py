"""Making skills: a new one to start from, and one packed into a file to hand on."""

import gzip
import io
import tarfile
import zipfile
from pathlib import Path

from openclaw.core.errors import Conflict, InvalidRequest
from openclaw.skills.discover import FILE, read_manifest
from openclaw.skills.install import slug_of
from openclaw.store import atomic
from openclaw.store.archive import pieces

_NEW = """---
name: {name}
description: {description}
---

# {title}

Say here, in the order they are done, the steps the assistant should follow.

1. What to look at first, and with which tool.
2. What to do, with the exact command where there is one. Scripts of this skill are `{{baseDir}}/scripts/…`.
3. How to tell that it worked, and what to say to the user.
"""


def new(root: Path, name: str, description: str) -> Path:
    """A new skill below `root`; gives its SKILL.md."""
    slug = slug_of(name)
    path = root / slug / FILE
    if path.parent.exists():
        raise Conflict(f"{path.parent} is already there: choose another name")
    said = " ".join(description.split()) or f"What {slug} does, and when to use it."
    quoted = '"' + said.replace("\\", "\\\\").replace('"', '\\"') + '"'
    text = _NEW.format(name=slug, description=quoted, title=slug.replace("-", " ").replace("_", " ").capitalize())
    atomic.replace(path, text.encode(), 0o644)
    path.parent.chmod(0o755)
    return path


def pack(directory: Path, output: Path | None, cwd: Path) -> Path:
    """The skill in `directory` as one file (.tgz or .zip); the same files always give the same bytes."""
    found = pieces(directory, FILE)
    manifest, problem = read_manifest(found[FILE][0], directory.resolve().name)
    if manifest is None:
        raise InvalidRequest(f"{directory / FILE} cannot be used: {problem}")
    slug = slug_of(manifest.name)
    target = cwd / output if output else cwd / f"{slug}.tgz"
    if target.exists():
        raise Conflict(f"{target} is already there: give another name with -o")
    if target.suffix.lower() == ".zip":
        data = _zipped(found, slug)
    elif target.name.lower().endswith((".tgz", ".tar.gz")):
        data = _tarred(found, slug)
    else:
        raise InvalidRequest(f"{target.name}: a skill is packed as .tgz or .zip")
    atomic.replace(target, data, 0o644)
    return target


def _tarred(found: dict[str, tuple[bytes, bool]], slug: str) -> bytes:
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for path, (data, runs) in sorted(found.items()):
            member = tarfile.TarInfo(f"{slug}/{path}")
            member.size, member.mode = len(data), 0o755 if runs else 0o644
            archive.addfile(member, io.BytesIO(data))
    return gzip.compress(plain.getvalue(), mtime=0)


def _zipped(found: dict[str, tuple[bytes, bool]], slug: str) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, (data, runs) in sorted(found.items()):
            member = zipfile.ZipInfo(f"{slug}/{path}")
            member.external_attr = (0o100755 if runs else 0o100644) << 16
            member.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(member, data)
    return packed.getvalue()
