"""How embeddings of many images begin, continue after a stop, and end."""

import warnings

from gsp_tf._console import bulleted, counted
from gsp_tf._files import remove_partial
from gsp_tf.serving.metadata import VERSIONED, versions

SHARD_SIZE = 4096


def begin(folder, model, images, shard_size):
    """The metadata of a folder of embeddings, new or as it was begun.

    Args:
        folder: `EmbeddingsFolder`, locked by this process.
        model: `RunModel`.
        images: dict that says which images they are, with the entries `listed`, their number, and
            `sha256`.
        shard_size: images in a file; embeddings that were begun continue with theirs.

    Returns:
        dict, what `embeddings.json` holds.

    Raises:
        ValueError: if the folder holds embeddings of another model, other preprocessing or other
            images, or `shard_size` is below 1.
    """
    if shard_size < 1:
        raise ValueError(f"shard_size must be 1 or more, received {shard_size}.")
    wanted = {**model.described, "images": images}
    if folder.metadata_path.exists():
        begun = folder.metadata()
        _check_same(folder, begun, wanted)
        folder.forget_attempts()
        return begun
    metadata = {
        **wanted,
        "shard_size": shard_size,
        "dim": model.dim,
        "metric": "euclidean",
        "versions": versions(*VERSIONED),
        "complete": False,
    }
    folder.write_metadata(metadata)
    return metadata


def _check_same(folder, begun, wanted):
    """Refuse to mix two models, two preprocessings or two lists of images."""
    ours, theirs = wanted["model"], begun["model"]
    prepared, images = begun["preprocessing"], begun["images"]
    if theirs.get("sha256") != ours["sha256"]:
        earlier = theirs.get("run") == ours["run"]
        problem = f"of {'an earlier' if earlier else 'the'} model of {theirs.get('run')}"
    elif prepared != wanted["preprocessing"]:
        problem = f"with other preprocessing: {prepared} there, {wanted['preprocessing']} now"
    elif wanted["images"].items() <= images.items():
        return
    else:
        problem = (
            f"of another list of images: {images['listed']:,} there, "
            f"{wanted['images']['listed']:,} now. To add images to an index, embed them alone "
            "(--out NEW), then run gsp-tf index INDEX --add NEW"
        )
    raise ValueError(
        f"{folder.path} holds embeddings {problem}. Choose another folder (--out NEW) or remove it."
    )


def finish(folder, metadata):
    """Check every shard, list what could not be read, and mark a folder complete.

    What killed workers left is removed, also what those left who had already renamed their shard.

    Args:
        folder: `EmbeddingsFolder` whose shards are all written.
        metadata: dict of `begin`.

    Returns:
        dict, what `embeddings.json` holds now.

    Raises:
        ValueError: if a shard does not account for each of its images, or no image can be read.
    """
    listed, shard_size = metadata["images"]["listed"], metadata["shard_size"]
    count, corrupt, lengths = 0, [], []
    for number in range(folder.num_shards):
        shard = folder.summarize_shard(number)
        found = shard.count + len(shard.corrupt)
        expected = min(shard_size, listed - number * shard_size)
        if found != expected:
            raise ValueError(
                f"{folder.shard_path(number)} is damaged: it accounts for {found} of {expected} "
                "images. Remove it and embed again."
            )
        count += shard.count
        corrupt += shard.corrupt
        lengths += shard.lengths
    if corrupt:
        folder.write_corrupt(corrupt)
    if not count:
        raise ValueError(
            f"No image can be read of {counted(len(corrupt), 'file')}; see {folder.corrupt_path}."
        )
    metadata = {
        **metadata,
        "images": {**metadata["images"], "embedded": count, "corrupt": len(corrupt)},
        "lengths": [min(lengths), max(lengths)],
        "complete": True,
    }
    folder.write_metadata(metadata)
    folder.forget_attempts()
    remove_partial(folder.path)
    return metadata


def warn_of_corrupt(folder, metadata):
    """Warn the caller's caller of the images that could not be read.

    Args:
        folder: `EmbeddingsFolder` that is complete.
        metadata: what its `embeddings.json` holds.
    """
    corrupt = folder.corrupt()
    if corrupt:
        warnings.warn(
            f"{len(corrupt)} of {counted(metadata['images']['listed'], 'file')} cannot be read as "
            f"images and are left out; {folder.corrupt_path} lists them:\n"
            f"{bulleted([f'{path}: {reason}' for path, reason in corrupt])}",
            stacklevel=3,
        )
