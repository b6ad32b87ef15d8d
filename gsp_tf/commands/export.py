"""`gsp-tf export`: the model of a run for other programs."""

import os
import sys
from typing import Literal

from gsp_tf.commands._results import show_untrained
from gsp_tf.runs import run_folder


def command(
    run: str,
    *,
    format: Literal["saved_model", "onnx", "litert", "keras"],
    out: str | None = None,
    attributes: bool = False,
    pooling_weights: bool = False,
):
    """Export the model of a run for serving.

    Writes the best model and metadata.json to a folder, for other programs. Then loads the export
    and compares it with the model.

    Args:
        run: Run folder, or a pretrained network as it is, such as efficientnet_lite0 or
            hub:dinov2_small.
        format: saved_model needs no gsp_tf and also serves image files; onnx needs no TensorFlow;
            litert runs in the plain interpreter of LiteRT; keras holds the layers themselves and
            needs gsp_tf. TensorFlow writes all but the last, whatever KERAS_BACKEND is.
        out: Folder to create; null is the name of the format, in the run.
        attributes: Also output the attributes of gsp.
        pooling_weights: Also output the weights of places, if the pooling has them.
    """
    run = run_folder(run)
    if format != "keras" and "keras" not in sys.modules:
        os.environ["KERAS_BACKEND"] = "tensorflow"  # loads the models of every backend

    from gsp_tf.export import export_run

    print(f"Exported: {export_run(run, format, out, attributes, pooling_weights)}")
    show_untrained(run)
