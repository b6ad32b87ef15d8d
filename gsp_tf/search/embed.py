"""Resumable embedding of a user's images."""

import contextlib
import hashlib
import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from gsp_tf import runs
from gsp_tf._arguments import check_at_least, check_sizes
from gsp_tf._console import bulleted, counted
from gsp_tf._files import advising, locked, remove_partial, several
from gsp_tf._metadata import check_same_model, versions
from gsp_tf._typing import PathLike
from gsp_tf.data import IMAGE_EXTENSIONS, LeftOut, find_images, read_rows
from gsp_tf.search._embedded import (
    FILE_COLUMNS,
    EmbeddingsFolder,
    EmbeddingsMetadata,
    ImageList,
    Outcome,
)
from gsp_tf.search._tables import (
    as_text,
    num_tokens,
    token_columns,
    vector_column,
    write_table,
)
from gsp_tf.search.embedder import RunModel


class ListedImage(NamedTuple):
    """The absolute path of an image file, and its class, `None` if unknown."""

    path: str
    label: str | None


def list_images(sources: PathLike | Sequence[PathLike]) -> list[ListedImage]:
    """The distinct image files in files, folders (searched at any depth) and .csv files."""
    labels = {}
    for source in several(sources):
        for path, label in _listed(Path(source)):
            path = os.path.abspath(path)
            known = labels.get(path)
            if known is not None and label is not None and known != label:
                raise ValueError(f"{path} has two labels: {known!r} and {label!r}.")
            labels[path] = label if known is None else known
    return [ListedImage(path, label) for path, label in labels.items()]


def _list_digest(images: Iterable[ListedImage]) -> str:
    """SHA-256 of the paths and labels of images, in order."""
    digest = hashlib.sha256()
    for path, label in images:
        digest.update(repr((path, label)).encode())
    return digest.hexdigest()


def _listed(source):
    if not source.exists():
        raise FileNotFoundError(f"{source} does not exist; expected an image, a folder or a .csv.")
    if source.is_dir():
        return _in_folder(source)
    if source.suffix.lower() == ".csv":
        return _in_manifest(source)
    return [(source, None)]


def _in_folder(folder):
    left_out = LeftOut()
    images = find_images(folder, left_out)
    if not images:
        accepted = ", ".join(IMAGE_EXTENSIONS)
        left_out.problems.append(f"there are no images in it; accepted are {accepted}")
    left_out.report(folder, stacklevel=5)
    found = []
    for path in images:
        parents = Path(path).relative_to(folder).parts[:-1]
        found.append((path, parents[0] if parents else None))
    return sorted(found, key=lambda image: (image[1] or "", image[0]))


def _in_manifest(manifest):
    rows = read_rows(manifest)
    if not rows:
        raise ValueError(f"{manifest} lists no images.")
    empty = [f"line {row.line}: the path is empty" for row in rows if not row.path]
    if empty:
        raise ValueError(f"{manifest} cannot be used:\n{bulleted(empty)}")
    return [(row.path, row.label or None) for row in rows]


SHARD_SIZE = 4096
_MOST_ATTEMPTS = 5


@contextlib.contextmanager
def writing(
    out: PathLike | None,
    model: RunModel,
    images: ImageList,
    shard_size: int,
    is_old: Callable[[EmbeddingsFolder, int], bool] = lambda folder, number: False,
) -> Iterator[tuple[EmbeddingsFolder, EmbeddingsMetadata, list[int]]]:
    """A new or resumed folder, its metadata and the numbers of its missing shards, to write."""
    folder = EmbeddingsFolder(model.folder.path / "embeddings" if out is None else out)
    folder.refuse_other_files()
    with locked(folder.path):
        metadata = _begin(folder, model, images, shard_size)
        numbers = range(metadata.num_shards)
        missing = [n for n in numbers if not folder.shard_path(n).is_file() or is_old(folder, n)]
        if missing and metadata.outcome is not None:
            metadata = replace(metadata, outcome=None)
            metadata.write(folder.metadata_path)
        yield folder, metadata, missing
        _finish(folder, metadata)


def _has_changed_files(folder, number):
    """Whether files of a shard have another size or time, or are newer where they were corrupt."""
    shard, corrupt = folder.files_of_shard(number)
    now = file_columns(shard["path"].to_pylist())
    if any(not shard[name].combine_chunks().equals(now[name]) for name in FILE_COLUMNS):
        return True
    written = folder.shard_path(number).stat().st_mtime_ns
    times = [_size_and_time(name)[1] for name, _ in corrupt]
    return any(time is not None and time > written for time in times)


def _begin(folder, model, images, shard_size):
    """The metadata of a new or resumed folder; `shard_size` applies only to a new one."""
    import keras  # here: other functions need no TensorFlow

    check_sizes(shard_size=shard_size)
    if folder.metadata_path.exists():
        begun = folder.metadata()
        _check_same(folder, begun, model, images)
        return begun
    metadata = EmbeddingsMetadata(
        model=model.info,
        images=images,
        dim=model.dim,
        metric="euclidean",
        shard_size=shard_size,
        versions=versions("keras", keras.backend.backend(), "numpy", "pyarrow"),
    )
    metadata.write(folder.metadata_path)
    return metadata


def _check_same(folder, begun, model, images):
    """Raises `ValueError` if the model, its preprocessing or the list of images differs."""
    advice = f"Choose another folder (--out NEW) or remove {folder.path}."
    both = f"{model.folder.path} and the embeddings in {folder.path}"
    check_same_model(model.info, begun.model, both, advice)
    if begun.images != images:
        raise ValueError(
            f"{folder.path} holds embeddings of another list of images: {begun.images.listed:,} "
            f"there, {images.listed:,} now. To add images to an index, embed them alone (--out "
            f"NEW), then run gsp-tf index INDEX --add NEW. {advice}"
        )


def _finish(folder: EmbeddingsFolder, metadata: EmbeddingsMetadata) -> None:
    """Checks every shard, lists unreadable images and warns of them, and completes the folder."""
    if metadata.outcome is None:
        metadata = replace(metadata, outcome=_outcome(folder, metadata))
        metadata.write(folder.metadata_path)
        forget_attempts(folder)
        remove_partial(folder.path)  # left by a worker killed after renaming its shard
    corrupt = folder.corrupt()
    if corrupt:
        warnings.warn(
            f"{len(corrupt)} of {counted(metadata.images.listed, 'file')} cannot be read as images "
            f"and are left out; {folder.corrupt_path} lists them:\n"
            f"{bulleted([f'{path}: {reason}' for path, reason in corrupt])}",
            stacklevel=5,
        )


def _outcome(folder, metadata):
    count, corrupt, lengths = 0, [], []
    for number in range(metadata.num_shards):
        images, unreadable, extent = folder.summarize_shard(number)
        found = images + len(unreadable)
        expected = min(metadata.shard_size, metadata.images.listed - number * metadata.shard_size)
        if found != expected:
            raise ValueError(
                f"{folder.shard_path(number)} is damaged: it accounts for {found} of {expected} "
                "images. Remove it and embed again."
            )
        count += images
        corrupt += unreadable
        lengths += extent
    folder.corrupt_path.unlink(missing_ok=True)
    if corrupt:
        paths, reasons = map(list, zip(*corrupt, strict=True))
        write_table(folder.corrupt_path, {"path": paths, "reason": reasons})
    if not count:
        raise ValueError(
            f"No image can be read of {counted(len(corrupt), 'file')}; see {folder.corrupt_path}."
        )
    return Outcome(count, len(corrupt), (min(lengths), max(lengths)))


def count_attempt(folder: EmbeddingsFolder, number: int) -> None:
    """Counts an attempt to write a shard; raises `ValueError` after too many."""
    path = folder.path / f".attempts-{number:05}"
    attempts = int(path.read_text() or 0) if path.exists() else 0
    if attempts >= _MOST_ATTEMPTS:
        raise ValueError(
            f"{attempts} workers were killed while they wrote it. Is there enough memory?"
        )
    path.write_text(str(attempts + 1))


def forget_attempts(folder: EmbeddingsFolder) -> None:
    for path in folder.path.glob(".attempts-*"):
        path.unlink()


def file_columns(images: Sequence[str | bytes | None]) -> dict[str, pa.Array]:
    """Sizes in bytes and modification times of files; contents have only a size."""
    found = list(map(_size_and_time, images))
    return {
        name: pa.array([values[column] for values in found], kind)
        for column, (name, kind) in enumerate(FILE_COLUMNS.items())
    }


def _size_and_time(image):
    if not isinstance(image, str):
        return None if image is None else len(image), None
    try:
        file = os.stat(image)
    except (OSError, ValueError):  # no path has the character NUL
        return None, None
    return file.st_size, file.st_mtime_ns


def embed_images(
    run: PathLike,
    images: PathLike | Sequence[PathLike],
    out: PathLike | None = None,
    shard_size: int = SHARD_SIZE,
    tokens: int = 0,
) -> EmbeddingsFolder:
    """Embeds images with the best model of a run, and writes the embeddings as Parquet.

    The images are prepared as in `gsp-tf evaluate` and divided into shards in order. If a process
    was killed, the same call computes only the missing shards, and later those of files that have
    changed. Files that cannot be read as images are left out, listed in `corrupt.csv` and reported
    in a warning.

    Args:
        run: Run folder.
        images: Image files, folders (searched at any depth) and CSV files with the columns path and
            label.
        out: Folder to write; `None` means the folder `embeddings` in the run.
        shard_size: Images per file; a resumed folder keeps its own.
        tokens: Number of local features to keep of each image, for search with transport; a resumed
            folder must have as many.

    Raises:
        BlockingIOError: If another process is writing `out`.
        FileExistsError: If `out` holds other files.
        ValueError: If no image can be read, the pooling has no weights for tokens, or `out` holds
            embeddings of another model, preprocessing, list of images or number of tokens.

    Example:
        >>> embed_images("no/such/run", ["photos"])
        Traceback (most recent call last):
            ...
        FileNotFoundError: no/such/run is not a run folder: it has no recipe.yaml.
    """
    model, listed = RunModel(run), list_images(images)
    images = ImageList(len(listed), _list_digest(listed))
    how = "Free some space; the same command continues with what is missing."
    with (
        advising(lambda: how),
        writing(out, model, images, shard_size, _has_changed_files) as (folder, metadata, missing),
    ):
        _check_tokens(folder, model, set(range(metadata.num_shards)) - set(missing), tokens)
        for number in missing:
            part = listed[number * metadata.shard_size : (number + 1) * metadata.shard_size]
            description = f"Embedding, part {number + 1} of {metadata.num_shards}"
            folder.write_shard(number, *embed_files(model, part, description, tokens))
    return folder


def _check_tokens(
    folder: EmbeddingsFolder, model: RunModel, written: set[int], tokens: int
) -> None:
    """Raises `ValueError` if written shards have another number of tokens."""
    check_at_least(0, tokens=tokens)
    if written:
        there = num_tokens(folder.shard_schema(min(written)))
        wanted = runs.TokenModel(model.embedder, tokens).k if tokens else 0
        if there != wanted:
            raise ValueError(
                f"{folder.path} holds embeddings with {there} local features of each image, and "
                f"{wanted} were asked for. Choose another folder (--out NEW) or remove it."
            )


def embed_files(
    model: RunModel, listed: list[ListedImage], description: str, tokens: int = 0
) -> tuple[pa.Table, list[tuple[str, str]]]:
    """Embeds some files: a table of them, and those that cannot be read with the reasons."""
    paths, labels = zip(*listed, strict=True) if listed else ((), ())
    return embed_shard(model, paths, labels, paths, {}, description, tokens)


def embed_shard(
    model: RunModel,
    names: Sequence[str],
    labels: Sequence[str | None],
    images: Sequence[str | bytes | None],
    columns: dict[str, pa.Array],
    description: str | None = None,
    tokens: int = 0,
) -> tuple[pa.Table, list[tuple[str, str]]]:
    """Embeds some images: a table of them, and those that cannot be read with the reasons."""
    columns = file_columns(images) | columns
    if tokens:
        (embeddings, problems), sets = model.embed_with_tokens(images, tokens, description)
        columns |= token_columns(sets)
    else:
        embeddings, problems = model.embed_images(images, description)
    for row, (name, label) in enumerate(zip(names, labels, strict=True)):
        if not (_is_text(name) and _is_text(label or "")):
            problems[row] = problems[row] or "its path is not Unicode text (UTF-8)"
    kept = [row for row, problem in enumerate(problems) if not problem]
    known = {
        "path": pa.array([names[row] for row in kept], pa.string()),
        "label": pa.array([labels[row] for row in kept], pa.string()),
        "embedding": vector_column(embeddings[kept]),
    }
    table = pa.table({n: of.take(pa.array(kept, pa.int64())) for n, of in columns.items()} | known)
    return table, [(as_text(name), why) for name, why in zip(names, problems, strict=True) if why]


def _is_text(path: str) -> bool:
    return path == as_text(path)
