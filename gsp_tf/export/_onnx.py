"""ONNX export, for serving without TensorFlow by ONNX Runtime and other programs."""

import functools
import importlib.util
import logging
import warnings

import keras
import numpy as np

from gsp_tf._console import to_install

_NAME = "model.onnx"
ONNX_PACKAGES = ("tf2onnx", "onnx", "onnxruntime")


def write_onnx(served, recipe, folder):
    """Writes `model.onnx`, with the input `images` and the outputs of a `ServedEmbedder`."""
    missing = [name for name in ONNX_PACKAGES if importlib.util.find_spec(name) is None]
    if missing:
        raise ImportError(f"Export to ONNX needs {', '.join(missing)}: {to_install('onnx')}.")
    # ONNX Runtime gives other numbers in half precision.
    if recipe.training.precision != "float32":
        raise ValueError(
            "ONNX takes models of training.precision=float32; received "
            f"{recipe.training.precision}. It can be exported as saved_model."
        )
    import onnx

    _add_erfc()
    path = folder / _NAME
    images = keras.InputSpec(dtype="float32", shape=served.embedder.input_shape, name="images")
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


def read_onnx(folder):
    """An ONNX Runtime session as a function from images to a dict of outputs."""
    import onnxruntime

    session = onnxruntime.InferenceSession(folder / _NAME, providers=["CPUExecutionProvider"])
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
