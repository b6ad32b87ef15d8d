import keras
import numpy as np
import pytest
from gradients import compiled, examples
from hypothesis import given, settings
from hypothesis import strategies as st
from local_maps import unit
from loss_examples import for_any_size, with_weights
from scipy import stats

from gsp_tf.losses import ProxyAnchorLoss, ProxyNCALoss, ProxySynthesis, SoftTripleLoss
from gsp_tf.losses.proxy_synthesis import _symmetric_beta

INNER = [
    (ProxyNCALoss, 1, {"temperature": 0.3}),
    (ProxyAnchorLoss, 1, {"alpha": 5.0}),
    (SoftTripleLoss, 2, {"centers_per_class": 2, "tau": 0.0}),
]


def extended(labels, embeddings, proxies, rate, num_mixed):
    """Labels and embeddings of a batch with its mixtures, and the proxies of all their classes."""
    labels, embeddings, proxies = list(labels), list(unit(embeddings)), list(unit(proxies))
    batch_size, classes = len(labels), {}
    for i in range(num_mixed):
        circle = [(i + step) % batch_size for step in range(1, batch_size)]
        j = next((j for j in circle if labels[j] != labels[i]), 0)
        pair = labels[i], labels[j]
        if labels[i] == labels[j]:
            classes[pair] = labels[i]
        elif pair not in classes:
            classes[pair] = len(proxies)
            proxies.append(unit(rate * proxies[pair[0]] + (1 - rate) * proxies[pair[1]]))
        embeddings.append(unit(rate * embeddings[i] + (1 - rate) * embeddings[j]))
        labels.append(classes[pair])
    return np.array(labels), np.array(embeddings), np.array(proxies)


@pytest.mark.parametrize(("inner", "k", "arguments"), INNER)
@settings(max_examples=examples(8))
@given(
    labels=st.lists(st.integers(0, 3), min_size=1, max_size=9),
    rate=st.floats(0.01, 0.99),
    ratio=st.sampled_from([0.0, 0.3, 0.5, 1.0]),
    seed=st.integers(0, 1000),
)
def test_is_the_proxy_loss_with_the_mixtures_as_samples_and_proxies(
    inner, k, arguments, labels, rate, ratio, seed
):
    rng = np.random.default_rng(seed)
    labels, embeddings = np.array(labels), rng.normal(size=(len(labels), 3))
    proxies = rng.normal(size=(4, k, 3))
    loss = ProxySynthesis(inner(4, dtype="float64", **arguments), ratio=ratio, dtype="float64")
    with_weights(loss, proxies.reshape(-1, 3))
    value = loss.mixed_loss(labels.astype("int32"), embeddings, rate)
    labels, embeddings, proxies = extended(
        labels, embeddings, proxies, rate, num_mixed=round(ratio * len(labels))
    )
    twin = inner(len(proxies), dtype="float64", **arguments)
    expected = with_weights(twin, proxies.reshape(-1, 3))(labels, embeddings)
    assert float(value) == pytest.approx(float(expected), rel=1e-9)


def test_without_mixtures_and_in_evaluation_it_is_the_proxy_loss():
    rng = np.random.default_rng(0)
    labels, embeddings = rng.integers(0, 4, 10), rng.normal(size=(10, 3)).astype("float32")
    proxy_loss = with_weights(ProxyNCALoss(4), columns=3)
    alone = pytest.approx(float(proxy_loss(labels, embeddings)), rel=1e-6)
    assert float(ProxySynthesis(proxy_loss, ratio=0.0)(labels, embeddings)) == alone
    loss = ProxySynthesis(proxy_loss)
    assert float(loss(labels, embeddings)) != alone
    assert float(loss(labels, embeddings, training=False)) == alone


def test_seed_decides_the_mixtures():
    rng = np.random.default_rng(0)
    labels, embeddings = rng.integers(0, 4, 10), rng.normal(size=(10, 3)).astype("float32")
    sequences = []
    # PyTorch starts a draw from the sum of the seed and the number of draws before it.
    for seed in (1, 1, 50):
        loss = with_weights(ProxySynthesis(ProxyNCALoss(4), seed=seed), columns=3)
        sequences.append([float(loss(labels, embeddings)) for _ in range(4)])
    assert sequences[0] == sequences[1]
    assert len(set(sequences[0]) | set(sequences[2])) == 8


@pytest.mark.parametrize(("alpha", "jit_compile"), [(0.4, False), (5.0, True)])
def test_rates_have_a_beta_distribution(alpha, jit_compile):
    generator = keras.random.SeedGenerator(0)
    draw = compiled(lambda: _symmetric_beta(alpha, generator), jit_compile, [generator.state])
    rates = np.array([float(draw()) for _ in range(2000)])
    generator.state.assign(keras.random.SeedGenerator(0).state)
    assert [float(draw()) for _ in range(3)] == rates[:3].tolist()
    assert rates.min() >= 0 and rates.max() <= 1
    # Four standard errors.
    beta = stats.beta(alpha, alpha)
    assert rates.mean() == pytest.approx(0.5, abs=4 * np.sqrt(beta.var() / 2000))
    spread = (rates - 0.5) ** 2
    assert spread.mean() == pytest.approx(beta.var(), abs=4 * spread.std() / np.sqrt(2000))
    inside = np.linspace(0.05, 0.95, 10)
    shares = np.mean(rates[:, None] < inside, axis=0)
    np.testing.assert_allclose(shares, beta.cdf(inside), atol=4 * np.sqrt(0.25 / 2000))


def test_compiled_with_xla_for_any_batch_size():
    loss = with_weights(ProxySynthesis(SoftTripleLoss(4, 2), ratio=0.5), columns=3)
    run = for_any_size(
        lambda labels, embeddings: loss.mixed_loss(labels, embeddings, 0.3),
        ((None,), "int32"),
        ((None, 3), "float32"),
        jit_compile=True,
    )
    for labels in ([0, 1, 1, 3, 0, 2], [2] * 6):
        embeddings = np.random.default_rng(0).normal(size=(len(labels), 3)).astype("float32")
        labels = np.array(labels, "int32")
        expected = float(loss.mixed_loss(labels, embeddings, 0.3))
        assert float(run(labels, embeddings)) == pytest.approx(expected, rel=1e-5)
