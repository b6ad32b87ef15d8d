"""Base of the losses with variables."""

from collections.abc import Iterable, Sequence
from typing import Any

import keras
from keras import ops

from gsp_tf._arguments import check_sizes
from gsp_tf._config import Guarded, constructor_config
from gsp_tf._keras import layers_within
from gsp_tf._typing import Tensor
from gsp_tf.losses._inputs import check_inputs, nan_unless

NOT_GIVEN = object()


def check_regularizer(name: str, regularizer: Any) -> None:
    """Raise ValueError for what is neither a regulariser of Keras nor none."""
    if regularizer is not None and not isinstance(regularizer, keras.regularizers.Regularizer):
        raise ValueError(
            f"{name} must be a regulariser such as LpRegularizer(), received {regularizer!r}."
        )


class LossLayer(Guarded, keras.layers.Layer, keras.losses.Loss):
    """Base of the losses with variables: a layer `loss(labels, embeddings) -> scalar`.

    It computes in the given dtype, else in that of the loss layers that it holds, else in float32,
    whatever the global dtype policy is. A dtype of half precision means float32. `MetricLearner`
    trains and saves its variables with those of the model. A subclass implements
    `call(labels, embeddings)` of checked labels `(B,)` and embeddings `(B, D)`. Every constructor
    argument is an attribute of the same name; these form the config.

    Args:
        num_classes: labels are 0 to num_classes - 1; `None` for any.
        inner: the losses that it holds.
        calls_inner: whether it calls them, so that their regularisers count.
        embedding_regularizer: term of the embeddings as they come, which a call adds.
        proxies_regularizer: term of the proxies, which a call adds.

    Attributes:
        normalize: whether the loss ignores the norm of the embeddings.
        relation: how labels are related; "equal" for classes `(B,)`, else label vectors `(B, C)`.
    """

    inherited = ("embedding_regularizer", "proxies_regularizer")
    num_classes = None
    normalize = True
    relation = "equal"

    def __init__(
        self,
        num_classes: int | None = None,
        inner: Sequence[keras.losses.Loss] = (),
        calls_inner: bool = False,
        embedding_regularizer: keras.regularizers.Regularizer | None = None,
        proxies_regularizer: keras.regularizers.Regularizer | None = None,
        **kwargs: Any,
    ) -> None:
        layers = [loss for loss in inner if isinstance(loss, LossLayer)]
        default = layers[0].dtype_policy if layers else "float32"
        policy = keras.dtype_policies.get(kwargs.pop("dtype", None) or default)
        is_wide = policy.compute_dtype == "float64"
        super().__init__(dtype="float64" if is_wide else "float32", **kwargs)
        name = type(self).__name__
        for loss in inner:
            if not isinstance(loss, keras.losses.Loss):
                raise ValueError(
                    f"{name} takes losses such as ContrastiveLoss(), received {loss!r}."
                )
            if getattr(getattr(loss, "reducer", None), "name", None) == "none":
                raise ValueError(
                    f"{name} takes a loss that gives one number, received "
                    f"{type(loss).__name__}(reduction='none')."
                )
            for argument in self.inherited:
                if not calls_inner and getattr(loss, argument, None) is not None:
                    raise ValueError(
                        f"Give {argument} to {name}, and not to the {type(loss).__name__} in it."
                    )
        for layer in layers:
            if layer.dtype_policy != self.dtype_policy:
                raise ValueError(
                    f"{name} must have the dtype of its {type(layer).__name__}, "
                    f"{layer.dtype_policy.name}, received {self.dtype_policy.name}. Give all the "
                    "same dtype."
                )
        if num_classes is not None:
            check_sizes(num_classes=num_classes)
            self.num_classes = num_classes
        check_regularizer("embedding_regularizer", embedding_regularizer)
        check_regularizer("proxies_regularizer", proxies_regularizer)
        self.embedding_regularizer = embedding_regularizer
        self.proxies_regularizer = proxies_regularizer

    def __call__(
        self, labels: Tensor, embeddings: Tensor, sample_weight: Any = NOT_GIVEN, **kwargs: Any
    ) -> Tensor:
        """Scalar loss of a batch; `compile(loss=...)` alone passes a `sample_weight` (`None`)."""
        if isinstance(embeddings, keras.KerasTensor):
            return super().__call__(labels, embeddings, **kwargs)
        if sample_weight is not NOT_GIVEN and sample_weight is not None:
            raise ValueError(f"{type(self).__name__} compares samples and takes no sample_weight.")
        self.keep_if_traced(embeddings)
        labels, embeddings, is_valid = check_inputs(
            labels,
            embeddings,
            self.num_classes,
            self.normalize,
            self.compute_dtype,
            self.relation,
        )
        if sample_weight is not NOT_GIVEN:
            self._check_plain_model(labels.shape, embeddings.shape)
        value = super().__call__(labels, embeddings, **kwargs)
        if self.embedding_regularizer is not None:
            value = value + self.embedding_regularizer(embeddings)
        if self.proxies_regularizer is not None:
            proxies = getattr(self, "proxies", None)
            if proxies is None:
                raise ValueError(f"{type(self).__name__} has no proxies to regularise.")
            value = value + self.proxies_regularizer(ops.convert_to_tensor(proxies))
        return nan_unless(is_valid, ops.cast(value, self.compute_dtype))

    def _check_plain_model(self, *shapes):
        """Raise ValueError for weights or draws that it would not keep; this loss stays unbuilt."""
        loss = self
        if not self.built:
            loss = self.from_config(self.get_config())
            loss.build(*shapes)
        if loss.weights:
            names = ", ".join(dict.fromkeys(weight.name for weight in loss.weights))
            raise ValueError(
                f"{type(self).__name__} has weights of its own ({names}), which compile(loss=...) "
                "of a plain model neither trains nor saves. Train with "
                "gsp_tf.training.MetricLearner(model, loss), and compile that without a loss."
            )
        check_draws_of_plain_model(self, has_draws=bool(loss.variables))

    def build(self, labels_shape, embeddings_shape):
        """Build the losses in it; a loss with weights of its own adds them."""
        for loss in list(layers_within(self)):
            if isinstance(loss, LossLayer) and not loss.built:
                loss.build(labels_shape, embeddings_shape)

    def compute_output_shape(self, *shapes, **named_shapes):
        return ()

    def get_config(self):
        return {**keras.layers.Layer.get_config(self), **constructor_config(self)}


def check_draws_of_plain_model(loss: keras.losses.Loss, has_draws: bool) -> None:
    """Raise ValueError where a plain model would repeat the draws of its loss in every step."""
    if has_draws and keras.backend.backend() == "jax":
        raise ValueError(
            f"{type(loss).__name__} draws random numbers, and with compile(loss=...) of a plain "
            "model JAX draws the same ones in every step. Train with "
            "gsp_tf.training.MetricLearner(model, loss), and compile that without a loss."
        )


def seeds_of(losses: Iterable[keras.losses.Loss]) -> list[keras.random.SeedGenerator]:
    """Random states of those losses that are no layers, which track their own."""
    plain = [loss for loss in losses if not isinstance(loss, LossLayer)]
    return [seed for loss in plain if (seed := getattr(loss, "seed_generator", None))]
