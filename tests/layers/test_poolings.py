"""What makes a pooling layer a drop-in for global average pooling, for every one of them."""

import subprocess
import sys
from functools import partial

import keras
import numpy as np
import pytest
import tensorflow as tf

from gsp_tf.layers import (
    AverageMaxPooling,
    CrowPooling,
    GeneralizedMaxPooling,
    GeneralizedMeanPooling,
    GeneralizedSumMaxPooling,
    GeneralizedSumMeanPooling,
    GeneralizedSumPooling,
    NetVLAD,
    OptimalTransportPooling,
    SMKPooling,
    WeldonPooling,
)

POOLINGS = {
    "average_max": AverageMaxPooling,
    "crow": CrowPooling,
    "generalized_max": partial(GeneralizedMaxPooling, 0.5),
    "generalized_mean": partial(GeneralizedMeanPooling, 2.5),
    "gsp": partial(GeneralizedSumPooling, 3),
    "gsp_max": partial(GeneralizedSumMaxPooling, 3),
    "gsp_mean": partial(GeneralizedSumMeanPooling, 3, p=2.5),
    "net_vlad": partial(NetVLAD, 3),
    "optimal_transport": partial(OptimalTransportPooling, 3, num_iterations=3),
    "smk": SMKPooling,
    "weldon": partial(WeldonPooling, 3, 2),
}
# Those whose method needs to know which places are neighbours.
GRID_ONLY = {"smk"}
# Those in whose gradient something is held fixed by definition.
PARTIAL_GRADIENT = {"smk"}


def each_but(names):
    chosen = {name: make for name, make in POOLINGS.items() if name not in names}
    return pytest.mark.parametrize("make", chosen.values(), ids=chosen)


each = each_but(())
each_on_sets = each_but(GRID_ONLY)
each_with_weights = each_but(
    {name for name, make in POOLINGS.items() if not hasattr(make(), "pooling_weights")}
)


def features_like(shape, seed=0, dtype="float32"):
    """Non-negative features, as after a ReLU."""
    return np.abs(np.random.default_rng(seed).normal(size=shape)).astype(dtype)


def twin(make, layer, **kwargs):
    """The same layer with other keyword arguments and equal weights."""
    other = make(**kwargs)
    other.build((None, None, None, 5))
    other.set_weights(layer.get_weights())
    return other


def value_and_gradients(layer, features, **kwargs):
    """Value, and gradients of its product with fixed numbers w.r.t. features and weights."""
    features = tf.convert_to_tensor(features)
    with tf.GradientTape() as tape:
        tape.watch(features)
        value = layer(features, **kwargs)
        upstream = np.random.default_rng(9).normal(size=value.shape)
        target = tf.reduce_sum(value * tf.cast(upstream, value.dtype))
    weights = [weight.value for weight in layer.trainable_weights]
    return value, *tape.gradient(target, [features, *weights])


def assert_finite(tensors):
    assert all(np.isfinite(tensor).all() for tensor in tensors)


@each
def test_data_formats_give_the_same(make):
    features = features_like((2, 3, 4, 5))
    layer = make()
    pooled = layer(features)
    assert layer.compute_output_shape((None, None, None, 5)) == (None, pooled.shape[1])
    keras.config.set_image_data_format("channels_first")
    first = make()
    first.build((None, 5, None, None))
    first.set_weights(layer.get_weights())
    np.testing.assert_allclose(first(features.transpose(0, 3, 1, 2)), pooled, 1e-5, 1e-6)
    assert first.compute_output_shape((None, 5, None, None)) == (None, pooled.shape[1])


@each
def test_height_and_width_may_be_unknown(make):
    images = keras.Input((None, None, 5))
    layer = make()
    model = keras.Model(images, layer(images))
    assert model.output_shape == layer.compute_output_shape((None, None, None, 5))
    for size in ((2, 2), (5, 3)):
        features = features_like((2, *size, 5))
        np.testing.assert_allclose(model.predict_on_batch(features), layer(features), 1e-5, 1e-6)


@each
@pytest.mark.parametrize("policy", ["mixed_float16", "mixed_bfloat16", "float16", "float64"])
def test_dtype_policies(make, policy):
    features = features_like((2, 4, 4, 5))
    reference = make()
    expected = reference(features).numpy()
    layer = twin(make, reference, dtype=policy)
    pooled = layer(features)
    assert pooled.dtype == layer.compute_dtype
    tolerance = {"float64": 1e-5, "mixed_bfloat16": 4e-2}.get(policy, 5e-3) * np.abs(expected).max()
    np.testing.assert_allclose(tf.cast(pooled, "float64"), expected, rtol=0, atol=tolerance)


@each
def test_xla_gives_the_same(make):
    features = features_like((3, 3, 4, 5))
    features[0, 1, 2] = features[1] = 0
    layer = make()
    expected = value_and_gradients(layer, features)
    assert_finite(expected)
    compiled = tf.function(partial(value_and_gradients, layer), jit_compile=True)
    compiled = compiled(tf.constant(features))
    for value, eager in zip(compiled, expected, strict=True):
        np.testing.assert_allclose(value, eager, rtol=1e-4, atol=1e-5)


@each_but(PARTIAL_GRADIENT)
def test_gradients_equal_finite_differences_in_float64(make):
    features = features_like((2, 3, 4, 5), seed=3, dtype="float64")
    layer = make(dtype="float64")
    _, *gradients = value_and_gradients(layer, features)
    upstream = np.random.default_rng(9).normal(size=layer(features).shape)
    weights = [weight.numpy() for weight in layer.trainable_weights]
    rng = np.random.default_rng(1)

    for index, gradient in enumerate(gradients):
        direction = rng.normal(size=gradient.shape)
        values = []
        for step in (1e-6, -1e-6):
            moved = [features, *weights]
            moved[index] = moved[index] + step * direction
            layer.set_weights(moved[1:])
            values.append(np.sum(layer(moved[0]) * upstream))
        numeric = (values[0] - values[1]) / 2e-6
        assert np.sum(gradient * direction) == pytest.approx(numeric, rel=1e-6, abs=1e-8)


@each
def test_one_feature_and_features_of_zeros_are_finite(make):
    for features in (features_like((2, 1, 1, 5)), np.zeros((2, 3, 3, 5), "float32")):
        assert_finite(value_and_gradients(make(), features))


@each
@pytest.mark.parametrize("scale", [2.0**60, 2.0**-40])
def test_huge_and_tiny_values_are_finite(make, scale):
    for seed in range(3):
        assert_finite(value_and_gradients(make(), scale * features_like((2, 3, 4, 5), seed)))


@each_on_sets
def test_a_set_equals_a_map_in_any_order(make):
    features = features_like((2, 3, 4, 5))
    layer = make()
    pooled = layer(features)
    order = np.random.default_rng(0).permutation(12)
    np.testing.assert_allclose(layer(features.reshape(2, 12, 5)[:, order]), pooled, 1e-4, 1e-6)


@each_on_sets
def test_a_masked_set_equals_the_shorter_set(make):
    features = features_like((2, 6, 5))
    mask = np.array([[1, 1, 0, 1, 0, 1], [0, 1, 0, 0, 0, 0]], bool)
    features[~mask] = np.nan
    layer = make()
    pooled, gradient, *_ = value_and_gradients(layer, features, mask=tf.constant(mask))
    assert (gradient.numpy()[~mask] == 0).all() and np.abs(gradient.numpy()[mask]).sum() > 0
    for row in range(2):
        alone = layer(features[row : row + 1, mask[row]])
        np.testing.assert_allclose(pooled[row : row + 1], alone, rtol=1e-4, atol=1e-6)


@each_on_sets
def test_a_set_that_is_masked_altogether_is_pooled_to_zero(make):
    value, *gradients = value_and_gradients(
        make(), features_like((1, 4, 5)), mask=tf.zeros((1, 4), bool)
    )
    assert (value.numpy() == 0).all()
    assert_finite(gradients)


@each_on_sets
def test_no_mask_is_passed_on(make):
    tokens = keras.Input((None,), dtype="int32")
    embedded = keras.layers.Embedding(20, 5, mask_zero=True)(tokens)
    model = keras.Model(tokens, keras.layers.Dense(2)(make()(embedded)))
    short, padded = (model(np.array([row])) for row in ([3, 7, 5], [3, 7, 5, 0, 0]))
    np.testing.assert_allclose(padded, short, rtol=1e-4, atol=1e-6)


@each_with_weights
@pytest.mark.parametrize("scale", [0.0, 1.0, 1e15])
def test_pooling_weights_are_a_distribution_over_places(make, scale):
    features = scale * features_like((2, 3, 4, 5))
    mask = np.ones((2, 3, 4), bool)
    mask[:, 1:, 2] = False
    weights = make().pooling_weights(features, mask=mask).numpy()
    assert weights.shape == (2, 3, 4)
    assert (weights >= 0).all() and (weights[~mask] == 0).all()
    np.testing.assert_allclose(weights.sum((1, 2)), 1, rtol=1e-4)
    first = make(data_format="channels_first")
    unmasked = first.pooling_weights(features.transpose(0, 3, 1, 2)).numpy()
    assert unmasked.shape == (2, 3, 4) and (unmasked[~mask] > 0).all()


@each
def test_config_round_trip(make):
    layer = make(data_format="channels_first", name="pool", trainable=False)
    assert type(layer).from_config(layer.get_config()).get_config() == layer.get_config()


@each
@pytest.mark.parametrize("shape", [(2, 3), (2, 3, 4, 5, 6)])
def test_refuses_input_that_is_neither_map_nor_set(make, shape):
    with pytest.raises(ValueError, match=r"received shape \(2, 3"):
        make()(np.ones(shape, "float32"))


LOAD = """
import sys
import numpy as np
import tensorflow as tf
folder = sys.argv[1]
images = np.load(f"{folder}/images.npy")
sys.modules["gsp_tf"] = None
served = tf.saved_model.load(f"{folder}/exported")
np.savez(f"{folder}/served.npz", *served.serve(images))
del sys.modules["gsp_tf"]
import keras, gsp_tf.layers
np.savez(f"{folder}/loaded.npz", *keras.models.load_model(f"{folder}/model.keras")(images))
"""


def test_all_load_in_a_fresh_process_and_serve_without_the_library(tmp_path):
    images = keras.Input((None, None, 3))
    x = keras.layers.Conv2D(5, 3, activation="relu")(images)
    model = keras.Model(images, [make()(x) for make in POOLINGS.values()])
    model.save(tmp_path / "model.keras")
    model.export(tmp_path / "exported", verbose=False)
    batch = features_like((2, 9, 7, 3))
    np.save(tmp_path / "images.npy", batch)
    subprocess.run([sys.executable, "-c", LOAD, tmp_path], check=True, capture_output=True)
    for kind in ("served", "loaded"):
        outputs = np.load(tmp_path / f"{kind}.npz").values()
        for name, output, expected in zip(POOLINGS, outputs, model(batch), strict=True):
            np.testing.assert_allclose(output, expected, 1e-5, 1e-6, err_msg=f"{name} {kind}")
