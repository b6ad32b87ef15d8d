"""Parquet files, and errors that name them."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc


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
def reading_parquet(path: Path | str) -> Iterator[None]:
    """Raises `ValueError` with the name of the file if it is damaged."""
    try:
        yield
    except (pa.ArrowException, OSError) as error:
        if not Path(path).is_file():
            raise
        raise ValueError(f"{path} is damaged, or no Parquet file: {error}") from error


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
