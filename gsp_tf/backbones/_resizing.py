"""Vision transformers for images of another size than that of their weights."""

import math
from collections.abc import Sequence

import keras
from keras import ops

_SQUARE = ("DINOV3Backbone", "MiTBackbone")  # keras-hub takes the root of their token number


def patch_grid(network: keras.Model, size: tuple[int, int]) -> tuple[int, int] | None:
    """Rows and columns of tokens for images of a size; `None` for a network of convolutions."""
    patch = _patch(network)
    if patch is None:
        return None
    grid = size[0] // patch[0], size[1] // patch[1]
    window = getattr(network, "window_size", 1)
    if min(grid) < window:
        raise ValueError(
            f"{type(network).__name__} takes images of {window * max(patch)} pixels or more, in "
            f"which its windows of {window} x {window} tokens fit; received {size[0]} x {size[1]}."
        )
    return grid


def _patch(network):
    """Height and width of the patch of a token; `None` for a network of convolutions."""
    if getattr(network, "patch_size", None) is not None:
        stages = len(getattr(network, "depths", (1,)))  # each further stage joins 2 x 2 tokens
        return [side * 2 ** (stages - 1) for side in _pair(network.patch_size)]
    strides = getattr(network, "layerwise_strides", None)
    return None if strides is None else _pair(math.prod(strides))


def require_multiples(name: str, size: tuple[int | None, int | None], multiples: Sequence[int]):
    """Refuse images whose sides are unknown or no multiples of those of a patch."""
    if any(side is None or side % of for side, of in zip(size, multiples, strict=True)):
        raise ValueError(
            f"{name} takes images whose sides are known multiples of "
            f"{' and '.join(map(str, dict.fromkeys(multiples)))}, received {size[0]} x {size[1]}."
        )


def build(kind: type[keras.Model], arguments: dict, image_shape: tuple) -> keras.Model:
    """A network of a class of keras-hub for images of a size."""
    key = "input_shape" if "input_shape" in arguments else "image_shape"
    if kind.__name__ in _SQUARE and image_shape[0] != image_shape[1]:
        raise ValueError(
            f"{kind.__name__} takes square images, received {image_shape[0]} x {image_shape[1]}."
        )
    try:
        return kind.from_config({**arguments, key: image_shape})
    except (ValueError, TypeError) as error:
        raise ValueError(
            f"{kind.__name__} does not take images of {image_shape[0]} x {image_shape[1]}: {error}"
        ) from error


def at_size(network: keras.Model, image_shape: tuple[int | None, int | None, int]) -> keras.Model:
    """The network, or another of its class for images of a size, with the same weights."""
    # Position embeddings are interpolated on the grid of patches, as Dosovitskiy et al. (2021),
    # section 3.2, do for larger images; those of class tokens are kept.
    images = keras.tree.flatten(network.input)[0].shape[1:]
    if images[-1] != 3:
        raise ValueError(f"{type(network).__name__} takes {images[-1]} channels, not RGB images.")
    if None in images[:2]:
        return network
    patch, own = _patch(network), getattr(network, "position_embedding_shape", images)
    if patch is not None and image_shape[:2] != tuple(own[:2]):  # its own may leave out a rest
        require_multiples(type(network).__name__, image_shape[:2], patch)
    grid = patch_grid(network, image_shape[:2])
    if images == image_shape:
        return network
    resized = build(type(network), network.get_config(), image_shape)
    old_grid = grid and patch_grid(network, images[:2])
    for old, new in zip(network.weights, resized.weights, strict=True):
        if "float" not in keras.backend.standardize_dtype(new.dtype):
            continue  # the numbers of the positions
        new.assign(old if old.shape == new.shape else _interpolated(old, new, old_grid, grid))
    return resized


def _interpolated(old, new, old_grid, grid):
    """Position embeddings `(..., n, C)` on another grid; those before the patches are kept."""
    *leading, count, channels = old.shape
    extra = -1 if grid is None else count - math.prod(old_grid)
    if extra < 0 or tuple(new.shape) != (*leading, extra + math.prod(grid), channels):
        raise ValueError(
            f"The weights are for another size of images: {old.path} has the shape "
            f"{tuple(old.shape)}, and images of this size need {tuple(new.shape)}, which are no "
            "positions of patches. Take images of the size of the preset."
        )
    first, patches = ops.split(ops.convert_to_tensor(old), [extra], axis=-2)
    patches = ops.image.resize(
        ops.cast(ops.reshape(patches, (1, *old_grid, channels)), "float32"),
        grid,
        interpolation="bicubic",
        antialias=True,
        data_format="channels_last",
    )
    patches = ops.cast(ops.reshape(patches, (*leading, -1, channels)), first.dtype)
    return ops.concatenate([first, patches], axis=-2)


def _pair(value):
    return (value, value) if isinstance(value, int) else tuple(value)
