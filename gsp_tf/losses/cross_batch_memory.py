"""Cross-batch memory (Wang et al., CVPR 2020)."""

from typing import Any

from keras import ops

from gsp_tf._arguments import check_at_least, check_sizes
from gsp_tf._backend import assign_rows, available
from gsp_tf._config import is_zero
from gsp_tf.losses._pair_loss import PairLoss, PairWrapper
from gsp_tf.ops import l2_normalize

_BLOCK = 4096


class CrossBatchMemory(PairWrapper):
    """Pair loss between a batch and the embeddings of the last batches (XBM).

    `loss(batch, memory) + batch_weight · loss(batch, batch)`. The memory is a ring buffer of the
    last `capacity` embeddings, including those of the batch. No sample is paired with itself, and
    the memory gets no gradient. "Cross-Batch Memory for Embedding Learning" (CVPR 2020), section 3.
    The authors' recipes use `CosineContrastiveLoss(0.5)`, `batch_weight=1` and 1000 warm-up steps.

    In the first `warmup_steps` calls the loss is that of the batch alone, and the memory counts as
    empty. In evaluation the loss is also that of the batch alone, and the memory does not change.

    The program of the GSP and CCP authors starts differently: the memory fills from the first call,
    but the loss uses it only from call `warmup_steps + capacity / B` on. The memory has then been
    full for `warmup_steps` batches of B. `start_full=True` does the same. From then on both are
    equal.

    Args:
        loss: any pair loss.
        capacity: number of embeddings in the memory. A larger batch leaves its last ones there.
        warmup_steps: calls after which the memory starts to fill.
        batch_weight: weight of the loss within the batch, not negative.
        start_full: use the memory only once it is full and `warmup_steps` more batches have come.
        num_labels: C, for a loss with another relation than "equal": the number of columns of its
            label vectors. `None` for classes.

    Weights, not trained: `memory (capacity, D)`, `memory_labels (capacity,)`, or `(capacity, C)`
    for label vectors, and the scalars `num_enqueued` and `num_steps`, the calls that count for
    `warmup_steps`.

    Call: `loss(labels, embeddings, training=True)`, labels from 0 to 2^31 - 1, or label vectors
    `(B, C)`.

    Example:
        >>> from gsp_tf.losses import ContrastiveLoss
        >>> loss = CrossBatchMemory(ContrastiveLoss(), capacity=100)
        >>> float(loss([0, 1], [[1.0, 0.0], [0.0, 1.0]]))
        0.0
        >>> float(loss([0, 1], [[-1.0, 0.0], [0.0, -1.0]]))
        2.0
    """

    num_classes = 2**31  # range of the int32 labels in the memory

    def __init__(
        self,
        loss: PairLoss,
        capacity: int,
        warmup_steps: int = 0,
        batch_weight: float = 0.0,
        start_full: bool = False,
        num_labels: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(loss, **kwargs)
        check_sizes(capacity=capacity)
        check_sizes(0, warmup_steps=warmup_steps)
        check_at_least(0, batch_weight=batch_weight)
        if num_labels is None and loss.relation in ("any", "jaccard", "cosine"):
            raise ValueError(
                f"A loss with relation={loss.relation!r} compares label vectors (B, C): give "
                "num_labels, which is C."
            )
        if num_labels is not None:
            check_sizes(num_labels=num_labels)
        if num_labels is not None and loss.relation == "equal":
            raise ValueError(
                "num_labels belongs to a loss that compares label vectors; received "
                f"num_labels={num_labels} with relation={loss.relation!r}."
            )
        self.capacity = capacity
        self.warmup_steps = warmup_steps
        self.batch_weight = batch_weight
        self.start_full = start_full
        self.num_labels = num_labels

    @property
    def relation(self):
        """How the loss relates label vectors; "equal" for classes."""
        return "equal" if self.num_labels is None else self.loss.relation

    def build(self, labels_shape, embeddings_shape):
        def add(name, shape, dtype):
            return self.add_weight(
                name=name, shape=shape, dtype=dtype, initializer="zeros", trainable=False
            )

        self.memory = add("memory", (self.capacity, embeddings_shape[-1]), self.variable_dtype)
        if self.num_labels is None:
            self.memory_labels = add("memory_labels", (self.capacity,), "int32")
        else:
            shape = self.capacity, self.num_labels
            self.memory_labels = add("memory_labels", shape, self.variable_dtype)
        self.num_enqueued = add("num_enqueued", (), available("int64"))
        self.num_steps = add("num_steps", (), available("int64"))

    def call(self, labels, embeddings, training=True):
        if self.num_labels is not None and labels.shape[1:] != (self.num_labels,):
            raise ValueError(
                f"The memory holds labels of {self.num_labels} columns, received labels of shape "
                f"{tuple(labels.shape)}."
            )
        if not training:
            return self.loss(labels, embeddings)
        anchors = l2_normalize(embeddings) if self.loss.normalize else embeddings
        warm = self.num_steps >= self.warmup_steps
        slots = self._enqueue(labels, anchors, ops.logical_or(warm, self.start_full))
        counts = True
        if self.start_full:
            counts = self.num_enqueued >= self.capacity
            warm = ops.logical_and(warm, counts)
        total = self._memory_loss(labels, anchors, slots)
        if self.warmup_steps or not is_zero(self.batch_weight) or self.start_full:
            within = self.loss.mined_loss(
                self.loss.pairs(anchors, anchors, labels, labels, exclude_self=True)
            )
            total = ops.where(warm, total + self.batch_weight * within, within)
        self.num_steps.assign(self.num_steps + ops.cast(counts, self.num_steps.dtype))
        return total

    def _enqueue(self, labels, anchors, fills):
        """Overwrite the oldest embeddings with the batch, counted if `fills`; return its rows.

        The first samples of a batch larger than the memory are not in it: their row is -1.
        """
        batch_size = ops.shape(anchors)[0]
        indices = ops.arange(batch_size)
        slots = ops.cast((self.num_enqueued + indices) % self.capacity, "int32")
        slots = ops.where(indices < batch_size - self.capacity, -1, slots)
        rows = ops.stop_gradient(anchors)
        last = slice(-self.capacity, None)
        assign_rows(self.memory, slots[last], rows[last])
        assign_rows(self.memory_labels, slots[last], labels[last])
        self.num_enqueued.assign(self.num_enqueued + ops.where(fills, batch_size, 0))
        return slots

    def _memory_loss(self, labels, anchors, slots):
        memory = ops.stop_gradient(ops.convert_to_tensor(self.memory))
        memory_labels = ops.convert_to_tensor(self.memory_labels)
        num_filled = ops.cast(ops.minimum(self.num_enqueued, self.capacity), "int32")
        # A sum over the references is faster in blocks that stay in the cache.
        in_blocks = self.loss.sums_over_references and self.loss.miner is None
        size = _BLOCK if in_blocks else self.capacity
        total = 0.0
        for start in range(0, self.capacity, size):
            stop = min(start + size, self.capacity)
            rows = ops.arange(start, stop, dtype="int32")
            mask = ops.logical_and(rows[None, :] < num_filled, rows[None, :] != slots[:, None])
            block = slice(start, stop)
            pairs = self.loss.pairs(anchors, memory[block], labels, memory_labels[block], mask=mask)
            total = total + self.loss.mined_loss(pairs)
        return total
