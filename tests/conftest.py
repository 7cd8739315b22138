"""Fixtures every test may use, and how properties are searched."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# The same examples in every run, however busy the machine is. `pytest --hypothesis-profile=seek` looks for new ones.
settings.register_profile("house", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("seek", settings.get_profile("house"), derandomize=False, print_blob=True)
settings.load_profile("house")


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


HERE = Path(__file__).parent
SLOW = """
    acp browser chaos daemon e2e embedders http labels mcp offline plugins sandbox subagents tui ui
    automation/test_heartbeats.py automation/test_retention.py compaction/test_turns.py contract/test_embedder.py
    contract/test_sandbox.py cron/test_schedule.py cron/test_year.py hooks/test_messages.py hooks/test_other_changes.py
    hooks/test_record.py internal_hooks/test_handlers.py memory/test_memory.py memory/test_quality.py
    tools/test_background.py tools/test_helper.py tools/test_robustness.py tools/test_search.py
""".split()
"""Folders and files whose tests are slow without showing it by what they import."""
STARTS = ("subprocess", "commandline", "openclaw", "typed", "GatewayProcess")
"""What a module that starts processes has imported."""


def listed(path: Path) -> bool:
    place = path.relative_to(HERE) if HERE in path.parents else path
    return place.parts[0] in SLOW or place.as_posix() in SLOW


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Slow files that will not be run are not even loaded."""
    return True if "not slow" in config.option.markexpr and listed(collection_path) else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for gone in (name for name in SLOW if not (HERE / name).exists()):
        raise pytest.UsageError(f"tests/{gone} is gone: take it off the list in tests/conftest.py, or rename it there")
    for item in items:
        module = getattr(item, "module", None)
        if listed(item.path) or any(hasattr(module, name) for name in STARTS):
            item.add_marker(pytest.mark.slow)
