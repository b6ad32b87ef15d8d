"""Networks for images, and their pixels, from the presets of keras-hub."""

import math
from collections.abc import Sequence
from pathlib import Path

import keras
import numpy as np
from keras import ops

from gsp_tf._console import one_line, to_install
from gsp_tf._names import similar
from gsp_tf.backbones._weights import WeightsSource

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


_TOWERS = ("CLIPBackbone", "MetaCLIP2Backbone", "SigLIPBackbone")  # each with another one for texts
_KINDS = (
    "DINOV2Backbone",
    "DINOV3Backbone",
    *_TOWERS,
    "ViTBackbone",
    "DeiTBackbone",
    "SwinTransformerBackbone",
    "MiTBackbone",
    "ResNetBackbone",
    "EfficientNetBackbone",
    "MobileNetBackbone",
    "MobileNetV5Backbone",
    "DenseNetBackbone",
    "HGNetV2Backbone",
    "CSPNetBackbone",
    "VGGBackbone",
    "XceptionBackbone",
)
_CLOSED = ("MobileNetBackbone", "HGNetV2Backbone")  # their layers hold batch normalisation
_WEIGHTS = ("model.weights.h5", "model.weights.json", "model.safetensors")
_OTHER_PLACES = (
    "the name of an image preset (gsp-tf backbones hub lists them), an hf://user/model, or a "
    "folder that save_to_preset wrote"
)


def image_presets() -> dict[str, list[str]]:
    """Names of the image presets of keras-hub, sorted, by the class of the network."""
    models = import_hub("hub").models
    return {kind: sorted(getattr(models, kind).presets) for kind in _KINDS}


def can_freeze_batch_normalization(preset: str) -> bool:
    """Whether the batch normalisation of a preset's network can be frozen."""
    return _kind(preset) not in _CLOSED


def preset_side(preset: str, least: int) -> int:
    """Side of square images for a preset of keras-hub, from a least one on, such as 224."""
    # The windows of a Swin transformer may not fit in images smaller than the preset's own.
    if _kind(preset) != "SwinTransformerBackbone":
        return least
    return max(least, *(_converter(preset).image_size or ()))


def preset_source(preset: str) -> WeightsSource:
    """Where the weights of a preset are, or will come from; refuses an unknown name."""
    builtin = _builtin(preset)
    if builtin is None and "://" not in preset:
        return WeightsSource(True, f"in {preset}", Path(preset))
    handle = preset if builtin is None else builtin["kaggle_handle"]
    folder = _cached(handle)
    if folder is None:
        return WeightsSource(False, f"keras-hub downloads them from {handle}")
    return WeightsSource(True, f"in {folder}", folder)


def load_network(
    preset: str, image_shape: tuple[int | None, int | None, int], load_weights: bool
) -> keras.Model:
    """The network of a preset for images of a size; of two towers, the one for images."""
    hub, options = import_hub("hub"), {}
    if _kind(preset) == "DINOV2Backbone":  # it interpolates its positions itself
        options["image_shape"] = image_shape
    whole = _from_preset(hub.models.Backbone, preset, load_weights=load_weights, **options)
    _require_images(preset, type(whole).__name__)
    is_pair = type(whole).__name__ in _TOWERS
    return with_one_grid(at_size(whole.vision_encoder if is_pair else whole, image_shape))


def with_one_grid(network: keras.Model) -> keras.Model:
    """The network, or of DINOv2 one with positions for its images alone."""
    # Those of pretraining are another set, for which keras-hub interpolates the trained ones before
    # it saves a network: it would not save what it trained.
    if not hasattr(network, "position_embedding_shape"):
        return network
    shape = {"position_embedding_shape": network.image_shape}
    copy = type(network).from_config({**network.get_config(), **shape})
    for old, new in zip(network.weights, copy.weights, strict=True):
        if old.shape == new.shape:
            new.assign(old)
    positions = copy.embeddings.interpolated_position_embeddings
    copy.embeddings.position_embeddings.assign(positions)
    return copy


def load_pixels(preset: str) -> dict:
    """Arguments of `PixelNormalization` that do as the image converter of a preset does."""
    converter = _converter(preset)
    scale = np.broadcast_to(1.0 if converter.scale is None else converter.scale, 3)
    offset = np.broadcast_to(converter.offset or 0.0, 3)
    return {"mean": (-offset / scale).tolist(), "std": (1 / scale).tolist()}


def import_hub(name):
    """The package keras-hub, or an error that says how to get it for a backbone."""
    try:
        import keras_hub
    except ImportError as error:
        raise ImportError(
            f"Backbone {name!r} needs keras-hub: {to_install('hub')} ({error})."
        ) from error
    return keras_hub


def _kind(preset):
    """Name of the class of a preset's network, if it is known before the network is built."""
    builtin = _builtin(preset)
    if builtin is not None:
        return next((kind for kind, names in image_presets().items() if preset in names), None)
    # Its converter tells it for other presets, which spares building a language model to refuse it.
    of_converter = _converter(preset).backbone_cls
    if of_converter is None:
        return None
    _require_images(preset, of_converter.__name__)
    return of_converter.__name__


def _builtin(preset):
    """What keras-hub knows about a preset of its own; `None` for a folder or an address."""
    models = import_hub("hub").models
    presets = models.Backbone.presets
    known = [name for names in image_presets().values() for name in names]
    if preset in known:
        return presets[preset]
    if preset in presets:
        classes = [value for value in vars(models).values() if isinstance(value, type)]
        own = [
            kind for kind in classes if issubclass(kind, models.Backbone) and preset in kind.presets
        ]
        _require_images(preset, min(own, key=lambda kind: len(kind.presets)).__name__)
    if "://" not in preset and not Path(preset).is_dir():
        raise ValueError(
            f"preset must be {_OTHER_PLACES}; received {preset!r}{similar(preset, known)}"
        )
    return None


def _require_images(preset, kind):
    if kind not in _KINDS:
        raise ValueError(
            f"The preset {preset!r} is a {kind}, which gives no map or tokens of an image. Presets "
            f"of these are taken: {', '.join(_KINDS)}."
        )


def _converter(preset):
    _builtin(preset)  # refuses unknown names
    converter = _from_preset(import_hub("hub").layers.ImageConverter, preset)
    if converter is None:
        raise ValueError(f"The preset {preset!r} has no image converter, which scales its pixels.")
    return converter


def _from_preset(kind, preset, **options):
    """Load a part of a preset; what keras-hub or a download raises becomes one sentence."""
    try:
        return kind.from_preset(preset, **options)
    except ImportError:
        raise
    except Exception as error:  # keras-hub, Kaggle and Hugging Face raise all kinds
        is_ours = isinstance(error, ValueError | FileNotFoundError)  # and no failed download
        where = "" if Path(preset).is_dir() else " Without the internet, give the path of a folder."
        raise (ValueError if is_ours else OSError)(
            f"The preset {preset!r} cannot be loaded ({one_line(error)}).{where}"
        ) from error


def _cached(handle):
    """Folder of a preset in the cache of Kaggle or Hugging Face; `None` if it is not there."""
    scheme, _, name = handle.partition("://")
    if scheme == "kaggle":
        from kagglehub.config import get_cache_folder

        folder = Path(get_cache_folder(), "models", name)
        return folder if any((folder / file).is_file() for file in _WEIGHTS) else None
    if scheme == "hf":
        from huggingface_hub import try_to_load_from_cache

        found = [try_to_load_from_cache(name, file) for file in _WEIGHTS]
        return next((Path(path).parent for path in found if isinstance(path, str)), None)
    return None
