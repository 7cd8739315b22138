"""Anything may come through an open connection: the gateway lives, and does not grow."""

import asyncio
import json
import os
import sys
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from openclaw.protocol.connect_request import ConnectionLost
from openclaw.testing import TemporaryHome
from tests.e2e.gateway_process import GatewayProcess, pss

FUZZ = int(os.environ.get("OPENCLAW_TEST_FUZZ", "60"))
"""How many connections full of rubbish: a few in every run, thousands when somebody asks."""
WARM_UP = max(30, FUZZ // 5)
"""Before memory is looked at: every method has been called, every pool and cache has its size."""
MOST_GROWTH_MIB = 8.0
"""What the rest may add. A leak of one kilobyte an example shows at 8,000; noise of the allocator does not."""
ENDS = ("gateway.restart.request", "update.run", "system.shutdown")
"""Methods that end the gateway when they are asked well."""
NAMES = """
agentId content cursor deviceId enabled id idempotencyKey job jobId key label limit message method mode name params
patch path query raw requestId role runId scopes sessionId sessionKey text timeoutMs url
""".split()
"""So that some requests get past the check of their params."""
LEAVES = st.none() | st.booleans() | st.integers() | st.text(max_size=10)
VALUES = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES) | st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=8,
)
FRAMES = st.one_of(
    st.text(max_size=200),
    st.binary(max_size=50).map(lambda data: data.decode("latin-1")),
    st.fixed_dictionaries(
        {
            "type": st.sampled_from(["req", "req", "req", "res", "event", "x"]),
            "id": st.one_of(st.text(max_size=5), st.integers(), st.none()),
            "method": st.integers(0, 500),
            "params": VALUES,
        }
    ),
)


@pytest.mark.skipif(sys.platform != "linux", reason="the memory of a process is read from /proc")
def test_no_frame_brings_the_gateway_down_or_makes_it_grow(
    openclaw_home: TemporaryHome, record_property: Callable[[str, object], None]
) -> None:
    with GatewayProcess(openclaw_home) as gateway:
        assert gateway.process is not None
        pid = gateway.process.pid
        _fuzz(gateway, WARM_UP)
        before = pss(pid)
        _fuzz(gateway, max(FUZZ - WARM_UP, 10))
        after = pss(pid)
    record_property("pss_mib", f"{before:.1f} -> {after:.1f}")
    print(f"PSS {before:.1f} MiB after {WARM_UP} examples, {after:.1f} MiB after {FUZZ}")
    assert after - before < MOST_GROWTH_MIB


def _fuzz(gateway: GatewayProcess, examples: int) -> None:
    @settings(max_examples=examples, deadline=None, database=None)
    @given(frames=st.lists(FRAMES, max_size=6))
    def send(frames: list[str | dict[str, Any]]) -> None:
        asyncio.run(_send(gateway, frames))
        assert "Traceback" not in gateway.output()

    send()


async def _send(gateway: GatewayProcess, frames: list[str | dict[str, Any]]) -> None:
    try:
        async with gateway.client() as client:
            methods = [name for name in client.hello["features"]["methods"] if name not in ENDS]
            for frame in frames:
                if isinstance(frame, dict):
                    frame = json.dumps({**frame, "method": methods[frame["method"] % len(methods)]})
                await client._socket.send(frame)
            await client.call("health")  # what was sent before has begun by the time this is answered
    except ConnectionLost:
        pass  # rubbish may cost the sender its connection
    async with gateway.client() as client:
        assert (await client.call("health"))["ok"] is True
