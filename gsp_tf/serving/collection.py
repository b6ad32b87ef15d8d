"""Large collections of images, listed in Parquet files."""

import hashlib
import itertools
import os
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

_COLUMNS = ("path", "bytes", "label")


class CollectionBatch(NamedTuple):
    """Some images of a collection.

    Args:
        names: list of n absolute paths, or where there is none the file and the row of it.
        labels: list of n names of classes, `None` where it is not known.
        images: dict of `path`, or of `bytes`, a list of n.
    """

    names: list
    labels: list
    images: dict


class Collection:
    """Images in the rows of Parquet files, in the order of the files' names.

    The column `path` names image files, relative to the folder of the Parquet file, or `bytes`
    holds their contents; with both, `path` only names them. The column `label`, if there is one,
    holds their classes. Other columns are not read.

    Args:
        path: a Parquet file, or a folder that is searched for them at any depth.

    Attributes:
        files: their paths.
        counts: how many rows each has.
        sha256: SHA-256 of the names, sizes and footers of the files. A footer says where the values
            of each column lie, and between which limits.

    Raises:
        FileNotFoundError: if `path` does not exist.
        ValueError: if there are no images, a file is damaged, or has neither path nor bytes.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder:
        ...     pq.write_table(pa.table({"path": ["/a.jpg", "/b.jpg"]}), f"{folder}/1.parquet")
        ...     pq.write_table(pa.table({"path": ["/c.jpg"]}), f"{folder}/2.parquet")
        ...     collection = Collection(folder)
        ...     [batch.names for batch in collection.batches(1, 3, size=8)]
        [['/b.jpg'], ['/c.jpg']]
    """

    def __init__(self, path):
        path = Path(path).absolute()
        self.files = _parquet_files(path)
        self.counts = []
        digest = hashlib.sha256()
        for file in self.files:
            count, footer = _checked(file)
            self.counts.append(count)
            name = os.path.relpath(file, path)
            digest.update(repr((name, os.path.getsize(file), footer)).encode())
        self.sha256 = digest.hexdigest()
        if not len(self):
            raise ValueError(f"{path} lists no images: its Parquet files have no rows.")

    def __len__(self):
        return sum(self.counts)

    def batches(self, start, stop, size):
        """Rows of the collection, read as they are asked for.

        Args:
            start: the first one.
            stop: the one after the last one.
            size: rows in a batch; some have fewer.

        Returns:
            iterator of `CollectionBatch`.

        Raises:
            ValueError: if a file has another number of rows than before.
        """
        first = 0
        for file, count in zip(self.files, self.counts, strict=True):
            low, high = max(start - first, 0), min(stop - first, count)
            if low < high:
                yield from _batches(file, count, low, high, size)
            first += count


def _parquet_files(path):
    if not path.exists():
        raise FileNotFoundError(f"{path} does not exist; expected a Parquet file or a folder.")
    if path.is_file():
        return [str(path)]
    files = [
        str(file)
        for file in path.rglob("*.parquet")
        if not any(part.startswith(".") for part in file.relative_to(path).parts)
    ]
    if not files:
        raise ValueError(f"There are no Parquet files (*.parquet) in {path}.")
    return sorted(files)


def _checked(file):
    """Number of rows and footer of a file, whose columns are of the right types."""
    try:
        metadata = pq.read_metadata(file)
        schema = metadata.schema.to_arrow_schema()
    except (pa.ArrowException, OSError) as error:
        raise ValueError(f"{file} is damaged, or no Parquet file: {error}") from error
    found = {name: schema.field(name).type for name in _COLUMNS if name in schema.names}
    text, binary = (pa.string(), pa.large_string()), (pa.binary(), pa.large_binary())
    problems = [
        f"{name} is of type {found[name]}; expected {accepted[0]}"
        for name, accepted in {"path": text, "bytes": binary}.items()
        if name in found and found[name] not in accepted
    ]
    if not {"path", "bytes"} & set(found):
        columns = ", ".join(schema.names)
        problems = [f"it has neither a column path nor bytes; received the columns {columns}"]
    if problems:
        raise ValueError(f"{file} cannot be used: {'; '.join(problems)}.")
    with open(file, "rb") as opened:
        opened.seek(-8 - metadata.serialized_size, os.SEEK_END)
        return metadata.num_rows, opened.read()


def _batches(file, count, low, high, size):
    """`CollectionBatch` of the rows of a file from `low` to `high`, by its row groups."""
    with pq.ParquetFile(file) as opened:
        if opened.metadata.num_rows != count:
            raise ValueError(f"{file} was changed: it had {count} rows before.")
        sizes = [opened.metadata.row_group(i).num_rows for i in range(opened.num_row_groups)]
        ends = list(itertools.accumulate(sizes))
        groups = [i for i, end in enumerate(ends) if low < end and high > end - sizes[i]]
        row = ends[groups[0]] - sizes[groups[0]]
        columns = [name for name in _COLUMNS if name in opened.schema_arrow.names]
        for batch in opened.iter_batches(size, groups, columns):
            wanted = batch.slice(max(low - row, 0), max(high - max(low, row), 0))
            if len(wanted):
                yield _named(wanted, file, max(low, row))
            row += len(batch)


def _named(rows, file, first_row):
    """The `CollectionBatch` of rows of a file, of which the first one has a number."""
    columns = {name: rows[name] for name in rows.schema.names}
    names = [f"{file}#{number}" for number in range(first_row, first_row + len(rows))]
    images = {"bytes": columns["bytes"].to_pylist()} if "bytes" in columns else {}
    if "path" in columns:
        folder = os.path.dirname(file)
        paths = [path and os.path.join(folder, path) for path in columns["path"].to_pylist()]
        names = [os.path.abspath(p) if p else name for p, name in zip(paths, names, strict=True)]
        images = images or {"path": [path or None for path in paths]}
    labels = [None] * len(rows)
    if "label" in columns:
        labels = pc.cast(columns["label"], pa.string()).to_pylist()
    return CollectionBatch(names, labels, images)
