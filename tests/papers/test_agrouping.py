"""The equations of A-grouping (Xu et al., TPAMI 2022) as printed."""

from itertools import combinations

import keras
import numpy as np
import pytest
import tensorflow as tf
from printed import assert_as_printed

from gsp_tf import losses
from gsp_tf.layers import AttentiveGrouping
from gsp_tf.recipe import TrainingRecipe
from gsp_tf.runs._optimizer import regularize
from gsp_tf.visual import overlay_groups
from gsp_tf.visual.overlays import OCTAVES, tinted

LABELS = np.array([0, 0, 1, 1, 2, 2])
BINOMIAL_DEVIANCE = losses.BinomialDevianceLoss(
    2.0, 0.5, negative_weight=1.0, positive_weight=25.0, mean_over_pairs=True
)


def batch(columns=4, seed=0, scale=0.6):
    return scale * np.random.default_rng(seed).normal(size=(len(LABELS), columns))


def d(f_i, f_j):
    return np.sqrt(np.sum((f_i - f_j) ** 2))


def s(f_i, f_j):
    return f_i @ f_j / (np.sqrt(f_i @ f_i) * np.sqrt(f_j @ f_j))


def l_con(l_ij, f_i, f_j, m=1.0):
    """Eq. 1."""
    return l_ij * d(f_i, f_j) + (1 - l_ij) * max(0, m - d(f_i, f_j))


def l_bin(l_ij, f_i, f_j, m=0.5, alpha=2.0, beta_1=25.0, beta_0=1.0):
    """Eq. 2."""
    positive = np.log(1 + np.exp(-alpha * (s(f_i, f_j) - m) * beta_1))
    negative = np.log(1 + np.exp(alpha * (s(f_i, f_j) - m) * beta_0))
    return l_ij * positive + (1 - l_ij) * negative


def l_mar(l_ij, f_i, f_j, eta=1.2, m=0.2):
    """Eq. 3."""
    return l_ij * max(0, d(f_i, f_j) - (eta - m)) + (1 - l_ij) * max(0, (eta + m) - d(f_i, f_j))


def l_div(f_p, f_q, alpha=2.0, mu=0.5, beta_0=1.0):
    """Eq. 4."""
    return np.log(1 + np.exp(alpha * (s(f_p, f_q) - mu) * beta_0))


def mean_over_pairs(l_met, f):
    """First term of eq. 14 for one group."""
    pairs = list(combinations(range(len(f)), 2))
    terms = [l_met(float(LABELS[i] == LABELS[j]), f[i], f[j]) for i, j in pairs]
    assert any(term > 0 for term in terms)
    return sum(terms) / len(pairs)


def mean_over_group_pairs(groups):
    """Second term of eq. 14 of groups `(B, P, D)`."""
    pairs = [(n, p, q) for n in range(len(groups)) for p, q in combinations(range(3), 2)]
    return sum(l_div(groups[n, p], groups[n, q]) for n, p, q in pairs) / len(pairs)


@pytest.mark.equation(
    "A-grouping",
    "3",
    "losses.ClassMarginLoss",
    "a boundary for each class and a mean over triplets that cost something by default",
)
def test_margin():
    loss = losses.ClassMarginLoss(
        3, 0.2, 1.2, shared_beta=True, mean_over_pairs=True, normalize=False, dtype="float64"
    )
    loss.build((None,), (None, 4))
    assert loss.betas.shape == (1,)

    def code(f, eta):
        value, _ = loss.stateless_call([eta], [], LABELS, f)
        return value

    def printed(f, eta):
        return mean_over_pairs(lambda l_ij, f_i, f_j: l_mar(l_ij, f_i, f_j, eta[0]), f)

    assert_as_printed(code, printed, batch(), np.array([1.17]))


# H x W = 2 x 3 places, C = 5 channels, D_K = 4, D_V = 3, P = 2.
H, W, C, D_K, D_V, P = 2, 3, 5, 4, 3, 2

# Map J `(H, W, C)`, the kernels of the two convolutions, and Q `(D_K, P)`.
RNG = np.random.default_rng(0)
PARTS = [RNG.normal(size=shape) for shape in ((H, W, C), (C, D_K), (C, D_V), (D_K, P))]


def unfold_3(tensor):
    """Mode-3 unfolding: the fibres of the places, row by row, are the columns."""
    return np.array([tensor[h, w] for h in range(H) for w in range(W)]).T


def printed_attention(J, key_kernel, Q):
    """Eqs. 5 and 7."""
    K = unfold_3(J @ key_kernel)
    scores = np.exp(Q.T @ K)
    return np.array([row / sum(row) for row in scores])


def printed_groups(J, key_kernel, value_kernel, Q):
    """Eqs. 5 to 8."""
    V = unfold_3(J @ value_kernel)
    return printed_attention(J, key_kernel, Q) @ V.T


def layer_call(method, J, key_kernel, value_kernel, Q):
    """A method of the layer on one map, with these weights."""
    layer = AttentiveGrouping(P, D_V, D_K, dtype="float64")
    layer.build((1, H, W, C))
    weights = [key_kernel, value_kernel, tf.transpose(Q)]
    with keras.StatelessScope(list(zip(layer.weights, weights, strict=True))):
        return getattr(layer, method)(J[None])[0]


def weighted_sum(values):
    """A scalar of all values, so that their gradients are compared."""
    shape = np.shape(values)
    return keras.ops.sum(values * np.arange(1.0, 1 + np.prod(shape)).reshape(shape))


def assert_attention_as_printed(method, printed, varied):
    """Value and gradient with respect to one of the parts."""

    def filled(part):
        return [part if i == varied else other for i, other in enumerate(PARTS)]

    def code(part):
        return weighted_sum(layer_call(method, *map(tf.convert_to_tensor, filled(part))))

    assert_as_printed(code, lambda part: weighted_sum(printed(*filled(part))), PARTS[varied])


@pytest.mark.equation("A-grouping", "7", "layers.AttentiveGrouping")
@pytest.mark.equation("A-grouping", "9", "layers.AttentiveGrouping.attention_maps")
@pytest.mark.parametrize("varied", [0, 3])
def test_attention(varied):
    def printed(J, key_kernel, value_kernel, Q):
        return printed_attention(J, key_kernel, Q).T.reshape(H, W, P)

    assert_attention_as_printed("attention_maps", printed, varied)


@pytest.mark.equation(
    "A-grouping",
    "5",
    "layers.AttentiveGrouping",
    "no key is formed: the queries are mapped by the transposed kernel",
)
@pytest.mark.equation(
    "A-grouping", "6", "layers.AttentiveGrouping", "no value is formed: the weighted sum is mapped"
)
@pytest.mark.equation("A-grouping", "8", "layers.AttentiveGrouping")
@pytest.mark.parametrize("varied", range(4), ids=["J", "keys", "values", "Q"])
def test_groups(varied):
    assert_attention_as_printed("call", printed_groups, varied)


@pytest.mark.equation(
    "A-grouping", "10", "visual.overlay_groups", "coloured by the ratio to a uniform map"
)
def test_interpolation():
    maps = np.random.default_rng(0).dirichlet(np.ones(H * W), P).T.reshape(H, W, P)
    image = np.random.default_rng(1).integers(0, 256, (8, 12, 3), np.uint8)

    def at(values, row, column):
        """Bilinear between the centres of the places, constant beyond the outermost."""
        total = 0.0
        for h, w in np.ndindex(2, 2):
            y, x = int(np.floor(row)) + h, int(np.floor(column)) + w
            share = (1 - abs(row - y)) * (1 - abs(column - x))
            total += share * values[min(max(y, 0), H - 1), min(max(x, 0), W - 1)]
        return total

    pictures = overlay_groups(image, maps)
    for p in range(P):
        resized = np.empty((8, 12))
        for y, x in np.ndindex(8, 12):
            resized[y, x] = at(maps[..., p], (y + 0.5) * H / 8 - 0.5, (x + 0.5) * W / 12 - 0.5)
        octaves = np.log2(resized / maps[..., p].mean()).clip(-OCTAVES, OCTAVES) / OCTAVES
        expected = tinted(image, octaves).astype(int)
        assert np.abs(pictures[p] - expected).max() <= 1


@pytest.mark.equation("A-grouping", "12", "layers.AttentiveGrouping")
@pytest.mark.parametrize("shift", [False, True], ids=["permutation", "translation"])
def test_permutation_and_translation_invariance(shift):
    J, *weights = map(tf.constant, PARTS)
    n = H * W
    pi = np.random.default_rng(1).permutation(n)
    if shift:  # one place to the right, around the edge
        pi = np.roll(np.arange(n).reshape(H, W), 1, axis=1).ravel()
    U = np.eye(n)[:, pi]  # columns e_π(1), ..., e_π(n), before eq. 11
    moved = (unfold_3(PARTS[0]) @ U).T.reshape(H, W, C)
    groups, of_moved = (layer_call("call", x, *weights) for x in (J, tf.constant(moved)))
    np.testing.assert_allclose(of_moved, groups, rtol=1e-12)
    maps, maps_of_moved = (
        layer_call("attention_maps", x, *weights).numpy() for x in (J, tf.constant(moved))
    )
    np.testing.assert_allclose(unfold_3(maps_of_moved), unfold_3(maps) @ U, rtol=1e-12)


@pytest.mark.equation(
    "A-grouping",
    "1",
    "losses.ContrastiveLoss",
    "embeddings of length 1 and a mean for each kind of pair by default",
)
@pytest.mark.equation(
    "A-grouping",
    "2",
    "losses.BinomialDevianceLoss",
    "the factor 25 on the negatives and a mean for each kind of pair by default",
)
@pytest.mark.equation(
    "A-grouping", "14", "losses.GroupedLoss", "λ2 is half of l2_regularization of the optimizer"
)
@pytest.mark.parametrize(
    ("loss", "l_met"),
    [
        (losses.ContrastiveLoss(0.0, 1.0, mean_over_pairs=True, normalize=False), l_con),
        (BINOMIAL_DEVIANCE, l_bin),
        (
            losses.ClassMarginLoss(
                3, shared_beta=True, mean_over_pairs=True, normalize=False, dtype="float64"
            ),
            l_mar,
        ),
    ],
    ids=["contrastive", "binomial deviance", "margin"],
)
def test_objective(loss, l_met):
    lambda_1, lambda_2 = 0.02, 0.003
    features = batch(5)
    weights = np.random.default_rng(2).normal(size=(5, 12))
    grouped = losses.GroupedLoss(
        loss, 3, lambda_1, losses.GroupDiversityLoss(2.0, 0.5, 1.0), dtype="float64"
    )
    grouped.build((None,), (None, 12))
    variable = keras.Variable(weights, dtype="float64")
    regularize(TrainingRecipe(l2_regularization=2 * lambda_2), [variable])

    def code(w):
        return grouped(LABELS, features @ w) + variable.regularizer(w)

    def printed(w):
        groups = (features @ w).reshape(6, 3, 4)
        metric = sum(mean_over_pairs(l_met, groups[:, g]) for g in range(3)) / 3
        return metric + lambda_1 * mean_over_group_pairs(groups) + lambda_2 * np.sum(w**2)

    assert_as_printed(code, printed, weights)
