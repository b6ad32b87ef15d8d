"""What the losses around a pair loss share."""

import keras

from gsp_tf.losses.pair import PairLoss


class PairWrapper:
    """Part of the loss layers that hold a pair loss, which they check, track and save.

    A subclass is a `LossLayer` too and calls `hold` in its constructor.

    Attributes:
        loss: the pair loss.
    """

    def hold(self, loss):
        """Keep a pair loss, and the state of the random draws of its miner as the layer's own.

        Args:
            loss: any pair loss.

        Raises:
            ValueError: if it is none.
        """
        if not isinstance(loss, PairLoss):
            raise ValueError(
                f"{type(self).__name__} takes a pair loss such as ContrastiveLoss(), "
                f"received {loss!r}."
            )
        self.loss = loss
        self.seed_generator = loss.seed_generator

    @property
    def normalize(self):
        """Whether the pair loss normalises the embeddings."""
        return self.loss.normalize

    def get_config(self):
        return {**super().get_config(), "loss": keras.saving.serialize_keras_object(self.loss)}

    @classmethod
    def from_config(cls, config):
        loss = keras.saving.deserialize_keras_object(config["loss"])
        return cls(**{**config, "loss": loss})
