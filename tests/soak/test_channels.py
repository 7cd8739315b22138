"""A small soak: see tests/soak/channels.py; scripts/soak channels is the long one."""

from pathlib import Path

import pytest

from tests.soak.channels import is_good, show, soak

pytestmark = pytest.mark.slow


def test_nothing_is_lost_and_nothing_is_doubled_over_kills(tmp_path: Path) -> None:
    report = soak(tmp_path, kills=5)
    assert is_good(report), show(report)
    assert report.asked["telegram"] >= 4 and report.asked["matrix"] >= 4
