"""Retrieval metrics of a held-out set during training."""

import keras
import numpy as np

from gsp_tf.evaluation import retrieval_metrics
from gsp_tf.training.embedding import embed, inference, labelled_batches
from gsp_tf.training.workers import of_chief


class RetrievalEvaluation(keras.callbacks.Callback):
    """Embeds a data set at the end of every epoch and adds its retrieval metrics to the logs.

    MAP@R, R-precision, P@1 and Recall@K (Musgrave et al. 2020) appear as `val_map_at_r` and so on,
    for every callback that stands after this one: early stopping, checkpoints, loggers. Each of
    several workers embeds the whole data set, and all log what the first one found.

    Args:
        dataset: finite `tf.data.Dataset` of `(images, labels)`, or a pair of arrays, of classes not
            trained on.
        recall_at: the K of Recall@K.
        metric: "euclidean" or "cosine".
        prefix: put before the names of the metrics.
        references: the images to search in, as `dataset`; `None` searches `dataset`.

    Raises:
        ValueError: if the data set is an array without labels.
        TypeError: if the labels of a pair of arrays are not integers.

    Example:
        >>> import keras, tensorflow as tf
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
        dataset,
        recall_at=(1, 2, 4, 8),
        metric="euclidean",
        prefix="val_",
        references=None,
    ):
        super().__init__()
        self.dataset = labelled_batches(dataset)
        self.recall_at = tuple(recall_at)
        self.metric = metric
        self.prefix = prefix
        self.references = None if references is None else labelled_batches(references)
        self._embedder = None

    def set_model(self, model):
        embedder = getattr(model, "embedder", model)
        if embedder is not self._embedder:
            self._embedder, self._forward = embedder, inference(embedder)
        super().set_model(model)

    def evaluate(self):
        """Metrics of the model as it is, with the prefix.

        Returns:
            dict from name to float; every metric is 0 while the embeddings are not finite.
        """
        datasets = [self.dataset] if self.references is None else [self.dataset, self.references]
        sets = [embed(self._forward, dataset) for dataset in datasets]
        finite = all(np.isfinite(embeddings).all() for embeddings, _ in sets)
        metrics = retrieval_metrics(
            *(
                part
                for pair in sets
                for part in (np.nan_to_num(pair[0], posinf=0, neginf=0), pair[1])
            ),
            recall_at=self.recall_at,
            metric=self.metric,
        )
        names = [name for name in metrics if name not in ("num_queries", "num_skipped")]
        values = [float(metrics[name]) if finite else 0.0 for name in names]
        values = of_chief(self.model.distribute_strategy, values)
        return {
            f"{self.prefix}{name}": float(value) for name, value in zip(names, values, strict=True)
        }

    def on_epoch_end(self, epoch, logs=None):
        if logs is not None:
            logs.update(self.evaluate())
