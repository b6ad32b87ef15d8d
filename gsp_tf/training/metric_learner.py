"""An embedder and its losses as one Keras model."""

import warnings
from collections import UserDict
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import keras
import numpy as np
from keras import ops, tree

from gsp_tf._arguments import check_share, check_sizes, integers
from gsp_tf._backend import available
from gsp_tf._console import counted, listed
from gsp_tf._keras import first_output, serialized_optimizer
from gsp_tf._typing import Tensor
from gsp_tf.losses import seeds_of
from gsp_tf.training._chunks import check_chunks, embed_in_chunks
from gsp_tf.training.distribute import DistributedModel, all_gather, divide_by_replicas

_Loss: TypeAlias = Callable[[Tensor, Tensor], Tensor]
"""A function or `keras.losses.Loss` of labels and outputs, or a loss layer."""
_FIXED = (
    "attribute_loss",
    "attribute_weight",
    "chunk_size",
    "embedder",
    "loss_weights",
    "named_losses",
)
"""The attributes of a learner that a training step is traced with."""


@keras.saving.register_keras_serializable("gsp_tf")
class MetricLearner(DistributedModel, keras.Model):
    """Trains an embedder on `(image, label)` batches with any loss of the library, in `fit`.

    The total loss is a weighted sum of one loss per output of the embedder and the regularisers of
    its layers:
    `Σ_name weight_name loss_name(labels, output_name) + weight_regularizers (regularisers)`.
    For a single loss, the sum over names is `loss(labels, embeddings)`. With an attribute loss it
    is `(1 - λ) loss(labels, embeddings) + λ attribute_loss(labels, attributes)` (GSP paper, section
    4.3; thesis, eq. 5.2.5).

    The weights of the losses (proxies, class embeddings) train, save and load with the learner.
    `call` returns the outputs of the embedder; inference uses the first. The logs contain each loss
    as `name_loss`. In the scope of a `tf.distribute` strategy, the losses see the batches of all
    replicas.

    Args:
        embedder: model from images, or several inputs, to embeddings `(B, D)`, or to a list or dict
            of outputs `(B, ...)` with the embeddings first.
        loss: `loss(labels, embeddings) -> scalar`, a `keras.losses.Loss` or a loss layer. Or a dict
            of losses by name, one per output of the embedder, `None` for an output without a loss.
            Names are the keys of the outputs if these are a dict; otherwise losses and outputs have
            the same order.
        attribute_loss: loss of the labels and the second output, such as `ZeroShotLoss`. It is
            named "attribute", and `loss` is then named "embedding".
        attribute_weight: λ in [0, 1]: weight of `attribute_loss`; `loss` has the weight 1 - λ.
        loss_weights: weights of losses by name, 1 for those left out. "regularizers" is the weight
            of the losses that layers add themselves, such as diversity and consistency of
            `CodedResidualBranches`.
        chunk_size: largest number of images that a training step embeds at a time, `None` for the
            whole batch. The losses still see the whole batch, and the gradient is that of the whole
            batch. A step needs the activations of one chunk, and a second forward pass ("Scaling
            Deep Contrastive Learning Batch Size under Memory Limited Setup", Gao et al. 2021).
            Batch normalisation that trains normalises each chunk by its own statistics.

    Attributes:
        named_losses: dict from names to losses.
        loss_weights: mapping from these names and "regularizers" to weights. `Schedule` changes
            them while training; nothing else does.

    Raises:
        ValueError: if losses do not match the outputs of the embedder, or if `compile` or `fit`
            receives another loss or sample weights.

    Example:
        >>> import keras, numpy as np
        >>> from gsp_tf.losses import ContrastiveLoss
        >>> embedder = keras.Sequential([keras.Input((4,)), keras.layers.Dense(2)])
        >>> learner = MetricLearner(embedder, ContrastiveLoss())
        >>> learner.compile(optimizer="adam")
        >>> history = learner.fit(np.ones((8, 4)), np.arange(8) % 2, verbose=0)
        >>> sorted(history.history)
        ['embedding_loss', 'loss']
    """

    def __init__(
        self,
        embedder: keras.Model,
        loss: _Loss | Mapping[str, _Loss | None],
        attribute_loss: _Loss | None = None,
        attribute_weight: float = 0.1,
        loss_weights: Mapping[str, float] | None = None,
        chunk_size: int | None = None,
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        if chunk_size is not None:
            check_sizes(chunk_size=chunk_size)
        check_share(attribute_weight=attribute_weight)
        losses, weights = loss, {}
        if not isinstance(loss, dict):
            losses = {"embedding": loss, "attribute": attribute_loss}
            if attribute_loss is not None:
                weights = {"embedding": 1.0 - attribute_weight, "attribute": attribute_weight}
        elif attribute_loss is not None:
            raise ValueError("attribute_loss is for a single loss; name it in the dict of losses.")
        elif {*loss} <= {*_declared(embedder)}:
            losses = {name: loss[name] for name in _declared(embedder) if name in loss}
        self.embedder = embedder
        self.chunk_size = chunk_size
        if chunk_size is not None:
            self.autocast = False  # the gradients of all chunks add up in the type of the weights
        self._has_told_of_chunks = False
        self.named_losses = _checked_losses(losses)
        self.loss_weights = _LossWeights(
            _checked_weights(losses, {**weights, **(loss_weights or {})})
        )
        used = {name: loss for name, loss in losses.items() if loss is not None}
        self.seed_generators = seeds_of(used.values())
        for name in used:
            setattr(self, f"{name}_loss_tracker", keras.metrics.Mean(name=f"{name}_loss"))
        if embedder.built and getattr(embedder, "inputs", None):
            self.build(embedder.input_shape)

    def __setattr__(self, name, value):
        if name in _FIXED and hasattr(self, "loss_weights"):
            raise ValueError(
                f"{name} of MetricLearner is fixed when it is made; received {value!r}. Make a new "
                "MetricLearner, or change numbers of its losses while training with "
                "gsp_tf.training.Schedule."
            )
        super().__setattr__(name, value)

    @property
    def embedding_loss(self) -> _Loss:
        """The loss of the first output, the embeddings."""
        return next(iter(self.named_losses.values()))

    @property
    def attribute_loss(self) -> _Loss | None:
        """The loss named "attribute", or `None`."""
        return self.named_losses.get("attribute")

    def build(self, input_shape):
        outputs = getattr(self.embedder, "outputs", None)
        if not outputs:
            inputs = tree.map_shape_structure(
                lambda shape: keras.Input(batch_shape=shape), input_shape
            )
            outputs = self.embedder(inputs)
        elif not isinstance(self.embedder, keras.Sequential):
            outputs = self.embedder.output  # a dict stays a dict
        for loss, features in self._losses_of(outputs).values():
            if isinstance(loss, keras.layers.Layer) and not loss.built:
                loss.build((features.shape[0],), tuple(features.shape))

    def call(self, images, training=None):
        is_symbolic = isinstance(tree.flatten(images)[0], keras.KerasTensor)
        if not training or self.chunk_size is None or is_symbolic:
            return self.embedder(images, training=training)
        self._tell_of_chunks()
        outputs, losses = embed_in_chunks(self.embedder, images, self.chunk_size)
        for loss in losses:
            self.add_loss(loss)
        return outputs

    def _tell_of_chunks(self):
        """Refuses an embedder that cannot embed in chunks, and names once what they change."""
        if self._has_told_of_chunks:
            return
        self._has_told_of_chunks = True
        names = check_chunks(self.embedder)
        if names:
            warnings.warn(
                f"Batch normalisation uses the statistics of {self.chunk_size} images, those of a "
                f"chunk, in {counted(len(names), 'layer')} ({listed(names, 3)}). Freeze it "
                "(backbone.freeze_batch_normalization of a recipe) for the gradient of the batch.",
                stacklevel=2,
            )

    def compile(
        self,
        optimizer: keras.optimizers.Optimizer | str = "adam",
        loss: None = None,
        **kwargs: Any,
    ) -> None:
        """Like `keras.Model.compile`, but without a loss: the learner already has one.

        Args:
            optimizer: optimizer or its name.
            loss: must be `None`.
            kwargs: further arguments of `keras.Model.compile`, such as `jit_compile`. Weights of
                losses are arguments of the learner, and `RetrievalEvaluation` is its metric.
        """
        if loss is not None:
            raise ValueError(
                f"MetricLearner was made with its loss; compile takes none, received {loss!r}."
            )
        if kwargs.get("loss_weights") is not None:
            raise ValueError(
                "MetricLearner was made with the weights of its losses; compile takes none, "
                f"received loss_weights={kwargs['loss_weights']!r}. Give MetricLearner(..., "
                f"loss_weights={{name: weight}}) of {', '.join(self.loss_weights)}."
            )
        for name in ("metrics", "weighted_metrics"):
            if kwargs.get(name):
                raise ValueError(
                    "Metrics of Keras compare one prediction with one label, and embeddings are "
                    f"compared with each other: MetricLearner.compile takes no {name}, received "
                    f"{kwargs[name]!r}. Give fit the callback RetrievalEvaluation."
                )
        super().compile(optimizer=optimizer, loss=None, **kwargs)

    # JAX makes int32 of int64 before a step sees it, so labels are looked at before that.

    def make_train_function(self, force=False):
        super().make_train_function(force)
        self.train_function = _checking_labels(self, self.train_function, _STATE)

    def make_test_function(self, force=False):
        super().make_test_function(force)
        of_test = [name for name in _STATE if name != "optimizer_variables"]
        self.test_function = _checking_labels(self, self.test_function, of_test)

    def train_on_batch(self, x, y=None, *arguments, **options):
        _check_host_labels(y)
        return super().train_on_batch(x, y, *arguments, **options)

    def test_on_batch(self, x, y=None, *arguments, **options):
        _check_host_labels(y)
        return super().test_on_batch(x, y, *arguments, **options)

    def get_compile_config(self):
        """The config of `keras.Model`, with the learner's current optimizer."""
        config = super().get_compile_config()
        if config:
            config["optimizer"] = serialized_optimizer(self.optimizer)
        return config

    def compile_from_config(self, config):
        """Compile like the saved learner; Keras skips this for a model that overrides `compile`."""
        if keras.backend.backend() != "tensorflow":
            config = {**config, "jit_compile": "auto"}  # it was chosen for another backend
        self.compile(**keras.saving.deserialize_keras_object(config))
        if self.built:
            self.optimizer.build(self.trainable_variables)

    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
        if sample_weight is not None:
            raise ValueError(
                "MetricLearner takes no sample_weight, which fit makes of class_weight too: its "
                "losses compare samples. A loss with reduction=Reduction(name, class_weights) "
                "weighs the classes of its anchors."
            )
        if y is None:
            raise ValueError("MetricLearner needs labels: give fit (image, label) batches.")
        y = all_gather(y)
        total = 0.0
        for name, (loss, output) in self._losses_of(y_pred).items():
            output = all_gather(output)
            value = loss_value(loss, y, output, training)
            tracker = getattr(self, f"{name}_loss_tracker")
            tracker.update_state(value, sample_weight=ops.shape(output)[0])
            total = total + ops.cast(self.loss_weights[name], value.dtype) * value
        for regularizer in self.losses:
            weight = ops.cast(self.loss_weights["regularizers"], total.dtype)
            total = total + weight * ops.cast(ops.sum(regularizer), total.dtype)
        return divide_by_replicas(total)

    def _losses_of(self, outputs):
        """Pairs of a loss and an output of the embedder, by name."""
        if not isinstance(outputs, dict):
            outputs = outputs if isinstance(outputs, (tuple, list)) else [outputs]
            names = [*self.named_losses, *range(len(self.named_losses), len(outputs))]
            outputs = dict(zip(names, outputs, strict=False))
        used = {name: loss for name, loss in self.named_losses.items() if loss is not None}
        if not set(used) <= set(outputs) <= set(self.named_losses):
            raise ValueError(
                "The losses must be one for each output of the embedder, None for an output "
                f"without one; received losses of {', '.join(used)} for {len(outputs)} outputs "
                f"({', '.join(map(str, outputs))}). Attributes of generalized sum pooling need "
                "return_attributes=True."
            )
        return {name: (loss, outputs[name]) for name, loss in used.items()}

    def get_config(self):
        serialize = keras.saving.serialize_keras_object
        return {
            **super().get_config(),
            "embedder": serialize(self.embedder),
            "loss": {name: serialize(loss) for name, loss in self.named_losses.items()},
            "loss_weights": {
                name: float(ops.convert_to_numpy(x)) for name, x in self.loss_weights.items()
            },
            "chunk_size": self.chunk_size,
        }

    @classmethod
    def from_config(cls, config, custom_objects=None):
        config = dict(config)
        for key in ("embedder", "loss", "attribute_loss"):
            if key in config:
                config[key] = keras.saving.deserialize_keras_object(
                    config[key], custom_objects=custom_objects
                )
        return cls(**config)


def _checked_losses(losses):
    """The losses by name; raises if a name cannot be used in logs, or a loss in training."""
    for name in losses:
        if not isinstance(name, str) or not name or name == "regularizers":
            raise ValueError(
                "The losses must have names, and not the reserved name regularizers, "
                f"received {name!r}."
            )
    if next(iter(losses.values()), None) is None:
        raise ValueError(f"The first output, the embeddings, needs a loss, received {losses}.")
    for name, loss in losses.items():
        if isinstance(loss, type) or not (loss is None or callable(loss)):
            raise ValueError(
                f"The loss {name!r} must be a loss such as ContrastiveLoss(), received {loss!r}."
            )
        reduction = getattr(loss, "reduction", None)
        if getattr(reduction, "name", reduction) == "none":
            raise ValueError(f"The loss {name!r} must give one number, received reduction='none'.")
    return losses


class _LossWeights(UserDict):
    """The weights of a learner's losses by name, which only a `Schedule` changes."""

    def __init__(self, weights: Mapping[str, Any]) -> None:
        self.data = dict(weights)

    def __setitem__(self, name: str, value: Any) -> None:
        raise ValueError(
            "A training step keeps the weights of the losses that it was traced with: change them "
            f'with gsp_tf.training.Schedule({{"loss_weights.{name}": ...}}); received {value!r}.'
        )

    def __delitem__(self, name: str) -> None:
        self[name] = 0.0


def _checked_weights(losses, weights):
    """The weight of every loss and of the regularisers."""
    complete = {**dict.fromkeys(losses, 1.0), "regularizers": 1.0}
    unknown = [name for name in weights if name not in complete]
    if unknown:
        raise ValueError(
            f"loss_weights must be of {', '.join(complete)}, received one of {unknown[0]!r}."
        )
    for name, weight in weights.items():
        if not 0 <= weight < float("inf"):
            raise ValueError(
                f"loss_weights must be finite and not negative, received {name}={weight}."
            )
    return {**complete, **weights}


def embeddings_of(embedder: keras.Model, outputs: Tensor | list | tuple | dict) -> Tensor:
    """The embeddings among the outputs of an embedder or a learner, by name if they are a dict."""
    names = _declared(getattr(embedder, "embedder", embedder))
    if isinstance(outputs, dict) and names:
        return outputs[names[0]]
    return first_output(outputs)


def _declared(embedder):
    """The names of an embedder's outputs in their order, if they are a dict."""
    # A Keras model of dicts sorts their names on PyTorch; its symbolic outputs keep the order.
    declared = getattr(embedder, "output", None)
    return [*declared] if isinstance(declared, dict) else []


def loss_value(loss: _Loss, labels: Tensor, inputs: Tensor, training: bool) -> Tensor:
    """Value of a loss of a `MetricLearner`; a loss layer also receives `training`."""
    if isinstance(loss, keras.layers.Layer):
        return loss(labels, inputs, training=training)
    return loss(labels, inputs)


_STATE = (
    "trainable_variables",
    "non_trainable_variables",
    "optimizer_variables",
    "metrics_variables",
)


def _checking_labels(learner, function, names):
    """A train or test function of Keras that looks at its labels first, where JAX needs it."""
    if available("int64") == "int64" or hasattr(function, "checks_labels"):
        return function

    def checking(state, batches):
        batches = _CheckedBatches(batches)
        try:
            return function(state, batches)
        except ValueError:
            if batches.is_refused:  # the variables have no values while Keras trains
                learner._jax_state = dict(zip(names, state, strict=True))
                learner._jax_state_synced = False
                learner.jax_state_sync()
            raise

    checking.checks_labels = True
    return checking


class _CheckedBatches:
    """An iterator over batches whose labels int32 holds."""

    def __init__(self, batches):
        self._batches, self.is_refused = batches, False

    def __iter__(self):
        return self

    def __next__(self):
        batch = next(self._batches)
        self.is_refused = True
        if isinstance(batch, tuple) and len(batch) > 1:
            _check_host_labels(batch[1])
        self.is_refused = False
        return batch


def _check_host_labels(labels):
    """Refuse integers that the backend would merge."""
    for values in tree.flatten(labels):
        if isinstance(values, np.ndarray) and values.dtype.kind in "iu":
            integers(values, "labels", int(np.iinfo(available("int64")).max))
