"""Large collections of images in Parquet files."""

import hashlib
import itertools
import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from gsp_tf._typing import PathLike
from gsp_tf.search.embedding._parquet import opened_parquet, parquet_files, read_batches

_READ = ("path", "bytes", "label")
_WRITTEN = ("embedding", "file_size", "file_time")


class _CollectionBatch(NamedTuple):
    """A batch of images of a collection, one per row."""

    names: list[str]  # absolute path, or Parquet file and row number
    labels: list[str | None]
    images: list[str | None] | list[bytes | None]
    columns: dict[str, pa.Array]


class Collection:
    """Images in the rows of Parquet files, in the order of the files' paths.

    The column `path` names image files, absolute or relative to the folder of the Parquet file, or
    the column `bytes` holds their contents. If both exist, `path` only names the images. The column
    `label` is optional and holds the classes. Other columns are passed on.

    Args:
        path: Parquet file, or folder searched at any depth.

    Attributes:
        files: Paths of the Parquet files.
        counts: Number of rows in each file.
        columns: Names and types of the other columns.
        sha256: SHA-256 of the names, sizes and footers of the files. A footer records the position
            of each column's values and their limits.

    Raises:
        FileNotFoundError: If `path` does not exist.
        ValueError: If there are no images, a file is damaged or has neither path nor bytes, or a
            column has a wrong type or several types.

    Example:
        >>> import pyarrow.parquet as pq
        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder:
        ...     pq.write_table(pa.table({"path": ["/a.jpg", "/b.jpg"]}), f"{folder}/1.parquet")
        ...     pq.write_table(pa.table({"path": ["/c.jpg"]}), f"{folder}/2.parquet")
        ...     collection = Collection(folder)
        ...     [batch.names for batch in collection.batches(1, 3, size=8)]
        [['/b.jpg'], ['/c.jpg']]
    """

    def __init__(self, path: PathLike):
        path = Path(path).absolute()
        if not path.exists():
            raise FileNotFoundError(f"{path} does not exist; expected a Parquet file or a folder.")
        self.files = parquet_files(path)
        if not self.files:
            raise ValueError(f"There are no Parquet files (*.parquet) in {path}.")
        self.counts: list[int] = []
        self.columns: dict[str, pa.DataType] = {}
        digest = hashlib.sha256()
        for file in self.files:
            count, footer, columns = _checked(file)
            self.counts.append(count)
            for name, kind in columns.items():
                if self.columns.setdefault(name, kind) != kind:
                    raise ValueError(
                        f"The column {name} of {path} is of type {self.columns[name]} and, in "
                        f"{file}, of type {kind}; give it one type, or leave it out."
                    )
            name = os.path.relpath(file, path)
            digest.update(repr((name, os.path.getsize(file), footer)).encode())
        self.sha256 = digest.hexdigest()
        if not len(self):
            raise ValueError(f"{path} lists no images: its Parquet files have no rows.")

    def __len__(self) -> int:
        return sum(self.counts)

    def batches(self, start: int, stop: int, size: int) -> Iterator[_CollectionBatch]:
        """Reads rows lazily, in batches.

        Args:
            start: First row.
            stop: Row after the last one.
            size: Rows per batch; some batches have fewer.

        Raises:
            ValueError: If the number of rows in a file has changed.
        """
        first = 0
        for file, count in zip(self.files, self.counts, strict=True):
            low, high = max(start - first, 0), min(stop - first, count)
            if low < high:
                yield from self._batches(file, count, low, high, size)
            first += count

    def _batches(self, file, count, low, high, size):
        """Reads the rows of a file from `low` to `high`, using only the row groups they need."""
        with opened_parquet(file) as opened:
            if opened.metadata.num_rows != count:
                raise ValueError(f"{file} was changed: it had {count} rows before.")
            sizes = [opened.metadata.row_group(i).num_rows for i in range(opened.num_row_groups)]
            ends = list(itertools.accumulate(sizes))
            groups = [i for i, end in enumerate(ends) if low < end and high > end - sizes[i]]
            row = ends[groups[0]] - sizes[groups[0]]
            columns = [n for n in (*_READ, *self.columns) if n in opened.schema_arrow.names]
            for batch in read_batches(file, opened, columns, size, groups):
                wanted = batch.slice(max(low - row, 0), max(high - max(low, row), 0))
                if len(wanted):
                    yield self._named(wanted, file, max(low, row))
                row += len(batch)

    def _named(self, rows, file, first_row):
        """The `_CollectionBatch` of rows of a file, numbered from `first_row`."""
        found = {name: rows[name] for name in rows.schema.names}
        names = [f"{file}#{number}" for number in range(first_row, first_row + len(rows))]
        images = found["bytes"].to_pylist() if "bytes" in found else None
        if "path" in found:
            folder = os.path.dirname(file)
            paths = [path and os.path.join(folder, path) for path in found["path"].to_pylist()]
            names = [os.path.abspath(p) if p else n for p, n in zip(paths, names, strict=True)]
            images = images or [path or None for path in paths]
        labels = [None] * len(rows)
        if "label" in found:
            labels = pc.cast(found["label"], pa.string()).to_pylist()
        columns = {
            name: found[name].cast(kind) if name in found else pa.nulls(len(rows), kind)
            for name, kind in self.columns.items()
        }
        return _CollectionBatch(names, labels, images, columns)


def _checked(file: str) -> tuple[int, bytes, dict[str, pa.DataType]]:
    """Checks the types of a file; returns its number of rows, footer and other columns."""
    with opened_parquet(file) as opened:
        metadata = opened.metadata
        schema = metadata.schema.to_arrow_schema()
    types = {field.name: field.type for field in schema}
    text, binary = (pa.string(), pa.large_string()), (pa.binary(), pa.large_binary())
    problems = [
        f"{name} is of type {types[name]}; expected {accepted[0]}"
        for name, accepted in {"path": text, "bytes": binary}.items()
        if name in types and types[name] not in accepted
    ]
    if not {"path", "bytes"} & set(types):
        columns = ", ".join(schema.names)
        problems = [f"it has neither a column path nor bytes; received the columns {columns}"]
    if problems:
        raise ValueError(f"{file} cannot be used: {'; '.join(problems)}.")
    with open(file, "rb") as opened:
        opened.seek(-8 - metadata.serialized_size, os.SEEK_END)
        footer = opened.read()
    others = {
        name: kind.value_type if pa.types.is_dictionary(kind) else kind
        for name, kind in types.items()
        if name not in (*_READ, *_WRITTEN)
    }
    return metadata.num_rows, footer, others
