"""Windows bitmaps as PNG, because models are not shown bitmaps by every provider. No I/O."""

import struct
import zlib

from openclaw.core.errors import InvalidRequest

_HEADER = struct.Struct("<10xI4xiiHHI")
_MASKED = 3


def to_png(data: bytes) -> bytes:
    """The picture of an uncompressed bitmap with 24 or 32 bits a pixel; others are refused with advice."""
    start, width, height, _, bits, compression = _HEADER.unpack_from(data.ljust(_HEADER.size, b"\0"))
    channels = bits // 8
    stride = (width * channels + 3) // 4 * 4
    supported = (bits in (24, 32) and compression == 0) or (bits == 32 and compression == _MASKED)
    if not supported or width <= 0 or height == 0 or start + stride * abs(height) > len(data):
        raise InvalidRequest("This kind of bitmap cannot be shown: convert it to PNG first and read that.")
    starts = range(start, start + stride * abs(height), stride)
    rows = [data[at : at + width * channels] for at in starts]
    if height > 0:
        rows.reverse()  # bitmaps are stored from the bottom up, unless their height is negative
    pixels = b"".join(b"\0" + _rgb(row, channels) for row in rows)
    header = struct.pack(">IIBBBBB", width, abs(height), 8, 2, 0, 0, 0)
    return b"".join(
        (b"\x89PNG\r\n\x1a\n", _chunk(b"IHDR", header), _chunk(b"IDAT", zlib.compress(pixels)), _chunk(b"IEND", b""))
    )


def _rgb(row: bytes, channels: int) -> bytes:
    out = bytearray(len(row) // channels * 3)
    out[0::3], out[1::3], out[2::3] = row[2::channels], row[1::channels], row[0::channels]
    return bytes(out)


def _chunk(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
