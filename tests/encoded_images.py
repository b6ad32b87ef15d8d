"""Images encoded as file bytes."""

import io

ORIENTATION = 0x0112


def encoded(image, kind="JPEG", **options):
    """File bytes of a Pillow image."""
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()
