"""Parquet files, and errors that name them."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa


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
