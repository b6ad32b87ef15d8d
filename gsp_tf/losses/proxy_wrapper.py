"""What the losses around a proxy loss share."""

from typing import Any

import keras

from gsp_tf.losses.loss_layer import LossLayer
from gsp_tf.losses.proxy import ProxyLoss


class ProxyWrapper(LossLayer):
    """Base of the losses that add classes, in training, to those of a proxy loss.

    A subclass implements `augmented_loss(labels, embeddings) -> scalar`. In evaluation the loss is
    that of the proxy loss.

    Args:
        proxy_loss: any proxy loss.
        kwargs: arguments of `keras.layers.Layer`, such as `name` and `dtype`.

    Raises:
        ValueError: if it is none, or has another dtype.
    """

    def __init__(self, proxy_loss: ProxyLoss, **kwargs: Any) -> None:
        super().__init__(proxy_loss, **kwargs)
        if not isinstance(proxy_loss, ProxyLoss):
            raise ValueError(
                f"{type(self).__name__} takes a proxy loss such as ProxyNCALoss(num_classes), "
                f"received {proxy_loss!r}."
            )
        self.proxy_loss = proxy_loss

    def build(self, labels_shape, embeddings_shape):
        if not self.proxy_loss.built:
            self.proxy_loss.build(labels_shape, embeddings_shape)

    @property
    def num_classes(self):
        """Number of classes of the proxy loss."""
        return self.proxy_loss.num_classes

    @property
    def proxies(self):
        """Proxies `(num_classes * k, D)` of the proxy loss."""
        return self.proxy_loss.proxies

    def call(self, labels, embeddings, training=True):
        if not training:
            return self.proxy_loss(labels, embeddings)
        return self.augmented_loss(labels, embeddings)

    def augmented_loss(self, labels, embeddings):
        """Loss, a scalar, of int32 labels `(B,)` and embeddings `(B, D)` in training."""
        raise NotImplementedError

    def get_config(self):
        return {
            **super().get_config(),
            "proxy_loss": keras.saving.serialize_keras_object(self.proxy_loss),
        }

    @classmethod
    def from_config(cls, config):
        proxy_loss = keras.saving.deserialize_keras_object(config["proxy_loss"])
        return cls(**{**config, "proxy_loss": proxy_loss})
