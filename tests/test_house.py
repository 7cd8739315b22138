"""The house stands: imports go down, wings stay apart, importing does nothing."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

SRC = Path(__file__).parent.parent / "src" / "openclaw"
ROOMS = (
    "sessions workspace prompt memory skills cron routing delivery commands models budget approvals policy trust "
    "devices agent hooks undo mcp plugins"
).split()
WINGS = "providers channels tools embedders sandboxes".split()
FLOORS = {
    "core": 0,
    "store": 1,
    "wire": 1,
    **dict.fromkeys(ROOMS, 2),
    "turns": 3,
    "config": 3,
    "gateway": 4,
    "cli": 5,
}
LOOSE = {"version", "testing", "testing_server", "testing_plugins", "pytest_plugin", "plugin", "__main__", "__init__"}
PURE = """
core/origin core/deed
core/keys core/messages core/events core/errors core/reply core/text core/chat core/hooks
hooks/merge hooks/points
hooks/internal/record hooks/internal/manifest hooks/internal/events hooks/internal/gate hooks/internal/settings
cron/schedule cron/jobs cron/results cron/heartbeat cron/watch cron/settings gateway/webhooks
sessions/transcript sessions/compact sessions/essentials sessions/prune
agent/arguments agent/limits agent/repeats agent/settings
budget/price budget/limits budget/settings
policy/shell policy/inline policy/execution policy/layers policy/order policy/narrowing policy/confine policy/elevation
core/sandbox policy/settings policy/reach policy/deeds policy/labels policy/breaker
models/choose models/cooldown models/thinking models/refs models/locality models/settings
turns/addresses turns/origins turns/patience turns/agents turns/summary turns/measures turns/stuck
delivery/think delivery/directives delivery/silence delivery/duplicates delivery/shape delivery/blocks
workspace/locate workspace/filter workspace/budget
prompt/facts prompt/build prompt/section prompt/stable_sections prompt/volatile_sections prompt/tool_sections prompt/fit
prompt/contributions prompt/report prompt/diff prompt/blame prompt/lint prompt/owners
trust/scan trust/attacks trust/supply trust/wrap trust/audit
skills/frontmatter skills/manifest skills/references skills/record skills/standing skills/gate skills/merge skills/shelf
plugins/manifest plugins/settings plugins/admit plugins/wire
skills/catalog skills/snapshot skills/environment skills/invoke skills/settings
undo/plan
commands/settings commands/parse policy/access
mcp/settings mcp/launch mcp/names mcp/shape mcp/pins
config/schema config/keypath config/redact config/tree config/migrate
""".split()
IMPURE_IMPORTS = {"asyncio", "os", "time", "pathlib", "socket", "subprocess", "random", "secrets"}

FILES = sorted(SRC.rglob("*.py"))


def imported(path: Path) -> list[str]:
    """Every module a file imports, at any level of nesting."""
    found: list[str] = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports are absolute"
            found += [f"{node.module}.{alias.name}" for alias in node.names]
    return found


def home_of(path: Path) -> str:
    inside = path.relative_to(SRC)
    return inside.parts[0] if len(inside.parts) > 1 else inside.stem


def ours(path: Path) -> list[str]:
    """The first part below `openclaw` of each of our own imports."""
    return [name.split(".")[1] for name in imported(path) if name.startswith("openclaw.")]


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SRC)))
def test_imports_go_down_and_never_sideways(path: Path) -> None:
    home = home_of(path)
    if home in LOOSE:
        return
    assert home in FLOORS or home in WINGS, f"{home} is not on the plan: add it to ARCHITECTURE.md and here"
    for target in ours(path):
        if target == home or target == "version":
            continue
        assert target not in WINGS, f"{path}: a wing is loaded by name, not imported ({target})"
        if home in WINGS:
            assert target == "core", f"{path}: a wing imports core only, not {target}"
        else:
            assert target in FLOORS, f"{path}: imports {target}"
            assert FLOORS[target] < FLOORS[home], f"{path}: {home} (floor {FLOORS[home]}) imports {target}"


@pytest.mark.parametrize("path", [p for p in FILES if home_of(p) == "core"], ids=lambda path: path.stem)
def test_the_core_needs_only_the_standard_library_and_msgspec(path: Path) -> None:
    for name in imported(path):
        top = name.split(".")[0]
        assert top in sys.stdlib_module_names or top in ("msgspec", "openclaw"), f"{path} imports {name}"
        assert top not in ("asyncio", "time", "socket", "subprocess", "threading"), f"{path} imports {name}"


@pytest.mark.parametrize("name", PURE)
def test_a_decision_touches_nothing(name: str) -> None:
    path = SRC / f"{name}.py"
    assert path.exists(), f"{name} is gone: take it off the list"
    top = {module.split(".")[0] for module in imported(path)}
    assert not top & IMPURE_IMPORTS, f"{name} imports {sorted(top & IMPURE_IMPORTS)}"


def test_packages_have_empty_init_files() -> None:
    for path in SRC.rglob("__init__.py"):
        assert path.read_text() == "", path


WATCH = """
import importlib, pkgutil, sys
watched = ("os.mkdir", "socket.connect", "socket.bind", "subprocess.Popen", "os.putenv", "shutil.rmtree", "os.rename")
def hook(event, args):
    if event in watched:
        raise SystemExit(f"{current}: importing it does {event} {args}")
    if event == "open" and isinstance(args[1], str) and set(args[1]) & set("wax+") and ".pyc" not in str(args[0]):
        raise SystemExit(f"{current}: importing it writes {args[0]}")
import openclaw
names = [m.name for m in pkgutil.walk_packages(openclaw.__path__, "openclaw.") if not m.name.endswith("__main__")]
import threading
current = ""
sys.dont_write_bytecode = True
sys.addaudithook(hook)
for current in names:
    before = threading.active_count()
    importlib.import_module(current)
    if threading.active_count() != before:
        raise SystemExit(f"{current}: importing it starts a thread")
print(len(names))
"""


def test_importing_a_module_has_no_effect() -> None:
    done = subprocess.run([sys.executable, "-c", WATCH], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr or done.stdout
    assert int(done.stdout) > 50


def test_no_module_reads_the_environment_when_imported() -> None:
    for path in FILES:
        for statement in ast.parse(path.read_text()).body:
            if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.If):
                continue
            text = ast.unparse(statement)
            assert "os.environ" not in text and "getenv" not in text, f"{path}: {text}"
