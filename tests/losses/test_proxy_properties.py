from functools import cache, partial

import keras
import numpy as np
import pytest
from gradients import recorded, value_and_gradients, value_of
from loss_examples import LAYERS, for_any_size, graph_and_xla, with_weights

from gsp_tf import losses

WITHOUT_PROXIES = ["class_margin", "dynamic_soft_margin", "memory", "levels"]
WITH_PROXIES = [name for name in LAYERS if name not in WITHOUT_PROXIES]


def batch(rows=10, columns=5, seed=0):
    rng = np.random.default_rng(seed)
    return rng.integers(0, 4, rows), rng.normal(size=(rows, columns))


@pytest.mark.parametrize("name", ["ada_face", "large_margin_softmax", "sphere_face"])
def test_reductions_of_the_losses_of_samples(name):
    labels, embeddings = batch()
    weights = losses.Reduction(class_weights=[1.0, 0.0, 2.0, 0.5])

    def value(reduction):
        loss = with_weights(LAYERS[name](dtype="float64", reduction=reduction), columns=5)
        return keras.ops.convert_to_numpy(loss(labels, embeddings))

    terms = value("none")
    assert terms.shape == (10,) and value("sum") == pytest.approx(terms.sum(), rel=1e-9)
    expected = np.mean(np.take(weights.class_weights, labels) * terms)
    assert value(weights) == pytest.approx(expected, rel=1e-9)


# The norms in the margins of AdaFace are not differentiated.
@pytest.mark.parametrize("name", [name for name in WITH_PROXIES if name != "ada_face"])
def test_gradients_equal_differences(name):
    labels, embeddings = batch(5, 3)

    def made(*proxies):
        # A new loss, so that ProxySynthesis draws the same number.
        return with_weights(LAYERS[name](dtype="float64"), *proxies, columns=3)

    points = embeddings, made().proxies.numpy()
    _, *gradients = value_and_gradients(made(points[1]), labels, embeddings)
    rng = np.random.default_rng(1)
    for which in (0, 1):
        shifts = [1e-6 * rng.normal(size=p.shape) * (i == which) for i, p in enumerate(points)]
        there, back = (
            value_of(made(points[1] + sign * shifts[1]), labels, points[0] + sign * shifts[0])
            for sign in (1, -1)
        )
        expected = np.sum(gradients[which] * shifts[which])
        assert (there - back) / 2 == pytest.approx(expected, rel=1e-5, abs=1e-13)


@cache
def function_of(name, mode):
    """A loss, and a function of its value and gradients for any batch size."""
    loss = with_weights(LAYERS[name](), columns=5)
    signature = ((None,), "int64"), ((None, 5), "float32")
    run = partial(recorded, loss)
    return loss, for_any_size(run, *signature, jit_compile=mode == "xla", states=loss.variables)


def assert_finite(value, gradients):
    assert np.isfinite(float(value)) and all(np.isfinite(np.asarray(g)).all() for g in gradients)


# With XLA always one loss of each kind of computation; the others are made of their parts.
@graph_and_xla(LAYERS, always=["arc_face", "class_margin", "levels"], never=["proxy_synthesis"])
def test_any_batch_size(name, mode):
    loss, run = function_of(name, mode)
    eager = with_weights(LAYERS[name](), columns=5)
    for rows in (7,) if mode == "xla" else (10, 7):
        for ours, theirs in zip(eager.weights, loss.weights, strict=True):
            ours.assign(theirs)
        labels, embeddings = batch(rows)
        value, *gradients = run(labels, embeddings.astype("float32"))
        assert_finite(value, gradients)
        if name != "proxy_synthesis":  # which draws other numbers
            expected, *others = value_and_gradients(eager, labels, embeddings.astype("float32"))
            assert float(value) == pytest.approx(expected, rel=1e-5)
            for gradient, other in zip(gradients, others, strict=True):
                np.testing.assert_allclose(gradient, other, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("name", LAYERS)
def test_finite_for_degenerate_batches(name):
    loss, run = function_of(name, "graph")
    before = [weight.numpy() for weight in loss.trainable_weights]
    for weight, values in zip(loss.trainable_weights, before, strict=True):
        weight.assign(values * (np.arange(len(values)) > 0).reshape(-1, *[1] * (values.ndim - 1)))
    identical, spread = np.ones((4, 5)), np.random.default_rng(0).uniform(-1, 1, (4, 5))
    takes_norms = name in ("ada_face", "levels", "large_margin_softmax", "sphere_face")  # to 4.3e8
    for length in (0.0, 1e-30, 1e-8, 1.0, 6e4, *((1e8,) if takes_norms else (1e18, 1e30))):
        for labels, directions in (
            ([0, 1, 2, 3], identical),
            ([0, 1, 2, 3], spread),
            ([2, 2, 2, 2], identical),
            ([2, 2, 2, 2], spread),
            ([1], spread[:1]),
        ):
            value, *gradients = run(np.array(labels), (length * directions).astype("float32"))
            assert_finite(value, gradients)
    for weight, values in zip(loss.trainable_weights, before, strict=True):
        weight.assign(values)


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize(
    ("name", "mode"), [*((name, "graph") for name in WITH_PROXIES), ("arc_face", "xla")]
)
def test_finite_for_samples_at_their_proxies(name, mode, sign):
    loss, run = function_of(name, mode)
    labels = np.arange(64) % 4
    own = loss.proxies.numpy()[:: loss.proxies.shape[0] // 4][labels]
    # Rounding puts some of the cosines at 1 or beyond.
    value, *gradients = run(labels, sign * np.arange(1, 65, dtype="float32")[:, None] * own)
    assert_finite(value, gradients)


STEEP = [
    lambda **k: losses.ProxyAnchorLoss(4, alpha=100.0, **k),
    lambda **k: losses.ProxyNCALoss(4, temperature=1e-2, **k),
    lambda **k: losses.ProxyNCALoss(4, temperature=1e4, **k),
    lambda **k: losses.NormalizedSoftmaxLoss(4, temperature=1e-2, **k),
    lambda **k: losses.SoftTripleLoss(4, 3, scale=100.0, gamma=1e-2, **k),
    lambda **k: losses.ArcFaceLoss(4, scale=100.0, **k),
    lambda **k: losses.CosFaceLoss(4, scale=100.0, **k),
    lambda **k: losses.HybridLoss(4, alpha=100.0, beta=100.0, proxy_alpha=100.0, **k),
]


@pytest.fixture
def optimized():
    """JAX compiles as for users: without optimizations it rounds a logit in two ways."""
    if keras.backend.backend() != "jax":
        yield
        return
    import jax

    before = jax.config.values["jax_disable_most_optimizations"]
    jax.config.update("jax_disable_most_optimizations", False)
    yield
    jax.config.update("jax_disable_most_optimizations", before)


@pytest.mark.usefixtures("optimized")
@pytest.mark.parametrize("sign", [1, -1], ids=["on the proxies", "opposite to the proxies"])
@pytest.mark.parametrize("make_loss", STEEP)
def test_steep_losses_equal_themselves_in_float64(make_loss, sign):
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


@pytest.mark.parametrize("dtype", ["mixed_float16", "bfloat16"])
def test_a_dtype_of_half_precision_is_float32(dtype):
    assert losses.ProxyNCALoss(4, dtype=dtype).dtype_policy.name == "float32"


@pytest.mark.parametrize("source", ["samples", "all_proxies"])
def test_what_is_not_finite_stops_no_factorisation(source):
    labels, embeddings = batch()
    loss = losses.AntiCollapseLoss(losses.ProxyAnchorLoss(4), source=source)
    loss = with_weights(loss, columns=5)
    assert np.isnan(float(loss(labels, embeddings * np.nan)))
    loss.proxies.assign(loss.proxies * np.nan)
    assert np.isnan(float(loss(labels, embeddings)))


@pytest.mark.parametrize(
    ("name", "policy"),
    [
        ("proxy_anchor", "mixed_float16"),
        ("partial_fc", "mixed_bfloat16"),
        ("class_margin", "float16"),
        ("memory", "mixed_float16"),
    ],
)
def test_float32_under_every_global_policy(name, policy):
    labels, embeddings = batch(columns=64)
    half = keras.ops.convert_to_tensor(embeddings, policy.removeprefix("mixed_"))
    wide = keras.ops.cast(half, "float32")
    expected = float(with_weights(LAYERS[name](), columns=64)(labels, wide))
    keras.config.set_dtype_policy(policy)
    loss = with_weights(LAYERS[name](), columns=64)
    value, *gradients = recorded(loss, labels, half)
    assert gradients[0].dtype == half.dtype
    assert all(np.isfinite(np.asarray(g, "float32")).all() for g in gradients)
    assert {w.dtype for w in loss.weights} <= {"float32", "int32", "int64"}
    assert keras.backend.standardize_dtype(value.dtype) == "float32"
    assert float(value) == pytest.approx(expected, rel=1e-5)
