"""WebSocket frames: whatever way the bytes arrive, the same messages come out; what breaks the rules is named."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from websockets.frames import Frame, Opcode

from openclaw.protocol.framing import (
    CLOSE,
    PING,
    TEXT,
    BrokenFrame,
    FrameReader,
    encode_close,
    encode_frame,
    parse_close,
)

MESSAGES = st.lists(st.binary(max_size=300) | st.sampled_from([b"x" * 125, b"x" * 126, b"y" * 70_000]), max_size=5)


@given(MESSAGES, st.booleans(), st.integers(1, 4_096))
def test_messages_survive_any_cutting(messages: list[bytes], masked: bool, piece: int) -> None:
    stream = b"".join(encode_frame(TEXT, each, masked=masked) for each in messages)
    reader = FrameReader(masked=masked)
    found: list[tuple[int, bytes]] = []
    for at in range(0, len(stream), piece):
        found += reader.feed(stream[at : at + piece])
    assert found == [(TEXT, each) for each in messages]


@given(st.binary(max_size=70_000), st.booleans())
def test_a_frame_is_the_one_the_library_makes(data: bytes, masked: bool) -> None:
    made = encode_frame(TEXT, data, masked=masked)
    theirs = Frame(Opcode.TEXT, data).serialize(mask=masked)
    assert len(made) == len(theirs) and made[:2] == theirs[:2]
    assert list(FrameReader(masked=masked).feed(theirs)) == [(TEXT, data)]


def test_a_message_in_parts_may_be_interrupted_by_a_ping() -> None:
    parts = bytes((TEXT, 2)) + b"he" + encode_frame(PING, b"?", masked=False) + bytes((0x80, 3)) + b"llo"
    assert list(FrameReader(masked=False).feed(parts)) == [(PING, b"?"), (TEXT, b"hello")]


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (bytes((0xC1, 0)), 1002),  # a reserved bit
        (bytes((0x83, 0)), 1002),  # an unknown kind
        (bytes((0x8B, 0)), 1002),
        (bytes((0x81, 0x80)) + bytes(4), 1002),  # masked by a server
        (bytes((0x80, 0)), 1002),  # goes on with nothing
        (bytes((0x01, 0, 0x81, 0)), 1002),  # begins before the last has ended
        (bytes((0x09, 0)), 1002),  # a ping in parts
        (bytes((0x89, 126, 0, 126)), 1002),  # a ping that is too long
        (bytes((0x81, 126, 0, 200)), 1009),
        (bytes((0x01, 60)) + bytes(60) + bytes((0x80, 60)) + bytes(60), 1009),  # too long together
    ],
)
def test_what_breaks_the_rules_is_named(data: bytes, code: int) -> None:
    with pytest.raises(BrokenFrame) as broken:
        list(FrameReader(masked=False, limit=100).feed(data))
    assert broken.value.code == code


def test_a_close_has_its_code_and_reason() -> None:
    [(kind, payload)] = FrameReader(masked=False).feed(encode_close(4001, "withdrawn", masked=False))
    assert kind == CLOSE and parse_close(payload) == (4001, "withdrawn")
    assert parse_close(b"") == (1005, "")
    for wrong in (b"\x03", (999).to_bytes(2), (1005).to_bytes(2), (1000).to_bytes(2) + b"\xff"):
        with pytest.raises(BrokenFrame):
            parse_close(wrong)
