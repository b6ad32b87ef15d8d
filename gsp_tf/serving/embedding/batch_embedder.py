"""Embeddings as a function of batches, for engines that map batches over many machines."""

import functools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from gsp_tf._typing import PathLike
from gsp_tf.serving.embedding.run_model import RunModel


class BatchEmbedder:
    """Adds embeddings to batches of images, as `embed_images` computes them.

    A batch is a dict of arrays of one length with a column `path`, of image files, or `bytes`, of
    their contents (which is taken if both are there). Ray Data maps it as it is; it depends on no
    engine. It can be pickled; the model is loaded where the first batch comes.

    Args:
        run: Run folder, which is there under the same path wherever batches are.
        threads: Threads of TensorFlow in the process, which must not have been used before; `None`
            leaves them as they are. Set it where several processes share a machine.

    Input: dict of arrays `(N,)`.

    Output: the same dict without `bytes`, and with `embedding`, float32 `(N, D)`, and `problem`,
    `(N,)` of str: empty, or why the image cannot be read. The embedding of such an image is NaN.

    Raises:
        FileNotFoundError: If `run` is not a run folder.
        ValueError: If it holds the models of several folds.

    Example:
        >>> BatchEmbedder("no/such/run")
        Traceback (most recent call last):
            ...
        FileNotFoundError: no/such/run is not a run folder: it has no recipe.yaml.
    """

    def __init__(self, run: PathLike, threads: int | None = None):
        RunModel(run)
        if threads is not None and threads < 1:
            raise ValueError(f"threads must be 1 or more, or None; received {threads}.")
        self.run = str(Path(run).absolute())
        self.threads = threads

    def __reduce__(self) -> tuple:
        return BatchEmbedder, (self.run, self.threads)

    @functools.cached_property
    def model(self) -> RunModel:
        """The `RunModel`."""
        if self.threads is not None:
            tf.config.threading.set_intra_op_parallelism_threads(self.threads)
            tf.config.threading.set_inter_op_parallelism_threads(self.threads)
        return RunModel(self.run)

    def __call__(self, batch: Mapping[str, Sequence]) -> dict[str, Any]:
        name = next((name for name in ("bytes", "path") if name in batch), None)
        if name is None:
            raise ValueError(
                f"A batch needs a column path or bytes; received the columns {', '.join(batch)}."
            )
        kind = {"bytes": bytes, "path": str}[name]
        images = [None if image is None else kind(image) for image in batch[name]]
        embeddings, problems = self.model.embed_images(images)
        others = {name: values for name, values in batch.items() if name != "bytes"}
        return {**others, "embedding": embeddings, "problem": np.array(problems, dtype=str)}
