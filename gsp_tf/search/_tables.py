"""Tables of images as CSV or Parquet."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from gsp_tf._files import csv_cell, replacing


def write_table(path: Path, columns: dict[str, Any]) -> None:
    """Writes columns as CSV or Parquet, by the extension of the file."""
    table = pa.table({name: _array(values) for name, values in columns.items()})
    with writing_table(path, table.schema) as write:
        write(table)


def _array(values):
    """A list as texts, anything else as it is."""
    if not isinstance(values, list):
        return values
    return pa.array([None if text is None else as_text(text) for text in values], pa.string())


def as_text(name: object) -> str:
    """The text for a file name; each of its bytes that is not UTF-8 becomes one like \\udcff."""
    return str(name).encode("utf-8", "backslashreplace").decode()


@contextmanager
def writing_table(path: Path, schema: pa.Schema) -> Iterator[Callable[[pa.Table], None]]:
    """A function that appends tables to a file, which appears when all is written."""
    is_parquet = path.suffix.lower() == ".parquet"
    writer = pq.ParquetWriter if is_parquet else pa_csv.CSVWriter
    with replacing(path) as temporary, writer(temporary, schema) as opened:
        yield opened.write_table if is_parquet else lambda table: opened.write_table(_cells(table))


def _cells(table):
    """A table for a CSV file, in which no text is a formula."""
    for place, (name, column) in enumerate(zip(table.column_names, table.columns, strict=True)):
        if pa.types.is_string(column.type):
            cells = pa.array(map(csv_cell, column.to_pylist()), column.type)
            table = table.set_column(place, name, cells)
    return table
