import keras
import numpy as np
import pytest
import tensorflow as tf

from gsp_tf.layers import GlobalLocalEmbedding, L2Normalization
from gsp_tf.losses import HybridLoss
from gsp_tf.training import MetricLearner


def features_like(shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype("float32")


@pytest.fixture
def maps():
    return [features_like((2, 4, 5, 6)), features_like((2, 2, 3, 8), seed=1)]


def with_attention(layer, maps):
    """`layer`, built, with an attention that no longer is the identity."""
    layer(maps)
    layer.attention.psi.kernel.assign(features_like((3, 6), seed=2))
    return layer


def test_equals_the_two_heads(maps):
    layer = with_attention(GlobalLocalEmbedding(dim=10, key_dim=3, scale=0.5), maps)
    assert layer.attention.scale == 0.5
    enhanced = layer.attention(maps[0]).numpy()
    assert np.abs(enhanced - maps[0]).max() > 0.1
    halves = [
        (x.mean((1, 2)) + x.max((1, 2))) @ head.kernel.numpy() + head.bias.numpy()
        for x, head in [(maps[1], layer.global_whitening), (enhanced, layer.local_whitening)]
    ]
    np.testing.assert_allclose(layer(maps), np.concatenate(halves, 1), rtol=1e-4, atol=1e-5)


def test_channels_first(maps):
    last = with_attention(GlobalLocalEmbedding(dim=10, key_dim=3), maps)
    first = GlobalLocalEmbedding(dim=10, key_dim=3, data_format="channels_first")
    transposed = [x.transpose(0, 3, 1, 2) for x in maps]
    first(transposed)
    first.set_weights(last.get_weights())
    np.testing.assert_allclose(first(transposed), last(maps), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("policy", ["mixed_float16", "float64"])
def test_dtype_policies(maps, policy):
    reference = with_attention(GlobalLocalEmbedding(dim=10, key_dim=3), maps)
    layer = GlobalLocalEmbedding(dim=10, key_dim=3, dtype=policy)
    layer(maps)
    layer.set_weights(reference.get_weights())
    output = layer(maps)
    assert output.dtype == layer.compute_dtype
    np.testing.assert_allclose(tf.cast(output, "float32"), reference(maps), rtol=2e-2, atol=2e-2)


@pytest.mark.parametrize("dim", [0, 7])
def test_refuses_a_dimension_without_halves(dim):
    with pytest.raises(ValueError, match=f"dim must be even and at least 2, received {dim}"):
        GlobalLocalEmbedding(dim=dim, key_dim=3)


def test_refuses_a_single_map(maps):
    with pytest.raises(ValueError, match="takes the pair of a local and a global map"):
        GlobalLocalEmbedding(dim=4, key_dim=3)(maps[0])


def test_both_heads_train_with_the_hybrid_loss():
    images = keras.Input((12, 12, 3))
    local = keras.layers.Conv2D(6, 3, strides=2, activation="relu")(images)
    last = keras.layers.Conv2D(8, 3, strides=2, activation="relu")(local)
    head = GlobalLocalEmbedding(dim=8, key_dim=4)
    embeddings = L2Normalization()(head([local, last]))
    learner = MetricLearner(keras.Model(images, embeddings), HybridLoss(num_classes=2))
    learner.compile(keras.optimizers.AdamW(1e-2))
    x = features_like((8, 12, 12, 3))
    data = tf.data.Dataset.from_tensor_slices((x, np.arange(8) % 2)).batch(8).repeat()
    before = head.get_weights()
    history = learner.fit(data, steps_per_epoch=10, epochs=2, verbose=0).history
    assert history["loss"][1] < history["loss"][0]
    for weight, old in zip(head.weights, before, strict=True):
        # One bias of all keys changes no softmax.
        assert "key/bias" in weight.path or not np.array_equal(weight, old), weight.path
