import subprocess
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf

from gsp_tf.layers import (
    CBAMPooling,
    DelfPooling,
    GlobalLocalEmbedding,
    GSoPPooling,
    SecondOrderAttention,
    SolarPooling,
)


def cbam(**arguments):
    return CBAMPooling(reduction=2, kernel_size=3, **arguments)


def delf(**arguments):
    return DelfPooling(hidden_dim=5, **arguments)


def gsop(**arguments):
    return GSoPPooling(reduced_dim=3, **arguments)


def solar(**arguments):
    return SolarPooling(key_dim=3, **arguments)


def attention(**arguments):
    return SecondOrderAttention(key_dim=3, scale=0.7, **arguments)


POOLINGS = [cbam, delf, gsop, solar]
SET_POOLINGS = [delf, gsop, solar]


def features_like(shape, seed=0, scale=1.0):
    return (np.random.default_rng(seed).normal(size=shape) * scale).astype("float32")


def randomized(layer, shape, seed=1):
    """The layer, built, with random weights: none of them at 0 or 1, where terms would vanish."""
    rng = np.random.default_rng(seed)
    layer.build(shape)
    for weight in layer.weights:
        positive = "variance" in weight.path or weight.path.endswith("p")
        draw = rng.uniform(0.5, 2.5, weight.shape) if positive else rng.normal(size=weight.shape)
        weight.assign(draw)
    return layer


def like(layer, other, shape):
    """`layer`, built, with the weights of `other`."""
    layer.build(shape)
    layer.set_weights(other.get_weights())
    return layer


# The equations of the papers in NumPy; sets are (B, n, C).


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def softmax(x):
    x = np.exp(x - x.max(-1, keepdims=True))
    return x / x.sum(-1, keepdims=True)


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

    channel = sigmoid(mlp(features.mean((1, 2))) + mlp(features.max((1, 2))))
    refined = channel[:, None, None] * features
    kernel = layer.spatial.kernel.numpy()[..., 0]
    size = len(kernel)
    summary = np.stack([refined.mean(-1), refined.max(-1)], -1)
    padded = np.pad(summary, [(0, 0), (size // 2,) * 2, (size // 2,) * 2, (0, 0)])
    spatial = np.zeros(features.shape[:3])
    for h, w in np.ndindex(*features.shape[1:3]):
        spatial[:, h, w] = np.sum(padded[:, h : h + size, w : w + size] * kernel, (1, 2, 3))
    return refined, sigmoid(spatial)


def cbam_equations(layer, features, training):
    refined, spatial = cbam_attention(layer, features)
    return (spatial[..., None] * refined).mean((1, 2))


def delf_attention(layer, features):
    scores = dense(layer.score, np.maximum(dense(layer.hidden, features), 0))
    return np.log1p(np.exp(scores[..., 0]))


def delf_equations(layer, features, training):
    return np.sum(delf_attention(layer, features)[..., None] * features, (1, 2))


def gsop_equations(layer, features, training):
    local = features.reshape(len(features), -1, features.shape[-1])
    reduced = dense(layer.reduction, local)
    reduced = batch_normalize(layer.reduction_normalization, reduced, (0, 1), training)
    covariance = np.stack([np.cov(np.maximum(x, 0).T, bias=True) for x in reduced])
    rows = batch_normalize(layer.row_normalization, covariance, (0, 2), training)
    kernel, bias = (weight.numpy() for weight in layer.row_convolution.weights)
    rows = np.stack([rows[:, i] @ kernel[i] + bias[i] for i in range(len(kernel))], 1)
    rows = np.where(rows > 0, rows, 0.1 * rows).reshape(len(rows), -1)
    return sigmoid(dense(layer.excitation, rows)) * local.mean(1)


def attention_equations(layer, features, training):
    local = features.reshape(len(features), -1, features.shape[-1])
    q, k, v = dense(layer.query, local), dense(layer.key, local), dense(layer.value, local)
    if layer.batch_normalization:
        q = np.maximum(batch_normalize(layer.query_normalization, q, (0, 1), training), 0)
        k = np.maximum(batch_normalize(layer.key_normalization, k, (0, 1), training), 0)
    z = softmax(layer.scale * np.einsum("bic,bjc->bij", q, k))
    return (local + dense(layer.psi, z @ v)).reshape(features.shape)


def solar_equations(layer, features, training):
    assert layer.attention.scale == layer.attention.key_dim**-0.5
    enhanced = attention_equations(layer.attention, features, training)
    p = layer.power.numpy()
    return np.mean(np.maximum(enhanced, 1e-6) ** p, (1, 2)) ** (1 / p)


EQUATIONS = {
    cbam: cbam_equations,
    delf: delf_equations,
    gsop: gsop_equations,
    solar: solar_equations,
    attention: attention_equations,
}


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("make", EQUATIONS)
def test_equals_the_equations_and_their_finite_differences(make, training):
    rng = np.random.default_rng(2)
    features = rng.normal(size=(3, 4, 5, 6))
    layer = randomized(make(dtype="float64"), features.shape)
    variables = layer.trainable_variables
    statistics = [variable.numpy() for variable in layer.non_trainable_variables]
    x = tf.constant(features)
    with tf.GradientTape() as tape:
        tape.watch(x)
        output = layer(x, training=training)
        up = rng.normal(size=output.shape)
        target = tf.reduce_sum(output * up)
    gradients = tape.gradient(target, [x, *(variable.value for variable in variables)])
    for variable, value in zip(layer.non_trainable_variables, statistics, strict=True):
        variable.assign(value)

    def equations(features):
        return EQUATIONS[make](layer, features, training)

    np.testing.assert_allclose(output, equations(features), rtol=1e-10, atol=1e-12)
    step = 1e-6
    direction = rng.normal(size=features.shape)
    ends = [equations(features + sign * step * direction) for sign in (1, -1)]
    numeric = np.sum(up * (ends[0] - ends[1])) / (2 * step)
    np.testing.assert_allclose(np.sum(gradients[0] * direction), numeric, rtol=1e-6, atol=1e-8)
    for variable, gradient in zip(variables, gradients[1:], strict=True):
        value, direction = variable.numpy(), rng.normal(size=variable.shape)
        ends = []
        for sign in (1, -1):
            variable.assign(value + sign * step * direction)
            ends.append(equations(features))
        variable.assign(value)
        numeric = np.sum(up * (ends[0] - ends[1])) / (2 * step)
        message = variable.path
        np.testing.assert_allclose(
            np.sum(gradient * direction), numeric, rtol=1e-6, atol=1e-8, err_msg=message
        )


@pytest.mark.parametrize("make", EQUATIONS)
def test_xla_and_channels_first(make):
    features = features_like((2, 4, 3, 6))
    layer = randomized(make(), features.shape)
    transposed = features.transpose(0, 3, 1, 2)
    first = like(make(data_format="channels_first"), layer, transposed.shape)
    up = features_like(layer(features).shape, seed=3)

    def run(layer, features, up):
        with tf.GradientTape() as tape:
            tape.watch(features)
            output = layer(features)
            target = tf.reduce_sum(output * up)
        return output, tape.gradient(target, features)

    output, gradient = run(layer, tf.constant(features), up)
    is_map = len(output.shape) == 4
    up = up.transpose(0, 3, 1, 2) if is_map else up
    compiled = tf.function(run, jit_compile=True)(first, tf.constant(transposed), up)
    assert first.compute_output_shape(transposed.shape) == tuple(compiled[0].shape)
    for value, expected in zip(compiled, (output, gradient), strict=True):
        expected = expected.numpy()
        expected = expected.transpose(0, 3, 1, 2) if expected.ndim == 4 else expected
        np.testing.assert_allclose(value, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("make", POOLINGS)
def test_unknown_height_and_width(make):
    maps = keras.Input((None, None, 4))
    pooled = make()(maps)
    assert pooled.shape == (None, 4)
    model = keras.Model(maps, pooled)
    for size in ((1, 1), (5, 3)):
        assert model.predict(np.ones((2, *size, 4)), verbose=0).shape == (2, 4)


@pytest.mark.parametrize("policy", ["mixed_float16", "mixed_bfloat16", "float16", "float64"])
@pytest.mark.parametrize("make", EQUATIONS)
def test_dtype_policies(make, policy):
    features = features_like((2, 4, 4, 8))
    reference = randomized(make(), features.shape)
    expected = reference(features).numpy()
    layer = like(make(dtype=policy), reference, features.shape)
    output = layer(features)
    assert output.dtype == layer.compute_dtype
    tolerance = {"float64": 1e-4, "mixed_bfloat16": 1e-1}.get(policy, 1e-2)
    atol = tolerance * np.abs(expected).max()
    np.testing.assert_allclose(tf.cast(output, "float32"), expected, rtol=tolerance, atol=atol)
    if make is not delf:  # whose sum grows with the square of the features
        assert np.isfinite(tf.cast(layer(300 * features), "float32")).all()


@pytest.mark.parametrize("scale", [0.0, 1e-30, 1e-3, 1e6, 1e15])
@pytest.mark.parametrize("size", [1, 3])
@pytest.mark.parametrize("make", EQUATIONS)
def test_finite_for_a_single_feature_and_at_every_scale(make, size, scale):
    features = tf.constant(features_like((2, size, size, 4), scale=scale))
    layer = randomized(make(), features.shape)
    with tf.GradientTape() as tape:
        tape.watch(features)
        output = layer(features, training=True)
        target = tf.reduce_sum(output)
    variables = [variable.value for variable in layer.trainable_variables]
    assert np.isfinite(output).all()
    for gradient in tape.gradient(target, [features, *variables]):
        assert np.isfinite(gradient).all()


@pytest.mark.parametrize("make", SET_POOLINGS + [attention])
def test_a_set_equals_a_map(make):
    features = features_like((2, 3, 4, 5))
    layer = randomized(make(), features.shape)
    expected = layer(features)
    as_set = layer(features.reshape(2, 12, 5))
    np.testing.assert_allclose(as_set, np.reshape(expected, as_set.shape), rtol=1e-5, atol=1e-6)


def test_cbam_needs_the_grid():
    with pytest.raises(ValueError, match=r"takes maps \(B, H, W, C\), received shape \(2, 6, 4\)"):
        cbam()(np.ones((2, 6, 4), "float32"))


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("make", SET_POOLINGS + [attention])
def test_mask_leaves_features_out(make, training):
    features = features_like((1, 6, 4))
    mask = np.array([[1, 1, 0, 1, 0, 1]], bool)
    layer = randomized(make(), features.shape)
    alone = layer(features[:, mask[0]], training=training)
    layer = randomized(make(), features.shape)
    features[0, 2] = np.nan
    variable = tf.constant(features)
    with tf.GradientTape() as tape:
        tape.watch(variable)
        output = layer(variable, mask=mask, training=training)
        output = tf.boolean_mask(output, mask)[None] if make is attention else output
        target = tf.reduce_sum(output**2)
    gradient = tape.gradient(target, variable).numpy()
    np.testing.assert_allclose(output, alone, rtol=1e-4, atol=1e-5)
    assert (gradient[~mask] == 0).all() and np.isfinite(gradient).all()


@pytest.mark.parametrize("make", SET_POOLINGS)
def test_keras_mask_of_a_token_model(make):
    tokens = keras.Input((None,), dtype="int32")
    embedded = keras.layers.Embedding(20, 8, mask_zero=True)(tokens)
    model = keras.Model(tokens, make()(embedded))
    short = model(np.array([[3, 7, 5]]))
    np.testing.assert_allclose(model(np.array([[3, 7, 5, 0, 0]])), short, rtol=1e-4, atol=1e-6)
    assert (np.asarray(model(np.array([[0, 0]]))) == 0).all()


@pytest.mark.parametrize(
    ("make", "place_attention"),
    [(cbam, lambda *arguments: cbam_attention(*arguments)[1]), (delf, delf_attention)],
)
def test_pooling_weights_are_the_attention_of_every_place(make, place_attention):
    features = features_like((2, 3, 4, 6))
    layer = randomized(make(), features.shape)
    expected = place_attention(layer, features)
    expected /= expected.sum((1, 2), keepdims=True)
    np.testing.assert_allclose(layer.pooling_weights(features), expected, rtol=1e-4)
    saturated = layer.pooling_weights(1e6 * features).numpy()
    np.testing.assert_allclose(saturated.sum((1, 2)), 1, rtol=1e-5)


def test_delf_weights_of_a_set_leave_out_what_is_masked():
    features, mask = features_like((1, 4, 3)), np.array([[1, 0, 1, 0]], bool)
    layer = delf()
    weights = layer.pooling_weights(features, mask=mask).numpy()
    np.testing.assert_allclose(weights[mask], layer.pooling_weights(features[mask][None])[0])
    assert (weights[~mask] == 0).all()


def test_attention_maps_are_the_mean_attention_that_a_place_receives():
    features = features_like((2, 3, 4, 6))
    layer = randomized(attention(batch_normalization=False), features.shape)
    local = features.reshape(2, 12, 6)
    z = softmax(0.7 * dense(layer.query, local) @ dense(layer.key, local).transpose(0, 2, 1))
    maps = layer.attention_maps(features)
    np.testing.assert_allclose(maps, z.mean(1).reshape(2, 3, 4), rtol=1e-4, atol=1e-7)
    for place in ((0, 0), (2, 1)):
        row = layer.attention_maps(features, place=place)
        expected = z[:, 4 * place[0] + place[1]]
        np.testing.assert_allclose(row, expected.reshape(2, 3, 4), rtol=1e-4, atol=1e-7)
        of_set = layer.attention_maps(local, place=4 * place[0] + place[1])
        np.testing.assert_allclose(of_set, expected, rtol=1e-4, atol=1e-7)
    for wrong in ((3, 0), (0, -1), 5):
        with pytest.raises(ValueError, match=r"place must lie within \(3, 4\), received"):
            layer.attention_maps(features, place=wrong)
    mask = np.arange(12)[None] < 7
    masked = layer.attention_maps(local, mask=np.repeat(mask, 2, 0))
    short = layer.attention_maps(local[:, :7])
    np.testing.assert_allclose(masked, np.pad(short, [(0, 0), (0, 5)]), rtol=1e-4, atol=1e-7)


def test_attention_starts_as_the_identity_and_solar_as_the_generalized_mean():
    features = features_like((2, 3, 4, 6))
    np.testing.assert_array_equal(attention()(features), features)
    expected = np.mean(np.maximum(features, 0) ** 4.0, (1, 2)) ** 0.25
    np.testing.assert_allclose(SolarPooling(p=4.0)(features), expected, rtol=1e-5)


def test_default_widths():
    features = features_like((1, 2, 2, 64))
    layers = [CBAMPooling(), DelfPooling(), GSoPPooling(), SolarPooling()]
    for layer in layers:
        layer(features)
    channel, delf_layer, gsop_layer, solar_layer = layers
    assert channel.reduce.units == 4 and channel.spatial.kernel_size == (7, 7)
    assert delf_layer.hidden.units == 512
    assert gsop_layer.row_convolution.kernel.shape == (128, 128, 4)
    assert solar_layer.attention.key_dim == 32
    assert CBAMPooling()(features[..., :3]).shape == (1, 3)


@pytest.mark.parametrize(
    ("layer", "message"),
    [
        (lambda: CBAMPooling(reduction=0), "reduction must be an integer of at least 1"),
        (lambda: CBAMPooling(kernel_size=1.5), "kernel_size must be .*, received 1.5"),
        (lambda: DelfPooling(hidden_dim=0), "hidden_dim must be an integer of at least 1"),
        (lambda: GSoPPooling(reduced_dim=-1), "reduced_dim must be .*, received -1"),
        (lambda: SolarPooling(key_dim=0), "key_dim must be an integer of at least 1, received 0"),
        (lambda: SolarPooling(p=0.0), "p must be positive and finite, received 0.0"),
        (lambda: SecondOrderAttention(key_dim=2.5), "key_dim must be .*, received 2.5"),
        (lambda: attention()(np.ones((2, 3))), "takes maps .* or sets .*, received shape"),
    ],
)
def test_refuses(layer, message):
    with pytest.raises(ValueError, match=message):
        layer()


@pytest.mark.parametrize(
    "layer",
    [
        CBAMPooling(8, 5, "channels_first", name="pool"),
        DelfPooling(64, "channels_first", name="pool"),
        GSoPPooling(32, "channels_first", name="pool"),
        SolarPooling(16, 2.0, "channels_first", name="pool"),
        SecondOrderAttention(16, 0.25, True, "channels_first", name="attention"),
        GlobalLocalEmbedding(8, 16, 0.25, "single", False, "channels_first", name="heads"),
    ],
    ids=lambda layer: type(layer).__name__,
)
def test_config_round_trip(layer):
    twin = type(layer).from_config(layer.get_config())
    assert twin.get_config() == layer.get_config()


SERVE_THEN_LOAD = """
import sys
import numpy as np
import tensorflow as tf
images = np.load("images.npy")
sys.modules["gsp_tf"] = None
exported = tf.saved_model.load("exported")
served = exported.serve(images)
del sys.modules["gsp_tf"]
import keras, gsp_tf.layers
loaded = keras.models.load_model("model.keras")(images)
np.savez("outputs.npz", served=served, loaded=loaded)
"""


def test_every_layer_saves_and_serves_in_a_fresh_process(tmp_path):
    images = keras.Input((None, None, 3))
    local = keras.layers.Conv2D(6, 3, activation="relu")(images)
    features = keras.layers.Conv2D(8, 3, activation="relu")(local)
    outputs = [make()(features) for make in POOLINGS]
    outputs.append(GlobalLocalEmbedding(dim=4, key_dim=3)([local, features]))
    model = keras.Model(images, keras.layers.Concatenate()(outputs))
    rng = np.random.default_rng(0)
    for weight in model.weights:
        weight.assign(rng.uniform(0.5, 1.5, weight.shape) * (weight.numpy() + 0.1))
    x = features_like((2, 9, 7, 3))
    np.save(tmp_path / "images.npy", x)
    model.save(tmp_path / "model.keras")
    model.export(tmp_path / "exported", verbose=False)
    command = [sys.executable, "-c", SERVE_THEN_LOAD]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    for name, value in np.load(tmp_path / "outputs.npz").items():
        np.testing.assert_allclose(value, model(x), rtol=1e-4, atol=1e-6, err_msg=name)


@pytest.mark.parametrize("make", [gsop, solar, attention])
@pytest.mark.parametrize("training", [False, True])
def test_features_of_the_documented_range_are_finite(make, training):
    layer = randomized(make(), (None, None, None, 6))
    features = features_like((2, 4, 4, 6)).clip(-3, 3) / 3 * 1e18
    assert np.isfinite(layer(features, training=training)).all()
