"""Letters of many scripts, rendered from matplotlib's fonts without any download."""

import json
import unicodedata
import warnings
from collections import Counter, defaultdict
from functools import cache
from itertools import product
from pathlib import Path

import matplotlib
import numpy as np
import PIL
from matplotlib.ft2font import FT2Font
from PIL import Image, ImageFilter, ImageFont

from gsp_tf._arguments import check_sizes, checked_seed
from gsp_tf._console import show_progress
from gsp_tf._files import cache_folder, replacing
from gsp_tf._typing import PathLike
from gsp_tf.data.images.image_set import ArrayImages

_FORMAT = 1
_FONT_FAMILIES = ("DejaVuSans", "DejaVuSansMono", "DejaVuSerif", "STIXGeneral")
_FONT_STYLES = ("", "-*", "Bol", "Italic", "BolIta")
_FONT_PIXELS = 64
_FEWEST_FONTS = 4
_FEWEST_LETTERS = 8
_LETTERS = ("Lu", "Ll", "Lt", "Lo")
_SAME_LETTER = 0.86
_SHAPE_SIDE = 32
_SHAPE_MARGIN = 4
_MAX_ROTATION = 15.0
_EXTENT = (0.65, 0.95)


def load_glyphs(
    size: int = 24,
    images_per_class: int = 40,
    seed: int = 0,
    cache_dir: PathLike | None = None,
) -> ArrayImages:
    """Renders the letters of a dozen scripts in many fonts, sizes, rotations and places.

    Classes are the letters that at least four fonts contain. Letters that look the same (Latin A
    and Greek Alpha; o and O) are one class. Groups are the scripts. The images depend only on the
    arguments and the installed fonts, and are cached.

    Args:
        size: Side of the images in pixels, at least 8.
        images_per_class: Images per letter.
        seed: Seed of the font, size, rotation (within 15 degrees) and place of each image.
        cache_dir: Folder for the rendered images; by default the environment variable
            `GSP_TF_CACHE`, else `~/.cache/gsp_tf`.

    Returns:
        Grey images `(N, size, size, 1)`, strokes 255 on 0; class names are Unicode names.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     glyphs = load_glyphs(size=8, images_per_class=1, cache_dir=folder)
        >>> glyphs.class_names[0], glyphs.groups[0], glyphs.images.shape[1:]
        ('LATIN CAPITAL LETTER A', 'LATIN', (8, 8, 1))
    """
    check_sizes(8, size=size)
    check_sizes(images_per_class=images_per_class)
    key = json.dumps(
        {
            "format": _FORMAT,
            "matplotlib": matplotlib.__version__,
            "pillow": PIL.__version__,
            "size": size,
            "images_per_class": images_per_class,
            "seed": checked_seed(seed),
        },
        default=int,  # of NumPy's integers
    )
    folder = Path(cache_dir).expanduser() if cache_dir else cache_folder()
    path = folder / f"glyphs_{size}px_{images_per_class}_seed{seed}.npz"
    content = _read_cache(path, key)
    if content is None:
        content = _render(size, images_per_class, seed)
        _write_cache(path, key, content)
    images, letters = content
    names = [unicodedata.name(letter) for letter in letters]
    labels = np.repeat(np.arange(len(letters)), images_per_class)
    return ArrayImages(images, labels, names, [name.split()[0] for name in names])


def _read_cache(path: Path, key: str) -> tuple[np.ndarray, str] | None:
    """Images and letters, or `None` if the file is missing, broken or stale."""
    try:
        with np.load(path) as stored:
            if str(stored["key"]) != key:
                return None
            return stored["images"], str(stored["letters"])
    # A damaged archive may raise anything: OSError, BadZipFile, zlib.error, KeyError...
    except Exception:
        return None


def _write_cache(path: Path, key: str, content: tuple[np.ndarray, str]) -> None:
    images, letters = content
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as temporary:
            np.savez_compressed(temporary, key=key, images=images, letters=letters)
    except OSError as error:
        warnings.warn(f"the glyphs are not cached: {error}", stacklevel=3)


def _render(size: int, images_per_class: int, seed: int) -> tuple[np.ndarray, str]:
    fonts = _fonts_by_letter()
    letters = _distinct_letters(fonts)
    images = np.empty((len(letters), images_per_class, size, size, 1), np.uint8)
    rows = zip(images, letters, strict=True)
    for drawn, letter in show_progress(rows, "Rendering letters", len(letters)):
        rng = np.random.default_rng((seed, ord(letter)))
        for image in drawn:
            font = fonts[letter][rng.integers(len(fonts[letter]))]
            image[..., 0] = _place(_letter_image(font, letter), size, rng)
    return images.reshape(-1, size, size, 1), letters


def _fonts_by_letter() -> dict[str, list[str]]:
    """The font files of each letter that enough fonts contain, in Unicode order."""
    folder = Path(matplotlib.get_data_path(), "fonts", "ttf")
    fonts = defaultdict(list)
    for family, style in product(_FONT_FAMILIES, _FONT_STYLES):
        for path in sorted(folder.glob(f"{family}{style}.ttf")):
            for code, glyph in FT2Font(str(path)).get_charmap().items():
                if glyph != 0 and _is_plain_letter(chr(code)):
                    fonts[chr(code)].append(str(path))
    return {
        letter: fonts[letter] for letter in sorted(fonts) if len(fonts[letter]) >= _FEWEST_FONTS
    }


def _is_plain_letter(character: str) -> bool:
    """Whether a character is a letter, and not an accented or styled form of another one."""
    return (
        unicodedata.category(character) in _LETTERS
        and unicodedata.normalize("NFKD", character) == character
    )


def _distinct_letters(fonts: dict[str, list[str]]) -> str:
    """Keeps letters that look unlike all earlier ones, in scripts with enough such letters."""
    candidates = list(fonts)
    shapes = np.stack([_shape(_letter_image(fonts[c][0], c)) for c in candidates])
    alike = shapes @ shapes.T >= _SAME_LETTER
    chosen: list[int] = []
    for i in range(len(candidates)):
        if not alike[i, chosen].any():
            chosen.append(i)
    kept = [candidates[i] for i in chosen]
    scripts = [unicodedata.name(letter).split()[0] for letter in kept]
    letters = Counter(scripts)
    return "".join(
        letter
        for letter, script in zip(kept, scripts, strict=True)
        if letters[script] >= _FEWEST_LETTERS
    )


def _shape(image: Image.Image) -> np.ndarray:
    """A unit vector of the slightly blurred strokes, independent of their size and place."""
    scale = _SHAPE_SIDE / max(image.size)
    image = image.resize([max(1, round(scale * length)) for length in image.size])
    canvas = Image.new("L", [_SHAPE_SIDE + 2 * _SHAPE_MARGIN] * 2)
    canvas.paste(image, [_SHAPE_MARGIN + (_SHAPE_SIDE - length) // 2 for length in image.size])
    pixels = np.asarray(canvas.filter(ImageFilter.GaussianBlur(1.5)), np.float32).ravel()
    return pixels / np.linalg.norm(pixels)


@cache
def _font(path: str) -> ImageFont.FreeTypeFont:
    return ImageFont.truetype(path, _FONT_PIXELS, layout_engine=ImageFont.Layout.BASIC)


def _letter_image(font: str, letter: str) -> Image.Image:
    """Draws one letter, cropped to its strokes."""
    mask = _font(font).getmask(letter, mode="L")
    image = Image.frombytes("L", mask.size, bytes(mask))
    return image.crop(image.getbbox())


def _place(letter: Image.Image, size: int, rng: np.random.Generator) -> Image.Image:
    """Rotates, scales and shifts a letter at random within a square of `size` pixels."""
    angle = rng.uniform(-_MAX_ROTATION, _MAX_ROTATION)
    letter = letter.rotate(angle, Image.Resampling.BICUBIC, expand=True)
    letter = letter.crop(letter.getbbox())
    scale = rng.uniform(*_EXTENT) * size / max(letter.size)
    letter = letter.resize(
        [max(1, round(scale * length)) for length in letter.size], Image.Resampling.LANCZOS
    )
    canvas = Image.new("L", (size, size))
    canvas.paste(letter, [int(rng.integers(size - length + 1)) for length in letter.size])
    return canvas
