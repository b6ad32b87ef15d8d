"""Images as the bytes of files."""

import io

ORIENTATION = 0x0112


def encoded(image, kind="JPEG", **options):
    """Bytes of a file with a Pillow image."""
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()
