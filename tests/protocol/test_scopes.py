"""Who may do and hear what."""

import json
from pathlib import Path

import pytest

from openclaw.protocol import scopes
from openclaw.protocol.scopes import (
    ADMIN,
    READ,
    SESSIONS_READ,
    SESSIONS_WRITE,
    TALK,
    WRITE,
    allows,
    covers,
    receivable_events,
)

SCHEMAS = json.loads((Path(__file__).parent.parent / "golden" / "frames" / "schemas.json").read_text())


@pytest.mark.parametrize(
    ("held", "needed", "expected"),
    [
        ((ADMIN,), "operator.pairing", True),
        ((WRITE,), READ, True),
        ((WRITE,), TALK, True),
        ((WRITE,), SESSIONS_WRITE, True),
        ((WRITE,), SESSIONS_READ, True),
        ((WRITE,), "operator.approvals", False),
        ((WRITE,), "operator.talk.secrets", False),
        ((READ,), WRITE, False),
        ((READ,), SESSIONS_READ, True),
        ((SESSIONS_WRITE,), SESSIONS_READ, True),
        ((SESSIONS_WRITE,), READ, False),
        ((), READ, False),
        ((), None, True),
        (("operator.made.up",), READ, False),
    ],
)
def test_one_scope_implies_another(held: tuple[str, ...], needed: str | None, expected: bool) -> None:
    assert allows(held, needed) is expected


def test_covering_asks_for_every_scope() -> None:
    assert covers((WRITE,), (READ, SESSIONS_READ))
    assert not covers((WRITE,), (READ, ADMIN))
    assert covers((), ())


def test_the_event_table_is_the_protocols() -> None:
    theirs = {event: sorted(needed) for event, needed in SCHEMAS["eventScopes"].items()}
    ours = {event: sorted(needed) for event, needed in scopes.EVENT_SCOPES.items()}
    added = {event for event in ours if event not in theirs}
    assert added == {
        "models.changed",
        "session.long_running",
        "session.stalled",
        "session.stuck",
        "session.recovery.requested",
        "session.recovery.completed",
    }
    assert {event: needed for event, needed in ours.items() if event not in added} == theirs


@pytest.mark.parametrize(
    ("event", "held", "expected"),
    [
        ("tick", (), True),
        ("health", (), True),
        ("chat", (), False),
        ("chat", (READ,), True),
        ("chat.metadata.changed", (SESSIONS_READ,), True),
        ("device.pair.requested", (WRITE,), False),
        ("device.pair.requested", (ADMIN,), True),
        ("made.up", (ADMIN,), False),
    ],
)
def test_an_event_reaches_only_its_scope(event: str, held: tuple[str, ...], expected: bool) -> None:
    assert (event in receivable_events(tuple(held))) is expected


def test_a_missing_scope_is_named() -> None:
    error = scopes.missing_scope(READ)
    assert (error.code, error.message) == ("FORBIDDEN", "missing scope: operator.read")
    assert error.details == {"code": "MISSING_SCOPE", "missingScope": READ, "requiredScopes": [READ]}
