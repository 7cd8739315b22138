"""Writes the digests of the bundled skills, after one was edited. Run: python -m openclaw.skills.seal"""

import msgspec

from openclaw.skills.find import FILE, bundled, read_manifest
from openclaw.skills.store import DIGESTS
from openclaw.storage import atomic
from openclaw.storage.digests import UNCOUNTED_HERE, Hasher


def digests() -> dict[str, str]:
    """Computes the digest of every bundled skill, by name."""
    found: dict[str, str] = {}
    for path in sorted(bundled().glob(f"*/{FILE}")):
        manifest, problem = read_manifest(path.read_bytes(), path.parent.name)
        if manifest is None:
            raise ValueError(f"{path}: {problem}")
        found[manifest.name] = Hasher(float).tree(str(path.parent), UNCOUNTED_HERE).sha256
    return found


def main() -> None:
    atomic.replace_file(
        bundled() / DIGESTS, msgspec.json.format(msgspec.json.encode(digests()), indent=2) + b"\n", 0o644
    )


if __name__ == "__main__":
    main()
