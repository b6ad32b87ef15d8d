"""The distance of near duplicates, measured on altered copies of images."""

import functools
import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike
from PIL import Image, ImageEnhance, ImageOps

from gsp_tf._integers import checked_seed
from gsp_tf._metadata import Metadata, ModelInfo
from gsp_tf._typing import PathLike
from gsp_tf.data import read_image
from gsp_tf.evaluation import ExactSearch, truncated
from gsp_tf.search.embedder import RunModel

_QUALITY = 50
_CROP = 0.05
_BRIGHTNESS = 1.2
_BELOW = 1e-4
_FEWEST = 20
_ALTERED = 64
_READ_AT_ONCE = 32


def _jpeg(image):
    buffer = io.BytesIO()
    image.save(buffer, "JPEG", quality=_QUALITY)
    return buffer.getvalue()


_JPEG = {"JPEG of quality 50": _jpeg}
_OTHERS = {
    "half the size": lambda image: image.resize([max(1, side // 2) for side in image.size]),
    "20 % brighter": lambda image: ImageEnhance.Brightness(image).enhance(_BRIGHTNESS),
    "cropped by 5 % on each side": lambda image: ImageOps.crop(image, int(_CROP * min(image.size))),
    "mirrored": ImageOps.mirror,
}


@dataclass(frozen=True)
class DuplicateDistance(Metadata):
    """The distance of near duplicates, and what it finds; the contents of `distance.json`.

    Args:
        model: the model of the embeddings.
        dim: dimension of the embeddings, that of the model or of prefixes.
        distance: two images up to this Euclidean distance are near duplicates.
        false_share: the accepted share of images without a duplicate that are near another image.
        images: number of images that it was measured on, each with its JPEG copy.
        found: the share of altered copies up to that distance from their original, by alteration.

    Example:
        >>> DuplicateDistance.read("no/such/distance.json")
        Traceback (most recent call last):
            ...
        FileNotFoundError: ...
    """

    format: ClassVar[str] = "gsp_tf duplicate distance"
    format_version: ClassVar[int] = 2
    again: ClassVar[str] = "Remove it; gsp-tf dedup measures the distance again."
    model: ModelInfo
    dim: int
    distance: float
    false_share: float
    images: int
    found: dict[str, float]


def calibrate_on_copies(
    run: RunModel | PathLike,
    images: Sequence[str],
    embeddings: ArrayLike,
    false_share: float = 0.01,
    most_images: int = 512,
    seed: int = 0,
) -> DuplicateDistance:
    """Finds the distance of near duplicates in a collection, with altered copies of some images.

    The distance is the largest at which at most `false_share` of a random sample of the images have
    another image of the collection up to it. Images with a duplicate must not count here: an image
    that is nearer to another one than to its own copy saved as a JPEG of quality 50 is left out.

    Of 64 of the images there are four other copies: reduced to half the size, made 20 % brighter,
    cropped by 5 % on each side, and mirrored. The result says how many of the copies of each kind
    the distance finds.

    Args:
        run: run folder of the model, or its `RunModel`.
        images: N image files, the collection.
        embeddings: floats `(N, D)` of the collection, by the same model; fewer dimensions than its
            own are those of prefixes, which are normalised (`truncated`).
        false_share: accepted share of images that are near another one but no duplicate of it.
        most_images: size of the sample.
        seed: seed of the sample.

    Returns:
        `DuplicateDistance`.

    Raises:
        ValueError: if fewer than 20 images of the sample have no duplicate, false_share is not in
            [0, 1), or there are more dimensions than the model has.

    Example:
        >>> calibrate_on_copies("no/such/run", ["a.jpg"], np.ones((1, 8)))
        Traceback (most recent call last):
            ...
        FileNotFoundError: no/such/run is not a run folder: it has no recipe.yaml.
    """
    if not 0 <= false_share < 1:
        raise ValueError(f"false_share must be in [0, 1); received {false_share}.")
    model = run if isinstance(run, RunModel) else RunModel(run)
    rows = np.random.default_rng(checked_seed(seed)).permutation(len(images))[:most_images]
    _check_enough(len(rows), "can be read")
    embeddings = np.asarray(embeddings)
    to_jpeg = _to_copies(model, images, embeddings, rows, _JPEG)[:, 0]
    rows, to_jpeg = rows[np.isfinite(to_jpeg)], to_jpeg[np.isfinite(to_jpeg)]
    _check_enough(len(rows), "can be read")
    nearest = ExactSearch(embeddings)(embeddings[rows], 1, rows)[1][:, 0]
    alone = np.sort(nearest[nearest > to_jpeg])
    _check_enough(len(alone), "are nearer to their own JPEG copy than to another image")
    distance = alone[int(false_share * len(alone))] * (1 - _BELOW)
    to_others = _to_copies(model, images, embeddings, rows[:_ALTERED], _OTHERS)
    found = [(of <= distance).mean() for of in (to_jpeg, *to_others.T)]
    return DuplicateDistance(
        model.info,
        embeddings.shape[1],
        float(distance),
        false_share,
        len(rows),
        dict(zip([*_JPEG, *_OTHERS], map(float, found), strict=True)),
    )


def _to_copies(model, images, embeddings, rows, alterations):
    """Distances `(n, alterations)` of images from their copies; NaN for unreadable images."""
    copies = _Copies([images[row] for row in rows], list(alterations.values()), model)
    found = model.embed_images(copies, "Embedding altered copies").embeddings
    if embeddings.shape[1] != model.dim:
        found = truncated(found, embeddings.shape[1])
    found = found.reshape(len(rows), len(alterations), -1)
    return np.linalg.norm(found - embeddings[rows, None], axis=-1)


class _Copies:
    """Altered copies of image files, image by image, each made when it is read."""

    def __init__(self, files, alterations, model):
        side = model.recipe.data.resize or model.recipe.data.image_size
        self._files, self._alterations = files, alterations
        channels = model.embedder.input_shape[-1]
        read = functools.partial(read_image, channels=channels, min_side=2 * side)
        self._read = functools.lru_cache(_READ_AT_ONCE)(read)

    def __len__(self):
        return len(self._files) * len(self._alterations)

    def __getitem__(self, number):
        file, alteration = divmod(number, len(self._alterations))
        pixels = self._read(self._files[file])
        image = Image.fromarray(pixels if pixels.shape[2] == 3 else pixels[..., 0])
        copy = self._alterations[alteration](image)
        return copy if isinstance(copy, bytes) else np.asarray(copy).reshape(*copy.size[::-1], -1)


def _check_enough(count, what):
    if count < _FEWEST:
        raise ValueError(
            f"Only {count} images {what}, too few to measure how far near duplicates are apart; "
            f"{_FEWEST} are needed. Give the distance (--distance)."
        )
