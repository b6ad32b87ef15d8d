"""Conv-4, the four-block network of few-shot learning.

The embedding module of "Learning to Compare: Relation Network for Few-Shot Learning" (Sung et al.,
CVPR 2018). It costs about a tenth of `resnet20`.
"""

import keras
from keras import layers

from gsp_tf.backbones.registry import InputShape, register


@register("conv4", intermediate="block_2")
def conv4(input_shape: InputShape = (None, None, 3)) -> keras.Model:
    """Four blocks of 64 3x3 filters, batch normalisation and ReLU; the first two halve the map."""
    images = keras.Input(input_shape)
    x = layers.Rescaling(1.0 / 127.5, offset=-1.0)(images)
    for block in range(4):
        x = layers.Conv2D(64, 3, padding="same", use_bias=False)(x)
        x = layers.BatchNormalization(momentum=0.9)(x)
        x = layers.ReLU()(x)
        if block < 2:
            x = layers.MaxPooling2D(2, name=f"block_{block + 1}")(x)
    return keras.Model(images, x, name="conv4")
