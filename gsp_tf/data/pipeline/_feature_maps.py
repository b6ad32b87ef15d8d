"""Feature maps of images on disk, and batches of them: training without the lower layers."""

import hashlib
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import keras
import numpy as np

from gsp_tf._arguments import integers
from gsp_tf._console import show_progress
from gsp_tf._files import replacing
from gsp_tf._lazy import tensorflow as tf
from gsp_tf._typing import PathLike, Tensor
from gsp_tf.data.images.image_set import ImageSet, checked_indices
from gsp_tf.data.pipeline.batches import (
    AT_ONCE,
    BatchPlan,
    evaluation_dataset,
    planned,
    with_options,
)
from gsp_tf.data.pipeline.samplers import ClassBalancedSampler
from gsp_tf.data.pipeline.view import is_mirrored


class FeatureMaps:
    """Maps of an image set in `.npy` files of float16, one for each class that has images.

    The file of a class holds the maps of its images in their order. A set may have many files: each
    is open only while a map is read.
    """

    def __init__(self, paths: Mapping[int, PathLike], labels: Sequence[int] | np.ndarray):
        self.labels = integers(labels, "labels", int(np.iinfo(np.int32).max))  # as in batches
        self._paths, self._starts = paths, np.empty(len(self.labels), int)
        for label, path in paths.items():
            members = np.flatnonzero(self.labels == label)
            array = _mapped(path, len(members))
            self.shape = array.shape[1:]
            self._starts[members] = array.offset + array.strides[0] * np.arange(len(members))

    def __len__(self) -> int:
        return len(self.labels)

    def read(self, indices: Sequence[int]) -> np.ndarray:
        """The maps of some images, float16 `(n, ...)`."""
        size = math.prod(self.shape)
        maps = np.empty((len(indices), *self.shape), np.float16)
        for position, index in enumerate(indices):
            path, start = self._paths[self.labels[index]], int(self._starts[index])
            maps[position] = np.fromfile(path, "<f2", size, offset=start).reshape(self.shape)
        return maps


def cache_feature_maps(
    images: ImageSet,
    network: Callable[[Tensor], Tensor],
    folder: PathLike,
    key: str,
    image_size: int,
    batch_size: int,
    resize: int | None = None,
    mirrored: bool = False,
) -> FeatureMaps:
    """Computes the maps of images as evaluation sees them, unless a folder has them already.

    A class of images is one file. Its name depends on `key`, on the view, and on the images: path,
    size and modification time of image files, and the pixels of other images. Files are renamed
    into place when complete, so a stopped computation continues, and several processes may use and
    fill one folder. The folder may be removed while no process uses it.

    The network maps images `(B, S, S, channels)` to maps `(B, ...)`; `key` identifies it and its
    weights. The images must always be the same for an index, as all but collages for training are.
    """
    view = f"{key}\n{image_size} {resize} {mirrored} {images.channels}\n"
    members = {label: np.flatnonzero(images.labels == label) for label in np.unique(images.labels)}
    paths = {label: _path(Path(folder), view, images, of) for label, of in members.items()}
    missing = [(path, members[label]) for label, path in paths.items() if not path.exists()]
    if missing:
        indices = np.concatenate([indices for _, indices in missing])
        batches = evaluation_dataset(images, image_size, batch_size, indices, resize)
        count, kind = -(-len(indices) // batch_size), "mirrored " if mirrored else ""
        batches = show_progress(batches, f"Computing features of {kind}images", count)
        maps = _maps(batches, network, mirrored)
        for path, indices in missing:
            _write(path, maps, len(indices))
    return FeatureMaps(paths, images.labels)


def _path(folder, view, images, indices):
    """The file of the maps of some images."""
    digest = hashlib.sha256(view.encode())
    for index in indices:
        digest.update(images.identity(index))
    name = digest.hexdigest()
    return folder / name[:2] / f"{name}.npy"


def _maps(batches, network, mirrored) -> Iterator[np.ndarray]:
    """The map of each image of some batches, in float16."""
    for images, _ in batches:
        images = np.asarray(images)
        maps = network(np.ascontiguousarray(images[:, :, ::-1]) if mirrored else images)
        with np.errstate(over="ignore"):
            maps = keras.ops.convert_to_numpy(maps).astype(np.float16)
        if not np.isfinite(maps).all():
            raise ValueError(
                "The features of the frozen layers are not finite in float16, whose largest number "
                f"is {np.finfo(np.float16).max:g}: they cannot be kept."
            )
        yield from maps


def _write(path, maps, count):
    """Write the next maps as one array."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as temporary, open(temporary, "wb") as file:
        for number in range(count):
            row = next(maps)
            if not number:
                header = {"descr": "<f2", "fortran_order": False, "shape": (count, *row.shape)}
                np.lib.format.write_array_header_1_0(file, header)
            file.write(row.astype("<f2").tobytes())


def _mapped(path, count):
    """The array in a file, which has the maps of `count` images."""
    advice = "Remove it to compute it again."
    try:
        array = np.load(path, mmap_mode="r")
    except (ValueError, EOFError) as error:
        raise ValueError(f"{path} is damaged ({error}). {advice}") from error
    if array.dtype != np.float16 or array.shape[:1] != (count,):
        raise ValueError(
            f"{path} holds {array.dtype} of shape {array.shape}, expected {count} maps of float16. "
            f"{advice}"
        )
    return array


def training_maps(
    maps: FeatureMaps,
    mirrored: FeatureMaps | None,
    classes_per_batch: int,
    images_per_class: int,
    seed: int,
    first_batch: int = 0,
    class_names: Sequence[str] | None = None,
    cycle_images: bool = False,
) -> "tf.data.Dataset":
    """Makes the endless class-balanced batches of `training_dataset`, of maps `(P*K, ...)`.

    `mirrored` are the maps of the mirrored images, to take for those images that `training_dataset`
    mirrors; `None` mirrors none.
    """
    sampler = ClassBalancedSampler(
        maps.labels, classes_per_batch, images_per_class, seed, class_names, cycle_images
    )
    plan = BatchPlan(maps.labels, sampler, seed)

    def read(indices, are_mirrored):
        rows = maps.read(indices)
        if mirrored is not None:
            rows[are_mirrored] = mirrored.read(indices[are_mirrored])
        return rows

    def prepare(indices, labels, are_mirrored):
        return _read(read, [indices, are_mirrored], maps.shape), labels

    drawn = planned(plan, first_batch)
    drawn = drawn.map(lambda seed, index, label: (index, label, is_mirrored(seed)))
    batches = drawn.batch(plan.size, drop_remainder=True)
    return with_options(batches.map(prepare, num_parallel_calls=AT_ONCE))


def evaluation_maps(
    maps: FeatureMaps, batch_size: int, indices: Sequence[int] | None = None
) -> "tf.data.Dataset":
    """Makes batches of all maps `(B, ...)` and labels, or of those in `indices`, in order."""
    indices = checked_indices(indices, len(maps))

    def prepare(indices, labels):
        return _read(maps.read, [indices], maps.shape), labels

    rows = tf.data.Dataset.from_tensor_slices((indices, maps.labels[indices].astype(np.int32)))
    return with_options(rows.batch(batch_size).map(prepare, num_parallel_calls=AT_ONCE))


def _read(function, arguments, shape):
    """Maps of a batch, in a graph."""
    rows = tf.numpy_function(function, arguments, tf.float16, stateful=False)
    return tf.ensure_shape(rows, (*arguments[0].shape, *shape))
