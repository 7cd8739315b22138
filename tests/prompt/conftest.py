"""One gateway records the prompts of all scenarios, once for all workers of a test run."""

import fcntl
from pathlib import Path

import msgspec
import pytest

from tests.prompt.recorded import RecordedRequest, record_all


@pytest.fixture(scope="session")
def recorded(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> dict[str, RecordedRequest]:
    own = tmp_path_factory.getbasetemp()
    shared = own if worker_id == "master" else own.parent
    with (shared / "recorded.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        kept = shared / "recorded.json"
        if not kept.exists():
            made = record_all(_home(tmp_path_factory))
            kept.write_bytes(msgspec.json.encode(made))
        return msgspec.json.decode(kept.read_bytes(), type=dict[str, RecordedRequest])


def _home(factory: pytest.TempPathFactory) -> Path:
    return factory.mktemp("ada")
