"""Images encoded as file bytes."""

import io
import struct
import zlib

ORIENTATION = 0x0112


def encoded(image, kind="JPEG", **options):
    """File bytes of a Pillow image."""
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()


def png(width, height, depth, kind, rows, *chunks, interlace=0):
    """File bytes of a PNG of rows as they are before compression, with more chunks."""

    def chunk(name, content):
        body = name + content
        return struct.pack(">I", len(content)) + body + struct.pack(">I", zlib.crc32(body))

    header = struct.pack(">IIBBBBB", width, height, depth, kind, 0, 0, interlace)
    parts = [(b"IHDR", header), *chunks, (b"IDAT", zlib.compress(rows)), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunk(*part) for part in parts)
