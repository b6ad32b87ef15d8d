"""The model of a run, for images that are in no data set."""

import functools
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import keras
import numpy as np
import tensorflow as tf

from gsp_tf._console import show_progress
from gsp_tf._typing import PathLike
from gsp_tf.data import EncodedImages, FileImages, UnreadableImageError, check_image
from gsp_tf.evaluation import checked_embeddings
from gsp_tf.experiment import RunFolder, evaluation_batches, model_folders
from gsp_tf.serving._metadata import ModelInfo, Preprocessing, file_sha256
from gsp_tf.training import embed, first_output, inference

_NOT_DECODED = "TensorFlow cannot decode it"


class Embedded(NamedTuple):
    """Embeddings of images, NaN where one cannot be read, and why not: a text or an empty one."""

    embeddings: np.ndarray
    problems: list[str]


class RunModel:
    """The best model of a run with the preprocessing of its evaluation.

    Args:
        path: Run folder.

    Attributes:
        folder: `RunFolder`.
        recipe: Its recipe.

    Raises:
        FileNotFoundError: If the folder is not a run folder.
        ValueError: If a file of it is damaged, or it holds the models of several folds.

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
            models = [str(model.path) for repeats in model_folders(folder) for model in repeats]
            raise ValueError(
                f"{path} holds the models of several folds; name the run folder of one of them: "
                f"{', '.join(models)}."
            )
        self.folder = RunFolder.open(path)

    @functools.cached_property
    def info(self) -> ModelInfo:
        """What embeddings and indexes note of the model and its preprocessing."""
        data = self.recipe.data
        return ModelInfo(
            sha256=file_sha256(self.folder.model_path),
            recipe=self.recipe.name,
            run=str(self.folder.path.absolute()),
            preprocessing=Preprocessing(data.image_size, data.resize),
        )

    @functools.cached_property
    def embedder(self) -> keras.Model:
        """The Keras model from images to embeddings."""
        embedder = self.folder.learner(compile=False).embedder
        size = self.recipe.data.image_size
        if embedder.input_shape[1:3] != (size, size):
            raise ValueError(
                f"The model of {self.folder.path} takes images {embedder.input_shape[1:]}, its "
                f"recipe has data.image_size={size}."
            )
        return embedder

    @property
    def dim(self) -> int:
        """D, dimension of the embeddings."""
        return first_output(self.embedder.output).shape[-1]

    @functools.cached_property
    def _forward(self):
        return inference(self.embedder)

    def embed_batches(self, batches: Any, description: str | None = None) -> np.ndarray:
        """Embeds batches of images that are prepared.

        Args:
            batches: Sequence of `(images, labels)`, such as `evaluation_batches` gives.
            description: What a progress bar says; `None` shows none.

        Returns:
            float32 `(N, D)`.

        Raises:
            ValueError: If the model gives values that are not finite.
        """
        if description is not None:
            batches = show_progress(batches, description, len(batches))
        return checked_embeddings(embed(self._forward, batches)[0], "the embeddings of the model")

    def embed_images(
        self, images: Sequence[str | bytes | None], description: str | None = None
    ) -> Embedded:
        """Embeds image files, or the contents of such, as evaluation embeds them.

        Args:
            images: N paths, or N contents; `None` has a problem, as what cannot be read has.
            description: What a progress bar says; `None` shows none.

        Returns:
            `embeddings`, float32 `(N, D)`, and `problems`, N texts: empty, or why the image cannot
            be read. The embedding of such an image is NaN.

        Raises:
            ValueError: If the model gives values that are not finite.
        """
        threads = tf.config.threading.get_intra_op_parallelism_threads()
        with ThreadPoolExecutor(threads or None) as pool:
            problems = list(pool.map(_problem, images))
        rows = [row for row, problem in enumerate(problems) if not problem]
        embeddings = np.full((len(images), self.dim), np.nan, np.float32)
        try:
            if rows:
                embeddings[rows] = self._embed([images[row] for row in rows], description)
        except tf.errors.InvalidArgumentError:
            for row in rows:
                try:
                    embeddings[row] = self._embed([images[row]])
                except tf.errors.InvalidArgumentError:
                    problems[row] = _NOT_DECODED
        return Embedded(embeddings, problems)

    def _embed(self, images, description=None):
        image_set = FileImages if isinstance(images[0], str) else EncodedImages
        channels = self.embedder.input_shape[-1]
        images = image_set(images, np.zeros(len(images), int), [""], channels=channels)
        return self.embed_batches(evaluation_batches(self.recipe, images), description)


def _problem(image):
    """Why an image cannot be read, or an empty text."""
    if image is None:
        return "it is missing"
    try:
        check_image(image)
    except UnreadableImageError as error:
        return error.reason
    return ""
