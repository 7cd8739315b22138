"""What a command line touches on this machine: its programs and files are looked at, nothing is run."""

import os
import re
import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from openclaw.core.secret import is_secret_path
from openclaw.core.text import compile_lazily
from openclaw.security.effects.forms import GIT_SETTINGS, HarmlessCommand, harmless
from openclaw.security.effects.places import ProtectedPlaces, name_place
from openclaw.security.effects.reach import NETWORK_CODE, hides_code, may_fetch
from openclaw.security.labels import writing

SYSTEM = ("/usr/", "/bin/", "/sbin/", "/lib", "/opt/", "/nix/", "/gnu/")
_PIECES = compile_lazily(r"[\s=;&|<>()`\"',{}]+")
_CHANGED = compile_lazily(r"(?:^|[;&|]\s*)(?:cd|pushd)\s+(\"[^\"]+\"|'[^']+'|[^\s;&|]+)")
SCRIPT_BYTES = 256 * 1024
SCRIPTS = (".py", ".sh", ".js", ".mjs", ".rb", ".pl", ".php", ".ts")


def look_harmless(command: str, cwd: str, workspace: str, places: ProtectedPlaces) -> HarmlessCommand | None:
    """What a command touches, when it only reads, or makes files where the `write` tool may make them unasked."""
    found = harmless(command, cwd, places.home)
    if found is None:
        return None
    path = os.pathsep.join(places.programs)
    for name in set(found.programs):
        where = shutil.which(name, path=path)
        if where is None or not os.path.realpath(where).startswith(SYSTEM):
            return None
    if found.git and git_runs(found.cwd, commits=found.commits):
        return None
    for each in found.writes:
        real = os.path.realpath(each)
        if writing(real, workspace) != "write" or name_place(real, places):
            return None
    return found if not any(is_secret_path(os.path.realpath(each)) for each in found.reads) else None


def git_runs(cwd: str, *, commits: bool = False) -> str:
    """Which setting or hook of the repository at `cwd` makes git run something; empty when there is none."""
    for folder in (Path(cwd), *Path(cwd).parents):
        inside = folder / ".git"
        if not inside.exists():
            continue
        if not inside.is_dir():
            return "a repository whose settings are elsewhere"
        for name in ("config", "config.worktree", "info/attributes"):
            with suppress(OSError):
                found = GIT_SETTINGS.search((inside / name).read_text(errors="replace"))
                if found is not None:
                    return f"{name}: {found[0].strip()}"
        if commits:
            with suppress(OSError):
                hooks = [each.name for each in (inside / "hooks").iterdir() if each.suffix != ".sample"]
                if hooks:
                    return f"hook {hooks[0]}"
        return ""
    return ""


def paths_in(command: str, cwd: str, home: str) -> Iterator[str]:
    """Every path that a word of a command line may name, whether it exists or not."""
    expanded = re.sub(r"\$\{?HOME\}?", home, command)
    folders = [cwd]
    for moved in _CHANGED.findall(expanded):
        target = moved.strip("\"'")
        target = home + target[1:] if target == "~" or target.startswith("~/") else target
        folders.append(os.path.normpath(os.path.join(folders[-1], target)))  # noqa: PTH118
    for piece in dict.fromkeys(_PIECES.split(expanded)):
        if not piece or "\0" in piece or len(piece) > 1000 or piece.startswith("-"):
            continue
        piece = home + piece[1:] if piece == "~" or piece.startswith("~/") else piece
        for folder in folders:
            yield os.path.realpath(os.path.join(folder, piece))  # noqa: PTH118


def protected_by(command: str, cwd: str, places: ProtectedPlaces) -> tuple[str, str]:
    """A protected place that a command names and may change, with what it is; empty when there is none."""
    for path in paths_in(command, cwd, places.home):
        if path.startswith(SYSTEM) or (os.access(path, os.X_OK) and Path(path).is_file()):
            continue  # a program that is named to be run
        if (what := name_place(path, places)) and not Path(path).is_dir():
            return path, what
    return "", ""


def secret_in(command: str, cwd: str, home: str, owner: str) -> bool:
    """Whether a command names a file that usually holds credentials and that the owner did not name."""
    return any(
        is_secret_path(path) and os.path.lexists(path) and Path(path).name not in owner
        for path in paths_in(command, cwd, home)
    )


def leaves(command: str, cwd: str, home: str) -> bool:
    """Whether a command may send something off the machine: by its programs, its code, or the scripts it runs."""
    if may_fetch(command) or hides_code(command) or re.search(r"[\w.+-]+@[\w-]+\.\w+", command):
        return True
    for file in map(Path, paths_in(command, cwd, home)):
        if file.suffix in SCRIPTS or file.name == "Makefile":
            if not file.exists() and file.parent.is_dir():
                return True  # it may be written in the meantime
            with suppress(OSError):
                small = file.is_file() and file.stat().st_size <= SCRIPT_BYTES
                if small and NETWORK_CODE.search(file.read_text(errors="replace")):
                    return True
    return False


# What a script loads.

MOST_LOADED, LARGEST = 200, 512 * 1024
_PYTHON = compile_lazily(r"^\s*(?:from\s+(\.*[\w.]*)\s+import\s+([\w, ]+)|import\s+([\w., ]+))", re.MULTILINE)
_SHELL = compile_lazily(r"(?:^|[;&|]\s*)(?:source|\.|bash|sh)\s+[\"']?([\w./-]+)", re.MULTILINE)
_JAVASCRIPT = compile_lazily(r"(?:require\s*\(\s*|from\s+|import\s*\(?\s*)[\"'](\.{1,2}/[\w./-]+)[\"']")
_SUFFIXES = ("", ".js", ".mjs", ".cjs", ".ts", ".json", "/index.js")


def loaded_by(script: Path) -> list[Path]:
    """Every file below the script's directory that it loads, and those load in turn; sorted."""
    root = script.parent.resolve()
    found: set[Path] = set()
    todo = [script]
    while todo and len(found) < MOST_LOADED:
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
