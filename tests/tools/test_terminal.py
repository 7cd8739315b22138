"""Program output made readable."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openclaw.tools.background import DISCARDED, OutputTail, decode_output


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (b"\x1b[1;31mred\x1b[0m", "red"),
        (b"\x1b]0;title\x07shown", "shown"),
        (b"\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"),
        (b"\x1b(Bplain\x1b=", "plain"),
        (b"10%\r50%\r100%\ndone", "100%\ndone"),
        (b"a\r\nb\r\n", "a\nb\n"),
        (b"a\r\r\nb", "a\nb"),
        (b"be\x07ep\x00\x08", "beep"),
        (b"\xff\xfe\xfd\xfcx", "\ufffdx"),
        ("gr\u00fc\u00df \u4e2d".encode(), "gr\u00fc\u00df \u4e2d"),
        (b"tab\tkept", "tab\tkept"),
        (b"\x1b]never ended", "never ended"),
    ],
)
def test_what_a_person_would_have_seen(raw, text):
    assert decode_output(raw) == text


@given(st.binary())
def test_no_bytes_leave_control_characters(data):
    text = decode_output(data)
    assert not any(ord(char) < 32 and char not in "\n\t" for char in text)
    text.encode()


def test_only_the_last_of_an_endless_output_is_kept():
    tail = OutputTail(chars=1000)
    for n in range(10_000):
        tail.add(f"line {n}\n".encode())
    text = tail.text()
    assert text.startswith(DISCARDED + "\nline ")
    assert text.endswith("line 9999")
    assert len(text) <= 1000 + len(DISCARDED) + 1


def test_one_endless_line_is_kept_by_its_end():
    tail = OutputTail(chars=1000)
    tail.add(b"x" * 9000 + b"END")
    text = tail.text()
    assert text.startswith(DISCARDED)
    assert text.endswith("xEND")


def test_short_output_is_whole_and_trimmed():
    tail = OutputTail()
    tail.add(b"\n\n    indented\nlast\n\n")
    assert tail.text() == "    indented\nlast"
    assert tail.last(4) == "last"


@given(st.lists(st.binary(max_size=50), max_size=50))
def test_the_kept_part_is_the_end(chunks):
    tail = OutputTail(chars=20)
    for chunk in chunks:
        tail.add(chunk)
    assert len(tail.text()) <= 20 + len(DISCARDED) + 1
