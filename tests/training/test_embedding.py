import keras
import numpy as np
import pytest
import tensorflow as tf

from gsp_tf.losses import ContrastiveLoss
from gsp_tf.training import MetricLearner, embed, inference


@pytest.fixture
def embedder():
    """Dropout and batch normalisation tell training from inference."""
    inputs = keras.Input((3,))
    x = keras.layers.BatchNormalization()(keras.layers.Dense(4)(inputs))
    return keras.Model(inputs, [keras.layers.Dropout(0.5)(x), keras.layers.Dense(2)(x)])


def dataset(count=7, batch_size=3, column=False):
    x = np.random.default_rng(0).normal(size=(count, 3)).astype("float32")
    labels = 2**40 + np.arange(count)
    labels = labels[:, None] if column else labels
    return x, tf.data.Dataset.from_tensor_slices((x, labels)).batch(batch_size)


@pytest.mark.parametrize("column", [False, True])
def test_embeds_in_order_and_in_inference_mode(embedder, column):
    x, data = dataset(column=column)
    expected = embedder(x, training=False)[0]
    learner = MetricLearner(embedder, ContrastiveLoss())
    for model in (embedder, learner, inference(embedder)):
        embeddings, labels = embed(model, data)
        np.testing.assert_allclose(embeddings, expected, rtol=1e-5, atol=1e-6)
        np.testing.assert_array_equal(labels, 2**40 + np.arange(7))
        assert embeddings.dtype == np.float32 and np.issubdtype(labels.dtype, np.integer)


def test_inference_follows_the_weights(embedder):
    _, data = dataset()
    forward = inference(embedder)
    before, _ = embed(forward, data)
    embedder.layers[1].kernel.assign(2.0 * embedder.layers[1].kernel)
    after, _ = embed(forward, data)
    np.testing.assert_allclose(after, 2.0 * before, rtol=1e-5, atol=1e-6)


def test_traced_once_for_batches_of_every_size(embedder):
    traces = []
    call = embedder.call
    embedder.call = lambda *arguments, **keywords: (
        traces.append(arguments),
        call(*arguments, **keywords),
    )[1]
    forward = inference(embedder)
    for count in (7, 5, 1):
        embed(forward, dataset(count)[1])
    assert len(traces) == 1


@pytest.mark.parametrize("policy", ["mixed_float16", "mixed_bfloat16"])
def test_half_precision_embeddings_become_float32(policy):
    keras.config.set_dtype_policy(policy)
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
    embeddings, _ = embed(model, dataset()[1])
    assert embeddings.dtype == np.float32 and embeddings.shape == (7, 2)


def test_refuses_an_empty_data_set(embedder):
    with pytest.raises(ValueError, match="without any batch"):
        embed(embedder, dataset()[1].take(0))


def test_a_pair_of_arrays_is_a_data_set(embedder):
    images = np.random.default_rng(0).normal(size=(70, *embedder.input_shape[1:]))
    images = images.astype("float32")
    labels = np.arange(70) % 7
    data = tf.data.Dataset.from_tensor_slices((images, labels)).batch(70)
    expected, _ = embed(embedder, data)
    embeddings, found = embed(embedder, (images, labels.tolist()))
    np.testing.assert_allclose(embeddings, expected, rtol=1e-5, atol=1e-6)
    assert np.array_equal(found, labels)


def test_arrays_that_are_no_data_set_are_refused_by_name(embedder):
    images = np.zeros((4, *embedder.input_shape[1:]), "float32")
    with pytest.raises(ValueError, match="Labels are needed: .* received one array"):
        embed(embedder, images)
    with pytest.raises(ValueError, match="received 4 and 3"):
        embed(embedder, (images, [0, 0, 1]))
    with pytest.raises(TypeError, match="must be integers; received dtype <U3.*return_inverse"):
        embed(embedder, (images, ["cat", "cat", "dog", "dog"]))
