"""Frames as they go over the wire, kept as files so that a change is seen in review."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from openclaw.core.secret import Secret
from openclaw.protocol.connect import HelloSnapshot, ServerFeatures, SessionDefaults
from openclaw.protocol.events import BusEvent
from openclaw.protocol.frames import StateVersion
from openclaw.protocol.scopes import ADMIN, READ
from tests.protocol.support import LOCAL, POLICY, REMOTE, Door, Seal, operator

pytestmark = pytest.mark.anyio

GOLDEN = Path(__file__).parent.parent / "golden" / "frames"
OFFER = ServerFeatures(
    version="2026.1.0",
    methods=["agent", "agent.wait", "health"],
    events=["agent", "chat", "tick"],
    capabilities=["published-model-catalog"],
)
SNAPSHOT = HelloSnapshot(
    presence=({"ts": 1_700_000_000_000, "host": "claw", "mode": "gateway", "reason": "self"},),
    health={"ok": True, "ts": 1_700_000_000_000},
    state_version=StateVersion(presence=1, health=1),
    uptime_ms=1_234,
    config_path="/home/me/.openclaw/openclaw.json",
    state_dir="/home/me/.openclaw",
    auth_mode="token",
    session_defaults=SessionDefaults(
        default_agent_id="main",
        model_configured=True,
        main_key="main",
        main_session_key="agent:main:main",
        scope="per-sender",
    ),
)


async def frames() -> dict[str, Any]:
    door = Door()
    admin = (await door.knock(operator(scopes=(ADMIN,)))).connection
    device = (await door.knock(device=Seal())).connection
    return {
        "challenge": json.loads(door.handshake().open().data),
        "hello-admin": json.loads(admin.hello("c1", OFFER, SNAPSHOT).data),
        "hello-device": json.loads(device.hello("c1", OFFER, SNAPSHOT).data),
        "tick": json.loads(getattr(admin.hear(BusEvent("tick", {"ts": 1_700_000_000_000}), 0), "data", b"null")),
        "error-protocol": (await door.knock(change={"minProtocol": 5, "maxProtocol": 6})).frames[-1],
        "error-token": (await door.knock(operator(token=Secret("no")), device=Seal())).frames[-1],
        "error-pairing": (await door.knock(operator(scopes=(READ, ADMIN)), device=Seal(), peer=REMOTE)).frames[-1],
        "error-params": (await door.knock(change={"client.id": "bot"}, peer=LOCAL)).frames[-1],
        "error-first": (await door.send('{"type":"req","id":"1","method":"health"}')).frames[-1],
        "error-proof": (await door.knock(device=Seal(), change={"device.nonce": "x"})).frames[-1],
    }


async def test_frames_are_as_they_were() -> None:
    assert POLICY.mode == "token"
    for name, frame in (await frames()).items():
        path = GOLDEN / f"{name}.json"
        text = json.dumps(frame, indent=2, ensure_ascii=False) + "\n"
        if os.environ.get("UPDATE_GOLDENS"):
            path.write_text(text)
        assert path.read_text() == text, f"{name} changed: if that is meant, run with UPDATE_GOLDENS=1"
