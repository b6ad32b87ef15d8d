"""Columns of images from a table, such as the camera of each."""

import os
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv

from gsp_tf._console import counted, listed
from gsp_tf._files import FORMULA
from gsp_tf._typing import PathLike
from gsp_tf.search._tables import as_text
from gsp_tf.search.embedding._parquet import opened_parquet, read_parquet


class ImageTable:
    """Columns of images by the path of their file.

    Args:
        path: CSV file in UTF-8, or Parquet file, with the column path, relative to the folder of
            the file or absolute, and further columns.
        names: names of the columns to read; their values become texts. `None` reads all columns of
            numbers, texts, truth values, dates and times, as what they are, and a warning names the
            others; of a CSV file, by what their values look like, with empty cells as missing ones.

    Raises:
        FileNotFoundError: if there is no such file.
        ValueError: if it cannot be read, lacks a column, or names an image twice.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder:
        ...     lines = "path,camera", "/photos/1.png,left", "/photos/2.png,right"
        ...     _ = Path(folder, "cameras.csv").write_text("\\n".join(lines))
        ...     table = ImageTable(f"{folder}/cameras.csv", ["camera"])
        >>> table.values(["/photos/2.png"])["camera"]
        array(['right'], dtype='<U5')
    """

    def __init__(self, path: PathLike, names: Sequence[str] | None = None):
        self.path = Path(path)
        if not self.path.is_file():
            raise FileNotFoundError(f"{path} does not exist or is not a file; expected a table.")
        read = _read_csv if self.path.suffix.lower() == ".csv" else _read_parquet
        wanted = list(dict.fromkeys(["path", *(names or ())]))
        try:
            table = read(self.path, wanted if names is not None else None)
            own_paths = table["path"].cast(pa.string()).to_pylist()
            if names is None:
                self._table = plain_columns(table.drop_columns("path"), path)
            else:
                self._table = table.select(list(dict.fromkeys(names)))
        except (pa.ArrowException, OSError, KeyError) as error:
            raise ValueError(
                f"{path} cannot be read; expected a CSV file in UTF-8 or a Parquet file with the "
                f"columns {', '.join(wanted)}: {error}"
            ) from error
        folder = self.path.parent
        paths = [located(name or "", folder) for name in own_paths]
        self._paths = pa.array(paths, pa.string())
        if len(pc.unique(self._paths)) < len(paths):
            counts = pc.value_counts(self._paths).to_pylist()
            twice = [entry["values"] for entry in counts if entry["counts"] > 1]
            raise ValueError(f"{path} names images twice: {listed(twice)}.")

    def values(self, paths: Sequence[PathLike]) -> dict[str, np.ndarray]:
        """The columns of some images, texts `(n,)` by name.

        Args:
            paths: n paths.

        Raises:
            ValueError: if the table lacks an image, or a column holds no values with a text.
        """
        rows = self.rows(paths)
        return column_texts({name: rows[name] for name in rows.column_names})

    def rows(self, paths: Sequence[PathLike]) -> pa.Table:
        """The columns of some images as a table of n rows.

        Args:
            paths: n paths.

        Raises:
            ValueError: if the table lacks an image.
        """
        wanted = pa.array([as_text(located(path)) for path in paths], pa.string())
        rows = pc.index_in(wanted, value_set=self._paths)
        if rows.null_count:
            missing = wanted.filter(pc.is_null(rows)).to_pylist()
            raise ValueError(
                f"{self.path} lacks {counted(len(missing), 'image')}: {listed(missing, 3)}."
            )
        return self._table.take(rows)


def located(path: PathLike, folder: PathLike = "") -> str:
    """The absolute path of one relative to a folder; an address such as s3://... stays one."""
    path = os.fspath(path)
    return path if "://" in path else os.path.abspath(os.path.join(folder, path))


def plain_columns(table: pa.Table, whose: PathLike) -> pa.Table:
    """The columns of numbers, texts, truth values, dates and times; a warning names the others."""
    kept, others = {}, []
    for name in table.column_names:
        values = table[name]
        if pa.types.is_dictionary(values.type):
            values = values.cast(values.type.value_type)
        if any(is_plain(values.type) for is_plain in _PLAIN):
            kept[name] = values
        else:
            others.append(f"{name} ({values.type})")
    if others:
        warnings.warn(
            f"{whose}: numbers, texts, truth values, dates and times are kept, and "
            f"{counted(len(others), 'column')} left out: {listed(others)}.",
            stacklevel=3,
        )
    return pa.table(kept) if kept else table.select([])


_PLAIN = (
    pa.types.is_integer,
    pa.types.is_floating,
    pa.types.is_decimal,
    pa.types.is_boolean,
    pa.types.is_string,
    pa.types.is_large_string,
    pa.types.is_date,
    pa.types.is_time,
    pa.types.is_timestamp,
    pa.types.is_null,
)


def _read_csv(path, names):
    if names is None:
        empty_is_missing = {"null_values": [""], "strings_can_be_null": True}
        options = pa_csv.ConvertOptions(column_types={"path": pa.string()}, **empty_is_missing)
    else:
        types = dict.fromkeys(names, pa.string())
        options = pa_csv.ConvertOptions(include_columns=names, column_types=types)
    table = pa_csv.read_csv(path, convert_options=options)
    for place, field in enumerate(table.schema):
        if pa.types.is_string(field.type):
            texts = pc.replace_substring_regex(table[place], f"^'('*{FORMULA})", r"\1")
            table = table.set_column(place, field, texts)
    return table


def _read_parquet(path, names):
    with opened_parquet(path) as file:
        return read_parquet(path, file, names)


def column_texts(columns: Mapping[str, pa.Array | pa.ChunkedArray]) -> dict[str, np.ndarray]:
    """Columns as arrays of texts; a missing value is an empty text."""
    texts = {}
    for name, values in columns.items():
        try:
            texts[name] = np.array(pc.fill_null(values.cast(pa.string()), "").to_pylist(), str)
        except pa.ArrowException as error:
            raise ValueError(f"The column {name} does not hold texts: {error}.") from error
    return texts
