"""Installs, removes, creates and packs skills, and installs the programs they need.

An install is staged, scanned, reviewed, then moved into place atomically, or not done at all.
"""

import contextlib
import gzip
import hashlib
import io
import os
import re
import secrets
import subprocess
import tarfile
import urllib.error
import urllib.request
import zipfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct

from openclaw.core.errors import Conflict, InvalidRequest, StateError
from openclaw.core.progress import Report, no_report
from openclaw.extensions.install import InstallReview, StagedPackage
from openclaw.skills.accepted import AcceptedSkills, make_entry
from openclaw.skills.find import FILE, ORIGIN, RECORDS, Skill, Source, read_manifest
from openclaw.skills.gate import command
from openclaw.skills.manifest import Installer, Reference, SkillManifest, find_outside_references
from openclaw.skills.settings import DependencySettings
from openclaw.storage import atomic
from openclaw.storage.archives import read_package
from openclaw.storage.digests import Hasher

# Install and remove.

_SLUG = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}\Z")

OriginKind = Literal["path", "git", "archive", "registry"]


class InstallOrigin(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=False):
    """Where an installed skill came from; stored in its directory."""

    version: int = 1
    source: OriginKind
    spec: str
    slug: str
    installed_at: str
    tree_sha256: str


class StagedSkill(StagedPackage, frozen=True, kw_only=True):
    """A skill unpacked and scanned, not yet installed."""

    noun = "skill"
    file = FILE

    manifest: SkillManifest

    @staticmethod
    def read(data: bytes, directory: str) -> SkillManifest:
        manifest, problem = read_manifest(data, directory)
        if manifest is None:
            raise ValueError(f"{FILE}: {problem}")
        return manifest

    @staticmethod
    def directory_name(manifest: SkillManifest) -> str:
        return slug_of(manifest.name)

    @property
    def outside(self) -> tuple[Reference, ...]:
        return find_outside_references(self.manifest.body, self.manifest.body_line)


SkillReview = InstallReview[StagedSkill]


def slug_of(text: str) -> str:
    """Turns `text` into a directory name."""
    slug = re.sub(r"[^a-z0-9_-]+", "-", text.strip().lower()).strip("-_")[:64]
    if not _SLUG.match(slug):
        raise InvalidRequest(f"{text!r} makes no directory name: give one of letters, digits, - and _ with --as")
    return slug


def put(
    ready: StagedSkill, move: Callable[[], None], *, source: Source, ledger: AcceptedSkills, now: float, stamp: str
) -> None:
    """Moves a skill into place, says in it where it came from, and records that it was accepted."""
    origin = InstallOrigin(
        source=ready.kind, spec=ready.spec, slug=ready.name, installed_at=stamp, tree_sha256=ready.tree_sha256
    )
    atomic.replace_file(
        ready.directory / RECORDS / ORIGIN, msgspec.json.format(msgspec.json.encode(origin), indent=2), 0o644
    )
    move()
    entry = make_entry(_as_skill(ready, source), "install", round(now * 1000))
    ledger.accept({os.path.realpath(ready.target): entry})


def _as_skill(ready: StagedSkill, source: Source) -> Skill:
    base = os.path.realpath(ready.target)
    tree = Hasher(float).tree(base)
    if tree.sha256 != ready.tree_sha256:
        raise StateError(f"{ready.target} changed while it was being installed: remove it and install it again")
    data = (ready.target / FILE).read_bytes()
    return Skill(
        manifest=ready.manifest,
        file_path=str(ready.target / FILE),
        base_dir=base,
        source=source,
        owned=True,
        content_hash=hashlib.sha256(data).hexdigest(),
        tree=tree,
    )


def origin_of(base: Path) -> InstallOrigin | None:
    """Where the skill in `base` was installed from, when it says so."""
    try:
        return msgspec.json.decode((base / RECORDS / ORIGIN).read_bytes(), type=InstallOrigin)
    except (OSError, msgspec.DecodeError):
        return None


def lookalikes(name: str, known: Sequence[str]) -> tuple[str, ...]:
    """Names in `known` that `name` could be mistaken for."""
    return tuple(other for other in known if other != name and _skeleton(other) == _skeleton(name))


_TWINS = str.maketrans("01lі|оаеирсух$5", "oiiiioaenpcyxss")


def _skeleton(name: str) -> str:
    """A name with look-alike characters unified."""
    folded = re.sub(r"[\W_]+", "", name.casefold().translate(_TWINS).replace("rn", "m").replace("vv", "w"))
    return re.sub(r"(.)\1+", r"\1", folded).removesuffix("s")


# Create and pack.

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
    """Creates a skill below `root`; returns the path of its SKILL.md."""
    slug = slug_of(name)
    path = root / slug / FILE
    if path.parent.exists():
        raise Conflict(f"{path.parent} is already there: choose another name")
    said = " ".join(description.split()) or f"What {slug} does, and when to use it."
    quoted = '"' + said.replace("\\", "\\\\").replace('"', '\\"') + '"'
    text = _NEW.format(name=slug, description=quoted, title=slug.replace("-", " ").replace("_", " ").capitalize())
    atomic.replace_file(path, text.encode(), 0o644)
    path.parent.chmod(0o755)
    return path


def pack(directory: Path, output: Path | None, cwd: Path) -> Path:
    """Packs the skill in `directory` as .tgz or .zip, reproducibly."""
    found = read_package(directory, FILE)
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
    atomic.replace_file(target, data, 0o644)
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


# Programs a skill needs.

MAX_DOWNLOAD = 256 << 20
TIMEOUT = 900.0
_CHUNK = 1 << 16


def run(
    step: Installer, how: DependencySettings, tools: Path, environ: Mapping[str, str], report: Report = no_report
) -> str:
    """Runs one install step; returns a line that says what was done. Downloads go to `tools`."""
    if step.kind == "download":
        return f"saved {fetch(step, tools, report)}"
    line = command(step, how)
    try:
        done = subprocess.run(line, env=dict(environ), stdin=subprocess.DEVNULL, timeout=TIMEOUT, check=False)
    except FileNotFoundError as error:
        raise InvalidRequest(f"{line[0]} is not installed: get it first, or choose another step") from error
    except (OSError, subprocess.TimeoutExpired) as error:
        raise InvalidRequest(f"`{' '.join(line)}` did not finish: {error}") from error
    if done.returncode != 0:
        raise InvalidRequest(f"`{' '.join(line)}` failed with code {done.returncode}")
    return f"ran {' '.join(line)}"


def fetch(step: Installer, tools: Path, report: Report = no_report) -> Path:
    """Downloads a step's file; deletes it unless its checksum is the one the skill names."""
    if not step.sha256:
        raise InvalidRequest(f"{step.url} has no checksum: look at it and download it yourself")
    target = tools / step.target_dir / Path(urllib.request.url2pathname(step.url.split("?")[0])).name
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(4)}.part")
    digest = hashlib.sha256()
    try:
        target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with urllib.request.urlopen(step.url, timeout=60) as answer, temporary.open("xb") as file:  # noqa: S310
            total, size = 0, int(answer.headers["content-length"] or MAX_DOWNLOAD)
            while chunk := answer.read(_CHUNK):
                total += len(chunk)
                if total > MAX_DOWNLOAD:
                    raise InvalidRequest(f"{step.url} is larger than {MAX_DOWNLOAD >> 20} MiB")
                digest.update(chunk)
                file.write(chunk)
                report("downloading (KiB)", total >> 10, size >> 10)
            file.flush()
            os.fsync(file.fileno())
        if digest.hexdigest() != step.sha256:
            raise InvalidRequest(f"{step.url} is not the file the skill names: its sha256 is {digest.hexdigest()}")
        temporary.replace(target)
    except (urllib.error.URLError, ValueError) as error:
        raise InvalidRequest(f"cannot download {step.url}: {error}") from error
    except OSError as error:
        raise StateError(f"cannot save {target}: {error.strerror or error}") from error
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
    return target
