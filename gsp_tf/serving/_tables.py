"""Tables of images as CSV or Parquet."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from gsp_tf._files import replacing


def write_table(path: Path, columns: dict[str, Any]) -> None:
    """Writes columns as CSV or Parquet, by the extension of the file."""
    text = {
        name: [None if t is None else str(t).encode("utf-8", "replace").decode() for t in of]
        for name, of in columns.items()
        if isinstance(of, list)
    }
    arrays = {name: pa.array(of, pa.string()) for name, of in text.items()}
    table = pa.table({name: arrays.get(name, of) for name, of in columns.items()})
    with writing_table(path, table.schema) as write:
        write(table)


@contextmanager
def writing_table(path: Path, schema: pa.Schema) -> Iterator[Callable[[pa.Table], None]]:
    """A function that appends tables to a file, which appears when all is written."""
    writer = pq.ParquetWriter if path.suffix.lower() == ".parquet" else pa_csv.CSVWriter
    with replacing(path) as temporary, writer(temporary, schema) as opened:
        yield opened.write_table
