"""The distance of near duplicates, measured on altered copies of images."""

import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike
from PIL import Image, ImageEnhance, ImageOps

from gsp_tf._console import show_progress
from gsp_tf._integers import checked_seed
from gsp_tf._typing import PathLike
from gsp_tf.data import UnreadableImageError, read_image
from gsp_tf.evaluation import ExactSearch, truncated
from gsp_tf.serving._metadata import Metadata, ModelInfo
from gsp_tf.serving.embedding import RunModel

_QUALITY = 50
_CROP = 0.05
_BRIGHTNESS = 1.2
_BELOW = 1e-4
_FEWEST = 20
_BLOCK = 32


def _png(image):
    """The file of an image, without loss."""
    return _file(image, "PNG", compress_level=1)


def _file(image, kind, **options):
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()


_ALTERATIONS = {
    "JPEG of quality 50": lambda image: _file(image, "JPEG", quality=_QUALITY),
    "half the size": lambda image: _png(image.resize([max(1, side // 2) for side in image.size])),
    "20 % brighter": lambda image: _png(ImageEnhance.Brightness(image).enhance(_BRIGHTNESS)),
    "cropped by 5 % on each side": lambda image: _png(
        ImageOps.crop(image, int(_CROP * min(image.size)))
    ),
    "mirrored": lambda image: _png(ImageOps.mirror(image)),
}


@dataclass(frozen=True)
class DuplicateDistance(Metadata):
    """The distance of near duplicates, and what it finds; the contents of `distance.json`.

    Args:
        model: the model of the embeddings.
        dim: dimension of the embeddings, that of the model or of prefixes.
        distance: two images up to this Euclidean distance are near duplicates.
        false_share: the accepted share of images without a duplicate that are near another image.
        images: number of images that it was measured on.
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

    Each image of the sample is altered in five ways: saved as a JPEG of quality 50, reduced to half
    its size, made 20 % brighter, cropped by 5 % on each side, and mirrored. The result says how
    many of these copies the distance finds.

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
    rows, versions = _embedded_copies(model, images, rows)
    _check_enough(len(rows), "can be read")
    embeddings = np.asarray(embeddings)
    dim = embeddings.shape[1]
    if dim != model.dim:
        cut = truncated(versions.reshape(-1, model.dim), dim)
        versions = cut.reshape(*versions.shape[:2], dim)
    to_copies = np.linalg.norm(versions[:, 1:] - versions[:, :1], axis=-1)
    search = ExactSearch(embeddings)
    nearest = search(embeddings[rows], 1, rows)[1][:, 0]
    alone = np.sort(nearest[nearest > to_copies[:, 0]])
    _check_enough(len(alone), "are nearer to their own JPEG copy than to another image")
    distance = alone[int(false_share * len(alone))] * (1 - _BELOW)
    found = (to_copies <= distance).mean(axis=0)
    return DuplicateDistance(
        model.info,
        dim,
        float(distance),
        false_share,
        len(rows),
        dict(zip(_ALTERATIONS, map(float, found), strict=True)),
    )


def _embedded_copies(model, images, rows):
    """The rows of readable images, and embeddings `(n, 1 + alterations, D)` of their versions."""
    side = model.recipe.data.resize or model.recipe.data.image_size
    taken, embeddings = [], []
    blocks = [rows[start : start + _BLOCK] for start in range(0, len(rows), _BLOCK)]
    for block in show_progress(blocks, "Embedding altered copies", len(blocks)):
        files = []
        for row in block:
            try:
                image = Image.fromarray(np.squeeze(read_image(images[row], min_side=2 * side)))
            except UnreadableImageError:
                continue
            taken.append(row)
            files += [_png(image), *(alter(image) for alter in _ALTERATIONS.values())]
        if files:
            found = model.embed_images(files).embeddings
            embeddings.append(found.reshape(-1, 1 + len(_ALTERATIONS), model.dim))
    return np.array(taken, int), np.concatenate(embeddings or [np.empty((0, 1, 1))])


def _check_enough(count, what):
    """Raises `ValueError` if too few images remain."""
    if count < _FEWEST:
        raise ValueError(
            f"Only {count} images {what}, too few to measure how far near duplicates are apart; "
            f"{_FEWEST} are needed. Give the distance (--distance)."
        )
