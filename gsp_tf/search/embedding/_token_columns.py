"""Token sets as columns of a table."""

import numpy as np
import pyarrow as pa

from gsp_tf.evaluation import TokenSets

TOKEN_COLUMNS = ("tokens", "token_weights", "token_places")


def token_columns(sets: TokenSets) -> dict[str, pa.Array]:
    """Token sets of n images as columns: int8 of length k D, uint8 of length k and uint16."""
    flat = [values.reshape(len(values), -1) for values in sets]
    columns = [
        pa.FixedSizeListArray.from_arrays(pa.array(values.ravel()), values.shape[1])
        for values in flat
    ]
    return dict(zip(TOKEN_COLUMNS, columns, strict=True))


def token_sets(table: pa.Table) -> TokenSets:
    """The token sets of the rows of a table."""
    flat = []
    for name in TOKEN_COLUMNS:
        column = table[name].combine_chunks()
        flat.append(np.asarray(column.flatten()).reshape(-1, column.type.list_size))
    tokens, weights, places = flat
    return TokenSets(tokens.reshape(*weights.shape, -1), weights, places)


def num_tokens(schema: pa.Schema) -> int:
    """Number of tokens of an image in a table with this schema; 0 if it has no such columns."""
    if not set(TOKEN_COLUMNS) <= set(schema.names):
        return 0
    return schema.field("token_weights").type.list_size
