"""Parquet files, and errors that name them."""

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from gsp_tf._console import listed
from gsp_tf._files import check_unfolded, most_unfolded

_WIDTHS = {"BOOLEAN": 1 / 8, "INT32": 4, "FLOAT": 4, "INT64": 8, "DOUBLE": 8, "INT96": 12}


def parquet_files(path: Path) -> list[str]:
    """The Parquet files in a folder at any depth, except hidden ones; or the file at the path."""
    if path.is_file():
        return [str(path)]
    return sorted(
        str(file)
        for file in path.rglob("*.parquet")
        if not any(part.startswith(".") for part in file.relative_to(path).parts)
    )


@contextmanager
def opened_parquet(path: Path | str, content: bytes | None = None) -> Iterator[pq.ParquetFile]:
    """Opens a Parquet file, or the bytes of one; a `ValueError` names a file that is damaged.

    A file whose footer announces values out of proportion to its size is refused before they are
    read, and one that has two columns of a name.
    """
    source = path if content is None else pa.BufferReader(content)
    try:
        footer = _checked_footer(source)
        check_unfolded(path, _announced(footer))
        with pq.ParquetFile(source, metadata=footer, page_checksum_verification=True) as file:
            counts = Counter(file.schema_arrow.names)
            twice = [name for name, count in counts.items() if count > 1]
            if twice:
                raise ValueError(f"{path} has two columns of the name {listed(twice)}.")
            yield file
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        if not Path(path).is_file():
            raise
        raise ValueError(f"{path} is damaged, or no Parquet file: {error}") from error


def _checked_footer(source):
    """The footer of a Parquet file; an error of Arrow if it does not describe its columns."""
    # Without the error, `column` of a row group would end the process. Readers of the columns raise
    # it. They are made before the first rows are read, of which there are none here.
    with pq.ParquetFile(source, pre_buffer=False, buffer_size=2**16) as file:
        for number in range(file.num_row_groups):
            next(file.reader.iter_batches(0, [number], range(file.metadata.num_columns)), None)
        return file.metadata


def _announced(footer):
    """The fewest bytes that the values of a Parquet file take in memory."""
    columns = (column for group in _groups(footer) for column in group)
    sizes = ((_WIDTHS.get(c.physical_type, 8) * c.num_values, c) for c in columns)
    return sum(max(size, column.total_uncompressed_size) for size, column in sizes)


def _groups(footer):
    """The columns of each row group of a Parquet file."""
    groups = map(footer.row_group, range(footer.num_row_groups))
    return [[group.column(number) for number in range(group.num_columns)] for group in groups]


def _proportionate_rows(path, footer, columns):
    """The rows that are in proportion to a file, even if each repeats all texts of its group."""
    sizes = [
        sum(
            column.total_uncompressed_size
            for column in group
            if column.physical_type not in _WIDTHS
            and (columns is None or column.path_in_schema.split(".")[0] in columns)
        )
        for group in _groups(footer)
    ]
    return max(1, most_unfolded(path) // max([1, *sizes]))


def read_batches(
    path: Path | str,
    file: pq.ParquetFile,
    columns: Sequence[str] | None = None,
    rows: int = 1024,
    groups: Sequence[int] | None = None,
) -> Iterator[pa.RecordBatch]:
    """Reads valid rows of an open Parquet file, as long as they are in proportion to the file."""
    size, rows = 0, min(rows, _proportionate_rows(path, file.metadata, columns))
    for batch in file.iter_batches(rows, groups, columns):
        size += batch.nbytes
        check_unfolded(path, size)
        batch.validate(full=True)
        yield batch


def read_parquet(
    path: Path | str, file: pq.ParquetFile, columns: Sequence[str] | None = None
) -> pa.Table:
    """Reads an open Parquet file, as `read_batches` does."""
    batches = list(read_batches(path, file, columns))
    schema = file.schema_arrow
    if columns is not None:
        schema = pa.schema([schema.field(name) for name in columns], schema.metadata)
    return pa.Table.from_batches(batches, schema)


def list_rows(column: pa.Array, file: str) -> np.ndarray:
    """A column of lists of one length as an array `(n, D)`."""
    kind = column.type
    lists = pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list
    numbers = pa.types.is_floating, pa.types.is_integer
    is_list = any(is_kind(kind) for is_kind in lists)
    if not (is_list and any(is_kind(kind.value_type) for is_kind in numbers)) or column.null_count:
        raise ValueError(
            f"{file} must hold a list of numbers in every row of embedding; received {kind} and "
            f"{column.null_count} rows without one."
        )
    values = column.flatten()
    lengths = np.asarray(pc.list_value_length(column))
    if values.null_count or len(set(lengths.tolist())) != 1:
        raise ValueError(f"{file} must hold embeddings of one length, without null.")
    return values.to_numpy(zero_copy_only=False).reshape(len(column), -1)
