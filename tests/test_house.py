"""The house stands: decisions touch nothing, a name means one thing, importing does nothing."""

import ast
import importlib.util
import subprocess
import sys
from importlib.machinery import SourceFileLoader
from pathlib import Path
from typing import Any

import pytest

SRC = Path(__file__).parent.parent / "src" / "openclaw"
PURE = """
agent/arguments agent/repeats agent/settings automation/cron/jobs automation/cron/schedule automation/cron/watch
automation/heartbeat automation/settings automation/webhooks budget/limits budget/settings channels/access
channels/chunking channels/settings config/migrate config/redact config/schema config/tree core/channel core/commands
core/errors core/events core/hooks core/keys core/messages core/provider core/sandbox core/text
extensions/front_matter extensions/gate models/failover
models/refs models/registry models/settings models/thinking models/timeouts plugins/admit plugins/hooks/manifest
plugins/hooks/points plugins/manifest plugins/settings plugins/wire prompt/build prompt/diff prompt/facts prompt/fit
prompt/lint prompt/report prompt/sections/stable prompt/sections/tools prompt/sections/volatile
security/audit security/exec_policy security/external security/install_scan security/labels security/sandboxes/policy
security/scan security/settings security/shell security/tool_policy security/undo_plan sessions/compaction/plan
sessions/compaction/summary sessions/reply_parse sessions/reply_text sessions/settings sessions/transcript
skills/catalog skills/gate skills/invoke skills/manifest skills/settings tools/mcp/schema tools/settings
workspace/budget
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


def test_packages_import_each_other_along_the_declared_order() -> None:
    """The contracts are in pyproject.toml; `lint-imports` shows what breaks them."""
    done = subprocess.run(
        [str(Path(sys.executable).with_name("lint-imports")), "--no-cache"],
        capture_output=True,
        text=True,
        cwd=SRC.parent.parent,
        timeout=600,
    )
    assert done.returncode == 0, done.stdout[-5000:]


@pytest.fixture(scope="module")
def house() -> Any:
    """The house as `scripts/house` counts it."""
    path = SRC.parent.parent / "scripts" / "house"
    loader = SourceFileLoader("house", str(path))
    spec = importlib.util.spec_from_loader("house", loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module.House()


def test_a_folder_holds_at_most_25_modules(house: Any) -> None:
    assert not {str(folder): count for folder, count in house.folders.items() if count > 25}


def test_a_file_has_at_most_600_lines(house: Any) -> None:
    assert not {str(path): lines for path, lines in house.lines.items() if lines > 600}


def test_a_function_has_at_most_100_lines(house: Any) -> None:
    assert not house.long_functions


def test_lambdas_are_few(house: Any) -> None:
    assert house.lambdas <= sum(house.lines.values()) / 1000


def test_imports_stand_at_the_top_but_in_the_three_places_of_the_architecture(house: Any) -> None:
    """`cli/main`, a part that configuration or first use switches on, an optional library."""
    assert len(house.inner_imports) <= 60, house.inner_imports


def test_there_is_one_list_of_gates_and_one_place_that_asks_it() -> None:
    """Whoever runs tools gets the runner with its gates from the preparer; nobody else makes one."""
    makes = [path for path in FILES if "ToolRunner(" in path.read_text().replace("class ToolRunner", "")]
    asks = [path for path in FILES if "in self._gates" in path.read_text()]
    assert [str(path.relative_to(SRC)) for path in makes] == ["runs/prepare.py"]
    assert [str(path.relative_to(SRC)) for path in asks] == ["agent/tool_runner.py"]


def test_a_public_class_name_exists_once(house: Any) -> None:
    assert not house.names_twice


def test_a_package_says_what_it_is() -> None:
    for path in SRC.rglob("__init__.py"):
        if "template" not in path.parts:
            said = ast.get_docstring(ast.parse(path.read_text()))
            assert said and 3 <= len(said.splitlines()) <= 10, f"{path}: say in three to ten lines what it is"


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


ONE_OF_EACH = {
    "create_subprocess_exec(": ("process/child.py",),
    "subprocess.Popen(": (
        "process/child.py",
        "gateway/process.py",  # starts the daemon, which outlives us
        "testing/postgres.py",  # a server for tests, which waits for no event loop
    ),
    "os.killpg(": ("process/child.py", "process/group.py"),
    "httpx2.PoolTimeout": ("channels/http.py", "models/providers/http.py"),
}
"""What is done in one place, and where that is."""


@pytest.mark.parametrize("what", ONE_OF_EACH)
def test_there_is_one_of_each(what: str) -> None:
    ours = [path for path in FILES if "bundled" not in path.parts]  # the scripts of bundled skills run by themselves
    found = [str(path.relative_to(SRC)) for path in ours if what in path.read_text(encoding="utf-8")]
    elsewhere = sorted(set(found) - set(ONE_OF_EACH[what]))
    assert found and not elsewhere, f"{what} belongs to {ONE_OF_EACH[what]}: use that in {elsewhere}"
