"""`gsp-tf export`: the model of a run for other programs."""

from typing import Literal

from gsp_tf.commands.parsers import command_parser, require_run

HELP = "Write the model of a run to be served."


def parser():
    """Its arguments."""
    arguments = command_parser(
        "Write the best model of a run for other programs: a folder with the model and "
        "metadata.json. What was written is loaded again and compared with the model."
    )
    arguments.add_argument("run", type=str, help="Run folder.")
    arguments.add_argument(
        "--format",
        type=Literal["saved_model", "onnx", "keras"],
        required=True,
        help="saved_model serves without gsp_tf, files of images too; onnx without TensorFlow; "
        "keras holds the layers themselves and needs gsp_tf.",
    )
    arguments.add_argument(
        "--out", type=str | None, help="Folder to make; null is the format's name in the run."
    )
    arguments.add_argument(
        "--attributes", action="store_true", help="Also give the attributes of gsp."
    )
    arguments.add_argument(
        "--pooling-weights",
        action="store_true",
        help="Also give the weights of places, of poolings that have them.",
    )
    return arguments


def run(options, parser):
    """Its work; gives the exit code."""
    require_run(options.run)
    from gsp_tf.serving import export_run

    out = export_run(
        options.run, options.format, options.out, options.attributes, options.pooling_weights
    )
    print(f"Exported: {out}")
    return 0
