"""Setup codes: good once, for a while, for what they were made for."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from openclaw.core.secret import Secret
from openclaw.devices.pairing import GOOD_FOR_MS, MOST_OPEN, PROFILES, SET_UP, DevicePairing, Profile, SetupCodes
from openclaw.protocol.auth import SetupTokens
from tests.databases import open_database
from tests.devices.test_pairing import CLAIM

pytestmark = pytest.mark.anyio


@pytest.fixture
async def book(tmp_path: Path) -> AsyncIterator[DevicePairing]:
    db = await open_database(tmp_path / "state.sqlite")
    yield DevicePairing(db)
    await db.close()


async def test_a_code_lets_a_device_in_for_all_it_was_made_for(book: DevicePairing) -> None:
    made = book.codes.make("full", 100)
    assert book.codes.status(made.setup_id, 101) == ("pending", "")
    done = await book.set_up(CLAIM, made.token, now=200)
    assert done is not None and [grant.role for grant, _ in done.tokens] == ["operator", "node"]
    device = await book.device(CLAIM.device_id)
    assert set(device.roles) == {"operator", "node"} and device.approved_via == "setup-code"
    for grant, token in done.tokens:
        standing = await book.find(replace(CLAIM, role=grant.role, scopes=()), token.token)
        assert standing is not None and standing.token_scopes == grant.scopes
    assert book.codes.status(made.setup_id, 300) == ("completed", CLAIM.device_id)


async def test_it_is_good_once(book: DevicePairing) -> None:
    made = book.codes.make("full", 0)
    assert await book.set_up(CLAIM, made.token, now=1)
    assert await book.set_up(replace(CLAIM, device_id="e" * 64), made.token, now=2) is None


async def test_it_is_good_for_ten_minutes(book: DevicePairing) -> None:
    made = book.codes.make("full", 0)
    assert made.expires_at_ms == GOOD_FOR_MS
    assert await book.set_up(CLAIM, made.token, now=GOOD_FOR_MS) is None
    assert book.codes.status(made.setup_id, GOOD_FOR_MS) == ("expired", "")
    assert await book.paired() == ()


@pytest.mark.parametrize(
    ("profile", "role", "scopes"),
    [
        ("full", "operator", ("operator.admin",)),
        ("full", "operator", ("operator.pairing",)),
        ("limited", "operator", ("operator.approvals",)),
        ("limited", "node", ()),
        ("node", "operator", ("operator.read",)),
        ("voice-node", "operator", ("operator.read",)),
    ],
)
async def test_a_device_that_asks_for_more_gets_nothing_and_the_code_stays(
    book: DevicePairing, profile: Profile, role: str, scopes: tuple[str, ...]
) -> None:
    made = book.codes.make(profile, 0)
    assert await book.set_up(replace(CLAIM, role=role, scopes=scopes), made.token, now=1) == SetupTokens(())
    assert await book.paired() == ()
    assert book.codes.grants(made.token, 2) == PROFILES[profile]


def test_no_code_gives_away_the_machine() -> None:
    for grants in PROFILES.values():
        for grant in grants:
            assert not {"operator.admin", "operator.pairing", "operator.talk.secrets"} & set(grant.scopes)


def test_made_up_codes_and_floods_are_harmless() -> None:
    codes = SetupCodes()
    assert codes.grants(Secret(""), 0) is None and codes.grants(Secret("x" * 43), 0) is None
    made = [codes.make("full", 0) for _ in range(MOST_OPEN + 1)]
    assert codes.grants(made[0].token, 1) is None and codes.grants(made[1].token, 1)
    assert "x" * 43 not in repr(codes.make("full", 0)) and made[1].token.reveal() not in repr(vars(codes))


async def test_whoever_may_approve_is_told(book: DevicePairing) -> None:
    made = book.codes.make("full", 0)
    async with book._db.listen(SET_UP) as news:
        await book.set_up(CLAIM, made.token, now=1)
        async for told in news:
            assert told == f"{made.setup_id} {CLAIM.device_id}"
            return
