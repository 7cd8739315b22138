"""Reading files of every kind, including those that bite."""

import base64
import os
import struct
import tracemalloc
import zlib

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from openclaw.core.messages import Image
from openclaw.core.tool import ToolContext
from openclaw.tools.files import MAX_BYTES, ReadTool

pytestmark = pytest.mark.anyio

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


async def test_a_text_file_is_returned_as_it_is(workspace, call):
    (workspace / "a.txt").write_text("one\ntwo\n")
    output = await call(ReadTool(), path="a.txt")
    assert output.text == "one\ntwo"
    assert not output.is_error


async def test_a_page_ends_with_the_way_to_the_next(workspace, call):
    (workspace / "a.txt").write_text("".join(f"line {n}\n" for n in range(1, 11)))
    output = await call(ReadTool(), path="a.txt", offset=3, limit=2)
    assert output.text == "line 3\nline 4\n\n[6 more lines in file. Use offset=5 to continue.]"
    last = await call(ReadTool(), path="a.txt", offset=9, limit=2)
    assert last.text == "line 9\nline 10"


async def test_a_last_line_without_newline_counts(workspace, call):
    (workspace / "a.txt").write_text("one\ntwo\nthree")
    output = await call(ReadTool(), path="a.txt", limit=1)
    assert output.text == "one\n\n[2 more lines in file. Use offset=2 to continue.]"
    assert (await call(ReadTool(), path="a.txt", offset=3)).text == "three"


async def test_at_most_two_thousand_lines_come_at_once(workspace, call):
    (workspace / "a.txt").write_text("x\n" * 2500)
    output = await call(ReadTool(), path="a.txt", limit=9999)
    assert output.text.endswith("\n\n[500 more lines in file. Use offset=2001 to continue.]")
    assert output.text.count("x") == 2000


async def test_wide_lines_are_capped_by_size_at_a_whole_line(workspace, call):
    (workspace / "a.txt").write_text(("y" * 999 + "\n") * 100)
    output = await call(ReadTool(), path="a.txt")
    assert output.text.endswith("\n\n[Read output capped at 50 KB for this call. Use offset=52 to continue.]")
    assert output.text.count("y") == 51 * 999


async def test_a_line_of_exactly_the_cap_is_whole(workspace, call):
    (workspace / "a.txt").write_text("z" * MAX_BYTES + "\nnext\n")
    output = await call(ReadTool(), path="a.txt", limit=1)
    assert output.text == "z" * MAX_BYTES + "\n\n[1 more lines in file. Use offset=2 to continue.]"


async def test_one_endless_line_is_read_on_with_a_cursor(workspace, call):
    line = "".join(chr(0x4E00 + n % 5000) for n in range(60_000))
    (workspace / "a.txt").write_text(f"first\n{line}\nlast\n")
    seen, cursor = "", 0
    for _ in range(10):
        output = await call(ReadTool(), path="a.txt", offset=2, cursor=cursor)
        body, _, note = output.text.rpartition("\n\n")
        if "cursor=" not in note:
            seen += output.text
            break
        seen += body
        cursor = int(note.partition("cursor=")[2].split()[0])
    assert seen == f"{line}\nlast"


async def test_a_cursor_past_the_line_says_so(workspace, call):
    (workspace / "a.txt").write_text("short\nother\n")
    assert "beyond the end of line 1 (5 characters)" in (await call(ReadTool(), path="a.txt", cursor=99)).text


async def test_an_offset_past_the_end_is_an_answer_not_an_error(workspace, call):
    (workspace / "a.txt").write_text("one\ntwo\n")
    output = await call(ReadTool(), path="a.txt", offset=9)
    assert output.text == "Offset 9 is beyond end of file (2 lines total). Retry with offset <= 2."
    assert not output.is_error
    assert "(2 lines total)" in (await call(ReadTool(), path="a.txt", offset=3)).text


async def test_an_empty_file_says_that_it_is_empty(workspace, call):
    (workspace / "a.txt").write_text("")
    assert (await call(ReadTool(), path="a.txt")).text == "[The file is empty.]"


@given(
    lines=st.lists(st.text(st.characters(exclude_characters="\n\r\0", codec="utf-8"), max_size=30), max_size=30),
    ended=st.booleans(),
    offset=st.integers(1, 40),
    limit=st.integers(1, 40),
)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
async def test_any_window_holds_exactly_its_lines(workspace, lines, ended, offset, limit):
    content = "\n".join(lines) + ("\n" if ended and lines else "")
    total = content.count("\n") + (not content.endswith("\n") and content != "")
    (workspace / "w.txt").write_text("#" + content, newline="")
    expected = ("#" + content).removesuffix("\n").split("\n")[offset - 1 : offset - 1 + limit]
    output = await ReadTool().call(
        {"path": "w.txt", "offset": offset, "limit": limit}, ToolContext(call_id="c", workspace=workspace)
    )
    if output.is_error:
        assert "binary" in output.text  # a file of mostly control characters
    elif not expected:
        assert "beyond end of file" in output.text
    else:
        body = "\n".join(expected)
        assert output.text.startswith(body)
        left = max(total, 1) - offset - limit + 1
        assert (f"[{left} more lines in file." in output.text) == (left > 0)


async def test_two_hundred_megabytes_are_read_in_a_handful(workspace, call):
    path = workspace / "huge.log"
    with path.open("wb") as stream:
        stream.write(b"a line of text\n" * 5000)
        stream.truncate(200 * 1024 * 1024)
    tracemalloc.start()
    try:
        output = await call(ReadTool(), path="huge.log", limit=3)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert output.text.startswith("a line of text\n")
    assert "[4998 more lines in file. Use offset=4 to continue.]" in output.text
    assert peak < 4 * 1024 * 1024


async def test_far_into_a_huge_single_line_memory_stays_small(workspace, call):
    path = workspace / "huge.json"
    with path.open("wb") as stream:
        for _ in range(60):
            stream.write(b"0123456789abcdef" * 65536)
    tracemalloc.start()
    try:
        output = await call(ReadTool(), path="huge.json", cursor=50_000_003)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert output.text.startswith("3456789abcdef0123")
    assert f"Use offset=1, cursor={50_000_003 + MAX_BYTES} to continue." in output.text
    assert peak < 8 * 1024 * 1024


async def test_windows_line_ends_and_the_byte_order_mark_do_not_show(workspace, call):
    (workspace / "a.txt").write_bytes(b"\xef\xbb\xbfone\r\ntwo\r\n")
    assert (await call(ReadTool(), path="a.txt")).text == "one\ntwo"


async def test_bytes_that_are_not_text_are_replaced_and_said(workspace, call):
    (workspace / "a.txt").write_bytes("Stra\u00dfe\n".encode("latin-1"))
    output = await call(ReadTool(), path="a.txt")
    assert output.text == "Stra\ufffde\n\n[Bytes that are not valid UTF-8 are shown as \ufffd.]"


@pytest.mark.parametrize("content", [b"\x7fELF\x02\x01\x01\0\0", b"%PDF-1.7 text", b"ab\0cd", bytes(range(1, 32)) * 9])
async def test_a_binary_file_is_refused_with_its_size(workspace, call, content):
    (workspace / "a.bin").write_bytes(content)
    output = await call(ReadTool(), path="a.bin")
    assert output.is_error
    assert f"it is a binary file ({len(content)} bytes)" in output.text
    assert "Use exec" in output.text


async def test_utf16_text_is_named_as_such(workspace, call):
    (workspace / "a.txt").write_text("hello", encoding="utf-16")
    output = await call(ReadTool(), path="a.txt")
    assert output.is_error
    assert "UTF-16" in output.text


async def test_a_missing_file_names_the_closest(workspace, call):
    (workspace / "config.yaml").write_text("x")
    output = await call(ReadTool(), path="config.yml")
    assert output.is_error
    assert output.text == f"File not found: {workspace}/config.yml. Did you mean: {workspace}/config.yaml?"


async def test_an_optional_file_may_be_missing(call):
    output = await call(ReadTool(), path="nope.md", optional=True)
    assert output.text == "Optional file not found: nope.md."
    assert not output.is_error


async def test_a_directory_asks_to_be_listed(workspace, call):
    (workspace / "d").mkdir()
    output = await call(ReadTool(), path="d")
    assert output.is_error
    assert "use ls" in output.text


async def test_a_named_pipe_never_blocks(workspace, call):
    os.mkfifo(workspace / "pipe")
    output = await call(ReadTool(), path="pipe")
    assert output.is_error
    assert "a named pipe" in output.text


async def test_a_device_is_not_read(call):
    output = await call(ReadTool(), path="/dev/zero")
    assert output.is_error
    assert "a device" in output.text


async def test_a_loop_of_links_is_an_error(workspace, call):
    (workspace / "a").symlink_to("b")
    (workspace / "b").symlink_to("a")
    assert (await call(ReadTool(), path="a")).is_error


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
async def test_a_file_without_permission_says_so(workspace, call):
    (workspace / "a.txt").write_text("x")
    (workspace / "a.txt").chmod(0)
    assert "Permission denied" in (await call(ReadTool(), path="a.txt")).text


async def test_a_path_too_long_for_the_system_is_an_error(call):
    assert (await call(ReadTool(), path="x" * 5000)).is_error


async def test_a_confined_read_does_not_follow_a_link_out(workspace, tmp_path, call):
    (tmp_path / "secret").write_text("s3cret")
    (workspace / "innocent.txt").symlink_to(tmp_path / "secret")
    output = await call(ReadTool(workspace_only=True), path="innocent.txt")
    assert output.is_error
    assert "s3cret" not in output.text
    assert (await call(ReadTool(), path="innocent.txt")).text == "s3cret"


async def test_an_image_is_shown_whatever_its_name(workspace, call):
    (workspace / "dot.txt").write_bytes(PNG)
    output = await call(ReadTool(), path="dot.txt")
    [image] = [block for block in output.content if isinstance(block, Image)]
    assert image.mime_type == "image/png"
    assert base64.b64decode(image.data) == PNG
    assert "dot.txt" in output.text


@pytest.mark.parametrize(
    ("head", "mime"),
    [
        (b"\xff\xd8\xff\xe0", "image/jpeg"),
        (b"GIF89a", "image/gif"),
        (b"RIFF\x10\0\0\0WEBPVP8 ", "image/webp"),
    ],
)
async def test_images_are_known_by_their_first_bytes(workspace, call, head, mime):
    (workspace / "i").write_bytes(head + bytes(40))
    output = await call(ReadTool(), path="i")
    assert [block.mime_type for block in output.content if isinstance(block, Image)] == [mime]


def bitmap(rows: list[list[tuple[int, int, int]]], *, bits: int = 24, top_down: bool = False) -> bytes:
    body = b""
    for row in rows if top_down else reversed(rows):
        line = b"".join(bytes((b, g, r)) + (b"\xff" if bits == 32 else b"") for r, g, b in row)
        body += line.ljust((len(line) + 3) // 4 * 4, b"\0")
    height = -len(rows) if top_down else len(rows)
    info = struct.pack("<IiiHHIIiiII", 40, len(rows[0]), height, 1, bits, 0, len(body), 0, 0, 0, 0)
    return b"BM" + struct.pack("<IHHI", 54 + len(body), 0, 0, 54) + info + body


def png_pixels(data: bytes) -> bytes:
    at, packed = 8, b""
    while at < len(data):
        length, kind = struct.unpack_from(">I4s", data, at)
        body = data[at + 8 : at + 8 + length]
        assert struct.unpack_from(">I", data, at + 8 + length)[0] == zlib.crc32(kind + body)
        packed += body if kind == b"IDAT" else b""
        at += 12 + length
    return zlib.decompress(packed)


@pytest.mark.parametrize("bits", [24, 32])
@pytest.mark.parametrize("top_down", [False, True])
async def test_a_bitmap_is_shown_as_png(workspace, call, bits, top_down):
    rows = [[(255, 0, 0), (0, 255, 0), (0, 0, 255)], [(1, 2, 3), (4, 5, 6), (7, 8, 9)]]
    (workspace / "i.bmp").write_bytes(bitmap(rows, bits=bits, top_down=top_down))
    output = await call(ReadTool(), path="i.bmp")
    [image] = [block for block in output.content if isinstance(block, Image)]
    assert image.mime_type == "image/png"
    expected = b"".join(b"\0" + b"".join(bytes(pixel) for pixel in row) for row in rows)
    assert png_pixels(base64.b64decode(image.data)) == expected


async def test_a_bitmap_that_is_cut_short_is_an_error(workspace, call):
    (workspace / "i.bmp").write_bytes(bitmap([[(1, 2, 3)] * 9] * 9)[:-5])
    output = await call(ReadTool(), path="i.bmp")
    assert output.is_error
    assert "convert it to PNG" in output.text


async def test_text_that_begins_like_a_bitmap_is_text(workspace, call):
    (workspace / "a.txt").write_text("BMW and other cars, a list that goes on\n")
    assert (await call(ReadTool(), path="a.txt")).text.startswith("BMW")


async def test_a_model_without_eyes_gets_a_note(workspace):
    (workspace / "dot.png").write_bytes(PNG)
    context = ToolContext(call_id="c", workspace=workspace, accepts_images=False)
    output = await ReadTool().call({"path": "dot.png"}, context)
    assert not any(isinstance(block, Image) for block in output.content)
    assert "cannot see images" in output.text
    assert not output.is_error


async def test_an_image_too_large_to_send_says_to_make_it_smaller(workspace, call):
    with (workspace / "big.png").open("wb") as stream:
        stream.write(PNG)
        stream.truncate(6 * 1024 * 1024)
    output = await call(ReadTool(), path="big.png")
    assert output.is_error
    assert "the limit is 5 MB" in output.text
    assert "smaller" in output.text


async def test_nonsense_numbers_are_refused(workspace, call):
    (workspace / "a.txt").write_text("x")
    assert (await call(ReadTool(), path="a.txt", limit=0)).is_error
    assert (await call(ReadTool(), path="a.txt", offset=-1)).is_error
    assert (await call(ReadTool())).is_error
