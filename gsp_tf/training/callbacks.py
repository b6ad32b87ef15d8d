"""Callbacks that evaluate retrieval during training and keep the best model."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import keras
import numpy as np

from gsp_tf._arguments import check_choice, check_relation, check_sizes
from gsp_tf._files import replacing
from gsp_tf._typing import PathLike, Relation
from gsp_tf.evaluation import Metric, retrieval_metrics
from gsp_tf.training.distribute import broadcast_from_chief, is_chief, strategy_of
from gsp_tf.training.embedding import Batches, embed, inference, labelled_batches
from gsp_tf.training.low_rank import merged_lora
from gsp_tf.training.optimizers import averaged_weights


class RetrievalEvaluation(keras.callbacks.Callback):
    """Embeds a data set at the end of every epoch and adds its retrieval metrics to the logs.

    MAP@R, R-precision, P@1 and Recall@K (Musgrave et al. 2020) appear as `val_map_at_r` and so on.
    Callbacks that come later in the list can use them. If the optimizer keeps moving averages of
    the weights (`use_ema`), these are evaluated. With several workers, each embeds the whole
    data set, and all log the metrics of the first.

    Args:
        dataset: finite batches of `(images, labels)`, or a pair of arrays, as for `embed`; its
            classes should not be training classes. It is read after every epoch, so a generator,
            which can be read once, is not enough.
        recall_at: the values of K in Recall@K.
        metric: distance between embeddings.
        prefix: prefix of the metric names.
        references: images to search, in the same form as `dataset`; `None` searches `dataset`.
        relation, relation_threshold: for data sets of label vectors `(B, C)`, such as multi-hot
            tags, what makes two images belong together, as in `retrieval_metrics`.

    Raises:
        ValueError: if a data set is endless or can be read only once.

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
        metric: Metric = "euclidean",
        prefix: str = "val_",
        references: Batches | None = None,
        relation: Relation = "equal",
        relation_threshold: float = 0.0,
    ):
        super().__init__()
        check_choice("metric", metric, Metric)
        check_relation(relation)
        for k in recall_at:
            check_sizes(recall_at=k)
        self.dataset = _read_often(dataset, "dataset")
        self.recall_at = tuple(recall_at)
        self.metric = metric
        self.prefix = prefix
        self.relation = relation
        self.relation_threshold = relation_threshold
        self.references = None if references is None else _read_often(references, "references")
        self._traced = None

    def set_model(self, model: keras.Model) -> None:
        embedder = getattr(model, "embedder", model)
        traced = embedder, *map(id, embedder.variables)  # add_lora adds some
        if traced != self._traced:
            self._traced, self._forward = traced, inference(embedder)
        super().set_model(model)

    def evaluate(self) -> dict[str, float]:
        """Computes the metrics of the current model.

        Returns:
            Values by prefixed name; all are 0 if an embedding is not finite.
        """
        datasets = [self.dataset] if self.references is None else [self.dataset, self.references]
        arrays, is_finite = [], True
        for dataset in datasets:
            embeddings, labels = embed(self._forward, dataset)
            is_finite = is_finite and np.isfinite(embeddings).all()
            arrays += np.nan_to_num(embeddings, posinf=0, neginf=0), labels
        if self.references is None:
            arrays += None, None
        metrics = retrieval_metrics(
            *arrays, self.recall_at, self.metric, self.relation, self.relation_threshold
        )
        names = [name for name in metrics if name not in ("num_queries", "num_skipped")]
        values = [float(metrics[name]) if is_finite else 0.0 for name in names]
        values = broadcast_from_chief(strategy_of(self.model), values)
        return {
            f"{self.prefix}{name}": float(value) for name, value in zip(names, values, strict=True)
        }

    def on_epoch_end(self, epoch: int, logs: dict | None = None) -> None:
        if logs is not None:
            with averaged_weights(self.model):
                logs.update(self.evaluate())


def _read_often(dataset, argument):
    """Labelled batches that can be read after every epoch."""
    if isinstance(dataset, Iterator):
        raise ValueError(
            f"{argument} is read after every epoch, and the {type(dataset).__name__} received can "
            "be read only once. Give a data set, a list of batches, or a pair of arrays."
        )
    return labelled_batches(dataset, argument)


class SaveBest(keras.callbacks.Callback):
    """Saves the model whenever a metric of the logs exceeds its best value so far.

    The model is saved when the next epoch begins, after a `Checkpoint` that precedes this callback
    in the list. The file is therefore never ahead of the checkpoint before training ends, and a run
    that continues from the checkpoint saves the model again. The file is written under a temporary
    name and then renamed. It is never half-written: if the run fails, it holds the last good
    weights. These are the moving averages if the optimizer keeps them (`use_ema`), and the sums of
    kernels and low-rank matrices (`merged_lora`). A callback that puts other weights back, such as
    `EarlyStopping(restore_best_weights=True)` of another metric, must come after it.

    Args:
        path: file to write; ends in ".keras".
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
        if self.path.suffix != ".keras":
            raise ValueError(f"path must end in .keras, received {str(path)!r}.")
        self.monitor = monitor
        self.best = baseline
        self.best_epoch = None
        self._is_due = False

    def save(self) -> None:
        """Write the current model; only the first worker writes."""
        if is_chief(self.model):
            with (
                replacing(self.path) as temporary,
                averaged_weights(self.model),
                merged_lora(self.model),
            ):
                self.model.save(temporary)
        self._is_due = False

    def save_if_due(self) -> None:
        """Write the model if it is the best so far and has not been written."""
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
        """The state that a `Checkpoint` saves."""
        return {"best": self.best, "best_epoch": self.best_epoch, "is_due": self._is_due}

    def restore(self, state: dict[str, Any]) -> None:
        """Restore a dict from `state`; a model that was due is saved next."""
        self.best, self.best_epoch = state["best"], state["best_epoch"]
        self._is_due = state["is_due"]
