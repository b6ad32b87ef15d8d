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
    layers.DenseBranches: {"embedding_dim": (5, 4)},
    layers.GlobalLocalEmbedding: {"dim": 4, "key_dim": 3},
    **dict.fromkeys(
        [
            layers.AttentiveGrouping,
            layers.ChannelGrouping,
            layers.GateGrouping,
            layers.LinearGrouping,
        ],
        {"num_groups": 3, "group_dim": 4},
    ),
}
REFUSED = {
    "must be an integer of at least 1": [
        *((layers.GlobalLocalEmbedding, "dim", x) for x in (0, "4")),
        (layers.AttentiveGrouping, "key_dim", 0),
        (layers.CBAMPooling, "reduction", 0),
        (layers.CBAMPooling, "kernel_size", 1.5),
        (layers.ChannelGrouping, "hidden_dim", 0),
        (layers.CodedResidualTransform, "num_prototypes", 0),
        (layers.DelfPooling, "hidden_dim", 0),
        (layers.GSoPPooling, "reduced_dim", -1),
        (layers.GeneralizedSumPooling, "num_prototypes", 0),
        (layers.GlobalLocalEmbedding, "key_dim", 0),
        (layers.LinearGrouping, "num_groups", 0),
        *((layers.NetVLAD, "num_clusters", x) for x in (0, 2.0, np.inf, None, "many")),
        (layers.OptimalTransportPooling, "num_prototypes", 0),
        (layers.SMKPooling, "smoothing_size", 0),
        (layers.SecondOrderAttention, "key_dim", 2.5),
        (layers.SolarPooling, "key_dim", 0),
        (layers.WeldonPooling, "k_max", 0),
    ],
    "must be an integer of at least 0": [(layers.WeldonPooling, "k_min", -1)],
    "must be positive and finite": [
        *((layers.GeneralizedMaxPooling, "regularization", x) for x in (0.0, -1.0, np.inf, np.nan)),
        *((layers.GeneralizedMeanPooling, "p", x) for x in (0.0, -1.0, np.inf, np.nan)),
        (layers.GeneralizedSumMeanPooling, "p", 0.0),
        (layers.GeneralizedSumPooling, "entropy_smoothing", -1.0),
        (layers.OptimalTransportPooling, "entropy_smoothing", 0.0),
        (layers.SolarPooling, "p", 0.0),
    ],
    "must not be negative": [
        (layers.CodedResidualBranches, "consistency_weight", -1.0),
        (layers.CodedResidualTransform, "diversity_weight", -0.1),
    ],
    "must be a pair, one for each branch": [
        (layers.CodedResidualBranches, "num_prototypes", 5),
        (layers.CodedResidualBranches, "embedding_dim", (1, 2, 3)),
        (layers.DenseBranches, "embedding_dim", 5),
    ],
    "must be a multiple of 2 with heads='both'": [
        (layers.GlobalLocalEmbedding, "dim", 7),
    ],
    "must be one of both, global, local, single": [(layers.GlobalLocalEmbedding, "heads", "all")],
    "must be one of channels_last, channels_first": [(layers.CrowPooling, "data_format", "NHWC")],
    "must be one of": [
        (layers.GeneralizedMaxPooling, "solver", "exact"),
        (layers.GeneralizedSumPooling, "solver", "exact"),
    ],
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
        (layers.DelfPooling, {"hidden_dim": 3}),
        (layers.GSoPPooling, {"reduced_dim": 3}),
        (layers.GateGrouping, {"num_groups": 3, "group_dim": 4}),
        (layers.GeneralizedSumPooling, {"num_prototypes": 3}),
        (layers.GlobalLocalEmbedding, {"dim": 4, "key_dim": 3, "heads": "local"}),
        (layers.SMKPooling, {"smoothing_size": 3}),
        (layers.SolarPooling, {"key_dim": 3}),
        (layers.WeldonPooling, {"k_max": 2, "k_min": 1}),
    ],
)
def test_sizes_are_integers_of_python_or_numpy(layer, sizes):
    features = np.ones((1, 2, 2, 4), "float32")
    shapes = []
    for integer in (int, np.int64):
        given = {k: v if k == "heads" else tree.map_structure(integer, v) for k, v in sizes.items()}
        shapes.append([output.shape for output in tree.flatten(layer(**given)(features))])
    assert shapes[0] == shapes[1]


def test_branches_take_integers_of_numpy():
    first, second = layers.DenseBranches((np.int64(5), np.int64(4)))(np.ones((2, 3), "float32"))
    assert (first.shape, second.shape) == ((2, 5), (2, 4))


def test_refuses_a_branch_without_columns():
    with pytest.raises(ValueError, match="embedding_dim must be an integer .* received 0"):
        layers.DenseBranches((5, 0))
