"""The pairing book remembers what people decided, also after a restart."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from openclaw.core.errors import InvalidRequest, NotFound
from openclaw.core.secret import Secret
from openclaw.devices import pairing
from openclaw.devices.pairing import DevicePairing
from openclaw.protocol.auth import DeviceClaim
from openclaw.storage.database import Database
from tests.databases import open_database

pytestmark = pytest.mark.anyio

CLAIM = DeviceClaim(
    device_id="d" * 64,
    public_key="key",
    role="operator",
    scopes=("operator.read",),
    platform="linux",
    client_id="openclaw-tui",
    client_mode="ui",
    remote_ip="10.0.0.9",
)
WIDER = replace(CLAIM, scopes=("operator.read", "operator.write"))


@pytest.fixture
async def db(tmp_path: Path) -> AsyncIterator[Database]:
    db = await open_database(tmp_path / "state.sqlite")
    yield db
    await db.close()


@pytest.fixture
def book(db: Database) -> DevicePairing:
    return DevicePairing(db)


async def test_an_unknown_device_has_no_standing(book: DevicePairing) -> None:
    assert await book.find(CLAIM, Secret("x")) is None


async def test_a_request_waits_for_a_person_and_then_counts(book: DevicePairing) -> None:
    request_id = await book.request(CLAIM, "not-paired", now=10)
    (waiting,) = await book.pending(11)
    assert (waiting.request_id, waiting.claim, waiting.reason) == (request_id, CLAIM, "not-paired")
    device = await book.approve(request_id, 12)
    assert (device.roles, device.scopes, device.approved_at_ms, device.approved_via) == (
        ("operator",),
        ("operator.read",),
        12,
        "owner",
    )
    assert await book.pending(13) == ()
    standing = await book.find(CLAIM, None)
    assert standing is not None
    assert (standing.roles, standing.scopes, standing.platform) == (("operator",), ("operator.read",), "linux")


async def test_a_new_request_is_announced_once(book: DevicePairing, db: Database) -> None:
    async with db.listen(pairing.REQUESTED) as heard:
        request_id = await book.request(CLAIM, "not-paired", now=10)
        await book.request(CLAIM, "not-paired", now=11)
        other = await book.request(WIDER, "not-paired", now=12)
        assert [await anext(heard), await anext(heard)] == [request_id, other]
    assert (await book.waiting(other, 12)).claim == WIDER
    with pytest.raises(NotFound, match="connect the device again"):
        await book.waiting(request_id, 12)


async def test_the_same_request_keeps_its_id(book: DevicePairing) -> None:
    first = await book.request(CLAIM, "not-paired", now=10)
    again = await book.request(replace(CLAIM, remote_ip="10.0.0.10"), "not-paired", now=20)
    assert first == again
    assert len(await book.pending(20)) == 1


async def test_a_request_that_grows_is_another_one(book: DevicePairing) -> None:
    shown = await book.request(CLAIM, "not-paired", now=10)
    grown = await book.request(WIDER, "not-paired", now=11)
    assert shown != grown
    with pytest.raises(NotFound, match="no pairing request"):
        await book.approve(shown, 12)
    assert await book.paired() == ()


async def test_a_request_nobody_repeats_expires(book: DevicePairing) -> None:
    request_id = await book.request(CLAIM, "not-paired", now=0)
    later = pairing.PENDING_FOR_MS + 1
    assert await book.pending(later) == ()
    with pytest.raises(NotFound):
        await book.approve(request_id, later)


async def test_a_rejected_request_is_gone(book: DevicePairing) -> None:
    request_id = await book.request(CLAIM, "not-paired", now=0)
    assert (await book.reject(request_id, 1)).claim == CLAIM
    assert await book.pending(1) == ()
    assert await book.find(CLAIM, None) is None


async def test_a_flood_of_requests_keeps_the_newest(book: DevicePairing) -> None:
    for number in range(pairing.MAX_PENDING + 3):
        await book.request(replace(CLAIM, device_id=f"d{number}"), "not-paired", now=number)
    waiting = await book.pending(200)
    assert len(waiting) == pairing.MAX_PENDING
    assert waiting[-1].claim.device_id == f"d{pairing.MAX_PENDING + 2}"


async def test_approvals_add_up(book: DevicePairing) -> None:
    await book.admit(CLAIM, approve=True, issue=False, now=1)
    await book.request(WIDER, "scope-upgrade", now=2)
    await book.admit(replace(WIDER, role="node"), approve=True, issue=False, now=3)
    device = await book.device(CLAIM.device_id)
    assert device.roles == ("operator", "node")
    assert device.scopes == ("operator.read", "operator.write")
    assert (device.created_at_ms, device.last_seen_at_ms) == (1, 3)
    assert await book.pending(4) == ()


async def test_a_token_is_given_once_and_kept_as_a_hash(book: DevicePairing, db: Database) -> None:
    issued = await book.admit(CLAIM, approve=True, issue=True, now=5)
    assert issued is not None
    assert (len(issued.token.reveal()), issued.issued_at_ms) == (43, 5)
    standing = await book.find(CLAIM, issued.token)
    assert standing is not None and standing.token_scopes == ("operator.read",)
    for row in await db.read("SELECT * FROM device_tokens"):
        assert issued.token.reveal() not in map(str, row.values())


@pytest.mark.parametrize("claim", [replace(CLAIM, device_id="e" * 64), replace(CLAIM, role="node")])
async def test_a_token_is_good_for_one_device_and_one_role(book: DevicePairing, claim: DeviceClaim) -> None:
    issued = await book.admit(CLAIM, approve=True, issue=True, now=1)
    await book.admit(claim, approve=True, issue=False, now=1)
    assert issued is not None
    standing = await book.find(claim, issued.token)
    assert standing is not None and standing.token_scopes is None


async def test_a_few_recent_tokens_stay_good(book: DevicePairing) -> None:
    issued = [await book.admit(CLAIM, approve=True, issue=True, now=now) for now in range(6)]
    good = []
    for token in issued:
        assert token is not None
        standing = await book.find(CLAIM, token.token)
        good.append(standing is not None and standing.token_scopes is not None)
    assert good == [False, False, True, True, True, True]


async def test_rotation_ends_every_older_token(book: DevicePairing) -> None:
    old = await book.admit(CLAIM, approve=True, issue=True, now=1)
    new = await book.rotate(CLAIM.device_id, "operator", None, 2)
    assert old is not None
    for token, expected in ((old.token, None), (new.token, ("operator.read",))):
        standing = await book.find(CLAIM, token)
        assert standing is not None and standing.token_scopes == expected


async def test_rotation_cannot_widen(book: DevicePairing) -> None:
    await book.admit(CLAIM, approve=True, issue=True, now=1)
    with pytest.raises(InvalidRequest, match=r"operator\.admin"):
        await book.rotate(CLAIM.device_id, "operator", ["operator.admin"], 2)
    with pytest.raises(InvalidRequest, match="not approved as node"):
        await book.rotate(CLAIM.device_id, "node", None, 2)


async def test_a_revoked_token_is_worth_nothing(book: DevicePairing) -> None:
    issued = await book.admit(CLAIM, approve=True, issue=True, now=1)
    await book.revoke(CLAIM.device_id, "operator")
    assert issued is not None
    standing = await book.find(CLAIM, issued.token)
    assert standing is not None and standing.token_scopes is None
    assert (await book.device(CLAIM.device_id)).tokens == ()


async def test_a_removed_device_is_a_stranger(book: DevicePairing) -> None:
    issued = await book.admit(CLAIM, approve=True, issue=True, now=1)
    await book.remove(CLAIM.device_id)
    assert issued is not None
    assert await book.find(CLAIM, issued.token) is None
    with pytest.raises(NotFound, match="no longer paired"):
        await book.admit(CLAIM, approve=False, issue=True, now=2)
    with pytest.raises(NotFound):
        await book.remove(CLAIM.device_id)


async def test_a_device_can_be_renamed(book: DevicePairing) -> None:
    await book.admit(CLAIM, approve=True, issue=False, now=1)
    assert (await book.rename(CLAIM.device_id, "kitchen")).display_name == "kitchen"
    with pytest.raises(NotFound, match="devices list"):
        await book.rename("nobody", "x")


async def test_the_book_survives_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "again.sqlite"
    db = await open_database(path)
    issued = await DevicePairing(db).admit(CLAIM, approve=True, issue=True, now=1)
    await db.close()
    db = await open_database(path)
    assert issued is not None
    standing = await DevicePairing(db).find(CLAIM, issued.token)
    await db.close()
    assert standing is not None and standing.token_scopes == ("operator.read",)


def test_a_token_matches_only_its_own_hash() -> None:
    one, two = pairing.issue(), pairing.issue()
    assert one != two
    assert pairing.matches(one, pairing.hash_token(one))
    assert not pairing.matches(two, pairing.hash_token(one))
