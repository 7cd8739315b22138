"""Packs the names of OpenClaw's settings into the data file that recognises them.

    python scripts/known_keys.py path/to/config-tree.txt

Each input line is `a.b.<id>.c[]: type`; only the names are kept, one to a line, indented by depth. A `**` stands below
a name that takes anything.
"""

import gzip
import sys
from pathlib import Path

TARGET = Path(__file__).parent.parent / "src/openclaw/config/known-keys.txt.gz"

Names = dict[str, "Names"]


OPEN = ("object", "map<", "any", "unknown", "keys")


def collect(lines: list[str]) -> Names:
    names: Names = {}
    opened: list[Names] = []
    for line in lines:
        path, mark, kind = line.partition(": ")
        if not mark:
            continue
        here = names
        for part in path.replace("[]", "").split("."):
            here = here.setdefault(part, {})
        if any(word in kind for word in OPEN):
            opened.append(here)
    for here in opened:
        if not here:
            here["**"] = {}
    return names


def write(names: Names, depth: int = 0) -> list[str]:
    lines = []
    for name, inner in sorted(names.items()):
        lines += [" " * depth + name, *write(inner, depth + 1)]
    return lines


def main() -> None:
    lines = write(collect(Path(sys.argv[1]).read_text(encoding="utf-8").splitlines()))
    TARGET.write_bytes(gzip.compress("\n".join(lines).encode(), 9, mtime=0))
    print(f"{len(lines)} names, {TARGET.stat().st_size} bytes: {TARGET}")


if __name__ == "__main__":
    main()
