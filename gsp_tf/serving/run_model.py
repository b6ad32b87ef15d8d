"""The model of a run, for images that are in no data set."""

import functools

import numpy as np

from gsp_tf._console import show_progress
from gsp_tf.data import EncodedImages, FileImages
from gsp_tf.evaluation import checked_embeddings
from gsp_tf.experiment import Ensemble, RunFolder, evaluation_batches
from gsp_tf.serving.checksum import file_sha256
from gsp_tf.training import embed, first_output, inference


class RunModel:
    """The best model of a run with the preprocessing of its evaluation.

    Args:
        path: run folder.

    Attributes:
        folder: `RunFolder`.
        recipe: its recipe.

    Raises:
        FileNotFoundError: if the folder is not a run folder.
        ValueError: if a file of it is damaged, or it holds the models of several folds.

    Example:
        >>> RunModel("no/such/run")
        Traceback (most recent call last):
            ...
        FileNotFoundError: no/such/run is not a run folder: it has no recipe.yaml.
    """

    def __init__(self, path):
        folder = RunFolder(path)
        folder.require(folder.recipe_path)
        self.recipe = folder.recipe()
        if self.recipe.protocol.is_ensemble:
            models = [str(m.path) for repeats in Ensemble(path).model_folders for m in repeats]
            raise ValueError(
                f"{path} holds the models of several folds; name the run folder of one of them: "
                f"{', '.join(models)}."
            )
        self.folder = RunFolder.open(path)

    @functools.cached_property
    def sha256(self):
        """SHA-256 of the file of the model."""
        return file_sha256(self.folder.model_path)

    @property
    def described(self):
        """What embeddings and indexes note of the model and its preprocessing, as a dict."""
        model = {
            "sha256": self.sha256,
            "recipe": self.recipe.name,
            "run": str(self.folder.path.absolute()),
        }
        return {"model": model, "preprocessing": self.preprocessing}

    @functools.cached_property
    def embedder(self):
        """The Keras model from images to embeddings."""
        embedder = self.folder.learner(compile=False).embedder
        size = self.recipe.data.image_size
        if embedder.input_shape[1:3] != (size, size):
            raise ValueError(
                f"The model of {self.folder.path} takes images {embedder.input_shape[1:]}, its "
                f"recipe has data.image_size={size}."
            )
        return embedder

    @functools.cached_property
    def _forward(self):
        return inference(self.embedder)

    def file_batches(self, paths):
        """Image files as evaluation sees them.

        Args:
            paths: image files that can be read.

        Returns:
            `tf.data.Dataset` of batches of images and zeros.
        """
        return self._batches(FileImages, paths)

    def embed_batches(self, batches, description=None):
        """Embeddings of batches of images that are prepared.

        Args:
            batches: sequence of `(images, labels)`, such as `evaluation_batches` gives.
            description: what a progress bar says; `None` shows none.

        Returns:
            float32 `(N, D)`.

        Raises:
            ValueError: if the model gives values that are not finite.
        """
        if description is not None:
            batches = show_progress(batches, description, len(batches))
        return checked_embeddings(embed(self._forward, batches)[0], "the embeddings of the model")

    @property
    def dim(self):
        """D, dimension of the embeddings."""
        return first_output(self.embedder.output).shape[-1]

    @property
    def preprocessing(self):
        """What is done to an image before the model sees it, as a dict."""
        data = self.recipe.data
        return {"image_size": data.image_size, "resize": data.resize}

    def embed_files(self, paths, description="Embedding"):
        """Embeddings of image files, as evaluation computes them.

        Args:
            paths: image files that can be read.
            description: what a progress bar says.

        Returns:
            float32 `(N, D)`.

        Raises:
            ValueError: if the model gives values that are not finite.
        """
        return self.embed_batches(self.file_batches(paths), description)

    def embed_contents(self, contents):
        """Embeddings of the bytes of image files, the same as those of the files.

        Args:
            contents: list of bytes that can be read as images.

        Returns:
            float32 `(N, D)`.

        Raises:
            ValueError: if the model gives values that are not finite.
        """
        return self.embed_batches(self._batches(EncodedImages, contents))

    def _batches(self, image_set, images):
        channels = self.embedder.input_shape[-1]
        images = image_set(images, np.zeros(len(images), int), [""], channels=channels)
        return evaluation_batches(self.recipe, images)
