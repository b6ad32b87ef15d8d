"""The arithmetic type of an operation whose inputs may be half precision."""

import keras


def at_least_float32(x):
    """Convert to a floating tensor of at least 32 bits.

    Sums of squares overflow float16 and lose most digits in bfloat16, so distances and transport
    are computed in float32 for half-precision inputs, and in float64 for float64 inputs.

    Args:
        x: array or tensor of any shape and numeric type.

    Returns:
        tensor of the same shape, float64 if `x` is float64, float32 otherwise.

    Example:
        >>> import numpy as np
        >>> str(at_least_float32(np.ones(2, "float16")).dtype.name)
        'float32'
    """
    x = keras.ops.convert_to_tensor(x)
    dtype = keras.backend.standardize_dtype(x.dtype)
    return x if dtype == "float64" else keras.ops.cast(x, "float32")
