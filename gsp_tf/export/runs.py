"""Export of the model of a run for other programs: SavedModel, ONNX, LiteRT and Keras."""

import dataclasses
import functools
import importlib.util
import logging
import re
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Literal, NamedTuple

import keras
import numpy as np
import tensorflow as tf
from keras import ops

from gsp_tf import layers
from gsp_tf._console import to_install
from gsp_tf._files import new_folder, refuse_existing
from gsp_tf._keras import first_output
from gsp_tf._typing import PathLike
from gsp_tf.data import (
    MAX_PIXELS,
    central_window,
    decode_jpeg_window,
    is_upright_jpeg,
    resize_window,
    to_grey,
)
from gsp_tf.export.metadata import describe
from gsp_tf.layers import GeneralizedMaxPooling
from gsp_tf.runs import fingerprint, load_splits
from gsp_tf.search import RunModel, find_thresholds

_TOLERANCE = 1e-5
_ANY_SIDE = 64  # of a model that takes images of any size
KERAS_NAME = "embedder.keras"
_ONNX_PACKAGES = ("tf2onnx", "onnx", "onnxruntime")


def export_run(
    path: PathLike,
    format: Literal["saved_model", "onnx", "litert", "keras"],
    out: PathLike | None = None,
    attributes: bool = False,
    pooling_weights: bool = False,
) -> Path:
    """Export the best model of a run to a folder with the model and `metadata.json`.

    The exported model is loaded again and compared with the original on random images, in batches
    of different sizes. The folder appears only after this check. The names of the training classes
    come from the run's images. If the images are missing, the names are left out; nothing is
    downloaded. All but "keras" are written on the TensorFlow backend, from runs of any.

    Args:
        path: run folder.
        format: "saved_model" (serves without this library, also from image files), "onnx" (serves
            without TensorFlow), "litert" (serves in the plain interpreter of LiteRT) or "keras"
            (the layers themselves; loading needs this library).
        out: folder to create; `None` means a folder in the run folder, named after the format.
        attributes: also output the attributes of generalized sum pooling; not with "keras".
        pooling_weights: also output the weights of the local features; not with "keras".

    Returns:
        The exported folder.

    Raises:
        FileExistsError: if `out` exists.
        ImportError: if a package for ONNX is missing.
        ValueError: if the run or the backend of Keras cannot give what is asked for, files of the
            run do not match, or the outputs deviate by more than 1e-5.

    Example:
        >>> export_run("no/such/run", "onnx")
        Traceback (most recent call last):
            ...
        FileNotFoundError: no/such/run is not a run folder: it has no recipe.yaml.
    """
    if format not in _FORMATS:
        raise ValueError(f"format must be one of {', '.join(_FORMATS)}; received {format!r}.")
    if format == "keras" and (attributes or pooling_weights):
        raise ValueError(
            "Attributes and pooling weights are outputs of the other formats; a .keras file "
            "holds the layers themselves, whose methods give them."
        )
    backend = keras.backend.backend()
    if format != "keras" and backend != "tensorflow":
        raise ValueError(
            f"Export as {format} runs on the TensorFlow backend; Keras runs on {backend} here. Set "
            "KERAS_BACKEND=tensorflow: it loads the models of runs from every backend."
        )
    model = RunModel(path)
    out = Path(model.folder.path / format if out is None else out)
    refuse_existing(out)
    thresholds = find_thresholds(None, model.info, model.folder.path, None, None, model.dim)
    served = ServedEmbedder(model.embedder, attributes, pooling_weights)
    classes = train_classes(model)
    write, read, packages = _FORMATS[format]
    with new_folder(out) as temporary:
        write(served, model.recipe, temporary)
        compare(served, read(temporary), served.embedder.input_shape)
        metrics = model.folder.metrics()
        described = temporary, format, served, model.recipe, metrics, classes, thresholds
        describe(*described, packages).write(temporary)
    return out


def train_classes(model):
    """Names of the run's training classes; `None` if its images are missing or changed."""
    data = dataclasses.replace(model.recipe.data, download=False, cache=None)
    try:
        images = load_splits(dataclasses.replace(model.recipe, data=data)).train
    except (OSError, ValueError):
        return None
    is_known = model.folder.metrics().get("train_classes") == fingerprint(images)
    return list(images.class_names) if is_known else None


def compare(expected, received, shape):
    """Raises `ValueError` if the outputs of a written model deviate from those expected."""
    random = np.random.default_rng(0)
    for batch_size in (3, 1):
        sides = [side or _ANY_SIDE for side in shape[1:]]
        images = random.uniform(0, 255, (batch_size, *sides)).astype("float32")
        outputs = expected(images)
        for name, output in received(images).items():
            difference = ops.convert_to_numpy(output) - ops.convert_to_numpy(outputs[name])
            deviation = np.abs(difference).max()
            if not deviation <= _TOLERANCE:
                raise ValueError(
                    f"The exported model deviates by {deviation:.1e} in {name}, more than "
                    f"{_TOLERANCE:.0e}. Nothing was written."
                )


class ServedEmbedder(keras.Model):
    """The embedding of an image and, on request, attributes and pooling weights, by name."""

    def __init__(self, embedder, attributes=False, pooling_weights=False):
        super().__init__(name="served_embedder")
        self.pooling = embedder.get_layer("pooling")
        _check(attributes, "attributes", self.pooling, "attribute_maps")
        _check(pooling_weights, "pooling weights", self.pooling, "pooling_weights")
        self.embedder = embedder
        self.with_attributes = attributes
        self.with_pooling_weights = pooling_weights
        embedding = first_output(embedder.output)
        self.parts = keras.Model(embedder.input, [embedding, self.pooling.input])
        outputs = self(keras.Input(batch_shape=embedder.input_shape))
        self.shapes = {name: tuple(outputs[name].shape) for name in outputs}

    def call(self, images):
        embedding, local_features = self.parts(images, training=False)
        outputs = {"embedding": embedding}
        if self.with_attributes:
            maps = self.pooling.attribute_maps(local_features)
            outputs["attributes"] = ops.sum(maps, axis=tuple(range(1, len(maps.shape) - 1)))
        if self.with_pooling_weights:
            outputs["pooling_weights"] = self.pooling.pooling_weights(local_features)
        return {name: ops.cast(output, "float32") for name, output in outputs.items()}


def _check(is_wanted, what, pooling, method):
    """Raises `ValueError` if the pooling layer lacks the method for a requested output."""
    if is_wanted and not hasattr(pooling, method):
        able = [name for name in layers.__all__ if hasattr(getattr(layers, name), method)]
        raise ValueError(
            f"{type(pooling).__name__}, the pooling of this run, has no {what}; these have: "
            f"{', '.join(able)}."
        )


def _checked_input(format, served, recipe):
    """The input of a model that is not in half precision, for which others give other numbers."""
    if recipe.training.precision != "float32":
        raise ValueError(
            f"{format} takes models of training.precision=float32; received "
            f"{recipe.training.precision}. It can be exported as saved_model."
        )
    return keras.InputSpec(dtype="float32", shape=served.embedder.input_shape, name="images")


def _write_litert(served, recipe, folder):
    """Writes `model.tflite`, with the input `images` and the outputs of a `ServedEmbedder`."""
    images = _checked_input("LiteRT", served, recipe)
    if isinstance(served.pooling, GeneralizedMaxPooling):
        served = ServedEmbedder(_without_cholesky(served.embedder))
    builtin = {"supported_ops": [tf.lite.OpsSet.TFLITE_BUILTINS]}
    try:
        served.export(
            folder / "model.tflite",
            format="litert",
            input_signature=[images],
            verbose=False,
            target_spec=builtin,
        )
    except Exception as error:
        missing = sorted(set(re.findall(r"tf\.(\w+)", str(error))))
        if not missing:
            raise
        raise ValueError(
            "The model cannot be written as LiteRT, which has no operation for "
            f"{', '.join(missing)}. It can be exported as saved_model."
        ) from error


def _without_cholesky(embedder):
    """The model, of the same layers but generalized max pooling, which takes its other solver."""

    def portable(layer):
        if not isinstance(layer, GeneralizedMaxPooling):
            return layer
        return type(layer).from_config({**layer.get_config(), "solver": "conjugate_gradient"})

    return keras.models.clone_model(embedder, clone_function=portable)


def _read_litert(folder):
    """The plain interpreter as a function from images to a dict of outputs."""
    plain = tf.lite.experimental.OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # it will move to another package
        interpreter = tf.lite.Interpreter(
            str(folder / "model.tflite"), experimental_op_resolver_type=plain
        )
    run = interpreter.get_signature_runner()
    return lambda images: run(images=images)


def _write_onnx(served, recipe, folder):
    """Writes `model.onnx`, with the input `images` and the outputs of a `ServedEmbedder`."""
    missing = [name for name in _ONNX_PACKAGES if importlib.util.find_spec(name) is None]
    if missing:
        raise ImportError(f"Export to ONNX needs {', '.join(missing)}: {to_install('onnx')}.")
    images = _checked_input("ONNX", served, recipe)
    import onnx

    _add_erfc()
    path = folder / "model.onnx"
    logging.getLogger("tf2onnx").setLevel(logging.CRITICAL)  # check_model reports gaps
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # Keras uses np.object
        served.export(path, format="onnx", input_signature=[images], verbose=False)
    model = onnx.load(path)
    for value in (*model.graph.input, *model.graph.output):
        value.type.tensor_type.shape.dim[0].dim_param = "batch"
    try:
        onnx.checker.check_model(model)
    except onnx.checker.ValidationError as error:
        reason = str(error).splitlines()[0]
        raise ValueError(f"The model cannot be written as ONNX: {reason}") from error
    onnx.save(model, path)


def _read_onnx(folder):
    """An ONNX Runtime session as a function from images to a dict of outputs."""
    import onnxruntime

    session = onnxruntime.InferenceSession(
        folder / "model.onnx", providers=["CPUExecutionProvider"]
    )
    names = [output.name for output in session.get_outputs()]
    return lambda images: dict(zip(names, session.run(names, {"images": images}), strict=True))


@functools.cache
def _add_erfc():
    """Adds `erfc(x) = 1 - erf(x)` to tf2onnx; TensorFlow's GELU uses it."""
    from tf2onnx.handler import tf_op

    @tf_op("Erfc")
    class Erfc:
        @classmethod
        def version_9(cls, ctx, node, **_):
            dtype, shape = ctx.get_dtype(node.output[0]), ctx.get_shape(node.output[0])
            erf = ctx.make_node("Erf", [node.input[0]], shapes=[shape], dtypes=[dtype])
            one = ctx.make_const(f"{node.name}_one", np.ones((), "float32"))
            ctx.remove_node(node.name)
            ctx.make_node(
                "Sub",
                [one.output[0], erf.output[0]],
                name=node.name,
                outputs=node.output,
                shapes=[shape],
                dtypes=[dtype],
            )


def _write_saved_model(served, recipe, folder):
    """Writes a SavedModel with one signature for encoded images and one for pixels."""
    shape = served.embedder.input_shape
    prepare = _preparation(shape[1], shape[3], recipe.data.resize)
    images = tf.function(
        lambda images: served(images),
        input_signature=[tf.TensorSpec(shape, name="images")],
        autograph=False,
    )
    image_bytes = tf.function(
        lambda image_bytes: images(prepare(image_bytes)),
        input_signature=[tf.TensorSpec((None,), tf.string, name="image_bytes")],
        autograph=False,
    )
    module = tf.Module()
    module.weights = [variable.value for variable in served.variables]
    signatures = {
        "serving_default": image_bytes,
        "image_bytes": image_bytes,
        "images": images,
    }
    tf.saved_model.save(module, str(folder), signatures)


def _read_saved_model(folder):
    """The signature `images` of a SavedModel as a function from images to a dict of outputs."""
    signature = tf.saved_model.load(str(folder)).signatures["images"]
    return lambda images: signature(images=tf.constant(images))


def _preparation(size, channels, resize):
    """A function from files `(B,)` to images `(B, S, S, channels)`, as in `evaluation_dataset`."""

    def prepare_one(numbered):
        number, contents = numbered
        name = tf.strings.format("Image {} of the batch", number)
        window = _decode_window(
            contents, lambda shape: central_window(shape, size, resize), size, channels, name
        )
        return resize_window(window, size, channels)

    def prepare(image_bytes):
        return tf.map_fn(
            prepare_one,
            (tf.range(tf.size(image_bytes)), image_bytes),
            fn_output_signature=tf.TensorSpec((size, size, channels)),
        )

    return prepare


def _write_keras(served, recipe, folder):
    served.embedder.save(folder / KERAS_NAME)


def _read_keras(folder):
    """A function from images to the embedding; Keras' safe mode runs no code in the file."""
    return outputs_of(keras.models.load_model(folder / KERAS_NAME, compile=False))


def outputs_of(embedder):
    """The embedding as a function from images to a dict of outputs."""
    return lambda images: {"embedding": first_output(embedder(images, training=False))}


class _Format(NamedTuple):
    """Functions that write and read a format, and the packages that it needs."""

    write: Callable
    read: Callable
    packages: tuple[str, ...] = ()


_FORMATS = {
    "saved_model": _Format(_write_saved_model, _read_saved_model),
    "onnx": _Format(_write_onnx, _read_onnx, _ONNX_PACKAGES),
    "litert": _Format(_write_litert, _read_litert),
    "keras": _Format(_write_keras, _read_keras),
}


_PNG_HEADER = 26  # bytes: signature, length and name of IHDR, width, height, bit depth, colour type
_PNG_START = r"\CPNG\r\n\x1a\n\x00\x00\x00\x0dIHDR\C{10}"
_GREY, _COLOUR, _WITH_ALPHA = 0, 2, 4  # PNG colour types
# Where Pillow also looks for the orientation.
_HIDDEN_ORIENTATION = (
    r"tiff:Orientation(?:=\"|>)[2-8]|Raw profile type exif\x00|XML:com\.adobe\.xmp\x00\x01"
)

_ORIENTATION, _SHORT, _LONG = 0x0112, 3, 4  # the tag and the types of an EXIF entry


def _decode_window(
    contents: tf.Tensor,
    choose: Callable[[tf.Tensor], tf.Tensor],
    min_side: int,
    channels: int,
    name: str | tf.Tensor,
) -> tf.Tensor:
    """A window of a JPEG or PNG, uint8 `(h, w, channels)`, with the pixels of `FileImages`.

    The size is read first; an image with more than `MAX_PIXELS` is not decoded. The orientation
    comes from EXIF. `tf.errors.InvalidArgumentError` refuses a file that is neither a JPEG nor a
    PNG, a truncated or broken file, a JPEG in CMYK, a PNG of 16-bit colours of which one is
    transparent, and an orientation that EXIF does not give but XMP, or compressed text in a PNG,
    may. A JPEG may be decoded at reduced size by `decode_jpeg_window`.
    """
    is_jpeg = tf.strings.substr(contents, 0, 3) == b"\xff\xd8\xff"
    is_png = tf.strings.regex_full_match(tf.strings.substr(contents, 0, _PNG_HEADER), _PNG_START)
    contents = _require(is_jpeg | is_png, contents, name, "is neither a JPEG nor a PNG file.")
    shape = tf.cond(
        is_jpeg,
        lambda: tf.io.extract_jpeg_shape(contents, tf.int64),
        lambda: tf.concat([_png_size(contents), [3]], axis=0),
    )
    limit = f"pixels; at most {MAX_PIXELS:,} are decoded."
    is_small = shape[0] <= MAX_PIXELS // tf.maximum(shape[1], 1)
    contents = _require(is_small, contents, name, "has height, width", shape[:2], limit)
    is_rgb = shape[2] < 4
    contents = _require(is_rgb, contents, name, "is in CMYK; accepted are grey and RGB.")
    orientation = _orientation(contents)
    is_plain = ~_holds(contents, _HIDDEN_ORIENTATION)
    limit = "may have an orientation outside of EXIF; accepted is one in EXIF."
    contents = _require((orientation > 0) | is_plain, contents, name, limit)
    is_read = is_jpeg | ~_is_deep_colour_with_key(contents)
    limit = "has one transparent colour of 16 bits; accepted are 8 bits, or an alpha channel."
    contents = _require(is_read, contents, name, limit)
    return tf.cond(
        is_upright_jpeg(contents),
        lambda: decode_jpeg_window(contents, choose, min_side, channels),
        lambda: _decode_whole(contents, is_jpeg, orientation, choose, channels),
    )


def _require(condition, contents, *message):
    """Returns the contents only if the condition holds; otherwise raises with the message."""
    with tf.control_dependencies([tf.debugging.Assert(condition, message, summarize=2)]):
        return tf.identity(contents)


def _decode_whole(contents, is_jpeg, orientation, choose, channels):
    """Decodes the whole image as Pillow does, then cuts out the window."""
    pixels = tf.cond(
        is_jpeg,
        lambda: tf.io.decode_jpeg(contents, channels=3, dct_method="INTEGER_ACCURATE"),
        lambda: _decode_png(contents),
    )
    pixels = _turn(pixels, orientation)
    top, left, height, width = tf.unstack(choose(tf.shape(pixels)[:2]))
    pixels = pixels[top : top + height, left : left + width]
    return pixels if channels == 3 else to_grey(pixels)


def _holds(contents, pattern):
    return tf.strings.regex_full_match(contents, rf"\C*(?:{pattern})\C*")


def _orientation(contents):
    """EXIF orientation, 1 (as stored) to 8; 0 if the first directory has none that is valid."""
    orientation = tf.constant(0)
    for start, is_little in ((b"II*\x00", True), (b"MM\x00*", False)):
        for marker in (b"Exif\x00\x00", b"eXIf"):
            tiff = tf.strings.reduce_join(tf.strings.split(contents, marker + start, 1)[1:])
            found = tf.reduce_max(_orientations(tiff, is_little))
            orientation = tf.maximum(orientation, found)
    return orientation


def _orientations(tiff, is_little):
    """The valid orientations among the entries of the first directory, int32 `(n,)`, 0 for others.

    A TIFF begins after its byte order here, with the offset of the directory.
    """

    def numbers(start, size, dtype):
        start = tf.clip_by_value(start, 0, tf.strings.length(tiff))
        read = tf.strings.substr(tiff, start, size)
        return tf.cast(tf.io.decode_raw(read, dtype, is_little, size), tf.int32)

    start = numbers(0, 4, tf.int32)[0] - 4
    size = 12 * tf.maximum(1, numbers(start, 2, tf.uint16)[0])
    tag, kind, *count, first, second = tf.unstack(
        tf.reshape(numbers(start + 2, size, tf.uint16), (-1, 6)), axis=1
    )
    low, high = (first, second) if is_little else (second, first)
    value = tf.where(kind == _SHORT, first, low + 2**16 * high)
    is_read = (tag == _ORIENTATION) & ((kind == _SHORT) | (kind == _LONG)) & (sum(count) == 1)
    return tf.where(is_read & (value >= 1) & (value <= 8), value, 0)


def _turn(image, orientation):
    """Turns and mirrors an image according to its EXIF orientation."""

    def is_one_of(*values):
        return tf.reduce_any(orientation == values)

    image = tf.cond(orientation > 4, lambda: tf.transpose(image, (1, 0, 2)), lambda: image)
    image = tf.cond(is_one_of(2, 3, 6, 7), lambda: tf.reverse(image, [1]), lambda: image)
    return tf.cond(is_one_of(3, 4, 7, 8), lambda: tf.reverse(image, [0]), lambda: image)


def _png_header(contents):
    return tf.io.decode_raw(tf.strings.substr(contents, 0, _PNG_HEADER), tf.uint8)


def _png_size(contents):
    """Height and width from the header of a PNG, int64."""
    sides = tf.reshape(tf.cast(_png_header(contents)[16:24], tf.int64), (2, 4))
    return tf.reverse(tf.reduce_sum(sides * [2**24, 2**16, 2**8, 1], axis=1), [0])


def _has_key(contents):
    """Whether a PNG has a transparent colour, or palette entries with an alpha."""
    return _holds(tf.strings.split([contents], "IDAT", maxsplit=1).values[0], "tRNS")


def _is_deep_colour_with_key(contents):
    """Whether a PNG has 16-bit colours, one of them transparent, which Pillow does not read."""
    header = _png_header(contents)
    header = tf.pad(header, [[0, tf.maximum(0, _PNG_HEADER - tf.size(header))]])
    return (header[24] == 16) & (header[25] == _COLOUR) & _has_key(contents)


def _decode_png(contents):
    """Decodes a PNG to 8-bit RGB, with transparency composited on white."""
    bit_depth, colour_type = tf.unstack(_png_header(contents)[24:26], 2)
    is_transparent = (colour_type >= _WITH_ALPHA) | _has_key(contents)

    def usual():
        return tf.cond(
            is_transparent,
            lambda: _on_white(tf.io.decode_png(contents, channels=4)),
            lambda: tf.io.decode_png(contents, channels=3),
        )

    is_deep_grey = (bit_depth == 16) & (colour_type == _GREY)
    return tf.cond(is_deep_grey, lambda: _deep_grey(contents), usual)


def _deep_grey(contents):
    """16-bit grey rounded to 8 bits; one of its values may be transparent."""
    pixels = tf.cast(tf.io.decode_png(contents, channels=4, dtype=tf.uint16), tf.int32)
    return tf.cast(tf.where(pixels[..., 3:] == 0, 255, (pixels[..., :3] + 128) // 257), tf.uint8)


def _on_white(pixels):
    """Composites RGBA on white with the integer arithmetic of Pillow's `alpha_composite`."""
    pixels = tf.cast(pixels, tf.int32)
    alpha = pixels[..., 3:]
    fine = 128 * (pixels[..., :3] * alpha + 255 * (255 - alpha)) + 128 * 128
    return tf.cast((fine // 256 + fine) // 2**15, tf.uint8)
