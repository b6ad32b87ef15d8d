"""The model of a run, for images outside any data set."""

import functools
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

import numpy as np

from gsp_tf import runs
from gsp_tf._console import one_line, show_progress
from gsp_tf._files import file_sha256, several
from gsp_tf._lazy import tensorflow as tf
from gsp_tf._metadata import ModelInfo, Preprocessing
from gsp_tf._typing import PathLike, Tensor
from gsp_tf.data import (
    UnreadableImageError,
    check_image,
    decode_image,
    decode_jpeg_window,
    is_upright_jpeg,
    read_image,
)
from gsp_tf.evaluation import TokenSets, checked_embeddings
from gsp_tf.runs import RunFolder

if TYPE_CHECKING:
    import keras

    from gsp_tf.training import MetricLearner


ImageSource: TypeAlias = PathLike | bytes | np.ndarray | None
"""A file, its contents, its uint8 pixels `(H, W, channels)`, or a missing image."""


class CheckedImages:
    """Image files, their contents or pixels `(H, W, channels)`, read once.

    Unreadable ones are black; `problems` says why. A sequence may make its items on access.
    """

    def __init__(self, images: Sequence[ImageSource], channels: Literal[1, 3]):
        self.images, self.channels = images, channels
        self.labels = np.zeros(len(images), int)
        self.problems = [""] * len(images)

    def __len__(self) -> int:
        return len(self.images)

    def load_window(
        self,
        index: Tensor,
        seed: Tensor,
        choose: Callable[[Tensor], Tensor],
        min_side: int,
    ) -> Tensor:
        """The window of an image that `choose` selects by its size, in a `tf.data` graph."""
        contents, pixels = tf.numpy_function(self._read, [index], (tf.string, tf.uint8))
        contents, shape = tf.ensure_shape(contents, ()), (None, None, self.channels)
        pixels = tf.ensure_shape(pixels, shape)

        def window():
            top, left, height, width = tf.unstack(choose(tf.shape(pixels)[:2]))
            return pixels[top : top + height, left : left + width]

        return tf.cond(
            tf.strings.length(contents) > 0,
            lambda: decode_jpeg_window(contents, choose, min_side, self.channels),
            window,
        )

    def _read(self, index):
        """The contents of a JPEG for TensorFlow to decode, or the pixels of another image."""
        # The pixels equal those of FileImages. TensorFlow does not notice a truncated JPEG, so
        # Pillow checks the file first; for that it computes 1/64 of the pixels.
        black = np.zeros((1, 1, self.channels), np.uint8)
        try:
            image = self.images[int(index)]
            if image is None:
                raise UnreadableImageError("", "it is missing")
            if isinstance(image, np.ndarray):
                is_image = image.dtype == np.uint8 and image.ndim == 3 and image.size
                if not is_image or image.shape[2] != self.channels:
                    raise UnreadableImageError(
                        "",
                        f"pixels must be uint8 (H, W, {self.channels}); received {image.dtype} "
                        f"{image.shape}",
                    )
                return b"", image
            if isinstance(image, str | os.PathLike):
                if not os.path.isfile(image):
                    return b"", read_image(image, self.channels)  # raises the reason
                image = Path(image).read_bytes()
            if not _is_upright_jpeg(image):
                return b"", decode_image(image, self.channels)
            check_image(image)
            return image, black
        except UnreadableImageError as error:
            self.problems[index] = error.reason
        except OSError as error:
            self.problems[index] = error.strerror or one_line(error)
        return b"", black


def _is_upright_jpeg(contents):
    try:
        with tf.device("CPU"):
            return bool(is_upright_jpeg(tf.constant(contents)))
    except tf.errors.InvalidArgumentError:
        return False


class _Embedded(NamedTuple):
    """Embeddings, NaN for unreadable images, and for each image the problem or an empty text."""

    embeddings: np.ndarray
    problems: list[str]


class RunModel:
    """The best model of a run, with the preprocessing of its evaluation.

    TensorFlow is imported when the model first embeds.

    Args:
        path: Run folder.

    Attributes:
        folder: The `RunFolder`.
        recipe: The run's recipe.

    Raises:
        ValueError: If a file in it is damaged, or it holds the models of several folds.

    Example:
        >>> RunModel("no/such/run")
        Traceback (most recent call last):
            ...
        FileNotFoundError: no/such/run is not a run folder: it has no recipe.yaml.
    """

    def __init__(self, path: PathLike):
        folder = RunFolder(path)
        folder.require(folder.recipe_path)
        self.recipe = folder.recipe()
        if self.recipe.protocol.is_ensemble:
            models = [str(m.path) for repeats in runs.Ensemble(path).model_folders for m in repeats]
            raise ValueError(
                f"{path} holds the models of several folds; name the run folder of one of them: "
                f"{', '.join(models)}."
            )
        self.folder = RunFolder.open(path)

    @functools.cached_property
    def info(self) -> ModelInfo:
        """The model and its preprocessing, as embeddings and indexes record them."""
        data = self.recipe.data
        return ModelInfo(
            sha256=file_sha256(self.folder.model_path),
            recipe=self.recipe.name,
            run=str(self.folder.path.absolute()),
            preprocessing=Preprocessing(data.image_size, data.resize),
        )

    def learner(self) -> "MetricLearner":
        """The learner of the run without its optimizer, read from its file."""
        learner = self.folder.learner(compile=False)
        shape, size = learner.embedder.input_shape, self.recipe.data.image_size
        if shape[1:3] != (size, size):
            raise ValueError(
                f"The model of {self.folder.path} takes images {shape[1:]}, its recipe has "
                f"data.image_size={size}."
            )
        return learner

    @functools.cached_property
    def embedder(self) -> "keras.Model":
        """The Keras model from images to embeddings."""
        return self.learner().embedder

    @property
    def dim(self) -> int:
        """Dimension D of the embeddings."""
        from gsp_tf._keras import first_output  # here: a path needs no TensorFlow to be checked

        return first_output(self.embedder.output).shape[-1]

    @functools.cached_property
    def _forward(self):
        from gsp_tf.training import inference

        return inference(self.embedder)

    def embed_batches(self, batches: Any, description: str | None = None) -> np.ndarray:
        """Embeds batches of prepared images.

        Args:
            batches: Sequence of `(images, labels)`, such as the result of `evaluation_batches`.
            description: Text of the progress bar; `None` shows no bar.

        Returns:
            float32 `(N, D)`.

        Raises:
            ValueError: If the model returns values that are not finite.
        """
        from gsp_tf.training import embed

        if description is not None:
            batches = show_progress(batches, description, len(batches))
        return checked_embeddings(embed(self._forward, batches)[0], "the embeddings of the model")

    def embed_images(
        self, images: Sequence[ImageSource], description: str | None = None
    ) -> _Embedded:
        """Embeds image files, their contents or their pixels, as evaluation does.

        Args:
            images: N paths, N contents or N uint8 arrays `(H, W, channels)`, which may be made
                on access; `None` counts as unreadable.
            description: Text of the progress bar; `None` shows no bar.

        Returns:
            `embeddings`, float32 `(N, D)`, and `problems`, N texts: empty, or why the image cannot
            be read. The embedding of an unreadable image is NaN.
        """
        return self._embed_readable(images, description, None)[0]

    def embed_with_tokens(
        self, images: Sequence[ImageSource], k: int, description: str | None = None
    ) -> tuple[_Embedded, TokenSets]:
        """Embeds images and keeps their k local features with the largest pooling weights.

        Args:
            images, description: As in `embed_images`.
            k: Number of local features; a map with fewer gives all it has.

        Returns:
            The result of `embed_images`, and the `TokenSets`, 0 for unreadable images.

        Raises:
            ValueError: If the pooling of the model has no weights.
        """
        return self._embed_readable(images, description, self._token_model(k))

    @functools.cached_property
    def _token_model(self):
        return functools.cache(lambda k: runs.TokenModel(self.embedder, k))

    def _embed_readable(self, images, description, tokens):
        images = several(images)
        if not len(images):
            sets = tokens and tokens.none().take([])
            return _Embedded(np.empty((0, self.dim), np.float32), []), sets
        try:
            checked = CheckedImages(images, self.embedder.input_shape[-1])
            batches, sets = self._batches(checked), []
            if description is not None:
                batches = show_progress(batches, description, len(batches))
            if tokens is not None:
                batches = _seen(batches, lambda images: sets.append(tokens(images)))
            found, problems = self.embed_batches(batches), checked.problems
            sets = tokens and TokenSets.join(sets)
        except tf.errors.InvalidArgumentError:
            if len(images) == 1:
                found = np.zeros((1, self.dim), np.float32)
                problems = ["TensorFlow cannot decode it"]
                sets = tokens and tokens.none()
            else:
                alone = [self._embed_readable([image], None, tokens) for image in images]
                found = np.concatenate([embedded.embeddings for embedded, _ in alone])
                problems = [embedded.problems[0] for embedded, _ in alone]
                sets = tokens and TokenSets.join([of_image for _, of_image in alone])
        unreadable = np.array(problems, dtype=bool)
        found = np.where(unreadable[:, None], np.float32("nan"), found)
        for values in sets or ():
            values[unreadable] = 0
        return _Embedded(found, problems), sets

    def _batches(self, images):
        """Prepared images; a pipeline would take longer to build than one image to prepare."""
        if len(images) > 1:
            return runs.evaluation_batches(self.recipe, images)
        from gsp_tf.data import evaluation_image  # the pipelines import TensorFlow

        size, resize = self.recipe.data.image_size, self.recipe.data.resize
        return [(evaluation_image(images, 0, size, resize)[None], images.labels)]


def _seen(batches, look):
    """Yields batches after showing their images to a function."""
    for images, labels in batches:
        look(images)
        yield images, labels
