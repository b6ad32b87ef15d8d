"""Embeddings as a function of batches, for engines that map batches over many machines."""

import functools
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import tensorflow as tf

from gsp_tf.data import UnreadableImageError, check_image
from gsp_tf.serving.decodable import NOT_DECODED, embed_decodable
from gsp_tf.serving.run_model import RunModel


class BatchEmbedder:
    """Adds embeddings to batches of images, as `embed_images` computes them.

    A batch is a dict of arrays of one length with a column `path`, of image files, or `bytes`, of
    their contents (which is taken if both are there). Ray Data maps it as it is; it depends on no
    engine. It can be pickled; the model is loaded where the first batch comes.

    Args:
        run: run folder, which is there under the same path wherever batches are.
        threads: threads of TensorFlow in the process, which must not have been used before; `None`
            leaves them as they are. Set it where several processes share a machine.

    Input: dict of arrays `(N,)`.

    Output: the same dict without `bytes`, and with `embedding`, float32 `(N, D)`, and `problem`,
    `(N,)` of str: empty, or why the image cannot be read. The embedding of such an image is NaN.

    Raises:
        FileNotFoundError: if `run` is not a run folder.
        ValueError: if it holds the models of several folds.

    Example:
        >>> BatchEmbedder("no/such/run")
        Traceback (most recent call last):
            ...
        FileNotFoundError: no/such/run is not a run folder: it has no recipe.yaml.
    """

    def __init__(self, run, threads=None):
        RunModel(run)
        if threads is not None and threads < 1:
            raise ValueError(f"threads must be 1 or more, or None; received {threads}.")
        self.run = str(Path(run).absolute())
        self.threads = threads

    def __reduce__(self):
        return BatchEmbedder, (self.run, self.threads)

    @functools.cached_property
    def model(self):
        """The `RunModel`."""
        if self.threads is not None:
            tf.config.threading.set_intra_op_parallelism_threads(self.threads)
            tf.config.threading.set_inter_op_parallelism_threads(self.threads)
        return RunModel(self.run)

    def __call__(self, batch):
        name = next((name for name in ("bytes", "path") if name in batch), None)
        if name is None:
            raise ValueError(
                f"A batch needs a column path or bytes; received the columns {', '.join(batch)}."
            )
        model, images = self.model, list(batch[name])
        problem = _problem_of_bytes if name == "bytes" else _problem_of_file
        with ThreadPoolExecutor(self.threads) as pool:
            problems = list(pool.map(problem, images))
        readable = [row for row, problem in enumerate(problems) if not problem]
        embed = model.embed_contents if name == "bytes" else model.embed_files
        embeddings = np.full((len(images), model.dim), np.nan, np.float32)
        embeddings[readable], failed = embed_decodable(
            embed, [images[row] for row in readable], model.dim
        )
        for row in failed:
            problems[readable[row]] = NOT_DECODED
        others = {name: values for name, values in batch.items() if name != "bytes"}
        return {**others, "embedding": embeddings, "problem": np.array(problems, dtype=str)}


def _problem_of_file(path):
    """Why a file cannot be read as an image, or an empty text."""
    if path is None:
        return "its path is missing"
    return _problem(lambda: check_image(path))


def _problem_of_bytes(contents):
    if contents is None:
        return "its bytes are missing"
    return _problem(lambda: check_image(bytes(contents)))


def _problem(read):
    try:
        read()
    except UnreadableImageError as error:
        return error.reason
    return ""
