"""Resumable embedding of a user's images."""

from collections.abc import Sequence

import pyarrow as pa

from gsp_tf import runs
from gsp_tf._files import advising, locked
from gsp_tf._typing import PathLike
from gsp_tf.search._tables import as_text
from gsp_tf.search.embedding._job import (
    SHARD_SIZE,
    begin,
    file_columns,
    finish,
    missing_shards,
)
from gsp_tf.search.embedding._listing import ListedImage, list_digest, list_images
from gsp_tf.search.embedding._token_columns import num_tokens, token_columns
from gsp_tf.search.embedding.folder import EmbeddingsFolder, ImageList, Shard
from gsp_tf.search.embedding.run_model import RunModel


def embed_images(
    run: PathLike,
    images: Sequence[PathLike],
    out: PathLike | None = None,
    shard_size: int = SHARD_SIZE,
    tokens: int = 0,
) -> EmbeddingsFolder:
    """Embeds images with the best model of a run, and writes the embeddings as Parquet.

    The images are prepared as in `gsp-tf evaluate` and divided into shards in order. If a process
    was killed, the same call computes only the missing shards. Files that cannot be read as images
    are left out, listed in `corrupt.csv` and reported in a warning.

    Args:
        run: Run folder.
        images: Image files, folders (searched at any depth) and CSV files with the columns path and
            label.
        out: Folder to write; `None` means the folder `embeddings` in the run.
        shard_size: Images per file; a resumed folder keeps its own.
        tokens: Number of local features to keep of each image, for search with transport; a resumed
            folder must have as many.

    Returns:
        The folder of embeddings.

    Raises:
        BlockingIOError: If another process is writing `out`.
        FileNotFoundError: If `run` is not a run folder, or an image or folder does not exist.
        FileExistsError: If `out` holds other files.
        ValueError: If `out` holds embeddings of another model, preprocessing, list of images or
            number of tokens, no image can be read, or tokens are wanted of a model whose pooling
            has no weights.

    Example:
        >>> embed_images("no/such/run", ["photos"])
        Traceback (most recent call last):
            ...
        FileNotFoundError: no/such/run is not a run folder: it has no recipe.yaml.
    """
    model, listed = RunModel(run), list_images(images)
    folder = EmbeddingsFolder(model.folder.path / "embeddings" if out is None else out)
    folder.refuse_other_files()
    with advising(_how_to_continue), locked(folder.path):
        metadata = begin(folder, model, ImageList(len(listed), list_digest(listed)), shard_size)
        missing = missing_shards(folder, metadata)
        _check_tokens(folder, model, set(range(metadata.num_shards)) - set(missing), tokens)
        for number in missing:
            part = listed[number * metadata.shard_size : (number + 1) * metadata.shard_size]
            description = f"Embedding, part {number + 1} of {metadata.num_shards}"
            folder.write_shard(number, embed_shard(model, part, description, tokens))
        finish(folder, metadata)
    return folder


def _how_to_continue() -> str:
    return "Free some space; the same command continues with what is missing."


def _check_tokens(
    folder: EmbeddingsFolder, model: RunModel, written: set[int], tokens: int
) -> None:
    """Raises `ValueError` if written shards have another number of tokens."""
    if tokens < 0:
        raise ValueError(f"tokens must be 0 or more; received {tokens}.")
    if written:
        there = num_tokens(folder.shard_schema(min(written)))
        wanted = runs.TokenModel(model.embedder, tokens).k if tokens else 0
        if there != wanted:
            raise ValueError(
                f"{folder.path} holds embeddings with {there} local features of each image, and "
                f"{wanted} were asked for. Choose another folder (--out NEW) or remove it."
            )


def embed_shard(model: RunModel, listed: list[ListedImage], description: str, tokens: int) -> Shard:
    """Embeds some images; those that cannot be read are listed in the shard."""
    paths = [image.path for image in listed]
    columns = file_columns(paths)
    if tokens:
        (embeddings, problems), sets = model.embed_with_tokens(paths, tokens, description)
        columns |= token_columns(sets)
    else:
        embeddings, problems = model.embed_images(paths, description)
    for row, (path, label) in enumerate(listed):
        if not (_is_text(path) and _is_text(label or "")):
            problems[row] = problems[row] or "its path is not Unicode text (UTF-8)"
    kept = [row for row, problem in enumerate(problems) if not problem]
    return Shard(
        [paths[row] for row in kept],
        [listed[row].label for row in kept],
        embeddings[kept],
        [(as_text(path), why) for path, why in zip(paths, problems, strict=True) if why],
        {name: values.take(pa.array(kept, pa.int64())) for name, values in columns.items()},
    )


def _is_text(path: str) -> bool:
    return path == as_text(path)
