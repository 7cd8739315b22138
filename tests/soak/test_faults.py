"""Small faults: see tests/soak/faults.py; scripts/soak faults makes them large."""

import shutil
from pathlib import Path

import pytest

from tests.soak.faults import run_floods, run_full_disk, show

pytestmark = pytest.mark.slow


@pytest.mark.skipif(shutil.which("prlimit") is None, reason="prlimit is not installed")
def test_open_sessions_go_on_through_floods_of_connections(tmp_path: Path) -> None:
    found = run_floods(tmp_path, 700)
    assert len(found) == 7 and all(fault.good for fault in found), show(found)


@pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap (bwrap) is not installed")
def test_a_full_disk_is_said_and_over_when_there_is_room(tmp_path: Path) -> None:
    found = run_full_disk(tmp_path)
    assert all(fault.good for fault in found), show(found)
    assert "the disk is full" in found[0].figures
