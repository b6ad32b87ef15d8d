"""Callbacks that evaluate retrieval during training and keep the best model."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import keras
import numpy as np

from gsp_tf._files import replacing
from gsp_tf._typing import PathLike
from gsp_tf.evaluation import retrieval_metrics
from gsp_tf.training.distribute import broadcast_from_chief, is_chief
from gsp_tf.training.embedding import Batches, embed, inference, labelled_batches


class RetrievalEvaluation(keras.callbacks.Callback):
    """Embeds a data set at the end of every epoch and adds its retrieval metrics to the logs.

    MAP@R, R-precision, P@1 and Recall@K (Musgrave et al. 2020) appear as `val_map_at_r` and so on,
    for every later callback: early stopping, checkpoints, loggers. Each of several workers embeds
    the whole data set, and all log what the first one found.

    Args:
        dataset: finite `tf.data.Dataset` of `(images, labels)`, or a pair of arrays, of classes not
            trained on.
        recall_at: the K of Recall@K.
        metric: distance between embeddings.
        prefix: put before the names of the metrics.
        references: the images to search in, as `dataset`; `None` searches `dataset`.

    Raises:
        ValueError: if the data set is an array without labels.
        TypeError: if the labels of a pair of arrays are not integers.

    Example:
        >>> import keras, numpy as np, tensorflow as tf
        >>> from gsp_tf.losses import ContrastiveLoss
        >>> from gsp_tf.training import MetricLearner
        >>> data = tf.data.Dataset.from_tensor_slices((np.eye(8), np.arange(8) % 2)).batch(8)
        >>> embedder = keras.Sequential([keras.Input((8,)), keras.layers.Dense(2)])
        >>> learner = MetricLearner(embedder, ContrastiveLoss())
        >>> learner.compile(optimizer="adam")
        >>> evaluation = RetrievalEvaluation(data, recall_at=(1,))
        >>> history = learner.fit(data, callbacks=[evaluation], verbose=0)
        >>> "val_map_at_r" in history.history
        True
    """

    def __init__(
        self,
        dataset: Batches,
        recall_at: Sequence[int] = (1, 2, 4, 8),
        metric: Literal["euclidean", "cosine"] = "euclidean",
        prefix: str = "val_",
        references: Batches | None = None,
    ):
        super().__init__()
        self.dataset = labelled_batches(dataset)
        self.recall_at = tuple(recall_at)
        self.metric = metric
        self.prefix = prefix
        self.references = None if references is None else labelled_batches(references)
        self._embedder = None

    def set_model(self, model: keras.Model) -> None:
        embedder = getattr(model, "embedder", model)
        if embedder is not self._embedder:
            self._embedder, self._forward = embedder, inference(embedder)
        super().set_model(model)

    def evaluate(self) -> dict[str, float]:
        """Metrics of the model as it is.

        Returns:
            Values by name, with the prefix; every metric is 0 while the embeddings are not finite.
        """
        datasets = [self.dataset] if self.references is None else [self.dataset, self.references]
        arrays, is_finite = [], True
        for dataset in datasets:
            embeddings, labels = embed(self._forward, dataset)
            is_finite = is_finite and np.isfinite(embeddings).all()
            arrays += np.nan_to_num(embeddings, posinf=0, neginf=0), labels
        metrics = retrieval_metrics(*arrays, recall_at=self.recall_at, metric=self.metric)
        names = [name for name in metrics if name not in ("num_queries", "num_skipped")]
        values = [float(metrics[name]) if is_finite else 0.0 for name in names]
        values = broadcast_from_chief(self.model.distribute_strategy, values)
        return {
            f"{self.prefix}{name}": float(value) for name, value in zip(names, values, strict=True)
        }

    def on_epoch_end(self, epoch: int, logs: dict | None = None) -> None:
        if logs is not None:
            logs.update(self.evaluate())


class SaveBest(keras.callbacks.Callback):
    """Saves the model whenever a metric of the logs has risen above its best.

    The model is saved before the next epoch begins, after a `Checkpoint` that precedes this
    callback in the list. So a run that continues from the checkpoint saves it again, and the file
    is not ahead of the checkpoint before training has ended. The file is written under a temporary
    name and renamed: it is never half-written, and holds the last good weights whatever happens to
    the run.

    Args:
        path: file to write, ending in ".keras".
        monitor: metric to follow; larger is better.
        baseline: value that must be exceeded.

    Example:
        >>> callback = SaveBest("best.keras", monitor="val_map_at_r")
        >>> callback.best
        -inf
    """

    def __init__(
        self, path: PathLike, monitor: str = "val_map_at_r", baseline: float = float("-inf")
    ):
        super().__init__()
        self.path = Path(path)
        self.monitor = monitor
        self.best = baseline
        self.best_epoch = None
        self._is_due = False

    def save(self) -> None:
        """Write the model as it is now, in the first of several workers."""
        if is_chief(self.model.distribute_strategy):
            with replacing(self.path) as temporary:
                self.model.save(temporary)
        self._is_due = False

    def save_if_due(self) -> None:
        """Write the model if it is the best one and was not written yet."""
        if self._is_due:
            self.save()

    def on_epoch_end(self, epoch: int, logs: dict | None = None) -> None:
        if self.monitor not in (logs or {}):
            raise ValueError(
                f"SaveBest follows {self.monitor!r}, which is not among the logs "
                f"{sorted(logs or {})}. Put RetrievalEvaluation before it."
            )
        if logs[self.monitor] > self.best:
            self.best = float(logs[self.monitor])
            self.best_epoch = epoch
            self._is_due = True

    def on_epoch_begin(self, epoch: int, logs: dict | None = None) -> None:
        self.save_if_due()

    def on_train_end(self, logs: dict | None = None) -> None:
        self.save_if_due()

    def state(self) -> dict[str, Any]:
        """What a `Checkpoint` keeps of this callback."""
        return {"best": self.best, "best_epoch": self.best_epoch, "is_due": self._is_due}

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from a dict of `state`; if the model was due then, it is saved next."""
        self.best, self.best_epoch = state["best"], state["best_epoch"]
        self._is_due = state["is_due"]
