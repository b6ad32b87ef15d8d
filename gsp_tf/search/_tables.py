"""Tables of images: Parquet files that may be damaged, CSV files, and columns by path."""

import os
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from gsp_tf._console import counted, listed
from gsp_tf._files import FORMULA, check_unfolded, csv_cell, most_unfolded, replacing
from gsp_tf._typing import PathLike
from gsp_tf.evaluation import TokenSets

TOKEN_COLUMNS = ("tokens", "token_weights", "token_places")
_WIDTHS = {"BOOLEAN": 1 / 8, "INT32": 4, "FLOAT": 4, "INT64": 8, "DOUBLE": 8, "INT96": 12}
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


class ImageTable:
    """Columns of images by the path of their file, such as the camera of each.

    It is a CSV file in UTF-8 or a Parquet file with the column path, relative to the folder of the
    file or absolute. Columns that are named become texts. Without names all columns of numbers,
    texts, truth values, dates and times are read as what they are, those of a CSV file by what
    their values look like, and a warning names the others.
    """

    def __init__(self, path: PathLike, names: Sequence[str] | None = None):
        self.path = Path(path)
        if not self.path.is_file():
            raise FileNotFoundError(f"{path} does not exist or is not a file; expected a table.")
        read = _read_csv if self.path.suffix.lower() == ".csv" else read_parquet
        wanted = list(dict.fromkeys(["path", *(names or ())]))
        try:
            table = read(self.path, wanted if names is not None else None)
            own_paths = table["path"].cast(pa.string()).to_pylist()
            if names is None:
                self._table, others = plain_columns(table.drop_columns("path"))
                warn_of_columns(path, others)
            else:
                self._table = table.select(list(dict.fromkeys(names)))
        except (pa.ArrowException, OSError, KeyError) as error:
            raise ValueError(
                f"{path} cannot be read; expected a CSV file in UTF-8 or a Parquet file with the "
                f"columns {', '.join(wanted)}: {error}"
            ) from error
        paths = [located(name or "", self.path.parent) for name in own_paths]
        self._paths = pa.array(paths, pa.string())
        twice = [name for name, count in Counter(self._paths.to_pylist()).items() if count > 1]
        if twice:
            raise ValueError(f"{path} names images twice: {listed(twice)}.")

    def rows(self, paths: Sequence[PathLike]) -> pa.Table:
        """The columns of some images; raises `ValueError` if the table lacks one."""
        wanted = pa.array([as_text(located(path)) for path in paths], pa.string())
        rows = pc.index_in(wanted, value_set=self._paths)
        if rows.null_count:
            missing = wanted.filter(pc.is_null(rows)).to_pylist()
            raise ValueError(
                f"{self.path} lacks {counted(len(missing), 'image')}: {listed(missing, 3)}."
            )
        return self._table.take(rows)

    def texts(self, paths: Sequence[PathLike], column: str) -> np.ndarray:
        """A column of some images as texts `(n,)`, empty where a value is missing."""
        return column_texts(self.rows(paths), column)


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


def located(path: PathLike, folder: PathLike = "") -> str:
    """The absolute path of one relative to a folder; an address such as s3://... stays one."""
    path = os.fspath(path)
    return path if "://" in path else os.path.abspath(os.path.join(folder, path))


def as_text(name: object) -> str:
    """The text for a file name; each of its bytes that is not UTF-8 becomes one like \\udcff."""
    return str(name).encode("utf-8", "backslashreplace").decode()


def plain_columns(table: pa.Table) -> tuple[pa.Table, list[str]]:
    """The columns of numbers, texts, truth values, dates and times, and the names of the others."""
    others = []
    for name in table.column_names:
        values, kind = table[name], table[name].type
        kind = kind.value_type if pa.types.is_dictionary(kind) else kind
        kind = pa.string() if pa.types.is_string_view(kind) else kind
        if not any(is_plain(kind) for is_plain in _PLAIN):
            others.append(f"{name} ({kind})")
            table = table.drop_columns(name)
        elif kind != values.type:
            table = table.set_column(table.column_names.index(name), name, values.cast(kind))
    return table, others


def warn_of_columns(whose: object, others: Sequence[str]) -> None:
    if others:
        warnings.warn(
            f"{whose}: numbers, texts, truth values, dates and times are kept, and "
            f"{counted(len(others), 'column')} left out: {listed(others)}.",
            stacklevel=4,
        )


def column_texts(columns: Mapping[str, Any], name: str) -> np.ndarray:
    """A column as an array of texts; a missing value, also NaN, is an empty text."""
    try:
        values, is_missing = columns[name], pc.is_null(columns[name], nan_is_null=True)
        return np.array(pc.if_else(is_missing, "", values.cast(pa.string())).to_pylist(), str)
    except pa.ArrowException as error:
        raise ValueError(f"The column {name} does not hold texts: {error}.") from error


def class_names(labels: pa.Array | pa.ChunkedArray | Sequence[str | None]) -> pa.Array:
    """Labels as texts; those of images without a class, also NaN and empty texts, are null."""
    if not isinstance(labels, pa.Array | pa.ChunkedArray):
        try:
            labels = pa.array(labels, pa.string())
        except pa.ArrowException as error:
            raise TypeError(f"labels must be texts, or None where unknown: {error}.") from error
    texts = labels.cast(pa.string())
    is_missing = pc.or_kleene(pc.is_null(labels, nan_is_null=True), pc.equal(texts, ""))
    return pc.if_else(is_missing, pa.scalar(None, pa.string()), texts)


def vectors_of(table: pa.Table) -> np.ndarray:
    """The embeddings of a table, float32 `(n, D)`, without a copy where they lie in one piece."""
    return _matrix(table, "embedding")


def _matrix(table, name):
    column = table[name]
    column = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
    return column.flatten().to_numpy().reshape(len(table), column.type.list_size)


def vector_column(embeddings: np.ndarray) -> pa.Array:
    return _lists(np.ascontiguousarray(embeddings, np.float32))


def _lists(matrix):
    return pa.FixedSizeListArray.from_arrays(pa.array(matrix.ravel()), matrix.shape[1])


def token_columns(sets: TokenSets) -> dict[str, pa.Array]:
    """Token sets of n images as columns: int8 of length k D, uint8 of length k and uint16."""
    both = zip(TOKEN_COLUMNS, sets, strict=True)
    return {name: _lists(values.reshape(len(values), -1)) for name, values in both}


def token_sets(table: pa.Table) -> TokenSets:
    tokens, weights, places = (_matrix(table, name) for name in TOKEN_COLUMNS)
    return TokenSets(tokens.reshape(*weights.shape, -1), weights, places)


def num_tokens(schema: pa.Schema) -> int:
    """Number of tokens of an image in a table with this schema; 0 if it has no such columns."""
    if not set(TOKEN_COLUMNS) <= set(schema.names):
        return 0
    return schema.field("token_weights").type.list_size


def write_table(path: Path, columns: dict[str, Any]) -> None:
    """Writes columns as CSV or Parquet, by the extension of the file; a list holds texts."""
    columns = {
        name: pa.array([None if text is None else as_text(text) for text in values], pa.string())
        if isinstance(values, list)
        else values
        for name, values in columns.items()
    }
    table = pa.table(columns)
    with writing_table(path, table.schema) as write:
        write(table)


@contextmanager
def writing_table(path: Path, schema: pa.Schema) -> Iterator[Callable[[pa.Table], None]]:
    """A function that appends tables to a file, which appears when all is written."""
    if path.suffix.lower() not in (".csv", ".parquet"):
        raise ValueError(f"Results are written as .csv or .parquet; received {path}.")
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
    path: Path, columns: Sequence[str] | None = None, content: bytes | None = None
) -> pa.Table:
    """All columns of a Parquet file or of the bytes of one, or those of some names."""
    with opened_parquet(path, content) as file:
        schema, batches = file.schema_arrow, list(read_batches(path, file, columns))
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
