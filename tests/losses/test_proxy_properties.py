import keras
import numpy as np
import pytest
import tensorflow as tf

from gsp_tf.losses import (
    ArcFaceLoss,
    CosFaceLoss,
    HybridLoss,
    MultiLevelDistanceRegularization,
    NormalizedSoftmaxLoss,
    ProxyAnchorLoss,
    ProxyNCALoss,
    SoftTripleLoss,
)

WITH_PROXIES = [
    "proxy_anchor",
    "proxy_nca",
    "soft_triple",
    "normalized_softmax",
    "arc_face",
    "cos_face",
    "hybrid",
    "proxy_synthesis",
    "virtual_class",
]
NOT_RANDOM = [
    *(name for name in WITH_PROXIES if name != "proxy_synthesis"),
    "class_margin",
    "memory",
    "levels",
]


def batch(rows=10, columns=5, seed=0):
    rng = np.random.default_rng(seed)
    return rng.integers(0, 4, rows), rng.normal(size=(rows, columns))


@pytest.mark.parametrize("make_loss", NOT_RANDOM, indirect=True)
def test_order_of_the_batch_does_not_matter(make_loss, with_weights, value_and_gradients):
    labels, embeddings = batch()
    order = np.random.default_rng(1).permutation(len(labels))
    (value, gradient, *weights), (moved_value, moved_gradient, *moved_weights) = (
        value_and_gradients(
            with_weights(make_loss(dtype="float64"), columns=5), labels[rows], embeddings[rows]
        )
        for rows in (np.arange(len(labels)), order)
    )
    assert moved_value == pytest.approx(value, rel=1e-10)
    np.testing.assert_allclose(moved_gradient, gradient[order], rtol=1e-7, atol=1e-12)
    np.testing.assert_allclose(moved_weights, weights, rtol=1e-7, atol=1e-12)


@pytest.mark.parametrize("make_loss", [*WITH_PROXIES, "memory"], indirect=True)
def test_length_of_the_vectors_does_not_matter(make_loss, with_weights, value_and_gradients):
    labels, embeddings = batch()
    loss = with_weights(make_loss(dtype="float64"), columns=5)
    value, *gradients = value_and_gradients(loss, labels, embeddings)
    rng = np.random.default_rng(1)
    lengths = [rng.uniform(0.1, 10.0, (len(g), 1)) for g in gradients]
    loss = with_weights(make_loss(dtype="float64"), columns=5)
    for proxies, length in zip(loss.trainable_weights, lengths[1:], strict=True):
        proxies.assign(length * proxies)
    moved_value, *moved_gradients = value_and_gradients(loss, labels, lengths[0] * embeddings)
    assert moved_value == pytest.approx(value, rel=1e-10)
    for gradient, moved, length in zip(gradients, moved_gradients, lengths, strict=True):
        np.testing.assert_allclose(length * moved, gradient, rtol=1e-7, atol=1e-12)


@pytest.mark.parametrize("make_loss", WITH_PROXIES, indirect=True)
def test_classes_may_be_renamed_with_their_proxies(make_loss, with_weights, value_and_gradients):
    labels, embeddings = batch()
    loss = with_weights(make_loss(dtype="float64"), columns=5)
    value, gradient, proxies_gradient = value_and_gradients(loss, labels, embeddings)
    names = np.array([2, 3, 1, 0])
    rows = np.argsort(names)
    by_class = np.reshape(loss.proxies, (4, -1, 5))
    renamed = with_weights(make_loss(dtype="float64"), by_class[rows].reshape(-1, 5))
    moved_value, moved_gradient, moved_proxies_gradient = value_and_gradients(
        renamed, names[labels], embeddings
    )
    assert moved_value == pytest.approx(value, rel=1e-10)
    np.testing.assert_allclose(moved_gradient, gradient, rtol=1e-7, atol=1e-12)
    np.testing.assert_allclose(
        moved_proxies_gradient.reshape(by_class.shape),
        proxies_gradient.reshape(by_class.shape)[rows],
        rtol=1e-7,
        atol=1e-12,
    )


@pytest.mark.parametrize("make_loss", WITH_PROXIES, indirect=True)
def test_gradients_equal_finite_differences(make_loss, with_weights, value_and_gradients):
    labels, embeddings = batch(5, 3)
    loss = with_weights(make_loss(dtype="float64"), columns=3)
    points = embeddings, loss.proxies.numpy()
    _, *gradients = value_and_gradients(loss, labels, embeddings)
    for which, gradient in enumerate(gradients):
        for index in np.ndindex(*gradient.shape):
            values = []
            for sign in (1, -1):
                moved = [point.copy() for point in points]
                moved[which][index] += sign * 1e-6
                # A new loss, so that ProxySynthesis draws the same number.
                moved_loss = with_weights(make_loss(dtype="float64"), moved[1])
                values.append(float(moved_loss(labels, moved[0])))
            numeric = (values[0] - values[1]) / 2e-6
            assert gradient[index] == pytest.approx(numeric, rel=1e-5, abs=1e-7)


@pytest.mark.parametrize(
    ("dtype", "length"),
    [("float16", 0.0), ("float16", 6e4), ("bfloat16", 1e18), ("float32", 1e-8), ("float32", 1.0)],
)
def test_finite_for_degenerate_batches(make_loss, with_weights, value_and_gradients, dtype, length):
    loss = with_weights(make_loss(), columns=3)
    for weight in loss.trainable_weights:
        values = weight.numpy()
        values[0] = 0.0
        weight.assign(values)
    identical, spread = np.ones((4, 3)), np.random.default_rng(0).uniform(-1, 1, (4, 3))
    for labels, directions in (
        ([0, 1, 2, 3], identical),
        ([0, 1, 2, 3], spread),
        ([2, 2, 2, 2], identical),
        ([2, 2, 2, 2], spread),
        ([1], spread[:1]),
    ):
        takes_norms = isinstance(loss, MultiLevelDistanceRegularization)  # up to 4.3e8
        embeddings = tf.cast((min(length, 1e8) if takes_norms else length) * directions, dtype)
        value, *gradients = value_and_gradients(loss, np.array(labels), embeddings)
        assert np.isfinite(value) and all(np.isfinite(g).all() for g in gradients)


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize(
    ("make_loss", "jit_compile"),
    [*((name, False) for name in WITH_PROXIES), ("arc_face", True)],
    indirect=["make_loss"],
)
def test_finite_for_samples_at_their_proxies(
    make_loss, with_weights, value_and_gradients, jit_compile, sign
):
    loss = with_weights(make_loss(), columns=5)
    labels = np.arange(64) % 4
    own = loss.proxies.numpy()[:: loss.proxies.shape[0] // 4][labels]
    # Rounding puts some of the cosines at 1 or beyond.
    embeddings = sign * np.arange(1, 65, dtype="float32")[:, None] * own
    value, *gradients = value_and_gradients(loss, labels, embeddings, jit_compile)
    assert np.isfinite(value) and all(np.isfinite(g).all() for g in gradients)


STEEP = [
    lambda **k: ProxyAnchorLoss(4, alpha=100.0, **k),
    lambda **k: ProxyNCALoss(4, temperature=1e-2, **k),
    lambda **k: ProxyNCALoss(4, temperature=1e4, **k),
    lambda **k: NormalizedSoftmaxLoss(4, temperature=1e-2, **k),
    lambda **k: SoftTripleLoss(4, 3, scale=100.0, gamma=1e-2, **k),
    lambda **k: ArcFaceLoss(4, scale=100.0, **k),
    lambda **k: CosFaceLoss(4, scale=100.0, **k),
    lambda **k: HybridLoss(4, alpha=100.0, beta=100.0, proxy_alpha=100.0, **k),
]


@pytest.mark.parametrize("sign", [1, -1], ids=["on the proxies", "opposite to the proxies"])
@pytest.mark.parametrize("make_loss", STEEP)
def test_steep_losses_equal_themselves_in_float64(
    make_loss, with_weights, value_and_gradients, sign
):
    losses = [with_weights(make_loss(dtype=dtype), columns=5) for dtype in ("float32", "float64")]
    proxies = losses[0].proxies.numpy()
    labels = np.arange(8) % 4
    own = proxies[:: len(proxies) // 4][labels]
    embeddings = sign * own + 0.1 * np.random.default_rng(2).normal(size=own.shape)
    actual, expected = (
        value_and_gradients(loss, labels, embeddings.astype(loss.dtype)) for loss in losses
    )
    assert actual[0] == pytest.approx(expected[0], rel=1e-4, abs=1e-6)
    for gradient, exact in zip(actual[1:], expected[1:], strict=True):
        np.testing.assert_allclose(gradient, exact, atol=1e-3 * np.abs(exact).max() + 1e-6)


@pytest.mark.parametrize("policy", ["mixed_float16", "mixed_bfloat16", "float16"])
@pytest.mark.parametrize("make_loss", ["proxy_anchor", "class_margin", "memory"], indirect=True)
def test_float32_under_every_global_policy(make_loss, with_weights, policy):
    labels, embeddings = batch(columns=64)
    half = tf.cast(embeddings, policy.removeprefix("mixed_"))
    expected = float(with_weights(make_loss(), columns=64)(labels, tf.cast(half, "float32")))
    keras.config.set_dtype_policy(policy)
    loss = with_weights(make_loss(), columns=64)
    value = loss(labels, half)
    assert {w.dtype for w in loss.weights} <= {"float32", "int32", "int64"}
    assert value.dtype == tf.float32
    assert float(value) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize(
    ("make_loss", "jit_compile"),
    [
        *((name, False) for name in NOT_RANDOM),
        *(
            (name, True)
            for name in ("soft_triple", "class_margin", "hybrid", "virtual_class", "levels")
        ),
    ],
    indirect=["make_loss"],
)
def test_compiled_for_any_batch_size(make_loss, with_weights, value_and_gradients, jit_compile):
    eager, compiled = (with_weights(make_loss(), columns=5) for _ in range(2))

    @tf.function(
        input_signature=[tf.TensorSpec((None,), "int64"), tf.TensorSpec((None, 5), "float32")],
        jit_compile=jit_compile,
    )
    def run(labels, embeddings):
        with tf.GradientTape() as tape:
            tape.watch(embeddings)
            value = compiled(labels, embeddings)
        weights = [w.value for w in compiled.trainable_weights]
        return value, *tape.gradient(value, [embeddings, *weights])

    for rows in (7,) if jit_compile else (10, 7):
        labels, embeddings = batch(rows)
        value, *gradients = value_and_gradients(eager, labels, embeddings.astype("float32"))
        compiled_value, *compiled_gradients = run(labels, embeddings.astype("float32"))
        assert float(compiled_value) == pytest.approx(value, rel=1e-5)
        for gradient, expected in zip(compiled_gradients, gradients, strict=True):
            np.testing.assert_allclose(gradient, expected, rtol=1e-3, atol=1e-5)
