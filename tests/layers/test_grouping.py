from functools import partial

import numpy as np
import pytest
from keras import ops
from local_maps import features_like, randomized

from gsp_tf.layers import AttentiveGrouping, ChannelGrouping, GateGrouping, LinearGrouping

LAYERS = {
    "attentive": partial(AttentiveGrouping, key_dim=6),
    "linear": LinearGrouping,
    "channel": partial(ChannelGrouping, hidden_dim=2),
    "gate": partial(GateGrouping, hidden_dim=6),
}
every_layer = pytest.mark.parametrize("make", LAYERS.values(), ids=LAYERS)


@pytest.mark.parametrize(
    ("name", "weights"),
    [
        ("attentive", {"key_kernel": "key_kernel", "value_kernel": "value_kernel",
                       "queries": "queries"}),
        ("linear", {"kernel": "kernel"}),
        ("channel", {"squeeze_kernels": "squeeze_kernels", "excite_kernels": "excite_kernels",
                     "kernel": "linear_kernel", "bias": "linear_bias"}),
        ("gate", {"shared_kernel": "shared_kernel", "shared_bias": "shared_bias",
                  "group_kernels": "group_kernels", "group_biases": "group_biases",
                  "kernel": "linear_kernel"}),
    ],
)  # fmt: skip
def test_equals_the_authors_module(oracle, name, weights):
    case = oracle("grouping")
    features, expected = case["features_nhwc"], case[f"{name}_groups"]
    layer = LAYERS[name](*expected.shape[1:])
    layer.build(features.shape)
    assert {w.name for w in layer.weights} == weights.keys()
    for weight in layer.weights:
        weight.assign(case[f"{name}_{weights[weight.name]}"])
    np.testing.assert_allclose(layer(features), expected, rtol=1e-4, atol=1e-6)
    if name == "attentive":
        expected_maps = np.moveaxis(case["attentive_weights_nkhw"], 1, -1)
        maps = layer.attention_maps(features)
        np.testing.assert_allclose(maps, expected_maps, rtol=1e-4, atol=1e-7)


@every_layer
def test_attention_maps_are_shares_that_move_with_the_features(make):
    features = features_like((2, 12, 5))
    layer = randomized(make(3, 4, dtype="float64"), features.shape)
    order = np.random.default_rng(1).permutation(12)
    maps = np.asarray(layer.attention_maps(features))
    assert (maps >= 0).all()
    np.testing.assert_allclose(maps.sum(1), 1, rtol=1e-9)
    np.testing.assert_allclose(layer.attention_maps(features[:, order]), maps[:, order], rtol=1e-9)
    as_map = layer.attention_maps(features.reshape(2, 3, 4, 5))
    np.testing.assert_array_equal(as_map, maps.reshape(2, 3, 4, 3))


def test_gate_maps_are_the_mean_magnitudes_of_the_gates():
    features = features_like((2, 3, 4, 5)).astype("float64")
    layer = randomized(GateGrouping(3, 4, 2, dtype="float64"), features.shape)
    shared, bias, kernels, biases, kernel = (w.numpy() for w in layer.weights)
    gates = np.einsum("bhwk,gkc->bhwgc", features @ shared + bias, kernels) + biases
    sizes = np.abs(gates).mean(-1)
    expected = sizes / sizes.sum((1, 2), keepdims=True)
    np.testing.assert_allclose(layer.attention_maps(features), expected, rtol=1e-9)
    groups = (gates * features[..., None, :]).mean((1, 2)) @ kernel
    np.testing.assert_allclose(layer(features), groups, rtol=1e-9)


@every_layer
def test_the_weighted_features_are_pooled_and_the_strongest_channel_makes_a_map(make):
    features = features_like((2, 12, 5)).astype("float64")
    layer = randomized(make(3, 4, dtype="float64"), features.shape)
    weighted = np.asarray(layer.weighted_features(ops.convert_to_tensor(features), None))
    maps = np.asarray(layer.channel_maps(features.reshape(2, 3, 4, 5)))
    assert maps.shape == (2, 3, 4, 3)
    for image, group in np.ndindex(2, 3):
        sizes = np.abs(weighted[image, :, group])
        position, channel = np.unravel_index(sizes.argmax(), (12, 5))
        found = maps[image, ..., group].ravel()
        np.testing.assert_allclose(found, sizes[:, channel] / sizes[:, channel].sum(), rtol=1e-9)
        assert found.argmax() == position
    attends = isinstance(layer, (AttentiveGrouping, LinearGrouping))
    pooled = weighted.sum(1) if attends else weighted.mean(1)
    if isinstance(layer, LinearGrouping):
        kernels = layer.kernel.numpy().reshape(5, 3, 4)
        groups = np.einsum("bgc,cgd->bgd", pooled, kernels)
    else:
        kernel = layer.value_kernel if isinstance(layer, AttentiveGrouping) else layer.kernel
        groups = pooled @ kernel.numpy()
    groups = groups + (layer.bias.numpy() if isinstance(layer, ChannelGrouping) else 0)
    np.testing.assert_allclose(layer(features), groups, rtol=1e-9)


@every_layer
def test_mask_leaves_features_out_of_the_maps(make):
    features = features_like((2, 6, 5))
    mask = np.array([[1, 1, 0, 1, 0, 1], [1, 1, 1, 1, 1, 1]], bool)
    layer = randomized(make(3, 4, dtype="float64"), features.shape)
    alone = layer.attention_maps(features[:1, mask[0]])
    features[~mask] = np.nan
    maps = np.asarray(layer.attention_maps(features, mask=mask))
    channel_maps = np.asarray(layer.channel_maps(features, mask=mask))
    assert (maps[~mask] == 0).all() and (channel_maps[~mask] == 0).all()
    np.testing.assert_allclose(channel_maps.sum(1), 1, rtol=1e-9)
    np.testing.assert_allclose(maps[0, mask[0]], alone[0], rtol=1e-9)
    assert not np.asarray(layer.attention_maps(features, mask=np.zeros_like(mask))).any()


@every_layer
def test_maps_of_features_that_are_all_zero_are_an_average(make):
    layer = make(3, 4)
    features = np.zeros((1, 6, 5), "float32")
    layer(features)
    np.testing.assert_allclose(layer.attention_maps(features), np.full((1, 6, 3), 1 / 6), rtol=1e-6)
