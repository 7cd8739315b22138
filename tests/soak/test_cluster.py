"""A small storm over three gateways: see tests/soak/cluster.py; scripts/soak cluster is the long one."""

from pathlib import Path

import pytest

from openclaw.testing.postgres import MISSING, postgres_programs
from tests.soak import cluster
from tests.soak.cluster_faults import SECONDS

pytestmark = [pytest.mark.anyio, pytest.mark.servers]


async def test_nothing_is_lost_doubled_or_forked_over_kills(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if postgres_programs() is None:
        pytest.skip(MISSING)
    monkeypatch.setattr(cluster, "OWN_SECONDS", 180.0)
    monkeypatch.setitem(SECONDS, "disk", 3.0)
    report = await cluster.soak(tmp_path, 3, count=6, others={"database": 1, "disk": 1})
    assert not report.wrong, cluster.show(report)
    assert report.accepted >= 6 and report.count("database") == 1 and report.count("kill") == 3
