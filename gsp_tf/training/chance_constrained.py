"""CCP: training by alternating proxy problems (Gürbüz, thesis, METU 2022, chapter 3)."""

from collections.abc import Callable, Sequence
from typing import Any

import keras
import numpy as np
from keras import ops

from gsp_tf._arguments import check_at_least, check_sizes, checked_seed
from gsp_tf._console import listed
from gsp_tf._keras import is_of_lora
from gsp_tf._typing import Tensor
from gsp_tf.evaluation import checked_labels
from gsp_tf.losses import ProxyPairsLoss, is_pair_loss
from gsp_tf.ops import greedy_k_center, l2_normalize, pairwise_distances
from gsp_tf.training.distribute import (
    broadcast_from_chief,
    divide_by_replicas,
    scope_of,
    strategy_of,
)
from gsp_tf.training.embedding import Batches, embed, inference
from gsp_tf.training.metric_learner import MetricLearner
from gsp_tf.training.optimizers import averaged_weights, restart_averages


class ProxyPool:
    """Draws some images of every class and embeds them.

    Images are loaded and embedded as a stream, so memory holds only the embeddings of the pool.

    Args:
        labels: integers `(N,)`, the class of every image, 0 to C - 1, each at least once.
        load: function from image indices, an integer array `(n,)`, to batches
            `(images, labels)` of exactly these images, in this order.
        seed: seed of the draws.

    Example:
        >>> import tensorflow as tf
        >>> points, labels = np.eye(4, dtype="float32"), np.array([0, 0, 1, 1])
        >>> def load(indices):
        ...     return tf.data.Dataset.from_tensor_slices((points[indices], indices)).batch(2)
        >>> pool, indices = ProxyPool(labels, load).draw(lambda x: x, images_per_class=2)
        >>> pool.shape, np.sort(indices).tolist()
        ((2, 2, 4), [[0, 1], [2, 3]])
    """

    def __init__(
        self,
        labels: Sequence[int] | np.ndarray,
        load: Callable[[np.ndarray], Batches],
        seed: int = 0,
    ):
        labels = checked_labels(labels, np.size(labels), "labels")
        classes, counts = np.unique(labels, return_counts=True)
        self.num_classes = len(classes)
        if not self.num_classes or not np.array_equal(classes, np.arange(self.num_classes)):
            raise ValueError(
                "labels must be 0 to C - 1, each at least once; received "
                f"{self.num_classes} classes, {listed(classes.tolist(), 9)}."
            )
        self._members = np.split(np.argsort(labels, kind="stable"), np.cumsum(counts)[:-1])
        self._load = load
        self._rng = np.random.default_rng(checked_seed(seed))

    def draw(
        self, forward: Callable[[Tensor], Tensor], images_per_class: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """Draws and embeds b images of every class.

        A class with fewer than b images repeats some of them.

        Args:
            forward: function from images to embeddings, such as `inference(embedder)`.
            images_per_class: b.

        Returns:
            Embeddings, a float32 array `(C, b, D)`, and image indices `(C, b)`.
        """
        indices = np.stack([self._draw(members, images_per_class) for members in self._members])
        embeddings, _ = embed(forward, self._load(indices.reshape(-1)))
        return embeddings.reshape(*indices.shape, -1), indices

    def state(self) -> dict:
        """The state of the random generator, a dict of JSON values."""
        return self._rng.bit_generator.state

    def restore(self, state: dict):
        """Restore a dict from `state`."""
        self._rng.bit_generator.state = state

    def _draw(self, members, count):
        rounds = -(-count // len(members))
        return np.concatenate([self._rng.permutation(members) for _ in range(rounds)])[:count]


@keras.saving.register_keras_serializable("gsp_tf")
class ProjectionLearner(MetricLearner):
    """A `MetricLearner` that keeps its embedder's weights near a fixed point.

    The total loss is that of `MetricLearner` plus `(λ/2) ||θ - θ*||²` over the trainable weights θ
    of the embedder; weights of the losses are left out. This is the projection of eq. 3.2.9 with a
    loss instead of its constraint (Gürbüz, thesis 2022, eq. 3.2.10 with samples, eq. 3.2.11 with
    proxies). The gradient of the added term is λ(θ - θ*); Algorithm 1 prints it with the opposite
    sign. The arguments are those of `MetricLearner`.

    Attributes:
        projection_weight: λ, a non-trainable weight; 0 before `project_from_here`.
        anchors: θ*, non-trainable weights.

    Example:
        >>> import keras, numpy as np
        >>> from gsp_tf.losses import ContrastiveLoss
        >>> embedder = keras.Sequential([keras.Input((4,)), keras.layers.Dense(2)])
        >>> learner = ProjectionLearner(embedder, ContrastiveLoss())
        >>> learner.project_from_here(projection_weight=0.1)
        >>> learner.distance_moved()
        0.0
    """

    def build(self, input_shape):
        super().build(input_shape)
        self.projection_weight = self.add_weight(
            name="projection_weight", shape=(), initializer="zeros", trainable=False
        )
        self.anchors = [
            self.add_weight(
                name=f"anchor_{i}",
                shape=variable.shape,
                dtype=variable.dtype,
                initializer="zeros",
                trainable=False,
            )
            for i, variable in enumerate(self.embedder.trainable_variables)
        ]

    def save_own_variables(self, store):
        # A saved embedder has no low-rank matrices, so that θ* would be of weights it lacks.
        if not any(is_of_lora(variable) for variable in self.embedder.trainable_variables):
            super().save_own_variables(store)

    def load_own_variables(self, store):
        if store.keys():
            super().load_own_variables(store)

    def project_from_here(self, projection_weight: float):
        """Set θ* to the embedder's current weights and λ to `projection_weight`."""
        for anchor, variable in zip(self.anchors, self.embedder.trainable_variables, strict=True):
            anchor.assign(ops.copy(variable))  # JAX trains in the memory of the variable
        self.projection_weight.assign(projection_weight)

    def distance_moved(self) -> float:
        """The distance ||θ - θ*||."""
        return float(np.sqrt(ops.convert_to_numpy(self._square_distance())))

    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
        total = super().compute_loss(x, y, y_pred, sample_weight, training)
        projection = 0.5 * self.projection_weight * self._square_distance()
        return total + ops.cast(divide_by_replicas(projection), total.dtype)

    def _square_distance(self):
        return sum(
            ops.sum(ops.square(ops.convert_to_tensor(variable) - anchor))
            for anchor, variable in zip(
                self.anchors, self.embedder.trainable_variables, strict=True
            )
        )


class ChanceConstrainedTrainer:
    """Trains an embedder by a series of proxy problems, each a projection of the last solution.

    Thesis, Algorithm 1. At first, θ* are the initial weights and ρ* are the embeddings of k random
    images per class. Each problem draws a pool of b images per class, embeds it with θ* and chooses
    k proxies per class by greedy k-center against ρ* (Algorithm 2). It then trains θ and the
    proxies until validation MAP@R has not risen for `patience` evaluations. The loss is a pair loss
    between samples and proxies plus `(λ/2) ||θ - θ*||²` (eq. 3.2.11). The best θ and proxies become
    θ* and ρ*. Training ends when a problem does not improve the result.

    Args:
        learner: compiled `MetricLearner` with a pair loss. Its embedder is trained in place, in a
            new learner and with copies of its optimizer.
        proxies_per_class: k.
        pool_size: b, images per class to choose from; at least k are drawn, and with b <= k the
            choice is random.
        projection_weight: λ, the same in every problem.
        patience: evaluations without a better MAP@R after which a problem ends.
        batch_weight: weight of the same loss within the batch, as in the authors' code; 0 gives the
            thesis' equation.
        max_projections: largest number of problems; 1 chooses proxies only once, `None` sets no
            limit.
        monitor: metric to follow in the logs; larger is better.

    Attributes:
        learner: the `ProjectionLearner` that trains; set when `fit` begins. Its loss holds the
            proxies.
        projections: list of dict, one per problem: `steps`; the best value of the monitored metric
            under its name without `val_`, such as `map_at_r`; `covering_radius_before` and
            `covering_radius_after`, the distance of the pool's farthest image from ρ* and from the
            new proxies, averaged over classes; `distance_moved` (||θ - θ*||).

    Example:
        >>> import numpy as np, tensorflow as tf
        >>> from gsp_tf.losses import ContrastiveLoss
        >>> from gsp_tf.training import MetricLearner, ProxyPool, RetrievalEvaluation
        >>> points = np.random.default_rng(0).normal(size=(16, 4)).astype("float32")
        >>> labels = np.arange(16) % 4
        >>> def load(indices):
        ...     chosen = points[indices], labels[indices]
        ...     return tf.data.Dataset.from_tensor_slices(chosen).batch(8)
        >>> embedder = keras.Sequential([keras.Input((4,)), keras.layers.Dense(2)])
        >>> learner = MetricLearner(embedder, ContrastiveLoss())
        >>> learner.compile("adam")
        >>> trainer = ChanceConstrainedTrainer(learner, proxies_per_class=2, pool_size=3)
        >>> data = load(np.arange(16))
        >>> history = trainer.fit(
        ...     data.repeat(), ProxyPool(labels, load), [RetrievalEvaluation(data)],
        ...     steps_per_epoch=2, epochs=3, verbose=0,
        ... )
        >>> trainer.projections[0]["steps"]
        6
    """

    def __init__(
        self,
        learner: MetricLearner,
        proxies_per_class: int = 8,
        pool_size: int = 12,
        projection_weight: float = 2e-4,
        patience: int = 3,
        batch_weight: float = 0.1,
        max_projections: int | None = None,
        monitor: str = "val_map_at_r",
    ):
        if not is_pair_loss(learner.embedding_loss):
            raise ValueError(
                "ChanceConstrainedTrainer takes a MetricLearner with a pair loss such as "
                f"ContrastiveLoss(), received {learner.embedding_loss!r}."
            )
        if not learner.compiled:
            raise ValueError("ChanceConstrainedTrainer takes a MetricLearner that is compiled.")
        check_sizes(proxies_per_class=proxies_per_class, pool_size=pool_size, patience=patience)
        if max_projections is not None:
            check_sizes(max_projections=max_projections)
        check_at_least(0, projection_weight=projection_weight)
        self._given = learner
        self.proxies_per_class = proxies_per_class
        self.pool_size = max(pool_size, proxies_per_class)
        self.projection_weight = projection_weight
        self.patience = patience
        self.batch_weight = batch_weight
        self.max_projections = max_projections
        self.monitor = monitor
        self.learner = None
        self.projections = []
        self._alternation = None

    def fit(
        self,
        batches: Batches,
        pool: ProxyPool,
        callbacks: Sequence[keras.callbacks.Callback] = (),
        **kwargs: Any,
    ) -> keras.callbacks.History:
        """Train the embedder and leave it with its best weights.

        Args:
            batches: endless batches of `(images, labels)`.
            pool: pool of the training images.
            callbacks: Keras callbacks; one must be a `RetrievalEvaluation` of the validation
                images. They run before a problem ends. The logs contain the number of the
                `projection`, from 1.
            kwargs: further arguments of `keras.Model.fit`: `steps_per_epoch` (steps between
                evaluations), `epochs` (largest number of evaluations over all problems),
                `initial_epoch`, `verbose`.

        Returns:
            `keras.callbacks.History` of all epochs.
        """
        with scope_of(self._given):
            self.learner = self._projection_learner(pool.num_classes)
        self.projections = []
        count = keras.callbacks.LambdaCallback(
            on_epoch_end=lambda epoch, logs: logs.update(projection=len(self.projections) + 1)
        )
        self._alternation = _Alternation(self, pool)
        callbacks = [count, *callbacks, self._alternation]
        return self.learner.fit(batches, callbacks=callbacks, **{"shuffle": False, **kwargs})

    def state(self) -> dict:
        """The JSON values and NumPy arrays that a `Checkpoint` saves between epochs of `fit`."""
        return {"projections": self.projections, **self._alternation.state()}

    def restore(self, state: dict):
        """Restore a dict from `state`; call it after `fit` has begun."""
        self.projections = list(state["projections"])
        self._alternation.restore(state)

    def _projection_learner(self, num_classes):
        given = self._given
        first = next(iter(given.named_losses))
        with_proxies = ProxyPairsLoss(
            given.embedding_loss, num_classes, self.proxies_per_class, self.batch_weight
        )
        learner = ProjectionLearner(
            given.embedder,
            {**given.named_losses, first: with_proxies},
            loss_weights=given.loss_weights,
            chunk_size=given.chunk_size,
        )
        learner.compile(
            _copied(given.optimizer),
            jit_compile=given.jit_compile,
            run_eagerly=given.run_eagerly,
            steps_per_execution=given.steps_per_execution,
            auto_scale_loss=isinstance(given.optimizer, keras.optimizers.LossScaleOptimizer),
        )
        learner.optimizer.build(learner.trainable_variables)
        return learner


def _copied(optimizer):
    """A copy of an optimizer, with what its config lacks: exclusions, and a rate that is called."""
    config, rate = optimizer.get_config(), getattr(optimizer, "_learning_rate", None)
    if callable(rate):
        config["learning_rate"] = rate
    copy = type(optimizer).from_config(config)
    for name, value in vars(optimizer).items():
        if name.startswith("_exclude_from_weight_decay"):
            setattr(copy, name, value)
    return copy


class _Alternation(keras.callbacks.Callback):
    """Ends a problem that no longer improves and begins the next."""

    saved = ("steps", "waited", "value", "best_value", "solution", "best_solution", "radii")

    def __init__(self, trainer, pool):
        super().__init__()
        self.trainer = trainer
        self.pool = pool
        self.steps = 0
        self.waited = 0
        self.value = float("-inf")
        self.best_value = float("-inf")
        self.solution = self.best_solution = None
        self.radii = {}

    def state(self):
        return {"pool": self.pool.state(), **{name: getattr(self, name) for name in self.saved}}

    def restore(self, state):
        self.pool.restore(state["pool"])
        for name in self.saved:
            setattr(self, name, state[name])

    def on_train_begin(self, logs=None):
        self.forward = inference(self.model.embedder)
        k = self.trainer.proxies_per_class
        samples, _ = self.pool.draw(self.forward, k)
        self._project_from(samples.reshape(-1, samples.shape[-1]))

    def on_epoch_begin(self, epoch, logs=None):
        self.steps_before = self.steps

    def on_train_batch_end(self, batch, logs=None):
        # Keras calls this once for the steps of an execution, with the number of the last.
        self.steps = self.steps_before + batch + 1

    def on_epoch_end(self, epoch, logs=None):
        monitor = self.trainer.monitor
        if monitor not in logs:
            raise ValueError(
                f"ChanceConstrainedTrainer follows {monitor!r}, which is not among the logs "
                f"{sorted(logs)}. Put RetrievalEvaluation among the callbacks."
            )
        if logs[monitor] > self.value:
            self.value = logs[monitor]
            with averaged_weights(self.model):
                self.solution = self._weights()
            self.waited = 0
        else:
            self.waited += 1
        if self.waited >= self.trainer.patience and not self.model.stop_training:
            improved = self._end_problem()
            if improved and len(self.trainer.projections) != self.trainer.max_projections:
                self._begin_problem()
            else:
                self.model.stop_training = True

    def on_train_end(self, logs=None):
        if self.steps:
            self._end_problem()
        self._go_to(self.best_solution)

    def _end_problem(self):
        """Restore and record the problem's best weights; true if they are the best of all."""
        if self.solution is None:
            return False
        self._go_to(self.solution)
        self.trainer.projections.append(
            {
                "steps": self.steps,
                self.trainer.monitor.removeprefix("val_"): float(self.value),
                **self.radii,
                "distance_moved": self.model.distance_moved(),
            }
        )
        self.steps = 0
        improved = self.value > self.best_value
        if improved:
            self.best_value, self.best_solution = self.value, self.solution
        return improved

    def _begin_problem(self):
        self.waited, self.value, self.solution = 0, float("-inf"), None
        self._project_from(ops.convert_to_numpy(self.model.embedding_loss.proxies))

    def _project_from(self, previous):
        """Set θ* to the weights and choose proxies in a new pool by greedy k-center against ρ*."""
        self.model.project_from_here(self.trainer.projection_weight)
        k = self.trainer.proxies_per_class
        candidates, _ = self.pool.draw(self.forward, self.trainer.pool_size)
        num_classes, _, dim = candidates.shape
        if self.model.embedding_loss.loss.normalize:
            normalized = map(l2_normalize, (candidates, previous))
            candidates, previous = map(ops.convert_to_numpy, normalized)
        centers = previous.reshape(num_classes, k, dim)
        chosen = ops.convert_to_numpy(greedy_k_center(candidates, centers, k))
        proxies = np.take_along_axis(candidates, chosen[:, :, None], axis=1)
        proxies = broadcast_from_chief(strategy_of(self.model), proxies)
        self.model.embedding_loss.proxies.assign(proxies.reshape(-1, dim))
        restart_averages(self.model)
        self.radii = {
            "covering_radius_before": _radius(candidates, centers),
            "covering_radius_after": _radius(candidates, proxies),
        }

    def _weights(self):
        proxies = ops.convert_to_numpy(self.model.embedding_loss.proxies)
        return [*self.model.embedder.get_weights(), proxies]

    def _go_to(self, weights):
        if weights is not None:
            self.model.embedder.set_weights(weights[:-1])
            self.model.embedding_loss.proxies.assign(weights[-1])
            restart_averages(self.model)


def _radius(points, centers):
    """Distance of the farthest point from its nearest centre, averaged over classes."""
    distances = ops.convert_to_numpy(pairwise_distances(points, centers))
    return float(distances.min(axis=-1).max(axis=-1).mean())
