"""The arithmetic type of an operation whose inputs may be half precision."""

import keras


def at_least_float32(*tensors):
    """Convert to floating tensors of at least 32 bits, all of one type.

    Sums of squares overflow float16 and lose most digits in bfloat16, so distances and transport
    are computed in float32 for half-precision inputs, and in float64 if an input is float64.

    Args:
        tensors: arrays or tensors of any shapes and numeric types.

    Returns:
        tensor of the same shape, or a list of them if several are given.

    Example:
        >>> import numpy as np
        >>> at_least_float32(np.ones(2, "float16")).dtype.name
        'float32'
        >>> [x.dtype.name for x in at_least_float32(np.ones(2), np.ones(2, "float32"))]
        ['float64', 'float64']
    """
    tensors = [keras.ops.convert_to_tensor(x) for x in tensors]
    wide = any(keras.backend.standardize_dtype(x.dtype) == "float64" for x in tensors)
    tensors = [keras.ops.cast(x, "float64" if wide else "float32") for x in tensors]
    return tensors[0] if len(tensors) == 1 else tensors
