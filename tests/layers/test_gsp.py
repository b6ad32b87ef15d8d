import keras
import numpy as np
import pytest
from gradients import compiled, differentiated, gradients
from keras import ops
from local_maps import features_like

from gsp_tf.layers import (
    GeneralizedSumMaxPooling,
    GeneralizedSumMeanPooling,
    GeneralizedSumPooling,
    NetVLAD,
)
from gsp_tf.ops import greedy_k_center


@pytest.mark.parametrize(("k", "jit_compile"), [(0, None), (1, None), (2, False), (2, True)])
def test_equals_the_authors_layer(oracle, k, jit_compile):
    case = {key[3:]: v for key, v in oracle("gsp_layer").items() if key.startswith(f"g{k}_")}
    layer = GeneralizedSumPooling(
        num_prototypes=len(case["prototypes"]),
        transport_ratio=float(case["transport_ratio"]),
        entropy_smoothing=float(case["entropy_smoothing"]),
        return_attributes=True,
    )
    layer.build(case["features"].shape)
    layer.prototypes.assign(case["prototypes"])
    upstream = [ops.convert_to_tensor(case[f"up_{name}"]) for name in ("pooled", "attributes")]

    def run(features):
        weights = [layer.prototypes]
        return gradients(layer, features, weights=weights, upstream=tuple(upstream))

    outputs, found = compiled(run, jit_compile)(ops.convert_to_tensor(case["features"]))
    names = ("pooled", "attributes", "grad_features", "grad_prototypes")
    for name, value in zip(names, [*outputs, *found], strict=True):
        rtol, atol = (1e-3, 2e-5) if name.startswith("grad") else (1e-4, 1e-6)
        np.testing.assert_allclose(value, case[name], rtol, atol, err_msg=name)


@pytest.mark.equation("thesis", "4.2.1", "layers.GeneralizedSumPooling")
@pytest.mark.equation("GSP", "3.2, Theorem 4.1", "layers.GeneralizedSumPooling")
def test_equals_average_pooling_at_transport_ratio_1():
    features = features_like((3, 5, 4, 6)).astype("float64")
    layer = GeneralizedSumPooling(num_prototypes=7, transport_ratio=1.0, dtype="float64")
    average = keras.layers.GlobalAveragePooling2D(dtype="float64")
    upstream = features_like((3, 6), seed=1).astype("float64")
    layer.build(features.shape)
    (pooled, (gradient,)), (averages, (expected,)) = (
        differentiated(pool, features, upstream=upstream) for pool in (layer, average)
    )
    np.testing.assert_allclose(pooled, averages, rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(gradient, expected, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("scale", [0.0, 0.1, 100.0])
@pytest.mark.parametrize("transport_ratio", [0.01, 0.4, 1.0])
def test_weights_and_attributes_are_the_sums_of_the_maps(transport_ratio, scale):
    features = features_like((2, 3, 4, 5), scale=scale)
    layer = GeneralizedSumPooling(6, transport_ratio, 20.0, return_attributes=True)
    pooled, attributes = layer(features)
    weights = np.asarray(layer.pooling_weights(features))
    maps = np.asarray(layer.attribute_maps(features))
    # No feature can give more than all of its mass, 1/n.
    assert (weights >= 0).all() and (weights <= (1 + 1e-5) / (12 * transport_ratio)).all()
    np.testing.assert_allclose(weights.sum((1, 2)), 1, rtol=1e-4)
    np.testing.assert_allclose(maps.sum((1, 2)), attributes, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(maps.sum(3), weights, rtol=1e-4, atol=1e-6)
    expected = np.einsum("bhw,bhwc->bc", weights, features)
    np.testing.assert_allclose(pooled, expected, rtol=1e-4, atol=1e-4 * max(scale, 1e-3))


def test_mask_leaves_features_out_of_the_attributes():
    features = features_like((2, 6, 4))
    mask = np.array([[1, 1, 0, 1, 0, 1], [1, 1, 1, 1, 1, 1]], bool)
    layer = GeneralizedSumPooling(5, return_attributes=True)
    _, attributes = layer(features, mask=mask)
    _, alone = layer(features[:1, mask[0]])
    np.testing.assert_allclose(attributes[:1], alone, rtol=1e-5, atol=1e-6)


def test_adapt_leaves_out_what_a_keras_mask_leaves_out():
    embedding = keras.layers.Embedding(20, 4, mask_zero=True)
    tokens = embedding(np.array([[3, 7, 5, 0, 0, 0], [1, 2, 4, 9, 0, 0]]))
    layer = GeneralizedSumPooling(num_prototypes=7)
    layer.adapt(tokens)
    padding = np.asarray(embedding(np.array([[0]])))[0, 0]
    assert not (np.abs(layer.prototypes.numpy() - padding).max(axis=1) < 1e-7).any()


def test_adapt_takes_prototypes_by_greedy_k_center():
    features = features_like((6, 4, 4, 5), scale=0.2)
    layer = GeneralizedSumPooling(num_prototypes=9)
    layer.adapt(features)
    pool = features.reshape(-1, 5)
    chosen = np.asarray(greedy_k_center(pool, pool.mean(0, keepdims=True), 9))
    np.testing.assert_allclose(layer.prototypes, pool[chosen], rtol=1e-6)
    batches = GeneralizedSumPooling(num_prototypes=9)
    batches.adapt([(part, np.zeros(2)) for part in np.split(features, 3)])
    np.testing.assert_allclose(batches.prototypes, layer.prototypes, rtol=1e-6)


def test_adapt_of_many_features_is_bounded_and_seeded():
    features = features_like((30, 50, 50, 2))
    first, again, other = (GeneralizedSumPooling(num_prototypes=4) for _ in range(3))
    first.adapt(features, seed=1)
    again.adapt(np.array_split(features, 6), seed=1)
    other.adapt(features, seed=2)
    np.testing.assert_array_equal(first.prototypes, again.prototypes)
    assert not np.array_equal(first.prototypes, other.prototypes)


@pytest.mark.parametrize(
    ("layer", "features", "message"),
    [
        (GeneralizedSumPooling(8), np.ones((1, 2, 2, 3)), "num_prototypes=8 .*, received 4"),
        (GeneralizedSumPooling(8), np.full((1, 3, 3, 3), np.nan), "finite features"),
        (GeneralizedSumPooling(8), [], "received 0"),
        (NetVLAD(8), np.ones((1, 2, 2, 3)), "num_clusters=8 local features, received 4"),
    ],
)
def test_adapt_refuses(layer, features, message):
    with pytest.raises(ValueError, match=message):
        layer.adapt(features)


def test_the_sum_with_the_maximum_keeps_the_attributes():
    features, arguments = features_like((2, 3, 4, 5)), {"return_attributes": True}
    layer = GeneralizedSumMaxPooling(6, **arguments)
    gsp = GeneralizedSumPooling(6, **arguments)
    layer.adapt(features)
    gsp.adapt(features)
    (pooled, attributes), (expected, expected_attributes) = layer(features), gsp(features)
    np.testing.assert_allclose(pooled, expected + features.max((1, 2)), rtol=1e-6)
    np.testing.assert_array_equal(attributes, expected_attributes)


def test_the_mean_is_the_power_mean_of_weighted_features():
    features = np.abs(features_like((2, 3, 4, 5)))
    layer = GeneralizedSumMeanPooling(6, p=2.5, return_attributes=True)
    pooled, attributes = layer(features)
    weights = np.asarray(layer.pooling_weights(features))
    for row, channel in np.ndindex(2, 5):
        values = (12 * weights[row] * features[row, ..., channel]).ravel().astype("float64")
        expected = (sum(max(value, 1e-6) ** 2.5 for value in values) / 12) ** 0.4
        assert float(pooled[row, channel]) == pytest.approx(expected, rel=1e-5)
    np.testing.assert_allclose(np.asarray(attributes).sum(1), 1, rtol=1e-5)
