"""Embeddings of a user's images, written so that a killed process can go on."""

import warnings

import numpy as np

from gsp_tf.data import find_unreadable
from gsp_tf.data.messages import bulleted
from gsp_tf.lock import locked
from gsp_tf.serving.embeddings_folder import EmbeddingsFolder, Shard
from gsp_tf.serving.listing import fingerprint, list_images
from gsp_tf.serving.metadata import VERSIONED, versions
from gsp_tf.serving.run_model import RunModel

SHARD_SIZE = 4096


def embed_images(run, images, out=None, shard_size=SHARD_SIZE):
    """Embed images with the best model of a run, and write the embeddings as Parquet.

    The images are prepared as `gsp-tf evaluate` prepares them. They are divided into shards in
    their order; a shard that is written is not computed again, so that the same call after a
    process was killed goes on with the missing ones. Files that cannot be read as images are left
    out, listed in `corrupt.csv` and warned of.

    Args:
        run: run folder.
        images: paths of image files, folders and manifests, as `list_images` takes them.
        out: folder to write; `None` is the folder `embeddings` in the run.
        shard_size: images in a file; embeddings that were begun go on with theirs.

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
    if shard_size < 1:
        raise ValueError(f"shard_size must be 1 or more, received {shard_size}.")
    model, listed = RunModel(run), list_images(images)
    folder = EmbeddingsFolder(model.folder.path / "embeddings" if out is None else out)
    folder.refuse_other_files()
    with locked(folder.path):
        metadata = _start(folder, model, listed, shard_size)
        if not metadata["complete"]:
            shard_size = metadata["shard_size"]
            for number in range(folder.num_shards):
                if not folder.shard_path(number).is_file():
                    part = listed[number * shard_size : (number + 1) * shard_size]
                    description = f"Embedding, part {number + 1} of {folder.num_shards}"
                    folder.write_shard(number, _embed(model, part, description))
            metadata = _finish(folder, metadata)
    _report(folder, metadata)
    return folder


def _start(folder, model, listed, shard_size):
    """The metadata of the folder, new or as it was begun."""
    wanted = {
        "model": {
            "sha256": model.sha256,
            "recipe": model.recipe.name,
            "run": str(model.folder.path.absolute()),
        },
        "preprocessing": model.preprocessing,
        "images": {"listed": len(listed), "sha256": fingerprint(listed)},
    }
    if folder.metadata_path.exists():
        begun = folder.metadata()
        _check_same(folder, begun, wanted)
        folder.remove_temporary_files()
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
    differing = {
        "the model": (begun["model"].get("sha256"), wanted["model"]["sha256"]),
        "the preprocessing": (begun["preprocessing"], wanted["preprocessing"]),
        "the list of images": (
            {key: begun["images"].get(key) for key in wanted["images"]},
            wanted["images"],
        ),
    }
    problems = [
        f"{name}: {theirs} there, {ours} now"
        for name, (theirs, ours) in differing.items()
        if theirs != ours
    ]
    if problems:
        raise ValueError(
            f"{folder.path} holds other embeddings; choose another folder or remove it:\n"
            f"{bulleted(problems)}"
        )


def _embed(model, listed, description):
    """The `Shard` of some listed images."""
    reasons = {error.path: error.reason for error in find_unreadable([i.path for i in listed])}
    for path, label in listed:
        if not (_is_text(path) and _is_text(label or "")):
            reasons.setdefault(path, "its path is not Unicode text (UTF-8)")
    readable = [image for image in listed if image.path not in reasons]
    paths = [image.path for image in readable]
    embeddings = np.empty((0, model.dim), np.float32)
    if readable:
        embeddings = model.embed_files(paths, description)
    corrupt = [(_as_text(path), reasons[path]) for path, _ in listed if path in reasons]
    return Shard(paths, [image.label for image in readable], embeddings, corrupt)


def _as_text(path):
    return path.encode("utf-8", "backslashreplace").decode()


def _is_text(path):
    return path == _as_text(path)


def _finish(folder, metadata):
    """Check every shard, list what could not be read, and mark the folder complete."""
    corrupt, shortest, longest, count = [], np.inf, 0.0, 0
    for shard in folder.shards():
        corrupt += shard.corrupt
        count += len(shard.paths)
        if shard.paths:
            lengths = np.linalg.norm(shard.embeddings, axis=1)
            shortest, longest = min(shortest, lengths.min()), max(longest, lengths.max())
    if count + len(corrupt) != metadata["images"]["listed"]:
        raise ValueError(
            f"{folder.path} is damaged: its shards hold {count + len(corrupt)} of "
            f"{metadata['images']['listed']} images. Remove it and embed again."
        )
    if corrupt:
        folder.write_corrupt(corrupt)
    if not count:
        raise ValueError(
            f"None of the {len(corrupt)} files can be read as an image; see {folder.corrupt_path}."
        )
    metadata = {
        **metadata,
        "images": {**metadata["images"], "embedded": count, "corrupt": len(corrupt)},
        "lengths": [float(shortest), float(longest)],
        "complete": True,
    }
    folder.write_metadata(metadata)
    return metadata


def _report(folder, metadata):
    """Warn of the images that could not be read."""
    corrupt = folder.corrupt()
    if corrupt:
        warnings.warn(
            f"{len(corrupt)} of {metadata['images']['listed']} files cannot be read as images and "
            f"are left out; {folder.corrupt_path} lists them:\n"
            f"{bulleted([f'{path}: {reason}' for path, reason in corrupt])}",
            stacklevel=3,
        )
