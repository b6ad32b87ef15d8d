"""The distance of near duplicates, measured on altered copies of images."""

import io
from pathlib import Path
from typing import NamedTuple

import numpy as np
from PIL import Image, ImageEnhance, ImageOps

from gsp_tf._console import show_progress
from gsp_tf._typing import PathLike
from gsp_tf.data import UnreadableImageError, read_image
from gsp_tf.evaluation import nearest_neighbours
from gsp_tf.serving.calibration import calibrate
from gsp_tf.serving.embedding import RunModel
from gsp_tf.serving.labelled import LabelledEmbeddings
from gsp_tf.serving.thresholds import Thresholds

_QUALITY = 50
_CROP = 0.05
_BRIGHTNESS = 1.2
_RULE_OF_THREE = 3
_FEWEST = 20
_BLOCK = 32


def _png(image):
    """The file of an image, without loss."""
    return _file(image, "PNG", compress_level=1)


def _file(image, kind, **options):
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()


_ENCODED = {
    "JPEG of quality 50": lambda image: _file(image, "JPEG", quality=_QUALITY),
    "half the size": lambda image: _png(image.resize([max(1, side // 2) for side in image.size])),
}
_ALTERATIONS = _ENCODED | {
    "20 % brighter": lambda image: _png(ImageEnhance.Brightness(image).enhance(_BRIGHTNESS)),
    "cropped by 5 % on each side": lambda image: _png(
        ImageOps.crop(image, int(_CROP * min(image.size)))
    ),
    "mirrored": lambda image: _png(ImageOps.mirror(image)),
}


class CopyThresholds(NamedTuple):
    """Thresholds for near duplicates, and the share of altered copies that they find.

    Args:
        thresholds: `Thresholds`, whose distance of match is that of near duplicates.
        found: the share of the copies up to that distance from their original, by alteration.
        num_images: number of images whose copies were compared.

    Example:
        >>> CopyThresholds(None, {"mirrored": 0.9}, 512).found["mirrored"]
        0.9
    """

    thresholds: Thresholds
    found: dict[str, float]
    num_images: int


def calibrate_on_copies(
    run: RunModel | PathLike,
    images: list[str],
    out: PathLike,
    false_match_rate: float = 1e-6,
    most_images: int = 512,
    seed: int = 0,
) -> CopyThresholds:
    """Calibrates the distance of near duplicates on altered copies of some images.

    Each of a random sample of the images is altered in five ways: saved as a JPEG of quality
    50, reduced to half its size, made 20 % brighter, cropped by 5 % on each side, and mirrored. An
    image and its copies are one class for `calibrate`, so two images match up to the largest
    distance at which at most `false_match_rate` of the pairs of different images match. An image
    that is nearer to another image than to one of its first two copies counts as a duplicate
    itself and is left out.

    Args:
        run: run folder of the model, or its `RunModel`.
        images: image files.
        out: file for the `Thresholds`, replaced in one step.
        false_match_rate: promised share of false matches; a sample with too few pairs for it gives
            the smallest rate that they support.
        most_images: size of the sample.
        seed: seed of the sample.

    Returns:
        `CopyThresholds`.

    Raises:
        ValueError: if fewer than 20 images remain, or no distance keeps the rate.

    Example:
        >>> calibrate_on_copies("no/such/run", ["a.jpg"], "thresholds.json")
        Traceback (most recent call last):
            ...
        FileNotFoundError: no/such/run is not a run folder: it has no recipe.yaml.
    """
    model = run if isinstance(run, RunModel) else RunModel(run)
    sample = np.random.default_rng(seed).permutation(sorted(set(images)))[:most_images]
    taken, embeddings = _embedded_copies(model, sample.tolist())
    _check_enough(taken, "can be read")
    to_copies = np.linalg.norm(embeddings[:, 1:] - embeddings[:, :1], axis=-1)
    _, nearest = nearest_neighbours(embeddings[:, 0])
    is_kept = nearest[:, 0] > to_copies[:, : len(_ENCODED)].max(axis=1)
    taken = [path for path, kept in zip(taken, is_kept, strict=True) if kept]
    _check_enough(taken, "are nearer to their own copies than to another image")
    versions = embeddings.shape[1]
    negatives = versions**2 * len(taken) * (len(taken) - 1) // 2
    rate = max(false_match_rate, _RULE_OF_THREE / negatives)
    thresholds = calibrate(
        LabelledEmbeddings(
            embeddings[is_kept].reshape(len(taken) * versions, -1),
            np.repeat(np.arange(len(taken)), versions),
            taken,
            "euclidean",
            model.info,
            f"altered copies of {len(taken)} images",
            Path(out),
            [],
        ),
        rate,
        seed=seed,
    )
    shares = (to_copies[is_kept] <= thresholds.match.distance.value).mean(axis=0)
    found = dict(zip(_ALTERATIONS, map(float, shares), strict=True))
    return CopyThresholds(thresholds, found, len(taken))


def _embedded_copies(model, images):
    """The readable images, and embeddings `(n, 1 + alterations, D)` of each and its copies."""
    side = model.recipe.data.resize or model.recipe.data.image_size
    taken, embeddings = [], []
    blocks = [images[start : start + _BLOCK] for start in range(0, len(images), _BLOCK)]
    for block in show_progress(blocks, "Embedding altered copies", len(blocks)):
        files = []
        for path in block:
            try:
                image = Image.fromarray(np.squeeze(read_image(path, min_side=2 * side)))
            except UnreadableImageError:
                continue
            taken.append(path)
            files += [_png(image), *(alter(image) for alter in _ALTERATIONS.values())]
        if files:
            found = model.embed_images(files).embeddings
            embeddings.append(found.reshape(-1, 1 + len(_ALTERATIONS), model.dim))
    return taken, np.concatenate(embeddings or [np.empty((0, 1, 1))])


def _check_enough(images, what):
    """Raises `ValueError` if too few images remain."""
    if len(images) < _FEWEST:
        raise ValueError(
            f"Only {len(images)} images {what}, too few to measure how far near duplicates are "
            f"apart; {_FEWEST} are needed. Give the distance (--distance)."
        )
