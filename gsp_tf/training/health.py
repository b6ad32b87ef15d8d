"""Looks at training now and then, and names what is wrong."""

import math
from typing import Any

import keras
import numpy as np
from keras import ops, tree

from gsp_tf._arguments import check_at_least
from gsp_tf._backend import compiled, with_gradients
from gsp_tf._keras import copies
from gsp_tf.evaluation import embedding_spread
from gsp_tf.losses import (
    CrossBatchMemory,
    PartialFC,
    ProxyPairsLoss,
    SemiSupervisedLoss,
    is_pair_loss,
)
from gsp_tf.training.metric_learner import embeddings_of, loss_value
from gsp_tf.training.stop_on_nan import keep_batches, release_batches

_ADVICE = {
    "one_class": (
        "every image of the batch has the same class, so there is nothing to tell apart. Shuffle "
        "the images, or draw batches with ClassBalancedSampler (data.classes_per_batch)."
    ),
    "no_positives": (
        "no two images of the batch have the same class, and the loss compares pairs. Draw at "
        "least two images per class with ClassBalancedSampler (data.images_per_class)."
    ),
    "collapse": (
        "the embeddings of different classes have nearly one direction (mean similarity "
        "{similarity:.3f}, effective rank {effective_rank:.1f}), and the loss {loss:.4g} stays at "
        "its value for equal embeddings, {collapsed_loss:.4g}. Lower the learning rate, take a "
        "miner without the hardest negatives (SemiHardNegativeMiner, DistanceWeightedMiner), or "
        "start with a proxy loss."
    ),
    "no_active_pairs": (
        "no pair or triplet of the batch costs anything, so nothing is learned from it. Take more "
        "classes per batch, CrossBatchMemory, or a larger margin."
    ),
    "slow_proxies": (
        "samples have similarity {own_proxy_similarity:.2f} to the proxies of their class, and the "
        "proxies hardly turn ({proxy_turn:.2g} rad since the last check). Raise their learning "
        "rate: training.learning_rate_multipliers={{proxies: 100}}, or "
        "with_learning_rate_multipliers."
    ),
    "fast_proxies": (
        "the proxies turned by {proxy_turn:.2f} rad since the last check, and samples have "
        "similarity {own_proxy_similarity:.2f} to those of their class. Lower the factor of "
        "proxies in training.learning_rate_multipliers, or the learning rate."
    ),
    "between_proxies": (
        "samples of different classes have similarity {similarity:.2f}, and to the nearest proxy "
        "of their class only {own_proxy_similarity:.2f}: they gather between the proxies, beyond a "
        "margin from which nothing pushes them apart. Start from a trained run (initial_run), or "
        "take MultiSimilarityLoss, which has no such margin."
    ),
    "float16_overflow": (
        "gradients overflow float16 even with a loss scale of {loss_scale:.3g}; such steps are "
        "left out. Train with training.precision=mixed_bfloat16 or float32, or clip the "
        "activations that grow."
    ),
    "high_learning_rate": (
        "the weights of the embedder have {embedder_growth:.3g} times their norm at the start, and "
        "a step changes them by {embedder_update:.2%} of it; 1 and 0.1 % are common. Divide the "
        "learning rate by 10, or clip the gradients (training.clip_norm)."
    ),
}
"""The problem and what to do, by the name of a finding."""


def _findings(loss, labels, now, since, is_early=False):
    """The problems that a check sees and what to do; `since` are steps since the check before."""
    # Early in training embeddings are alike and proxies far from them, in runs that go well too.
    found = []
    _, counts = np.unique(labels, return_counts=True)
    if len(counts) == 1:
        found.append("one_class")
    elif counts.max() == 1 and is_pair_loss(loss):
        found.append("no_positives")
    elif "loss" in now:
        is_at_margin = abs(now["loss"] - now["collapsed_loss"]) <= 0.05 * abs(now["collapsed_loss"])
        may_pass = is_early and not (is_pair_loss(loss) and now["effective_rank"] < 2)
        if now["similarity"] > 0.95 and is_at_margin and not may_pass:
            found.append("collapse")
        # The pairs with a memory are not looked at.
        elif now["active_share"] == 0 and not isinstance(loss, CrossBatchMemory):
            found.append("no_active_pairs")
    # CCP chooses other proxies when a problem begins.
    if isinstance(loss, ProxyPairsLoss):
        if now.get("similarity", -1.0) > now.get("own_proxy_similarity", 1.0) and not is_early:
            found.append("between_proxies")
    elif "proxy_turn" in now:
        own, turn = now["own_proxy_similarity"], now["proxy_turn"]
        if own < 0.2 and turn < 2.5e-4 * since and not is_early:
            found.append("slow_proxies")
        if own < 0.5 and turn > 0.75:
            found.append("fast_proxies")
    if now.get("loss_scale", math.inf) <= 1:
        found.append("float16_overflow")
    if now.get("embedder_update", 0.0) > 0.3 or now.get("embedder_growth", 0.0) > 20:
        found.append("high_learning_rate")
    return {name: _ADVICE[name].format(**now) for name in found}


_ROWS, _ROWS_OF_CLASS = 128, 8
_CLASSES = 10_000  # about so many have their proxies looked at
_CHECKS = 2  # a finding is reported when as many checks in a row see it


class HealthCheck(keras.callbacks.Callback):
    """Looks at one batch now and then, and prints what is wrong with training and what to do.

    It names: embeddings that collapse while the loss stays at its margin, batches without an active
    pair or triplet, batches of one class or without positive pairs, proxies that are too slow or
    too fast, samples that gather between the proxies of CCP, overflow of float16, and a learning
    rate that is too high. A finding is printed when two checks in a row see it, and once more only
    after it has gone.

    A check embeds up to 128 images of the last batch, up to 8 of a class, in training mode. It
    changes no weight, statistic or random number. It looks at the first output and its loss. With a
    `CrossBatchMemory` it looks at the pairs of the batch, and with a `SemiSupervisedLoss` at the
    images with a class and their loss. With several replicas, and with
    `steps_per_execution` above 1, it makes no checks.

    Args:
        every: steps between two checks; 0 makes none. Two further checks, at a quarter and at half
            of the first `every` steps, are for short trainings. They name no proxies that are too
            slow, and a collapse only of pair losses and to nearly one point.
        in_logs: add `mean_similarity` and `effective_rank` of the last check to the logs of each
            epoch, NaN before the first check.

    Attributes:
        measures: dict of the last check: `similarity`, `effective_rank`, `alignment` and
            `uniformity` of `embedding_spread`; `loss` and `collapsed_loss`, its value if all
            embeddings were equal; `active_share`, the share of samples with a gradient, and
            `gradient`, the norm of the gradient of the loss by the embeddings; `gradient_NAME`,
            by the weights of the embedder's layer NAME, and `gradient_losses`, by those of the
            loss; `embedder_update` and `losses_update`, the norm of a step's update over the norm
            of the weights; `embedder_growth`, the norm of the embedder's weights over that when
            `fit` began; `proxy_norm`, `own_proxy_similarity` and `proxy_turn` (mean angle since the
            last check) for losses with proxies of classes; `loss_scale` of a `LossScaleOptimizer`.
        findings: list of dict with `name`, `step` (from 1) and `text`.

    Example:
        >>> import keras, numpy as np
        >>> from gsp_tf.losses import ContrastiveLoss
        >>> from gsp_tf.training import MetricLearner
        >>> embedder = keras.Sequential([keras.Input((4,)), keras.layers.Dense(2)])
        >>> learner = MetricLearner(embedder, ContrastiveLoss())
        >>> learner.compile("adam")
        >>> health = HealthCheck(every=1)
        >>> x, labels = np.eye(4), np.zeros(4, int)
        >>> _ = learner.fit(x, labels, epochs=2, callbacks=[health], verbose=0)
        Step 2: every image of the batch has the same class, so there is nothing to tell apart.
        Shuffle the images, or draw batches with ClassBalancedSampler (data.classes_per_batch).
        >>> health.findings[0]["name"]
        'one_class'
    """

    def __init__(self, every: int = 200, in_logs: bool = False):
        super().__init__()
        check_at_least(0, every=every)
        self.every = every
        self.in_logs = in_logs
        self.measures: dict[str, float] = {}
        self.findings: list[dict[str, Any]] = []
        self._step = 0
        self._seen: dict[str, int] = {}
        self._proxies = None
        self._norm_at_start = 0.0
        self._kept = self._before = self._embedder = None

    def on_train_begin(self, logs: dict | None = None) -> None:
        if self.every and not hasattr(self.model, "named_losses"):
            raise ValueError(
                f"HealthCheck is for a MetricLearner, received a {type(self.model).__name__}."
            )
        loss = getattr(self.model, "embedding_loss", None)
        if self.every and getattr(loss, "relation", "equal") != "equal":
            raise ValueError(
                "HealthCheck counts the images of each class, received a loss with "
                f"relation={loss.relation!r}."
            )
        self._kept = keep_batches(self.model) if self.every else None
        if self._kept is not None:
            self._embedder = _Embedder(self.model)
            self._norm_at_start = _norm(_weights_of(self.model)["embedder"])

    def on_train_end(self, logs: dict | None = None) -> None:
        release_batches(self.model)
        self._kept = self._before = self._embedder = None

    def on_train_batch_begin(self, batch: int, logs: dict | None = None) -> None:
        step, early = self._step + 1, (self.every // 4, self.every // 2)
        if self._kept is not None and (step % self.every == 0 or step in early):
            _bring_back_variables(self.model)
            self._before = _weights_of(self.model)

    def on_train_batch_end(self, batch: int, logs: dict | None = None) -> None:
        self._step += 1
        if self._before is not None:
            _bring_back_variables(self.model)
            self._check()
            self._before = None

    def on_epoch_end(self, epoch: int, logs: dict | None = None) -> None:
        if self.in_logs and logs is not None:
            logs["mean_similarity"] = self.measures.get("similarity", math.nan)
            logs["effective_rank"] = self.measures.get("effective_rank", math.nan)

    def state(self) -> dict[str, Any]:
        """The state that a `Checkpoint` saves."""
        return {
            "step": self._step,
            "measures": self.measures,
            "findings": self.findings,
            "seen": self._seen,
            "proxies": self._proxies,
            "norm_at_start": self._norm_at_start,
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Restore a dict from `state`."""
        self._step, self.measures, self._seen = state["step"], state["measures"], state["seen"]
        self.findings, self._proxies = list(state["findings"]), state["proxies"]
        self._norm_at_start = state["norm_at_start"]

    def _check(self):
        images, labels, _ = self._kept.unpacked()
        labels = ops.convert_to_numpy(labels)
        if isinstance(self.model.embedding_loss, SemiSupervisedLoss):
            rows = np.flatnonzero(labels[:, 0] >= 0)
            images, labels = _taken(images, rows), labels[rows, 0]
        labels = labels.reshape(-1)
        self.measures = {**self._measured_updates(), **self._measured(images, labels)}
        scale = getattr(self.model.optimizer, "dynamic_scale", None)
        if scale is not None:
            self.measures["loss_scale"] = float(ops.convert_to_numpy(scale))
        loss = _loss_of_classes(self.model)
        since = min(self.every, self._step // 2)  # the steps since the check before
        is_early = self._step < self.every
        found = _findings(loss, labels, self.measures, since, is_early)
        self._seen = {name: self._seen.get(name, 0) + 1 for name in found}
        for name in (name for name, count in self._seen.items() if count == _CHECKS):
            self.findings.append({"name": name, "step": self._step, "text": found[name]})
            print(f"Step {self._step}: {found[name]}", flush=True)

    def _measured_updates(self):
        """The update of a step over the norm of the weights, by part, and the embedder's growth."""
        measures = {}
        for name, variables in _parts(self.model).items():
            before = self._before[name]
            norm = _norm(before)
            if norm:
                pairs = zip(variables, before, strict=True)
                change = (ops.convert_to_numpy(variable) - old for variable, old in pairs)
                measures[f"{name}_update"] = _norm(change) / norm
        if self._norm_at_start:
            norm = _norm(self._before["embedder"])
            measures["embedder_growth"] = norm / self._norm_at_start
        return measures

    def _measured(self, images, labels):
        """Measures of the embeddings of a part of the batch, empty if they are not finite."""
        rows = _rows_of_classes(labels)
        labels = labels[rows]
        images = _taken(images, rows)
        points = self._embedder.outputs(images)
        vectors = ops.convert_to_numpy(points).reshape(len(rows), -1)
        if not np.isfinite(vectors).all():
            return {}
        loss = _loss_of_classes(self.model)
        is_partial = isinstance(loss, PartialFC)  # all its classes may need too much memory
        has_weights = isinstance(loss, keras.layers.Layer) and not is_partial
        variables = loss.trainable_variables if has_weights else []

        def loss_of(points):
            x, *weights = points
            mapping = zip(variables, weights, strict=False)
            with keras.StatelessScope(mapping):  # a loss draws without a change of its seed
                return ops.cast(loss_value(loss, labels, x, training=is_partial), "float32")

        value, found = with_gradients(loss_of)([points, *copies(variables)])
        gradient, *of_loss = map(ops.convert_to_numpy, found)
        centre = ops.ones_like(points) * ops.mean(points, axis=0, keepdims=True)
        norms = np.linalg.norm(gradient.reshape(len(rows), -1), axis=1)
        measures = {
            **embedding_spread(vectors, labels),
            "loss": float(ops.convert_to_numpy(value)),
            "collapsed_loss": float(ops.convert_to_numpy(loss_of([centre]))),
            "active_share": float(np.mean(norms > 0)),
            "gradient": float(np.linalg.norm(norms)),
            **self._embedder.gradient_norms(images, gradient),
        }
        if of_loss:
            measures["gradient_losses"] = _norm(of_loss)
        if hasattr(loss, "proxies") and getattr(loss, "num_classes", None):
            measures |= self._measured_proxies(loss, vectors, labels)
        return measures

    def _measured_proxies(self, loss, vectors, labels):
        """Norm of the proxies, their similarity to samples of their class, and how they turned."""
        proxies = ops.convert_to_numpy(loss.proxies)
        proxies = proxies.reshape(loss.num_classes, -1, proxies.shape[1])
        unit, norms = _unit(proxies[:: max(1, loss.num_classes // _CLASSES)])
        own = np.einsum("bkd,bd->bk", _unit(proxies[labels])[0], _unit(vectors)[0]).max(axis=1)
        measures = {"proxy_norm": float(norms.mean()), "own_proxy_similarity": float(own.mean())}
        if self._proxies is not None and self._proxies.shape == unit.shape:
            cosines = np.clip(np.sum(self._proxies * unit, axis=-1), -1.0, 1.0)
            measures["proxy_turn"] = float(np.arccos(cosines).mean())
        self._proxies = unit
        return measures


def _loss_of_classes(model):
    """The loss of the first output, or of the images of it that have a class."""
    loss = model.embedding_loss
    return loss.loss if isinstance(loss, SemiSupervisedLoss) else loss


def _taken(images, rows):
    """Rows of images, or of each part of them."""
    rows = np.asarray(rows, "int32")
    return tree.map_structure(lambda x: ops.take(ops.convert_to_tensor(x), rows, axis=0), images)


def _rows_of_classes(labels):
    """Sorted indices of up to 128 rows, up to 8 of each class, whole classes first."""
    order = np.argsort(labels, kind="stable")
    _, starts, counts = np.unique(labels[order], return_index=True, return_counts=True)
    rank = np.arange(len(labels)) - np.repeat(starts, counts)
    return np.sort(order[rank < _ROWS_OF_CLASS][:_ROWS]).astype("int32")


class _Embedder:
    """Outputs of a learner's embedder in training mode, and gradients; its variables stay."""

    def __init__(self, learner):
        self._model, self._chunk_size = learner.embedder, learner.chunk_size or _ROWS

        def forward(weights, state, images, training=True):
            outputs, _ = self._model.stateless_call(weights, state, images, training=training)
            return ops.cast(embeddings_of(self._model, outputs), "float32")

        # JAX would compile each operation by itself.
        self._forward = compiled(forward) if keras.backend.backend() == "jax" else forward
        self._with_gradients = with_gradients(forward)

    def outputs(self, images):
        """The first output `(B, ...)`, without a gradient."""
        return ops.stop_gradient(self._forward(*self._values(), images, True))

    def gradient_norms(self, images, upstream):
        """Norms of the gradient by the weights of each layer, by the names of measures."""
        weights, state = self._values()
        if not weights:
            return {}
        totals = [0.0] * len(weights)
        for start in range(0, len(upstream), self._chunk_size):
            rows = np.arange(len(upstream))[start : start + self._chunk_size]
            chunk = ops.convert_to_tensor(upstream[rows])
            images_of_chunk = _taken(images, rows)
            _, found = self._with_gradients(weights, state, images_of_chunk, upstream=chunk)
            totals = [x + ops.convert_to_numpy(y) for x, y in zip(totals, found, strict=True)]
        layers = {
            id(variable): layer.name
            for layer in self._model.layers
            for variable in layer.trainable_variables
        }
        parts = {}
        for variable, total in zip(self._model.trainable_variables, totals, strict=True):
            parts.setdefault(layers.get(id(variable), "other"), []).append(total)
        return {f"gradient_{name}": _norm(part) for name, part in parts.items()}

    def _values(self):
        """Copies of the trainable weights and of the other variables."""
        model = self._model
        return copies(model.trainable_variables), copies(model.non_trainable_variables)


def _bring_back_variables(model):
    """On JAX, variables leave the model for the length of an epoch."""
    if keras.backend.backend() == "jax":
        model.jax_state_sync()


def _parts(model):
    """Trainable variables of the embedder and of the losses."""
    ids = {id(variable) for variable in model.embedder.trainable_variables}
    others = [variable for variable in model.trainable_variables if id(variable) not in ids]
    return {"embedder": model.embedder.trainable_variables, "losses": others}


def _weights_of(model):
    """Copies of the trainable weights, by part."""
    return {
        name: [ops.convert_to_numpy(variable).copy() for variable in variables]
        for name, variables in _parts(model).items()
    }


def _unit(vectors):
    """Vectors of length 1 in float64, and the lengths that they had."""
    vectors = vectors.astype("float64")
    norms = np.linalg.norm(vectors, axis=-1, keepdims=True)
    return vectors / np.maximum(norms, 1e-12), norms


def _norm(arrays):
    return math.sqrt(sum(float(np.vdot(x, x)) for x in arrays))
