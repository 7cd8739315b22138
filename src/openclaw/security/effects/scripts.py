"""The files of the same tree that a script loads, so that "always" holds for them too."""

import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

MOST, LARGEST = 200, 512 * 1024
_PYTHON = re.compile(r"^\s*(?:from\s+(\.*[\w.]*)\s+import\s+([\w, ]+)|import\s+([\w., ]+))", re.MULTILINE)
_SHELL = re.compile(r"(?:^|[;&|]\s*)(?:source|\.|bash|sh)\s+[\"']?([\w./-]+)", re.MULTILINE)
_JAVASCRIPT = re.compile(r"(?:require\s*\(\s*|from\s+|import\s*\(?\s*)[\"'](\.{1,2}/[\w./-]+)[\"']")
_SUFFIXES = ("", ".js", ".mjs", ".cjs", ".ts", ".json", "/index.js")


def loaded_by(script: Path) -> list[Path]:
    """Every file below the script's directory that it loads, and those load in turn; sorted."""
    root = script.parent.resolve()
    found: set[Path] = set()
    todo = [script]
    while todo and len(found) < MOST:
        path = todo.pop()
        for near in _named(path, root):
            with suppress(OSError):
                real = near.resolve()
                if real.is_relative_to(root) and real.is_file() and real not in found and real != script.resolve():
                    found.add(real)
                    todo.append(real)
    return sorted(found)


def _named(path: Path, root: Path) -> Iterator[Path]:
    try:
        if path.stat().st_size > LARGEST:
            return
        text = path.read_text(errors="replace")
    except OSError:
        return
    here = path.parent
    if path.suffix == ".py":
        for origin, names, plain in _PYTHON.findall(text):
            modules = [each.strip().split(" ")[0] for each in (plain or names).split(",") if each.strip()]
            bases = [here] if origin.startswith(".") else [here, root]
            prefix = origin.strip(".").replace(".", "/")
            wanted = [prefix] if prefix else []
            wanted += [f"{prefix}/{each}".lstrip("/") if origin else each.replace(".", "/") for each in modules]
            for base in bases:
                for name in wanted:
                    yield from (base / f"{name}.py", base / name / "__init__.py")
    elif path.suffix in (".js", ".mjs", ".cjs", ".ts"):
        for name in _JAVASCRIPT.findall(text):
            yield from (here / f"{name}{suffix}" for suffix in _SUFFIXES)
    else:
        yield from (base / name for name in _SHELL.findall(text) for base in (here, root))
