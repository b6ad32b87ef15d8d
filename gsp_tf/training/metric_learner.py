"""An embedder and its losses as one Keras model."""

import keras
from keras import ops

from gsp_tf.training.distributed_model import DistributedModel
from gsp_tf.training.replicas import of_all_replicas, share_of_replica


@keras.saving.register_keras_serializable("gsp_tf")
class MetricLearner(DistributedModel, keras.Model):
    """Trains an embedder on `(image, label)` batches with any loss of the library, in `fit`.

    The total loss is `(1 - λ) loss(labels, embeddings) + λ attribute_loss(labels, attributes)`
    (GSP paper, section 4.3; thesis, eq. 5.2.5), or `loss(labels, embeddings)` without an attribute
    loss, plus the regularisers of the layers. Weights of the losses (proxies, class embeddings) are
    weights of the learner: they train, save and load with it. `call` gives what the embedder gives.

    Made within the scope of a `tf.distribute` strategy, its losses see the batch of all replicas.

    Args:
        embedder: Keras model from images to embeddings `(B, D)`, or to the pair of embeddings
            `(B, D)` and attributes `(B, m)`.
        loss: `loss(labels, embeddings) -> scalar`, a `keras.losses.Loss` or a loss layer.
        attribute_loss: optional `loss(labels, attributes) -> scalar`, such as `ZeroShotLoss`.
        attribute_weight: λ in [0, 1].

    Raises:
        ValueError: if λ is out of range, if there is an attribute loss and the embedder gives no
            attributes, or if `compile` or `fit` receives another loss or sample weights.

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

    def __init__(self, embedder, loss, attribute_loss=None, attribute_weight=0.1, **kwargs):
        super().__init__(**kwargs)
        if not 0.0 <= attribute_weight <= 1.0:
            raise ValueError(f"attribute_weight must lie in [0, 1], received {attribute_weight}.")
        self.embedder = embedder
        self.embedding_loss = loss
        self.attribute_loss = attribute_loss
        self.attribute_weight = attribute_weight
        if not isinstance(loss, keras.layers.Layer):
            self.seed_generator = getattr(loss, "seed_generator", None)
        self.embedding_loss_tracker = keras.metrics.Mean(name="embedding_loss")
        if attribute_loss is not None:
            self.attribute_loss_tracker = keras.metrics.Mean(name="attribute_loss")
        if embedder.built and getattr(embedder, "inputs", None):
            self.build(embedder.input_shape)

    def build(self, input_shape):
        outputs = getattr(self.embedder, "outputs", None)
        if not outputs:
            outputs = self.embedder(keras.Input(batch_shape=input_shape))
        elif len(outputs) == 1:
            outputs = outputs[0]
        embeddings, attributes = split_outputs(outputs)
        self._check_attributes(attributes)
        for loss, features in (
            (self.embedding_loss, embeddings),
            (self.attribute_loss, attributes),
        ):
            if isinstance(loss, keras.layers.Layer) and not loss.built:
                loss.build((features.shape[0],), tuple(features.shape))

    def call(self, images, training=None):
        return self.embedder(images, training=training)

    def compile(self, optimizer="adam", loss=None, **kwargs):
        """As `keras.Model.compile`, without a loss: the learner brings its own.

        Args:
            optimizer: Keras optimizer or its name.
            loss: must be `None`.
            kwargs: further arguments of `keras.Model.compile`, such as `jit_compile`.

        Raises:
            ValueError: if a loss is given.
        """
        if loss is not None:
            raise ValueError(
                f"MetricLearner was made with its loss; compile takes none, received {loss!r}."
            )
        super().compile(optimizer=optimizer, loss=None, **kwargs)

    def compile_from_config(self, config):
        """Compile as the saved learner was; Keras leaves that to a model with its own `compile`."""
        self.compile(**keras.saving.deserialize_keras_object(config))
        if self.built:
            self.optimizer.build(self.trainable_variables)

    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
        if sample_weight is not None:
            raise ValueError("MetricLearner takes no sample_weight: its losses compare samples.")
        if y is None:
            raise ValueError("MetricLearner needs labels: give fit (image, label) batches.")
        embeddings, attributes = (
            None if output is None else of_all_replicas(output) for output in split_outputs(y_pred)
        )
        y = of_all_replicas(y)
        total = _value(self.embedding_loss, y, embeddings, training)
        batch_size = ops.shape(embeddings)[0]
        self.embedding_loss_tracker.update_state(total, sample_weight=batch_size)
        if self.attribute_loss is not None:
            self._check_attributes(attributes)
            attribute_loss = _value(self.attribute_loss, y, attributes, training)
            self.attribute_loss_tracker.update_state(attribute_loss, sample_weight=batch_size)
            total = (1.0 - self.attribute_weight) * total + self.attribute_weight * attribute_loss
        for regularizer in self.losses:
            total = total + ops.cast(ops.sum(regularizer), total.dtype)
        return share_of_replica(total)

    def _check_attributes(self, attributes):
        if self.attribute_loss is not None and attributes is None:
            raise ValueError(
                "attribute_loss needs an embedder with two outputs (embeddings, attributes), "
                "received one with a single output. Use "
                "GeneralizedSumPooling(return_attributes=True)."
            )

    def get_config(self):
        serialize = keras.saving.serialize_keras_object
        return {
            **super().get_config(),
            "embedder": serialize(self.embedder),
            "loss": serialize(self.embedding_loss),
            "attribute_loss": serialize(self.attribute_loss),
            "attribute_weight": self.attribute_weight,
        }

    @classmethod
    def from_config(cls, config, custom_objects=None):
        config = dict(config)
        for key in ("embedder", "loss", "attribute_loss"):
            config[key] = keras.saving.deserialize_keras_object(
                config[key], custom_objects=custom_objects
            )
        return cls(**config)


def _value(loss, labels, inputs, training):
    """Value of a loss; a loss that is a layer is told whether it trains."""
    if isinstance(loss, keras.layers.Layer):
        return loss(labels, inputs, training=training)
    return loss(labels, inputs)


def split_outputs(outputs):
    """Embeddings and attributes of an embedder's output; attributes are `None` without any.

    Args:
        outputs: `(B, D)`, or a pair of `(B, D)` and `(B, m)`.

    Returns:
        the pair (embeddings, attributes or `None`).

    Example:
        >>> split_outputs(["embeddings", "attributes"])
        ('embeddings', 'attributes')
    """
    if not isinstance(outputs, (tuple, list)):
        return outputs, None
    return outputs[0], outputs[1] if len(outputs) > 1 else None
