"""An embedder with named outputs.

It maps float images `(B, S, S, channels)` with pixels in [0, 255] to a dict of float32 arrays:
`embedding` `(B, D)` of length 1, `attributes` `(B, m)` (z in eq. 4.3 of GSP) and `pooling_weights`
`(B, H, W)`, or `(B, n)` for the n tokens of a transformer. For each image, `attributes` sums to 1,
and so does `pooling_weights`.
"""

import keras
from keras import ops

from gsp_tf import layers
from gsp_tf.training import first_output


class ServedEmbedder(keras.Model):
    """The embedding of an image and, on request, attributes and pooling weights, by name."""

    def __init__(self, embedder, attributes=False, pooling_weights=False):
        super().__init__(name="served_embedder")
        self.pooling = embedder.get_layer("pooling")
        _check(attributes, "attributes", self.pooling, "attribute_maps")
        _check(pooling_weights, "pooling weights", self.pooling, "pooling_weights")
        self.embedder = embedder
        self.with_attributes = attributes
        self.with_pooling_weights = pooling_weights
        embedding = first_output(embedder.output)
        self.parts = keras.Model(embedder.input, [embedding, self.pooling.input])
        outputs = self(keras.Input(batch_shape=embedder.input_shape))
        self.shapes = {name: tuple(outputs[name].shape) for name in outputs}

    def call(self, images):
        embedding, local_features = self.parts(images, training=False)
        outputs = {"embedding": embedding}
        if self.with_attributes:
            maps = self.pooling.attribute_maps(local_features)
            outputs["attributes"] = ops.sum(maps, axis=tuple(range(1, len(maps.shape) - 1)))
        if self.with_pooling_weights:
            outputs["pooling_weights"] = self.pooling.pooling_weights(local_features)
        return {name: ops.cast(output, "float32") for name, output in outputs.items()}


def _check(is_wanted, what, pooling, method):
    """Raises `ValueError` if the pooling layer lacks the method for a requested output."""
    if is_wanted and not hasattr(pooling, method):
        able = [name for name in layers.__all__ if hasattr(getattr(layers, name), method)]
        raise ValueError(
            f"{type(pooling).__name__}, the pooling of this run, has no {what}; these have: "
            f"{', '.join(able)}."
        )
