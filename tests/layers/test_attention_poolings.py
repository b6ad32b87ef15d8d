import numpy as np
import pytest
from gradients import differentiated
from keras import ops
from layer_examples import LAYERS
from local_maps import features_like, randomized
from scipy.special import expit, softmax

from gsp_tf.layers import SecondOrderAttention, SolarPooling

# The equations of the papers in NumPy; sets are (B, n, C).


def dense(layer, x):
    y = x @ layer.kernel.numpy()
    return y + layer.bias.numpy() if layer.use_bias else y


def batch_normalize(layer, x, axes, training):
    """`layer` on x, by moments over `axes`; its weights are shaped for broadcasting."""
    shape = [1 if axis in axes else size for axis, size in enumerate(x.shape)]
    mean, variance, gamma, beta = (
        weight.numpy().reshape(shape)
        for weight in (layer.moving_mean, layer.moving_variance, layer.gamma, layer.beta)
    )
    if training:
        mean, variance = x.mean(axes, keepdims=True), x.var(axes, keepdims=True)
    return gamma * (x - mean) / np.sqrt(variance + 1e-5) + beta


def cbam_attention(layer, features):
    """The map after channel attention, and the spatial attention (B, H, W)."""

    def mlp(x):
        return np.maximum(x @ layer.reduce.kernel.numpy(), 0) @ layer.expand.kernel.numpy()

    channel = expit(mlp(features.mean((1, 2))) + mlp(features.max((1, 2))))
    refined = channel[:, None, None] * features
    kernel = layer.spatial.kernel.numpy()[..., 0]
    size = len(kernel)
    summary = np.stack([refined.mean(-1), refined.max(-1)], -1)
    padded = np.pad(summary, [(0, 0), (size // 2,) * 2, (size // 2,) * 2, (0, 0)])
    spatial = np.zeros(features.shape[:3])
    for h, w in np.ndindex(*features.shape[1:3]):
        spatial[:, h, w] = np.sum(padded[:, h : h + size, w : w + size] * kernel, (1, 2, 3))
    return refined, expit(spatial)


def cbam_equations(layer, features, training):
    refined, spatial = cbam_attention(layer, features)
    return (spatial[..., None] * refined).mean((1, 2))


def delf_attention(layer, features):
    scores = dense(layer.score, np.maximum(dense(layer.hidden, features), 0))
    return np.log1p(np.exp(scores[..., 0]))


def gsop_equations(layer, features, training):
    local = features.reshape(len(features), -1, features.shape[-1])
    reduced = dense(layer.reduction, local)
    reduced = batch_normalize(layer.reduction_normalization, reduced, (0, 1), training)
    covariance = np.stack([np.cov(np.maximum(x, 0).T, bias=True) for x in reduced])
    rows = batch_normalize(layer.row_normalization, covariance, (0, 2), training)
    kernel, bias = (weight.numpy() for weight in layer.row_convolution.weights)
    rows = np.stack([rows[:, i] @ kernel[i] + bias[i] for i in range(len(kernel))], 1)
    rows = np.where(rows > 0, rows, 0.1 * rows).reshape(len(rows), -1)
    return expit(dense(layer.excitation, rows)) * local.mean(1)


def attention_equations(layer, features, training):
    local = features.reshape(len(features), -1, features.shape[-1])
    q, k, v = dense(layer.query, local), dense(layer.key, local), dense(layer.value, local)
    if layer.batch_normalization:
        q = np.maximum(batch_normalize(layer.query_normalization, q, (0, 1), training), 0)
        k = np.maximum(batch_normalize(layer.key_normalization, k, (0, 1), training), 0)
    z = softmax(layer.scale * np.einsum("bic,bjc->bij", q, k), axis=-1)
    return (local + dense(layer.psi, z @ v)).reshape(features.shape)


def solar_equations(layer, features, training):
    assert layer.attention.scale == layer.attention.key_dim**-0.5
    enhanced = attention_equations(layer.attention, features, training)
    p = layer.power.numpy()
    return np.mean(np.maximum(enhanced, 1e-6) ** p, (1, 2)) ** (1 / p)


EQUATIONS = {
    "cbam": cbam_equations,
    "delf": lambda layer, x, _: np.sum(delf_attention(layer, x)[..., None] * x, (1, 2)),
    "gsop": gsop_equations,
    "solar": solar_equations,
    "attention": attention_equations,
}


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("name", EQUATIONS)
def test_equals_the_equations(name, training):
    features = np.random.default_rng(2).normal(size=(3, 4, 5, 6))
    layer = randomized(LAYERS[name](dtype="float64"), features.shape)
    expected = EQUATIONS[name](layer, features, training)
    np.testing.assert_allclose(layer(features, training=training), expected, 1e-10, 1e-12)


# The others are the same in training.
@pytest.mark.parametrize("name", ["gsop", "solar"])
def test_mask_leaves_features_out_in_training(name):
    features = features_like((1, 6, 4))
    mask = np.array([[1, 1, 0, 1, 0, 1]], bool)
    layer = randomized(LAYERS[name](), features.shape)
    alone = layer(features[:, mask[0]], training=True)
    layer = randomized(LAYERS[name](), features.shape)
    features[0, 2] = np.nan

    def squared(features):
        output = layer(features, mask=mask, training=True)
        return ops.sum(output**2), output

    upstream = np.ones((), "float32"), np.zeros(np.shape(alone), "float32")
    (_, output), (gradient,) = differentiated(squared, features, upstream=upstream)
    np.testing.assert_allclose(output, alone, rtol=1e-4, atol=1e-5)
    assert (gradient[~mask] == 0).all() and np.isfinite(gradient).all()


@pytest.mark.parametrize(
    ("name", "attention_of"),
    [("cbam", lambda *arguments: cbam_attention(*arguments)[1]), ("delf", delf_attention)],
)
def test_pooling_weights_are_the_attention_of_every_position(name, attention_of):
    features = features_like((2, 3, 4, 6))
    layer = randomized(LAYERS[name](), features.shape)
    expected = attention_of(layer, features)
    expected /= expected.sum((1, 2), keepdims=True)
    np.testing.assert_allclose(layer.pooling_weights(features), expected, rtol=1e-4)
    saturated = np.asarray(layer.pooling_weights(1e6 * features))
    np.testing.assert_allclose(saturated.sum((1, 2)), 1, rtol=1e-5)


def test_attention_maps_are_the_mean_attention_that_a_position_receives():
    features = features_like((2, 3, 4, 6))
    layer = randomized(LAYERS["attention"](), features.shape)
    local = features.reshape(2, 12, 6)
    scores = dense(layer.query, local) @ dense(layer.key, local).transpose(0, 2, 1)
    z = softmax(0.7 * scores, axis=-1)
    maps = layer.attention_maps(features)
    np.testing.assert_allclose(maps, z.mean(1).reshape(2, 3, 4), rtol=1e-4, atol=1e-7)
    for position in ((0, 0), (2, 1)):
        row = layer.attention_maps(features, position=position)
        expected = z[:, 4 * position[0] + position[1]]
        np.testing.assert_allclose(row, expected.reshape(2, 3, 4), rtol=1e-4, atol=1e-7)
        of_set = layer.attention_maps(local, position=4 * position[0] + position[1])
        np.testing.assert_allclose(of_set, expected, rtol=1e-4, atol=1e-7)
    for wrong in ((3, 0), (0, -1), 5):
        with pytest.raises(ValueError, match=r"position must lie within \(3, 4\), received"):
            layer.attention_maps(features, position=wrong)
    mask = np.arange(12)[None] < 7
    masked = layer.attention_maps(local, mask=np.repeat(mask, 2, 0))
    short = layer.attention_maps(local[:, :7])
    np.testing.assert_allclose(masked, np.pad(short, [(0, 0), (0, 5)]), rtol=1e-4, atol=1e-7)


@pytest.mark.parametrize("scale", [1e18, 1e19, 1e30])
@pytest.mark.parametrize(
    "make",
    [LAYERS["gsop"], SolarPooling, lambda: SecondOrderAttention(4, batch_normalization=True)],
)
def test_large_features_leave_finite_statistics(make, scale):
    layer = randomized(make(), (2, 4, 5, 8))
    features = features_like((2, 4, 5, 8), scale=scale)
    for training in (True, False):
        assert np.isfinite(ops.convert_to_numpy(layer(features, training=training))).all()
    assert all(np.isfinite(ops.convert_to_numpy(weight)).all() for weight in layer.weights)
