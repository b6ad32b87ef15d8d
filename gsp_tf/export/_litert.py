"""LiteRT export, for the plain interpreter on small devices."""

import re
import warnings

import keras
import tensorflow as tf

from gsp_tf.export._served_embedder import ServedEmbedder
from gsp_tf.layers import GeneralizedMaxPooling

_NAME = "model.tflite"


def write_litert(served, recipe, folder):
    """Writes `model.tflite`, with the input `images` and the outputs of a `ServedEmbedder`."""
    if recipe.training.precision != "float32":
        raise ValueError(
            "LiteRT takes models of training.precision=float32; received "
            f"{recipe.training.precision}. It can be exported as saved_model."
        )
    images = keras.InputSpec(dtype="float32", shape=served.embedder.input_shape, name="images")
    if isinstance(served.pooling, GeneralizedMaxPooling):
        served = ServedEmbedder(_without_cholesky(served.embedder))
    builtin = {"supported_ops": [tf.lite.OpsSet.TFLITE_BUILTINS]}
    try:
        served.export(
            folder / _NAME,
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


def read_litert(folder):
    """The plain interpreter as a function from images to a dict of outputs."""
    plain = tf.lite.experimental.OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # it will move to another package
        interpreter = tf.lite.Interpreter(str(folder / _NAME), experimental_op_resolver_type=plain)
    run = interpreter.get_signature_runner()
    return lambda images: run(images=images)
