"""`gsp-tf embed`: embeddings of images."""

from gsp_tf.commands.parsers import command_parser, require_run
from gsp_tf.commands.results import show_embeddings

HELP = "Embed images with the model of a run."


def parser():
    """Its arguments."""
    arguments = command_parser(
        "Embed images with the best model of a run, prepared as evaluate prepares "
        "them, and write the embeddings as Parquet. Stopped, the same command continues."
    )
    arguments.add_argument("run", type=str, help="Run folder.")
    arguments.add_argument(
        "images",
        type=str,
        nargs="+",
        help="Image files, folders (searched at any depth; the first folder below is the label) "
        "and .csv files with the columns path and label.",
    )
    arguments.add_argument(
        "--out", type=str | None, help="Folder to write; null is the folder embeddings in the run."
    )
    arguments.add_argument(
        "--shard-size",
        type=int,
        default=4096,
        help="Images in a file, embedded again after a stop.",
    )
    return arguments


def run(options, parser):
    """Its work; gives the exit code."""
    require_run(options.run)
    from gsp_tf.serving import embed_images

    folder = embed_images(options.run, options.images, options.out, options.shard_size)
    show_embeddings(folder)
    return 0
