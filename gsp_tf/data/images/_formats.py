"""The image formats that this installation reads, and what to install for the others."""

import importlib.util

from PIL import features

_EXTENSIONS = {
    "AVIF": (".avif",),
    "BMP": (".bmp",),
    "GIF": (".gif",),
    "HEIF": (".heic", ".heif", ".hif"),
    "JPEG": (".jfif", ".jpe", ".jpeg", ".jpg"),
    "PNG": (".png",),
    "TIFF": (".tif", ".tiff"),
    "WEBP": (".webp",),
}
_HINTS = {
    "AVIF": "AVIF is read with Pillow 11.3 or later (pip install --upgrade pillow)",
    "HEIF": "HEIC is read once pillow-heif is installed (pip install pillow-heif)",
}
_BRANDS = {"AVIF": (b"avif", b"avis"), "HEIF": (b"heic", b"heix", b"hevc", b"heim", b"mif1")}


def _can_read(name: str) -> bool:
    if name == "HEIF":
        return importlib.util.find_spec("pillow_heif") is not None
    return name != "AVIF" or features.check("avif")


FORMATS = tuple(filter(_can_read, _EXTENSIONS))
"""Pillow's names of the formats; AVIF and HEIF depend on what is installed."""

IMAGE_EXTENSIONS = tuple(sorted(extension for name in FORMATS for extension in _EXTENSIONS[name]))
"""Extensions of the files that are read as images, lower case."""

if "HEIF" in FORMATS:
    import pillow_heif

    pillow_heif.register_heif_opener()


def missing_for(name: str) -> str | None:
    """Says what to install to read a file of this name; `None` if no installation would help."""
    return next((hint for f, hint in _missing() if name.lower().endswith(_EXTENSIONS[f])), None)


def missing_to_decode(header: bytes) -> str | None:
    """Like `missing_for`, from the first 12 bytes of a file."""
    hints = (hint for f, hint in _missing() if header[8:] in _BRANDS[f])
    return next(hints, None) if header[4:8] == b"ftyp" else None


def _missing() -> list[tuple[str, str]]:
    return [(name, hint) for name, hint in _HINTS.items() if name not in FORMATS]
