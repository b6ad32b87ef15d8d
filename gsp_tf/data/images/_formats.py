"""The image formats that this installation reads, the encodings of each that Pillow reads rightly,
and what to install for other formats.

Pillow reads some files without all that their headers say: samples with a sign as if they had none,
12 bits as if they were 16. `check_encoding` refuses every encoding whose pixels would not be those
of the standard.
"""

import importlib.util
import zlib
from collections.abc import Iterator

from PIL import Image, features

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


def check_encoding(image: Image.Image) -> None:
    """Refuses an image, not loaded yet, whose pixels Pillow would not read as its format says."""
    if image.mode in ("I", "F"):
        problem = f"its pixels are 32-bit or signed (mode {image.mode}) and their range is unknown"
    elif image.mode not in _MODES:
        problem = f"its pixels are of mode {image.mode}"
    else:
        problem = _CHECKS[image.format](image) if image.format in _CHECKS else None
    if problem is not None:
        raise ValueError(
            f"{problem}; accepted are 8-bit images and 16-bit grey ones, such as plain PNG"
        )


def unread_kind(header: bytes) -> str | None:
    """The format of a file that Pillow cannot open although it reads the format."""
    for name in FORMATS:
        accept = Image.OPEN[name][1]
        if accept is not None and accept(header) is True:
            return name
    return None


_MODES = ("1", "L", "LA", "P", "PA", "RGB", "RGBA", "RGBa", "CMYK", "I;16", "I;16B", "I;16L")
_SAMPLES = {0: 1, 1: 1, 2: 3, 3: 1, 5: 4, 6: 3}  # by photometric interpretation
_JPEG = 7  # these are compressions of TIFF
_COMPRESSIONS = (1, 2, 3, 4, 5, _JPEG, 8, 32773, 32946, 34925, 50000, 50001)
# Tags whose other values Pillow ignores: what they are, and the values that change nothing.
_FIXED = {
    254: ("NewSubfileType (its first page is a thumbnail or a mask)", {(0,), (2,)}),
    332: ("InkSet", {(1,)}),
    336: ("DotRange", {(0, 255), (0, 255) * 4}),
    339: ("SampleFormat", {(1,) * count for count in range(1, 9)}),
    529: ("YCbCrCoefficients", {(0.299, 0.587, 0.114)}),
    532: ("ReferenceBlackWhite", {(0, 255, 128, 255, 128, 255), (0, 255) * 3}),
}


def _unread_tiff(image: Image.Image) -> str | None:
    """What TIFF 6.0 asks for and Pillow does not do, of the first page of a TIFF."""
    tags = image.tag_v2

    def values(tag, default=()):
        found = tags.get(tag, default)
        return tuple(found) if isinstance(found, tuple | list) else (found,)

    for tag, (name, usual) in _FIXED.items():
        found = values(tag)
        if found and tuple(round(float(value), 3) for value in found) not in usual:
            return f"its tag {name} is {_listed(found)}"
    (photometric,) = values(262, None)
    (compression,), (planes,), (order,) = values(259, 1), values(284, 1), values(266, 1)
    extra, bits = values(338), values(258, 1)
    (samples,) = values(277, 1)
    bits = bits * samples if len(bits) == 1 else bits
    if photometric not in _SAMPLES:
        return f"its PhotometricInterpretation is {photometric}"
    if compression not in _COMPRESSIONS:
        return f"its Compression is {compression}"
    if photometric == 6 and (compression != _JPEG or planes != 1):
        return "it stores YCbCr other than in a JPEG"
    if samples != _SAMPLES[photometric] + len(extra) or not set(extra) <= {0, 1, 2}:
        return (
            f"it has {samples} samples, and PhotometricInterpretation {photometric} with "
            f"ExtraSamples {_listed(extra)}"
        )
    if len(set(bits)) > 1 or bits[0] not in (
        (1, 2, 4, 8) if photometric in (0, 3, 6) else (1, 2, 4, 8, 16)
    ):
        return f"it has {_listed(bits)} bits with PhotometricInterpretation {photometric}"
    if order != 1 and bits != (1,):
        return f"it has {_listed(bits)} bits in FillOrder {order}"
    if planes != 1 and (
        planes != 2
        or photometric == 0
        or 1 in extra
        or bits[0] not in ((8,) if compression == 1 else (8, 16))
    ):
        return f"it has {_listed(bits)} bits in PlanarConfiguration {planes}"
    return _missing_strips(values, samples if planes == 2 else 1, bits, compression)


def _missing_strips(values, planes, bits, compression):
    """Which strips or tiles a TIFF lacks; Pillow leaves their pixels black."""
    (width,), (height,) = values(256), values(257)
    tiled = bool(values(324))
    (rows,) = values(323 if tiled else 278, height)
    (columns,) = values(322, width) if tiled else (width,)
    expected = planes * -(-height // max(1, min(rows, height) if not tiled else rows))
    expected *= -(-width // max(1, columns))
    offsets, counts = values(324 if tiled else 273), values(325 if tiled else 279)
    if len(offsets) != expected or 0 in offsets:
        return f"it has {sum(map(bool, offsets))} of {expected} strips or tiles"
    row = -(-width * (sum(bits) // planes) // 8)
    if compression == 1 and not tiled and counts and sum(counts) < planes * row * height:
        return f"its strips have {sum(counts)} of {planes * row * height} bytes"
    return None


def _unread_png(image: Image.Image) -> str | None:
    """Scales the transparent level of a grey PNG as Pillow scales its pixels, or refuses it."""
    layout, transparent = image.tile[0].args, image.info.get("transparency")
    layout = layout if isinstance(layout, str) else layout[0]
    if transparent is not None and layout in ("L;2", "L;4"):
        image.info["transparency"] = transparent * {"L;2": 85, "L;4": 17}[layout]
    if transparent is not None and layout == "RGB;16B":
        return "it has one transparent colour of 16 bits"
    return None


def _unread_bmp(image: Image.Image) -> str | None:
    """What Pillow takes for another layout of the pixels of a BMP."""
    start = image.fp.tell()
    image.fp.seek(0)
    header = image.fp.read(70)
    image.fp.seek(start)

    def number(place, size):
        return int.from_bytes(header[place : place + size], "little")

    is_old = number(14, 4) == 12
    bits, compression = number(24 if is_old else 28, 2), 0 if is_old else number(30, 4)
    if compression in (1, 2):
        return "its pixels are runs (RLE)"
    if compression == 3:
        masks = [number(54 + 4 * i, 4) for i in range(4 if number(14, 4) >= 56 else 3)]
        if number(14, 4) == 64 or bits == 24 or not any(masks) or (bits == 16 and any(masks[3:])):
            return f"it has {bits} bits and the masks {', '.join(map(hex, masks))}"
    layout = image.tile[0].args[0]  # without a palette if the palette is grey
    if (layout, bits) not in {("1", 1), ("L", 8)} and layout in ("1", "L"):
        return f"it has {bits} bits and a grey palette of another size"
    return None


def _unread_gif(image: Image.Image) -> str | None:
    """Whether a GIF shows its background, whose colour Pillow does not use."""
    is_covered = image.tile[0].extents == (0, 0, *image.size)
    if is_covered or "transparency" in image.info or not image.info.get("background"):
        return None
    return f"its first frame leaves the background visible, colour {image.info['background']}"


_CHECKS = {"BMP": _unread_bmp, "GIF": _unread_gif, "PNG": _unread_png, "TIFF": _unread_tiff}


def _listed(values):
    return ", ".join(map(str, values)) or "none"


_ADAM7 = (
    (8, 8, 0, 0),
    (8, 8, 0, 4),
    (8, 4, 4, 0),
    (4, 4, 0, 2),
    (4, 2, 2, 0),
    (2, 2, 0, 1),
    (2, 1, 1, 0),
)


def png_ends_early(contents: bytes, image: Image.Image) -> bool:
    """Whether the pixels of a PNG end before its last row; `image` is the decoded file.

    Pillow leaves missing rows black. A file whose last row has another colour is not examined.
    """
    width, height = image.size
    is_interlaced = contents[28] != 0
    if not is_interlaced and any(image.crop((0, height - 1, width, height)).tobytes()):
        return False
    bits = contents[24] * {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}[contents[25]]
    passes = _ADAM7 if is_interlaced else ((1, 1, 0, 0),)
    expected = 0
    for down, across, top, left in passes:
        columns, rows = -(-(width - left) // across), -(-(height - top) // down)
        expected += rows * (1 + -(-columns * bits // 8)) if columns > 0 and rows > 0 else 0
    stream, found = zlib.decompressobj(), 0
    for piece in _png_pixels(contents):
        while piece and not stream.eof and found < expected:
            found += len(stream.decompress(piece, _PIECE))
            piece = stream.unconsumed_tail
    return found < expected


_PIECE = 2**20  # bytes


def _png_pixels(contents: bytes) -> Iterator[bytes]:
    """The contents of the chunks IDAT."""
    position = 8
    while position < len(contents):
        length, kind = (
            int.from_bytes(contents[position : position + 4], "big"),
            contents[position + 4 : position + 8],
        )
        if kind == b"IDAT":
            yield contents[position + 8 : position + 8 + length]
        position += 12 + length
