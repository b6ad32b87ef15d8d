"""Which arguments layers take and refuse when they are made."""

import re

import numpy as np
import pytest
from keras import tree

from gsp_tf import layers

BRANCHES = {"num_prototypes": (2, 3), "embedding_dim": (4, 5), "hidden_dim": 6}
# Arguments of layers that cannot be made without any.
GIVEN = {
    layers.CodedResidualBranches: BRANCHES,
    layers.CodedResidualTransform: dict.fromkeys(BRANCHES, 2),
    layers.GlobalLocalEmbedding: {"dim": 4, "key_dim": 3},
    layers.LinearGrouping: {"group_dim": 4},
}
REFUSED = {
    "must be an integer of at least 1": [
        (layers.CBAMPooling, "kernel_size", 1.5),
        (layers.GSoPPooling, "reduced_dim", -1),
        (layers.GeneralizedSumPooling, "num_prototypes", 0),
        (layers.GlobalLocalEmbedding, "dim", "4"),
        (layers.LinearGrouping, "num_groups", 0),
        *((layers.NetVLAD, "num_clusters", x) for x in (2.0, np.inf, None)),
    ],
    "must be an integer of at least 0": [(layers.WeldonPooling, "k_min", -1)],
    "must be positive and finite": [
        (layers.GeneralizedMaxPooling, "regularization", 0.0),
        *((layers.GeneralizedMeanPooling, "p", x) for x in (-1.0, np.inf, np.nan)),
        (layers.OptimalTransportPooling, "entropy_smoothing", 0.0),
    ],
    "must not be negative": [(layers.CodedResidualTransform, "diversity_weight", -0.1)],
    "must be a pair, one for each branch": [
        (layers.CodedResidualBranches, "num_prototypes", 5),
        (layers.CodedResidualBranches, "embedding_dim", (1, 2, 3)),
        (layers.DenseBranches, "embedding_dim", 5),
    ],
    "must be a multiple of 2 with heads='both'": [(layers.GlobalLocalEmbedding, "dim", 7)],
    "must be one of both, global, local, single": [(layers.GlobalLocalEmbedding, "heads", "all")],
    "must be one of channels_last, channels_first": [(layers.CrowPooling, "data_format", "NHWC")],
    "must be one of": [(layers.GeneralizedMaxPooling, "solver", "exact")],
    "must lie in": [(layers.GeneralizedSumPooling, "transport_ratio", 0.0)],
}


@pytest.mark.parametrize(
    ("message", "layer", "name", "value"),
    [(message, *case) for message, cases in REFUSED.items() for case in cases],
)
def test_refuses(message, layer, name, value):
    match = f"{name} {re.escape(message)}.*received {re.escape(repr(value))}"
    with pytest.raises(ValueError, match=match):
        layer(**{**GIVEN.get(layer, {}), name: value})


@pytest.mark.parametrize(
    ("layer", "sizes"),
    [
        (layers.CBAMPooling, {"reduction": 2, "kernel_size": 3}),
        (layers.CodedResidualBranches, BRANCHES),
        (layers.DenseBranches, {"embedding_dim": (5, 4)}),
        (layers.GateGrouping, {"num_groups": 3, "group_dim": 4}),
    ],
)
def test_sizes_are_integers_of_python_or_numpy(layer, sizes):
    features = np.ones((2, 4) if layer is layers.DenseBranches else (1, 2, 2, 4), "float32")
    shapes = []
    for integer in (int, np.int64):
        pooled = layer(**tree.map_structure(integer, sizes))(features)
        shapes.append([output.shape for output in tree.flatten(pooled)])
    assert shapes[0] == shapes[1]
