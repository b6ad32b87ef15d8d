import numpy as np
import pytest
from local_maps import features_like, randomized

from gsp_tf.layers import CodedResidualTransform


@pytest.mark.parametrize("size", [(5, 3), (1, 1)])
def test_a_shared_network_is_one_network_for_each_prototype(size):
    """The equations of separate networks are in tests/papers/test_crt.py."""
    shared, separate = (
        randomized(CodedResidualTransform(4, 5, 3, is_shared, dtype="float64"), (None, *size, 6))
        for is_shared in (True, False)
    )
    prototypes, *networks, bias = shared.get_weights()
    separate.set_weights([prototypes, *(np.stack([w] * 4) for w in networks), bias])
    features = np.random.default_rng(0).normal(size=(2, *size, 6))
    np.testing.assert_allclose(shared(features), separate(features), rtol=1e-9)


@pytest.mark.tensorflow
def test_no_tensor_of_value_and_gradient_holds_every_residual():
    import tensorflow as tf

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
    expected = np.einsum("byxc,kc->byxk", features, layer.prototypes.numpy())
    np.testing.assert_allclose(maps, expected, atol=1e-5)
    as_set = layer.correlation_maps(features.reshape(2, 15, 6))
    np.testing.assert_allclose(as_set, np.reshape(maps, (2, 15, 4)), atol=1e-6)


@pytest.mark.parametrize("shared_network", [False, True])
def test_kernels_start_at_the_scale_of_their_inputs(shared_network):
    layer = CodedResidualTransform(20, 30, 50, shared_network)
    layer.build((None, None, 40))
    assert np.std(layer.hidden_kernel) == pytest.approx(np.sqrt(2 / 40), rel=0.06)
    assert np.std(layer.output_kernel) == pytest.approx(np.sqrt(1 / 50), rel=0.06)
