"""Types for signatures."""

import os
from collections.abc import Callable
from typing import Any, Literal, TypeAlias

Tensor: TypeAlias = Any
"""A tensor of the Keras backend, or anything that converts to one."""

PathLike: TypeAlias = str | os.PathLike[str]
"""The path of a file or folder."""

Relation: TypeAlias = (
    Literal["equal", "any", "jaccard", "cosine"] | Callable[[Tensor, Tensor], Tensor]
)
"""How two labels are related: a name of `gsp_tf.ops.label_relation`, or a function like it."""

Reranking: TypeAlias = Literal[
    "k_reciprocal", "query_expansion", "database_augmentation", "whitening", "transport"
]
"""The name of a way to re-rank."""

Solver: TypeAlias = Literal["newton", "fixed_point"]
"""The solver of the transport of GSP: Newton's iteration, or that of the paper."""
