"""`gsp-tf embed`: embeddings of images."""

from gsp_tf._numbers import Count, SizeOrZero
from gsp_tf.commands._results import show_embeddings
from gsp_tf.runs import run_folder


def command(
    run: str,
    images: list[str],
    *,
    out: str | None = None,
    shard_size: Count = 4096,
    tokens: SizeOrZero = 0,
):
    """Embed images with the model of a run.

    The best model embeds the images, which are prepared as in evaluate. The embeddings are written
    as Parquet. If the command is stopped, run it again to continue.

    Args:
        run: Run folder, or a pretrained network as it is, such as efficientnet_lite0 or
            hub:dinov2_small.
        images: Image files, folders (searched at any depth; the first subfolder is the label) and
            .csv files with the columns path and label.
        out: Folder to write; null is the folder embeddings in the run.
        shard_size: Images per file. After a stop an unfinished file is embedded again, and later
            files have as many images as before.
        tokens: Local features to keep of each image, 16 to 32, so that search can compare them with
            --rerank transport. 0 keeps none.
    """
    run = run_folder(run)
    from gsp_tf.search import embed_images

    show_embeddings(embed_images(run, images, out, shard_size, tokens))
