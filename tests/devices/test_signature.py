"""Keys, signatures, and the file this machine's own key lives in."""

import json
import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openclaw.core.errors import StateError
from openclaw.devices.signature import DeviceIdentity, load_or_create, verify
from openclaw.protocol.auth import device_id, from_base64url, to_base64url

# From RFC 8032, section 7.1, test 2.
SEED = bytes.fromhex("4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb")
PUBLIC = bytes.fromhex("3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c")
SIGNATURE = bytes.fromhex(
    "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da"
    "085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00"
)


def test_signatures_are_ed25519() -> None:
    identity = DeviceIdentity(SEED)
    assert from_base64url(identity.public_key) == PUBLIC
    assert from_base64url(identity.sign("\x72")) == SIGNATURE
    assert verify(PUBLIC, SIGNATURE, b"\x72")
    assert not verify(PUBLIC, SIGNATURE, b"\x73")


def test_the_id_is_the_hash_of_the_key() -> None:
    assert device_id(PUBLIC) == "39f713d0a644253f04529421b9f51b9b08979d08295959c4f3990ee617f5139f"


@given(st.binary(max_size=40), st.binary(max_size=70), st.binary(max_size=10))
def test_nonsense_is_never_a_signature(key: bytes, signature: bytes, message: bytes) -> None:
    assert verify(key, signature, message) is False


def test_the_key_is_made_once_and_kept_private(tmp_path: Path) -> None:
    path = tmp_path / "identity" / "device.json"
    first = load_or_create(path, 1)
    again = load_or_create(path, 2)
    assert (first.device_id, first.public_key) == (again.device_id, again.public_key)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert json.loads(path.read_text())["createdAtMs"] == 1
    assert [entry.name for entry in path.parent.iterdir()] == ["device.json"]


def test_a_key_others_can_read_is_closed_again(tmp_path: Path) -> None:
    path = tmp_path / "device.json"
    load_or_create(path, 1)
    path.chmod(0o644)
    load_or_create(path, 1)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.parametrize(
    "text", ["", "{}", "[]", '{"version":1,"deviceId":"a","publicKey":"b","privateKey":"?","createdAtMs":1}']
)
def test_a_damaged_key_is_not_replaced_behind_your_back(tmp_path: Path, text: str) -> None:
    path = tmp_path / "device.json"
    path.write_text(text)
    with pytest.raises(StateError, match="Move it away"):
        load_or_create(path, 1)
    assert path.read_text() == text


def test_an_identity_signs_and_shows_nothing_of_its_key() -> None:
    identity = DeviceIdentity(SEED)
    assert len(identity.sign("v3|…")) == 86
    assert to_base64url(SEED) not in repr(identity)
