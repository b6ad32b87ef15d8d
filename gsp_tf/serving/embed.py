"""Embeddings of a user's images, written so that a killed process can continue."""

import numpy as np

from gsp_tf._files import advising, locked
from gsp_tf.data import find_unreadable
from gsp_tf.serving.decodable import NOT_DECODED, embed_decodable
from gsp_tf.serving.embedding_job import SHARD_SIZE, begin, finish, warn_of_corrupt
from gsp_tf.serving.embeddings_folder import EmbeddingsFolder, Shard
from gsp_tf.serving.listing import fingerprint, list_images
from gsp_tf.serving.run_model import RunModel


def embed_images(run, images, out=None, shard_size=SHARD_SIZE):
    """Embed images with the best model of a run, and write the embeddings as Parquet.

    The images are prepared as `gsp-tf evaluate` prepares them. They are divided into shards in
    their order; a shard that is written is not computed again, so that the same call after a
    process was killed continues with the missing ones. Files that cannot be read as images are left
    out, listed in `corrupt.csv` and warned of.

    Args:
        run: run folder.
        images: paths of image files, folders and manifests, as `list_images` takes them.
        out: folder to write; `None` is the folder `embeddings` in the run.
        shard_size: images in a file; embeddings that were begun continue with theirs.

    Returns:
        `EmbeddingsFolder`.

    Raises:
        BlockingIOError: if another process is writing `out`.
        FileNotFoundError: if `run` is not a run folder, or an image or folder does not exist.
        FileExistsError: if `out` holds something else.
        ValueError: if `out` holds embeddings of another model, other preprocessing or other images,
            or no image can be read.

    Example:
        >>> embed_images("no/such/run", ["photos"])
        Traceback (most recent call last):
            ...
        FileNotFoundError: no/such/run is not a run folder: it has no recipe.yaml.
    """
    model, listed = RunModel(run), list_images(images)
    folder = EmbeddingsFolder(model.folder.path / "embeddings" if out is None else out)
    sources = {"listed": len(listed), "sha256": fingerprint(listed)}
    folder.refuse_other_files()
    with advising(_how_to_go_on), locked(folder.path):
        metadata = begin(folder, model, sources, shard_size)
        if not metadata["complete"]:
            shard_size = metadata["shard_size"]
            for number in range(folder.num_shards):
                if not folder.shard_path(number).is_file():
                    part = listed[number * shard_size : (number + 1) * shard_size]
                    description = f"Embedding, part {number + 1} of {folder.num_shards}"
                    folder.write_shard(number, _embed(model, part, description))
            metadata = finish(folder, metadata)
    warn_of_corrupt(folder, metadata)
    return folder


def _how_to_go_on():
    return "Free some space; the same command continues with what is missing."


def _embed(model, listed, description):
    """The `Shard` of some listed images."""
    reasons = {error.path: error.reason for error in find_unreadable([i.path for i in listed])}
    for path, label in listed:
        if not (_is_text(path) and _is_text(label or "")):
            reasons.setdefault(path, "its path is not Unicode text (UTF-8)")
    readable = [image for image in listed if image.path not in reasons]
    paths = [image.path for image in readable]
    embeddings, failed = embed_decodable(
        lambda some: model.embed_files(some, description), paths, model.dim
    )
    reasons.update({paths[row]: NOT_DECODED for row in failed})
    kept = [image for image in readable if image.path not in reasons]
    corrupt = [(_as_text(path), reasons[path]) for path, _ in listed if path in reasons]
    paths, labels = [image.path for image in kept], [image.label for image in kept]
    return Shard(paths, labels, np.delete(embeddings, failed, axis=0), corrupt)


def _as_text(path):
    return path.encode("utf-8", "backslashreplace").decode()


def _is_text(path):
    return path == _as_text(path)
