"""What a command line touches on this machine: its programs and files are looked at, nothing is run."""

import glob
import itertools
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from openclaw.core.secret import is_secret_path
from openclaw.core.text import compile_lazily
from openclaw.process.environment import find_executable, hijacks
from openclaw.security.effects.forms import GIT_SETTINGS, HarmlessCommand, harmless
from openclaw.security.effects.places import ProtectedPlaces, is_below, name_place
from openclaw.security.effects.reach import NETWORK_CODE, hides_code, may_fetch
from openclaw.security.effects.shell_words import commands_to_us, module_of
from openclaw.security.labels import writing
from openclaw.storage.links import real_path

SYSTEM = ("/usr/", "/bin/", "/sbin/", "/lib", "/opt/", "/nix/", "/gnu/")
_PIECES = compile_lazily(r"[\s=;&|<>()`\"',{}]+")
_CHANGED = compile_lazily(
    r"(?:(?:^|[;&|(\n]\s*)(?:cd|pushd)|\s(?:-C|--directory|--prefix|-S|--chdir))[\s=]+(\"[^\"]+\"|'[^']+'|[^\s;&|]+)"
)
_ASSIGNED = compile_lazily(r"(?:^|[\s;&|(])([A-Za-z_]\w*)=")
MOST_MATCHED = 2_000
SCRIPT_BYTES = 256 * 1024
SCRIPTS = (".py", ".sh", ".js", ".mjs", ".rb", ".pl", ".php", ".ts")


def look_harmless(command: str, cwd: str, workspace: str, places: ProtectedPlaces) -> HarmlessCommand | None:
    """What a command touches, when it only reads, or makes files where the `write` tool may make them unasked."""
    found = harmless(command, cwd, places.home)
    if found is None:
        return None
    path = os.pathsep.join(places.programs)
    for name in set(found.programs):
        where = find_executable(name, path)
        if where is None or not real_path(where).startswith(SYSTEM):
            return None
    if found.git and git_runs(found.cwd, commits=found.commits):
        return None
    for each in found.writes:
        real = real_path(each)
        if writing(real, workspace) != "write" or name_place(real, places):
            return None
    return found if not any(_shows_secret(each) for each in found.reads) else None


def _shows_secret(path: str) -> bool:
    """Whether a file, or one that a wildcard stands for, usually holds credentials."""
    paths = glob.iglob(path) if glob.has_magic(path) else (path,)  # noqa: PTH207 (absolute, with wildcards anywhere)
    return any(is_secret_path(real_path(each)) for each in itertools.islice(paths, MOST_MATCHED))


def git_runs(cwd: str, *, commits: bool = False) -> str:
    """Which setting or hook of the repository at `cwd` makes git run something; empty when there is none."""
    for folder in (Path(cwd), *Path(cwd).parents):
        inside = folder / ".git"
        if not os.path.lexists(inside):
            # git takes a directory that looks like one for a repository, whoever put it there.
            if (folder / "HEAD").exists() and (folder / "objects").exists() and (folder / "refs").exists():
                return f"{folder.name} is a repository itself"
            continue
        if not inside.is_dir() or (inside / "commondir").exists():
            return "a repository whose settings are elsewhere"
        if runs := _submodules_run(folder, inside):
            return runs
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


def _git_settings(cwd: str) -> list[str]:
    """The files that make git run something in the repository at `cwd`."""
    if not git_runs(cwd, commits=True):
        return []
    for folder in (Path(cwd), *Path(cwd).parents):
        for inside in (folder / ".git", folder):
            if (inside / "HEAD").exists() or inside.is_file():
                hooks = (inside / "hooks").glob("*[!e]") if inside.is_dir() else ()
                return [str(each) for each in (inside, inside / "config", *hooks) if each.is_file()]
    return []


def _submodules_run(folder: Path, inside: Path) -> str:
    """Which setting of a submodule makes git run something: git looks into each of them."""
    try:
        if b"\0\0\xe0\0" not in (inside / "index").read_bytes():  # the mode of one
            return ""
        kept = [each for each in (inside / "modules").rglob("config") if each.is_file()] if inside.exists() else []
        own = [each for depth in range(1, 4) for each in folder.glob("/".join(["*"] * depth) + "/.git/config")]
        for path in itertools.islice((*kept, *own), MOST_MATCHED):
            text = re.sub(r"(?m)^\s*worktree\s*=.*$", "", path.read_text(errors="replace"))
            if (found := GIT_SETTINGS.search(text)) is not None:
                return f"a submodule's {path.name}: {found[0].strip()}"
    except OSError:
        pass
    return ""


def paths_in(command: str, cwd: str, home: str) -> Iterator[str]:
    """Every path that a word of a command line may name, whether it exists or not."""
    expanded = re.sub(r"\$\{?HOME\}?", home, command)
    folders = _folders(expanded, cwd, home)
    for piece in dict.fromkeys(_PIECES.split(expanded)):
        if not piece or "\0" in piece or len(piece) > 1000 or piece.startswith("-"):
            continue
        piece = home + piece[1:] if piece == "~" or piece.startswith("~/") else piece
        for folder in folders:
            yield real_path(os.path.join(folder, piece))  # noqa: PTH118


def _folders(command: str, cwd: str, home: str) -> list[str]:
    """The directories that a command line works in, one after the other."""
    folders = [cwd]
    for moved in _CHANGED.findall(command):
        target = moved.strip("\"'")
        target = home + target[1:] if target == "~" or target.startswith("~/") else target
        folders.append(os.path.normpath(os.path.join(folders[-1], target)))  # noqa: PTH118
    return folders


def protected_by(command: str, cwd: str, places: ProtectedPlaces) -> tuple[str, str]:
    """A protected place that a command names and may change, with what it is; empty when there is none."""
    if commands := commands_to_us(command):
        return commands, "the assistant, by its own command line"
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
    modules: set[str] = set()
    with suppress(OSError):
        modules = {each.stem for each in Path(cwd).iterdir()}
    if any(hijacks(name.upper()) and name != "PYTHONPATH" for name in _ASSIGNED.findall(command)):
        return True
    if may_fetch(command) or hides_code(command, modules) or re.search(r"[\w.+-]+@[\w-]+\.\w+", command):
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


# What a command runs.


def with_variables(command: str, args: Mapping[str, Any]) -> str:
    """A command with the values of its own variables, which may be part of what it does."""
    env = args.get("env")
    more = [f"{name}={value}" for name, value in env.items()] if isinstance(env, Mapping) else ()
    return "; ".join([command, *more])


RUN_BY_NAME = frozenset(
    "makefile gnumakefile justfile dockerfile package.json tox.ini .envrc rakefile gemfile conftest.py setup.py "
    "setup.cfg pyproject.toml noxfile.py sitecustomize.py usercustomize.py build.rs build.gradle pom.xml "
    "cmakelists.txt conf.py mkdocs.yml .pre-commit-config.yaml compose.yaml docker-compose.yml __main__.py "
    "build.ninja .eslintrc.js".split()
)
"""Files that a builder or interpreter loads without being told their name."""
_CONFIGURES = compile_lazily(r"[\w.-]+\.config\.[cm]?[jt]s$", re.IGNORECASE)
_RUNNERS = compile_lazily(
    r"(?<![\w.-])(?:python[\d.]*|pypy\d?|node|deno|bun|ruby|perl|php|lua|bash|sh|zsh|dash|source|make|just|npm|pnpm|yarn|npx|uv|tox|nox"
    r"|pytest|cargo|go|gradle|mvn|rake|bundle|docker|podman|pre-commit|ansible-playbook|terraform|java|javac|cmake|ctest|ninja"
    r"|sphinx-build|mkdocs|eslint|prettier|tsc|vite|webpack|jest|mocha|vitest|rspec|phpunit|ipython|jupyter|gdb)(?![\w-])"
    r"|(?:^|[;&|]\s*)\.{1,2}/"
)
_KINDS: tuple[tuple[re.Pattern[str], re.Pattern[str]], ...] = (
    (compile_lazily(r"\bjavac?\b"), compile_lazily(r"\.(?:java|class|jar)$")),
    (compile_lazily(r"\bperl\b"), compile_lazily(r"\.p[ml]$")),
    (compile_lazily(r"\b(?:cmake|ninja)\b"), compile_lazily(r"\.cmake$")),
    (
        compile_lazily(
            r"\b(?:pytest|unittest|tox|nox|jest|mocha|vitest|rspec|phpunit|npm|pnpm|yarn|make|just|cargo|go)\b"
        ),
        compile_lazily(r"(?:/test_[^/]*|_test|_spec)\.\w+$|\.(?:test|spec)\.\w+$"),
    ),
)
"""Programs, and the files they look for by themselves."""


def is_run_by_name(path: str) -> bool:
    name = path.rpartition("/")[2]
    return name.lower() in RUN_BY_NAME or bool(_CONFIGURES.match(name))


def programs_of(
    command: str, cwd: str, home: str, labelled: Iterable[str], inside: Sequence[str] | None = None
) -> list[str]:
    """The files that a command runs, as far as that can be told; of the `labelled` ones also those that its programs
    find by themselves. In a sandbox `inside` is what it names, by the paths of this machine."""
    named = list(dict.fromkeys(paths_in(command, cwd, home))) if inside is None else inside
    named = [path for path in named if not path.startswith(SYSTEM)]
    # A directory can be entered, not run: copying or listing one starts nothing.
    files = [path for path in named if Path(path).is_file()]
    folders = [real_path(each) for each in _folders(re.sub(r"\$\{?HOME\}?", home, command), cwd, home)]
    settings = [path for each in folders for path in _git_settings(each)] if re.search(r"\bgit\b", command) else []
    if _RUNNERS.search(command) is None:
        return [*settings, *(path for path in files if os.access(path, os.X_OK))]
    folders += [path for path in named if Path(path).is_dir()]
    found = [*settings, *files, *(str(near) for path in files for near in loaded_by(Path(path)))]
    module = module_of(command.split()).replace(".", "/")
    for folder in dict.fromkeys(folders):
        with suppress(OSError):
            found += [each.path for each in os.scandir(folder) if is_run_by_name(each.name)]
        if module:
            ends = (f"{module}.py", f"{module}/__main__.py", f"{module.partition('/')[0]}/__init__.py")
            found += [path for end in ends if os.path.lexists(path := f"{folder}/{end}")]
    kinds = [files for programs, files in _KINDS if programs.search(command)]
    found += [
        path
        for path in labelled
        if any(is_below(path, folder) for folder in folders)
        and (is_run_by_name(path) or any(kind.search(path) for kind in kinds))
        and os.path.lexists(path)
    ]
    return list(dict.fromkeys(found))
