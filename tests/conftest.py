"""Fixtures every test may use, and how properties are searched."""

import gc
import secrets
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from openclaw.core.secret import Secret
from openclaw.testing import TemporaryHome
from openclaw.testing.postgres import MISSING, PostgresServer, postgres_programs, running_postgres

# The same examples in every run, however busy the machine is. `pytest --hypothesis-profile=seek` looks for new ones.
settings.register_profile("house", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("seek", settings.get_profile("house"), derandomize=False, print_blob=True, max_examples=2_000)
settings.load_profile("house")

# Started in the background of a shell, pytest and all its children would be deaf to Ctrl-C, which some tests type.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--store", choices=["sqlite", "postgres"], default="sqlite", help="the engine under all tests")


@pytest.fixture(scope="session", autouse=True)
def store(request: pytest.FixtureRequest) -> Iterator[None]:
    """Puts the engine that `--store` names under every home and every database of a test."""
    if request.config.getoption("--store") == "postgres":
        TemporaryHome.server = request.getfixturevalue("postgres_server").url
    yield
    TemporaryHome.server = ""


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """A PostgreSQL server for all tests that want one."""
    if postgres_programs() is None:
        pytest.skip(MISSING)
    with running_postgres() as server:
        yield server


@pytest.fixture
def postgres_url(postgres_server: PostgresServer) -> Secret:
    """An empty schema of that server."""
    return Secret(f"{postgres_server.url}?search_path=test_{secrets.token_hex(6)}")


HERE = Path(__file__).parent
SLOW = """
    harnesses/acp tools/browser gateway/chaos gateway/daemon e2e memory/embedders gateway/http security/labels
    tools/mcp models/offline plugins security/sandboxes runs/subagents cli/tui web automation/test_heartbeats.py
    automation/test_retention.py sessions/compaction/test_turns.py contract/test_embedder.py contract/test_sandbox.py
    automation/cron/test_schedule.py plugins/hooks/test_messages.py
    plugins/hooks/test_other_changes.py plugins/hooks/test_record.py plugins/hook_files/test_handlers.py
    memory/test_memory.py memory/test_quality.py tools/test_background.py tools/test_helper.py
    tools/test_robustness.py tools/test_search.py cli/test_hints_run.py
    contract/test_channel.py channels/discord channels/slack/test_channel.py sessions/test_maintenance.py
""".split()
"""Folders and files whose tests are slow without showing it by what they import."""
STARTS = ("subprocess", "commandline", "openclaw", "typed", "GatewayProcess")
"""What a module that starts processes has imported."""


def listed(path: Path) -> bool:
    place = path.relative_to(HERE) if HERE in path.parents else path
    return any(part.as_posix() in SLOW for part in (place, *place.parents))


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Slow files that will not be run are not even loaded."""
    return True if "not slow" in config.option.markexpr and listed(collection_path) else None


def pytest_collection_finish() -> None:
    """What collecting made stays: collecting garbage need not look at it again and again."""
    gc.collect()
    gc.freeze()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--store") == "postgres":
        for item in items:
            if item.get_closest_marker("sqlite"):
                item.add_marker(pytest.mark.skip(reason="about the file of one machine"))
    for gone in (name for name in SLOW if not (HERE / name).exists()):
        raise pytest.UsageError(f"tests/{gone} is gone: take it off the list in tests/conftest.py, or rename it there")
    for item in items:
        module = getattr(item, "module", None)
        if listed(item.path) or any(hasattr(module, name) for name in STARTS):
            item.add_marker(pytest.mark.slow)
