"""Max pooling whose last window may reach beyond the map, as Caffe and PyTorch have it."""

from keras import layers


def ceil_max_pooling(x, name, padding=1):
    """Max pooling 3x3 by 2 of features `(B, H, W, C)`, none of them negative, that rounds sides up.

    Windows may reach `padding` places beyond the map, below and to the right: 1 is rounding up, 2
    gives a map with an odd side one more. The zeros there change no maximum.
    """
    x = layers.ZeroPadding2D(((0, padding), (0, padding)), name=f"{name}_padding")(x)
    return layers.MaxPooling2D(3, 2, name=name)(x)
