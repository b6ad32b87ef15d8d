"""Equations and algorithms of the thesis' chapter 3 (CCP)."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from gradients import finite_differences
from keras import ops
from printed import assert_as_printed

from gsp_tf.losses import ContrastiveLoss, PairLoss, ProxyPairsLoss
from gsp_tf.training import ChanceConstrainedTrainer, MetricLearner, ProjectionLearner, ProxyPool

C, N, COLUMNS, D = 3, 12, 4, 2
ALPHA, BETA, LAMBDA = 0.4, 0.9, 0.7
X, Y = np.random.default_rng(0).normal(size=(N, COLUMNS)), np.arange(N) % C


def ell(v, y, other, its):
    """ℓ(z, z'; θ) of Lemma 3.2.1, of two embeddings."""
    iota = 1 if y == its else -1
    return max(0, iota * (np.linalg.norm(v - other) - BETA) + ALPHA)


class PrintedLoss(PairLoss):
    """That ℓ as a loss of the library, a mean over all pairs."""

    def pairs_loss(self, pairs):
        sign = pairs.positives - pairs.negatives
        return ops.mean(ops.relu(sign * (pairs.distances - BETA) + ALPHA))


@pytest.fixture(autouse=True)
def double_precision():
    keras.config.set_dtype_policy("float64")


def thetas(seed=1):
    """θ^(k-1), θ and ρ."""
    rng = np.random.default_rng(seed)
    return rng.normal(size=(COLUMNS, D)), rng.normal(size=(COLUMNS, D)), rng.normal(size=(C, D))


def projection_learner(before, projection_weight, loss):
    """A linear map f(x; θ) = xᵀθ, with one proxy a class, that stays near θ^(k-1)."""
    embedder = keras.Sequential(
        [keras.Input((COLUMNS,)), keras.layers.Dense(D, use_bias=False, name="theta")]
    )
    learner = ProjectionLearner(embedder, ProxyPairsLoss(loss, C, dtype="float64"))
    embedder.set_weights([before])
    learner.project_from_here(projection_weight)
    return learner


def total_loss(learner, theta, rho):
    """The learner's loss at other weights and proxies, a tensor."""
    (weights,) = learner.embedder.trainable_variables
    with keras.StatelessScope([(weights, theta), (learner.embedding_loss.proxies, rho)]):
        return learner.compute_loss(X, Y, tf.matmul(tf.constant(X), theta))


@pytest.mark.equation("thesis", "3.2.5", "losses.ProxyPairsLoss")
def test_proxy_problem():
    before, theta, rho = thetas()
    learner = projection_learner(before, 0.0, PrintedLoss(normalize=False))

    def printed(theta, rho):
        terms = [ell(rho[i], i, X[j] @ theta, Y[j]) for i in range(C) for j in range(N)]
        return sum(terms) / (N * C)

    assert_as_printed(lambda *at: total_loss(learner, *at), printed, theta, rho)


@pytest.mark.equation(
    "thesis",
    "3.2.9",
    "training.ProjectionLearner",
    "over the trainable weights; the constraint is the loss of 3.2.11",
)
def test_projection():
    before, theta, rho = thetas()
    free = ContrastiveLoss(positive_margin=100.0, negative_margin=-1.0, normalize=False)
    learner = projection_learner(before, 1.0, free)

    def printed(theta):
        return 0.5 * sum((b - t) ** 2 for b, t in zip(before.flat, theta.flat, strict=True))

    assert_as_printed(lambda theta: total_loss(learner, theta, rho), printed, theta)


def printed_projection(before, references, theta):
    """λ/2 ||θ^(k-1) - θ||² + 1/c Σ_i E_z ℓ, the expectation over the samples."""
    square = sum((b - t) ** 2 for b, t in zip(before.flat, theta.flat, strict=True))
    expected = [
        np.mean([ell(references[i], i, X[j] @ theta, Y[j]) for j in range(N)]) for i in range(C)
    ]
    return LAMBDA / 2 * square + sum(expected) / C


@pytest.mark.equation(
    "thesis",
    "3.2.10",
    "training.ProjectionLearner",
    "with the samples' embeddings for proxies; training follows 3.2.11",
)
def test_projection_with_samples():
    before, theta, _ = thetas()
    chosen = X[C : 2 * C]  # one of each class
    learner = projection_learner(before, LAMBDA, PrintedLoss(normalize=False))

    def code(theta):
        return total_loss(learner, theta, tf.matmul(chosen, theta))

    assert_as_printed(code, lambda theta: printed_projection(before, chosen @ theta, theta), theta)


@pytest.mark.equation(
    "thesis",
    "3.2.11",
    "training.ProjectionLearner",
    "the trainer adds 0.1 times the loss within the batch (batch_weight)",
)
def test_projection_with_proxies():
    before, theta, rho = thetas()
    learner = projection_learner(before, LAMBDA, PrintedLoss(normalize=False))
    assert_as_printed(
        lambda *at: total_loss(learner, *at),
        lambda theta, rho: printed_projection(before, rho, theta),
        theta,
        rho,
    )


def greedy(rho, p, k):
    """Indices into the pool p that Algorithm 2 chooses for one class."""
    r = []
    while len(r) < k:
        centers = [*rho, *(p[i] for i in r)]
        nearest = {
            i: min(np.linalg.norm(p[i] - v) for v in centers) for i in range(len(p)) if i not in r
        }
        r.append(max(nearest, key=nearest.get))
    return r


@pytest.mark.equation(
    "thesis",
    "Algorithm 1",
    "training.ChanceConstrainedTrainer",
    "g_θ has λ(θ - θ*), the sign of descent; ends with the first problem of no gain",
)
def test_chance_constrained_programming():
    k, b, rate = 2, 3, 0.3
    theta, *_ = thetas()

    def load(indices):
        return tf.data.Dataset.from_tensor_slices((X[indices], Y[indices])).batch(N)

    embedder = keras.Sequential([keras.Input((COLUMNS,)), keras.layers.Dense(D, use_bias=False)])
    embedder.set_weights([theta])
    learner = MetricLearner(embedder, PrintedLoss(normalize=False))
    learner.compile(keras.optimizers.SGD(rate), run_eagerly=True)
    trainer = ChanceConstrainedTrainer(learner, k, b, LAMBDA, patience=1, batch_weight=0.0)
    improves = keras.callbacks.LambdaCallback(
        on_epoch_end=lambda epoch, logs: logs.update(val_map_at_r=(0.5, 0.4, 0.6)[epoch])
    )
    batches = tf.data.Dataset.from_tensor_slices((X, Y)).batch(6).repeat()
    trainer.fit(batches, ProxyPool(Y, load), [improves], steps_per_epoch=2, epochs=3, verbose=0)

    # The same, printed line by line, with the pool's random draws. An evaluation is two steps; the
    # second one ends the first problem, which goes back to the first.
    pool = ProxyPool(Y, load)

    def batch_loss(theta, rho, first):
        pairs = [(i, j) for i in range(C * k) for j in range(first, first + 6)]
        return np.mean([ell(rho[i], i // k, X[j] @ theta, Y[j]) for i, j in pairs])

    start = theta
    rho_star, _ = pool.draw(lambda x: tf.matmul(x, start), k)
    theta_star, solutions = theta, []
    for _ in range(2):
        p, _ = pool.draw(lambda x, theta=theta_star: tf.matmul(x, theta), b)
        chosen = [greedy(rho_star[c], p[c], k) for c in range(C)]
        rho = np.concatenate([p[c][chosen[c]] for c in range(C)]).astype("float64")
        theta = theta_star
        for first in (0, 6):
            g_theta, g_rho = finite_differences(
                lambda theta, rho, first=first: batch_loss(theta, rho, first), theta, rho
            )
            g_theta = LAMBDA * (theta - theta_star) + g_theta
            theta, rho = theta - rate * g_theta, rho - rate * g_rho
        solutions.append((theta, rho))
        theta_star, rho_star = theta, rho.reshape(C, k, D)
    np.testing.assert_allclose(embedder.get_weights()[0], solutions[1][0], atol=1e-5)
    proxies = trainer.learner.embedding_loss.proxies.numpy()
    np.testing.assert_allclose(proxies, solutions[1][1], atol=1e-5)
    moved = [np.linalg.norm(solutions[0][0] - start)]
    moved.append(np.linalg.norm(solutions[1][0] - solutions[0][0]))
    assert [p["distance_moved"] for p in trainer.projections] == pytest.approx(moved, rel=1e-4)
