"""The token sets of an index: tables of ids and local features, which stay on disk."""

import functools
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gsp_tf.evaluation import TokenSets
from gsp_tf.search.embedding import EmbeddingsFolder
from gsp_tf.search.embedding._token_columns import TOKEN_COLUMNS, num_tokens, token_sets
from gsp_tf.search.index.kinds import find_rows

Tables = Callable[[], Iterator[pa.Table]]


def embedded_tables(folder: EmbeddingsFolder | None, first_id: int) -> Tables | None:
    """Tables of a folder of embeddings, with ids from `first_id`; `None` if it has no tokens."""
    if folder is None or not num_tokens(folder.shard_schema(0)):
        return None
    metadata = folder.metadata()

    def tables():
        start = first_id
        for number in range(metadata.num_shards):
            shard = folder.read_shard(number, metadata.dim)
            if shard.paths:
                columns = {name: shard.columns[name] for name in TOKEN_COLUMNS}
                yield pa.table({"id": np.arange(start, start + len(shard.paths)), **columns})
            start += len(shard.paths)

    return tables


def stored_tables(find: Callable[[], Path], ids: pa.ChunkedArray) -> Tables:
    """The table of some ids in a file, which is found, checked and mapped when it is first read."""
    read = functools.cache(lambda: _mapped(find(), ids))
    return lambda: iter([read()])


def without(tables: Tables | None, ids: np.ndarray) -> Tables | None:
    """Tables without some ids."""
    if tables is None:
        return None
    dropped = pa.array(ids, pa.int64())
    return lambda: (table.filter(pc.invert(pc.is_in(table["id"], dropped))) for table in tables())


def chained(first: Tables | None, second: Tables | None) -> Tables | None:
    """The tables of both, or none if one has none."""
    if first is None or second is None:
        return None

    def tables():
        yield from first()
        yield from second()

    return tables


def write_tables(tables: Tables, sink) -> None:
    """Writes tables as one Arrow file, one after the other."""
    writer = None
    for table in tables():
        table = table.combine_chunks()
        if writer is None:
            writer = pa.ipc.new_file(pa.PythonFile(sink, "w"), table.schema)
        writer.write_table(table)
    if writer is not None:
        writer.close()


def read_sets(tables: Iterable[pa.Table], ids: np.ndarray) -> TokenSets:
    """The token sets of some ids, from tables that hold all of them; only their rows are read."""
    found = []
    for table in tables:
        rows, known = find_rows(ids, table["id"].to_numpy())
        if known.any():
            found.append((np.flatnonzero(known), token_sets(table.take(rows[known]))))
    places = np.concatenate([of_file for of_file, _ in found]) if found else np.empty(0, int)
    if len(places) < len(ids):
        raise ValueError(f"The tokens of {len(ids) - len(places)} images are missing.")
    return TokenSets.join([sets for _, sets in found]).take(np.argsort(places))


def _mapped(path, ids):
    try:
        with pa.memory_map(str(path)) as file:
            table = pa.ipc.open_file(file).read_all()
        table.validate(full=True)
    except (pa.ArrowException, OSError) as error:
        raise ValueError(f"{path} is damaged: {error}") from error
    if not num_tokens(table.schema):
        raise ValueError(f"{path} is damaged: it holds no token sets.")
    if "id" not in table.column_names or not table["id"].equals(ids):
        raise ValueError(f"{path} is damaged: its ids are not those of its items.")
    return table
