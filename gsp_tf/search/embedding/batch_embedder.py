"""Embedding of batches, for engines that map batches over many machines."""

import functools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from gsp_tf._backend import limit_threads
from gsp_tf._typing import PathLike
from gsp_tf.search.embedding.run_model import RunModel


class BatchEmbedder:
    """Adds embeddings to batches of images, as `embed_images` computes them.

    A batch is a dict of arrays `(N,)`. Its column `path` holds image files, or its column `bytes`
    holds their contents; `bytes` is used if both exist. Ray Data can map an instance directly, but
    the class depends on no engine. An instance can be pickled; it loads the model with its first
    batch.

    Args:
        run: Run folder, available under the same path on every machine.
        threads: TensorFlow threads in the process; `None` leaves the setting unchanged. Set it
            where several processes share a machine. The process must not have used TensorFlow yet.

    Input: a batch.

    Output: the same dict without `bytes`, plus `embedding`, float32 `(N, D)`, and `problem`, `(N,)`
    of str: empty, or why the image cannot be read. The embedding of an unreadable image is NaN.

    Raises:
        FileNotFoundError: If `run` is not a run folder.
        ValueError: If the run holds the models of several folds, or `threads` is below 1.

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
        """The model, loaded on first use."""
        if self.threads is not None:
            limit_threads(self.threads)
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
