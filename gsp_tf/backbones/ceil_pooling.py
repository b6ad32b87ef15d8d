"""Max pooling whose last window may reach beyond the map, as Caffe and PyTorch have it."""

from keras import layers


def ceil_max_pooling(x, name, padding=1):
    """Max pooling 3x3 by 2 that rounds the sides up.

    Features are not negative, so that zeros outside change no maximum.

    Args:
        x: symbolic features `(B, H, W, C)`, none of them negative.
        name: name of the pooling layer; that of the padding ends in `_padding`.
        padding: places below and to the right of the map that windows may reach; 1 is rounding up,
            2 gives a map with an odd side one more.

    Returns:
        symbolic features `(B, H', W', C)`.

    Example:
        >>> import keras
        >>> ceil_max_pooling(keras.Input((8, 8, 4)), "pool").shape
        (None, 4, 4, 4)
    """
    x = layers.ZeroPadding2D(((0, padding), (0, padding)), name=f"{name}_padding")(x)
    return layers.MaxPooling2D(3, 2, name=name)(x)
