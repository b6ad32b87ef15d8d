"""Networks for images, and their pixels, from the presets of keras-hub."""

from pathlib import Path

import keras

from gsp_tf._console import to_install
from gsp_tf._names import similar
from gsp_tf.backbones._resizing import at_size
from gsp_tf.backbones._weights import WeightsSource

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
    """Names of the image presets of keras-hub, by the class of the network.

    Returns:
        The names for `create("hub", preset=name)`, sorted, by class.

    Raises:
        ImportError: if keras-hub is not installed.

    Example:
        >>> "dinov2_small" in image_presets()["DINOV2Backbone"]
        True
    """
    models = import_hub("hub").models
    return {kind: sorted(getattr(models, kind).presets) for kind in _KINDS}


def can_freeze_batch_normalization(preset: str) -> bool:
    """Whether `freeze_batch_normalization` takes the network of a preset of keras-hub.

    Args:
        preset: as in `create`.

    Returns:
        False for MobileNet and HGNetV2, whose batch normalisation is inside layers of keras-hub.

    Raises:
        ImportError: if keras-hub is not installed.
        OSError: if the description of the preset cannot be downloaded.
        ValueError: if there is no preset of that name, or it is not one for images.

    Example:
        >>> can_freeze_batch_normalization("mobilenet_v3_small_100_imagenet")
        False
    """
    return _kind(preset) not in _CLOSED


def preset_side(preset: str, least: int) -> int:
    """Side of square images for a preset of keras-hub, from a least one on.

    Args:
        preset: as in `create`.
        least: side in pixels, a multiple of all patches, such as 224.

    Returns:
        `least`, or the side of the preset's own images if it is larger and the network a Swin
        transformer, whose windows may not fit in smaller ones.

    Raises:
        ImportError: if keras-hub is not installed.
        OSError: if the description of the preset cannot be downloaded.
        ValueError: if there is no preset of that name, or it is not one for images.

    Example:
        >>> preset_side("dinov2_small", 224)
        224
    """
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
    scale, offset = (1.0 if converter.scale is None else converter.scale), converter.offset or 0.0
    scales, offsets = _three(scale), _three(offset)
    return {
        "mean": [-offset / scale for scale, offset in zip(scales, offsets, strict=True)],
        "std": [1 / scale for scale in scales],
    }


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
            f"The preset {preset!r} cannot be loaded ({_one_line(error)}).{where}"
        ) from error


def _one_line(error):
    return " ".join(str(error).split())[:300] or type(error).__name__


def _three(value):
    values = list(value) if isinstance(value, list | tuple) else [value]
    return values * 3 if len(values) == 1 else values


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
