"""Frames, however the bytes arrive."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openclaw.core.errors import BadResponse
from openclaw.models.providers.http import EventReader, LineReader


def read(*chunks: bytes) -> list[bytes]:
    reader = EventReader("acme")
    return [*(data for chunk in chunks for data in reader.feed(chunk)), *reader.end()]


@pytest.mark.parametrize(
    ("stream", "expected"),
    [
        (b"data: one\n\ndata: two\n\n", [b"one", b"two"]),
        (b"data: one\r\n\r\ndata: two\r\n\r\n", [b"one", b"two"]),
        (b"data: one\r\rdata: two\r\r", [b"one", b"two"]),
        (b"data: one\ndata: two\n\n", [b"one\ntwo"]),
        (b"event: ping\ndata:tight\n\n", [b"tight"]),
        (b"event: lost\n\ndata: x\n\n", [b"x"]),
        (b": a comment\n\ndata: x\n: another\n\n", [b"x"]),
        (b"id: 7\nretry: 10\ndata: x\nunknown: y\n\n", [b"x"]),
        (b"data\n\n", [b""]),
        (b"\xef\xbb\xbfdata: x\n\n", [b"x"]),
        (b"data: no blank line", [b"no blank line"]),
        (b"data:  two spaces\n\n", [b" two spaces"]),
        (b"data: [DONE]\n\n", [b"[DONE]"]),
        ("data: zeile\u2028zwei\n\n".encode(), ["zeile\u2028zwei".encode()]),
        (b"<html>\n\n", []),
        (b"", []),
    ],
)
def test_events_are_read_as_the_standard_says(stream: bytes, expected: list[bytes]) -> None:
    assert read(stream) == expected


@given(
    payloads=st.lists(st.text(st.characters(exclude_characters="\r\n", codec="utf-8")), max_size=5),
    newline=st.sampled_from([b"\n", b"\r\n", b"\r"]),
    cuts=st.lists(st.integers(0, 200), max_size=8),
)
def test_cuts_in_the_network_change_nothing(payloads: list[str], newline: bytes, cuts: list[int]) -> None:
    stream = b"".join(b"data: " + text.encode() + newline * 2 for text in payloads)
    places = sorted({0, len(stream), *(cut for cut in cuts if cut < len(stream))})
    chunks = [stream[start:end] for start, end in pairwise(places)]

    assert read(*chunks) == [text.encode() for text in payloads]


def test_a_line_break_cut_in_two_is_one_line_break() -> None:
    assert read(b"data: one\r", b"\ndata: two\r", b"\n\r\n") == [b"one\ntwo"]


@given(st.lists(st.binary(max_size=40), max_size=10))
def test_no_bytes_break_the_reader(chunks: list[bytes]) -> None:
    assert read(*chunks) == read(b"".join(chunks))


def test_an_event_is_given_out_with_its_last_byte() -> None:
    reader = EventReader("acme")

    assert reader.feed(b"data: x\r\n\r") == [b"x"]
    assert reader.feed(b"\ndata: y\n\n") == [b"y"]


@pytest.mark.parametrize("chunk", [b"data: " + b"x" * 60, b"data: xxxxxxxxx\n"])
def test_an_event_without_end_is_given_up(chunk: bytes) -> None:
    reader = EventReader("acme", limit=100)

    with pytest.raises(BadResponse, match=r"acme sent one event of more than 100 bytes.*baseUrl"):
        for _ in range(40):
            reader.feed(chunk)


def test_lines_are_values_and_blank_ones_are_nothing() -> None:
    reader = LineReader("acme")

    frames = [*reader.feed(b'{"a"'), *reader.feed(b':1}\n\n{"b":2}\r\n'), *reader.feed(b'{"c":3}'), *reader.end()]

    assert frames == [b'{"a":1}', b'{"b":2}', b'{"c":3}']
