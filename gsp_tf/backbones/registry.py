"""The registry of backbones."""

_BUILDERS = {}


def register(name):
    """Make a function that builds a backbone known by a name.

    Args:
        name: name under which `create` finds it.

    Returns:
        decorator for `build(input_shape) -> keras.Model`, from images with pixels in [0, 255] to
        the last feature map.

    Raises:
        ValueError: if the name is taken.

    Example:
        >>> import keras
        >>> @register("identity")
        ... def identity(input_shape):
        ...     images = keras.Input(input_shape)
        ...     return keras.Model(images, keras.layers.Identity()(images))
        >>> create("identity", (8, 8, 3)).output_shape
        (None, 8, 8, 3)
        >>> del _BUILDERS["identity"]
    """
    if name in _BUILDERS:
        raise ValueError(f"A backbone named {name!r} is registered already.")

    def decorate(build):
        _BUILDERS[name] = build
        return build

    return decorate


def create(name, input_shape=(None, None, 3)):
    """Build a backbone with fresh weights.

    Args:
        name: one of `names()`.
        input_shape: `(H, W, channels)` of the images; H and W may be `None`.

    Returns:
        Keras model from images `(B, H, W, channels)`, pixels in [0, 255], to features
        `(B, H', W', C)`.

    Raises:
        ValueError: if there is no backbone of that name.

    Example:
        >>> create("resnet20", (32, 32, 3)).output_shape
        (None, 8, 8, 64)
    """
    if name not in _BUILDERS:
        raise ValueError(f"Unknown backbone {name!r}, known are {', '.join(names())}.")
    return _BUILDERS[name](tuple(input_shape))


def names():
    """Names of the registered backbones, sorted.

    Returns:
        list of str.

    Example:
        >>> names()
        ['conv4', 'resnet20', 'resnetv2_20']
    """
    return sorted(_BUILDERS)
