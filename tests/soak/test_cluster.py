"""A small storm over three gateways: see tests/soak/cluster.py; scripts/soak cluster is the long one."""

from pathlib import Path

import pytest

from openclaw.testing.postgres import MISSING, postgres_programs
from tests.soak import cluster

pytestmark = [pytest.mark.anyio, pytest.mark.servers]


async def test_nothing_is_lost_doubled_or_forked_over_kills(tmp_path: Path) -> None:
    if postgres_programs() is None:
        pytest.skip(MISSING)
    report = await cluster.soak(tmp_path, kills=4, count=6, database_every=3)
    assert not report.wrong, cluster.show(report)
    assert report.accepted >= 6 and report.crashes == 1 and report.kills == 3
