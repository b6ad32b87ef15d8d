"""Reduced copies of image files, so that training decodes each file once."""

import functools
import hashlib
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from PIL import Image

from gsp_tf._console import show_progress
from gsp_tf._files import replacing
from gsp_tf._lazy import tensorflow as tf
from gsp_tf._typing import PathLike, Tensor
from gsp_tf.data.images._jpeg import Window
from gsp_tf.data.images._left_out import refusal
from gsp_tf.data.images.decode import UnreadableImageError, read_image
from gsp_tf.data.images.encoded_images import FileImages
from gsp_tf.data.images.image_set import ImageSet, constant

_HEADER = 128  # bytes before the pixels in a `.npy` file of an image


class _ReducedImages(FileImages):
    """Image files that are read from `.npy` files of decoded pixels, as `reduce_images` makes.

    The name of a copy, which identifies its image, comes from the file, channels and size.
    """

    def __init__(self, images: FileImages, copies: Sequence[Path]):
        super().__init__(
            images.paths, images.labels, images.class_names, images.groups, images.channels
        )
        self._files, self._copies = images, copies

    @functools.cached_property
    def _tensor(self):
        return constant([os.fsencode(copy) for copy in self._copies])

    def subset(self, classes: Sequence[int]) -> "_ReducedImages":
        kept, _ = self._select(classes)
        return _ReducedImages(self._files.subset(classes), [self._copies[i] for i in kept])

    def identity(self, index: int) -> bytes:
        return self._copies[index].name.encode()

    def read(self, index: int, seed: Sequence[int]) -> np.ndarray:
        return np.load(self._copies[index], mmap_mode="r")

    def load(self, index: Tensor, seed: Tensor) -> Tensor:
        contents = self._contents(index)
        header = tf.strings.substr(contents, 0, _HEADER)
        sides = tf.strings.regex_replace(header, r"\C*\((\d+), (\d+)\C*", r"\1 \2")
        sides = tf.ensure_shape(tf.strings.to_number(tf.strings.split(sides), tf.int32), (2,))
        pixels = tf.io.decode_raw(contents, tf.uint8)[_HEADER:]
        return tf.reshape(pixels, (sides[0], sides[1], self.channels))

    def load_window(self, index: Tensor, seed: Tensor, choose: Window, min_side: int) -> Tensor:
        return ImageSet.load_window(self, index, seed, choose, min_side)


def reduce_images(images: FileImages, folder: PathLike, shorter_side: int) -> _ReducedImages:
    """Makes reduced, decoded copies of image files in a folder, unless they exist already.

    A file with a new size or modification time gets a new copy. Copies are renamed into place when
    complete, so several processes may use and fill one folder. The folder may be removed while no
    process uses it. A copy has a shorter side of `shorter_side` pixels, or that of a smaller image,
    and takes `channels * height * width` bytes. The paths of the result are those of the files.

    Raises:
        ValueError: If files cannot be read as images; the message lists them.
        OSError: If a copy cannot be written, as when the disk is full. Copies already written
            are used the next time.
    """
    kind = f" {images.channels} {shorter_side}".encode()
    digests = [
        hashlib.sha256(images.identity(index).rstrip() + kind).hexdigest()
        for index in range(len(images))
    ]
    copies = [Path(folder, name[:2], f"{name}.npy") for name in digests]
    folders = {copy.parent for copy in copies}  # each is read once
    present = {file for found in folders if found.is_dir() for file in found.iterdir()}
    missing = [
        (path, copy) for path, copy in zip(images.paths, copies, strict=True) if copy not in present
    ]
    if missing:
        _make(missing, folder, images.channels, shorter_side)
    return _ReducedImages(images, copies)


def _make(missing: Sequence[tuple[str, Path]], folder: Path, channels: int, shorter_side: int):
    def make(path, copy):
        """The number of bytes written, or the error of an unreadable image."""
        if copy.exists():  # made by another process meanwhile
            return 0
        try:
            pixels = _reduce(read_image(path, channels), shorter_side)
        except UnreadableImageError as error:
            return error
        copy.parent.mkdir(parents=True, exist_ok=True)
        with replacing(copy) as temporary:
            np.save(temporary, pixels)
        return pixels.nbytes

    sizes, unreadable = [], []
    with ThreadPoolExecutor() as pool:
        outcomes = pool.map(make, *zip(*missing, strict=True))
        try:
            for outcome in show_progress(outcomes, "Reducing images", len(missing)):
                failed = isinstance(outcome, UnreadableImageError)
                (unreadable if failed else sizes).append(outcome)
        except OSError as error:
            pool.shutdown(cancel_futures=True)
            needed = np.mean(sizes or [0]) * (len(missing) - len(sizes)) / 1e6
            raise OSError(
                f"{error} {len(sizes)} of {len(missing)} copies of images are "
                f"written and will be used the next time; the others take about {needed:.0f} MB. "
                "Free space, or choose another folder or none for the copies (data.cache)."
            ) from error
    if unreadable:
        raise ValueError(refusal(unreadable, len(missing)))


def _reduce(pixels: np.ndarray, shorter_side: int) -> np.ndarray:
    height, width, channels = pixels.shape
    scale = shorter_side / min(height, width)
    if scale >= 1:
        return pixels
    size = [max(1, round(side * scale)) for side in (width, height)]
    image = Image.fromarray(pixels if channels == 3 else pixels[..., 0])
    reduced = np.asarray(image.resize(size, Image.Resampling.BILINEAR))
    return reduced.reshape(size[1], size[0], channels)
