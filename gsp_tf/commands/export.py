"""`gsp-tf export`: the model of a run for other programs."""

from typing import Literal

from gsp_tf.commands._recipes import require_run


def command(
    run: str,
    *,
    format: Literal["saved_model", "onnx", "keras"],
    out: str | None = None,
    attributes: bool = False,
    pooling_weights: bool = False,
):
    """Write the model of a run to be served.

    The best model goes to a folder with metadata.json, for other programs. What was written is
    loaded again and compared with the model.

    Args:
        run: Run folder.
        format: saved_model serves without gsp_tf, files of images too; onnx without TensorFlow;
            keras holds the layers themselves and needs gsp_tf.
        out: Folder to make; null is the format's name in the run.
        attributes: Also give the attributes of gsp.
        pooling_weights: Also give the weights of places, of poolings that have them.
    """
    require_run(run)
    from gsp_tf.serving import export_run

    print(f"Exported: {export_run(run, format, out, attributes, pooling_weights)}")
