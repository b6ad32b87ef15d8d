import itertools
from math import erf, sqrt

import keras
import numpy as np
import pytest
import tensorflow as tf

from gsp_tf.layers import CodedResidualTransform
from gsp_tf.losses import prototype_diversity


def features_like(shape, seed=0, scale=1.0):
    return (np.random.default_rng(seed).normal(size=shape) * scale).astype("float32")


def randomized(layer, shape, seed=1):
    """Build a layer and give it random weights, biases too."""
    layer.build(shape)
    rng = np.random.default_rng(seed)
    for weight in layer.weights:
        weight.assign(rng.normal(size=weight.shape) * 0.7)
    return layer


def softplus(x):
    return np.log(1 + np.exp(x))


def defined_embedding(layer, features):
    """Equations 1 and 2 of one set `(n, C)`, residual by residual."""
    prototypes, w1, b1, w2, b = (w.numpy().astype("float64") for w in layer.weights)
    total = np.zeros(b.shape)
    for k, prototype in enumerate(prototypes):
        kernels = (w1, b1, w2) if layer.shared_network else (w1[k], b1[k], w2[k])
        residuals = [softplus(f @ prototype) * (f - prototype) for f in features]
        hidden = np.mean(residuals, axis=0) @ kernels[0] + kernels[1]
        total += np.array([h * (1 + erf(h / sqrt(2))) / 2 for h in hidden]) @ kernels[2]
    return total / len(prototypes) + b


@pytest.mark.parametrize("shared_network", [False, True])
def test_equals_the_equations_for_any_number_of_positions(shared_network):
    layer = randomized(CodedResidualTransform(4, 5, 3, shared_network), (None, None, None, 6))
    for size in ((5, 3), (1, 1)):
        features = features_like((2, *size, 6))
        expected = [defined_embedding(layer, f.reshape(-1, 6)) for f in features]
        np.testing.assert_allclose(layer(features), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("shared_network", [False, True])
def test_gradients_equal_finite_differences_of_the_equations(shared_network):
    features = np.random.default_rng(3).normal(size=(1, 3, 4))
    layer = randomized(CodedResidualTransform(2, 3, 2, shared_network, dtype="float64"), (1, 3, 4))
    upstream = np.array([1.0, -0.5, 2.0])
    variable = tf.constant(features)
    with tf.GradientTape() as tape:
        tape.watch(variable)
        value = tf.reduce_sum(layer(variable) * upstream)
    weights = [w.value for w in layer.weights]
    gradient, *of_weights = tape.gradient(value, [variable, *weights])
    step = 1e-6

    def target(features):
        return defined_embedding(layer, features[0]) @ upstream

    for index in np.ndindex(*features.shape):
        shift = np.zeros_like(features)
        shift[index] = step
        numeric = (target(features + shift) - target(features - shift)) / (2 * step)
        np.testing.assert_allclose(gradient[index], numeric, rtol=1e-6, atol=1e-9)
    for weight, of_weight in zip(layer.weights, of_weights, strict=True):
        original = weight.numpy()
        for index in np.ndindex(*original.shape):
            values = []
            for sign in (1, -1):
                moved = original.copy()
                moved[index] += sign * step
                weight.assign(moved)
                values.append(target(features))
            weight.assign(original)
            numeric = (values[0] - values[1]) / (2 * step)
            np.testing.assert_allclose(of_weight[index], numeric, rtol=1e-6, atol=1e-9)


def test_no_tensor_of_value_and_gradient_holds_every_residual():
    batch, n, k, channels = 2, 50, 40, 30
    layer = CodedResidualTransform(k, 4, 5, shared_network=True)
    layer.build((batch, n, channels))

    @tf.function
    def run(features):
        with tf.GradientTape() as tape:
            tape.watch(features)
            value = tf.reduce_sum(layer(features, training=True))
        return tape.gradient(value, [features, *(w.value for w in layer.weights)])

    graph = run.get_concrete_function(tf.TensorSpec((batch, n, channels))).graph
    sizes = [t.shape.num_elements() or 0 for op in graph.get_operations() for t in op.outputs]
    assert max(sizes) == batch * max(n * channels, n * k, k * channels)


def test_correlation_maps_equal_the_inner_products():
    layer = CodedResidualTransform(4, 2, 2)
    features = features_like((2, 3, 5, 6))
    maps = layer.correlation_maps(features)
    assert maps.shape == (2, 3, 5, 4)
    for b, y, x, k in itertools.product(range(2), range(3), range(5), range(4)):
        expected = features[b, y, x] @ layer.prototypes.numpy()[k]
        assert float(maps[b, y, x, k]) == pytest.approx(expected, abs=1e-5)
    as_set = layer.correlation_maps(features.reshape(2, 15, 6))
    np.testing.assert_allclose(as_set, np.reshape(maps, (2, 15, 4)), atol=1e-6)


def test_a_set_equals_a_map_in_any_order_and_any_number_of_times():
    features = features_like((2, 3, 4, 5))
    layer = randomized(CodedResidualTransform(6, 3, 4), features.shape)
    expected = layer(features)
    as_set = features.reshape(2, 12, 5)
    order = np.random.default_rng(0).permutation(12)
    for moved in (as_set, as_set[:, order], np.tile(as_set, (1, 3, 1))):
        np.testing.assert_allclose(layer(moved), expected, rtol=1e-4, atol=1e-5)


def test_mask_leaves_features_out_even_nan():
    features = features_like((2, 6, 4))
    mask = np.array([[1, 1, 0, 1, 0, 1], [0, 0, 0, 0, 0, 0]], bool)
    layer = randomized(CodedResidualTransform(5, 3, 4), features.shape)
    alone = layer(features[:1, mask[0]])
    features[~mask] = np.nan
    variable = tf.constant(features)
    with tf.GradientTape() as tape:
        tape.watch(variable)
        embeddings = layer(variable, mask=mask)
    np.testing.assert_allclose(embeddings[:1], alone, rtol=1e-5, atol=1e-6)
    gradient = tape.gradient(embeddings, variable).numpy()
    assert np.isfinite(gradient).all() and (gradient[~mask] == 0).all()
    # Without any feature what remains is the biases.
    b1, w2, b = layer.hidden_bias, layer.output_kernel, layer.output_bias
    hidden = keras.ops.gelu(b1, approximate=False)
    biases = np.mean(np.einsum("kh,khd->kd", hidden, w2), axis=0) + b
    np.testing.assert_allclose(embeddings[1:], [biases], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("shared_network", [False, True])
def test_kernels_start_at_the_scale_of_their_inputs(shared_network):
    layer = CodedResidualTransform(20, 30, 50, shared_network)
    layer.build((None, None, 40))
    assert np.std(layer.hidden_kernel) == pytest.approx(np.sqrt(2 / 40), rel=0.06)
    assert np.std(layer.output_kernel) == pytest.approx(np.sqrt(1 / 50), rel=0.06)


def test_diversity_is_added_in_training_alone():
    layer = CodedResidualTransform(4, 3, 2, diversity_weight=0.3)
    features = features_like((2, 3, 3, 5))
    layer(features, training=True)
    (loss,) = layer.losses
    expected = 0.3 * float(prototype_diversity(layer.prototypes))
    assert float(loss) == pytest.approx(expected, rel=1e-6) and expected > 0
    layer(features)
    assert layer.losses == []
    unweighted = CodedResidualTransform(4, 3, 2, diversity_weight=0.0)
    unweighted(features, training=True)
    assert unweighted.losses == []


def test_training_makes_prototypes_diverse():
    layer = CodedResidualTransform(4, 3, 2, prototypes_initializer=keras.initializers.Ones())
    model = keras.Sequential([keras.Input((4, 4, 5)), layer])
    layer.prototypes.assign_add(0.1 * features_like((4, 5)))
    before = float(prototype_diversity(layer.prototypes))
    model.compile(keras.optimizers.Adam(0.05), loss="mse", jit_compile=False)
    model.fit(features_like((8, 4, 4, 5)), np.zeros((8, 3)), epochs=20, verbose=0)
    assert float(prototype_diversity(layer.prototypes)) < 0.5 * before


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0, 2, 2), "num_prototypes must be an integer of at least 1, received 0"),
        ((2, 2.5, 2), "embedding_dim must be an integer of at least 1, received 2.5"),
        ((2, 2, -1), "hidden_dim must be an integer of at least 1, received -1"),
        ((2, 2, 2, False, -0.1), "diversity_weight must not be negative, received -0.1"),
    ],
)
def test_refuses_bad_arguments(arguments, message):
    with pytest.raises(ValueError, match=message):
        CodedResidualTransform(*arguments)
