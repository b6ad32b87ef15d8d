"""Every pair loss against its equation, written as loops over pairs and triplets."""

from functools import partial
from types import SimpleNamespace

import keras
import numpy as np
import pytest
from gradients import BACKEND, gradients
from hypothesis import given, settings
from hypothesis import strategies as st
from loss_examples import EVERY_PAIR_LOSS, GivenWeights, with_weights

from gsp_tf import losses


def mean(terms):
    """Mean of `(term, weight)`, 0 without any."""
    weight = sum(w for _, w in terms)
    return sum(t * w for t, w in terms) / weight if weight else 0.0


def pairs(weights):
    return [(i, j, w) for (i, j), w in np.ndenumerate(weights) if w > 0]


def triplets(case):
    """Anchor, positive, negative, and the product of the weights of the two pairs."""
    return [
        (a, p, n, wp * wn)
        for a, p, wp in pairs(case.positives)
        for b, n, wn in pairs(case.negatives)
        if a == b
    ]


def row(weights, values):
    return [(v, w) for v, w in zip(values, weights, strict=True) if w > 0]


def anchors(case):
    """For each anchor the `(similarity, weight)` of its positives, and of its negatives."""
    return [
        (row(p, s), row(n, s))
        for p, n, s in zip(case.positives, case.negatives, case.s, strict=True)
    ]


def contrastive(case):
    pull = [(case.d[i, j] - 0.1, w) for i, j, w in pairs(case.positives)]
    push = [(1.2 - case.d[i, j], w) for i, j, w in pairs(case.negatives)]
    return mean([x for x in pull if x[0] > 0]) + mean([x for x in push if x[0] > 0])


def cosine_contrastive(case):
    pull = sum(w * max(0, 1 - case.s[i, j]) for i, j, w in pairs(case.positives))
    push = sum(w * max(0, case.s[i, j] - 0.2) for i, j, w in pairs(case.negatives))
    return (pull + push) / len(case.s)


def triplet(case):
    terms = [(case.d[a, p] - case.d[a, n] + 0.5, w) for a, p, n, w in triplets(case)]
    return mean([x for x in terms if x[0] > 0])


def triplet_semi_hard(case):
    distances, terms = case.d**2, []
    for a, p, w in pairs(case.positives):
        negatives = [distances[a, n] for b, n, _ in pairs(case.negatives) if a == b]
        beyond = [x for x in negatives if x > distances[a, p]]
        if negatives:
            chosen = min(beyond) if beyond else max(negatives)
            terms.append((max(0, 0.6 + distances[a, p] - chosen), w))
    return mean(terms)


def hardest(case, distances):
    """Distance of the farthest positive less that of the nearest negative, for each anchor."""
    rows = zip(distances, case.positives > 0, case.negatives > 0, strict=True)
    return [d[p].max() - d[n].min() for d, p, n in rows if p.any() and n.any()]


def triplet_hard(case):
    cosines = case.s / np.outer(np.linalg.norm(case.x, axis=1), np.linalg.norm(case.y, axis=1))
    return mean([(max(0, 0.6 + x), 1) for x in hardest(case, 1 - cosines)])


def triplet_hard_soft(case):
    return mean([(np.log(1 + np.exp(x)), 1) for x in hardest(case, case.d**2)])


def multi_similarity(case):
    total = 0
    for positives, negatives in anchors(case):
        total += np.log(1 + sum(w * np.exp(-3 * (s - 0.3)) for s, w in positives)) / 3
        total += np.log(1 + sum(w * np.exp(20 * (s - 0.3)) for s, w in negatives)) / 20
    return total / len(case.s)


def surrogate_precision(case):
    terms = []
    for d, p, n in zip(case.d, case.positives, case.negatives, strict=True):
        found = 0.0
        for j in np.flatnonzero(p):
            shares = (p + n) / (1 + np.exp((d - d[j]) / 0.2))
            found += p[j] / (1 + np.exp((np.sum(np.delete(shares, j)) - 2.5) / 0.5))
        if p.any():
            terms.append((1 - found / min(3, p.sum()), 1))
    return mean(terms)


def margin(case):
    terms = []
    for a, p, n, w in triplets(case):
        terms += [(0.3 + case.d[a, p] - 1.1, w), (0.3 + 1.1 - case.d[a, n], w)]
    return mean([x for x in terms if x[0] > 0])


def binomial_deviance(case):
    pull = [(np.log(1 + np.exp(-3 * (case.s[i, j] - 0.4))), w) for i, j, w in pairs(case.positives)]
    push = [(np.log(1 + np.exp(30 * (case.s[i, j] - 0.4))), w) for i, j, w in pairs(case.negatives)]
    return mean(pull) + mean(push)


def over_all_pairs(case, positive, negative):
    """Mean of what positive and negative pairs cost, a function of their place each."""
    terms = [(positive(i, j), w) for i, j, w in pairs(case.positives)]
    return mean(terms + [(negative(i, j), w) for i, j, w in pairs(case.negatives)])


def contrastive_over_pairs(case):
    return over_all_pairs(
        case, lambda *p: max(0, case.d[p] - 0.1), lambda *p: max(0, 1.2 - case.d[p])
    )


def margin_over_pairs(case):
    return over_all_pairs(
        case, lambda *p: max(0, case.d[p] - 0.8), lambda *p: max(0, 1.4 - case.d[p])
    )


def binomial_deviance_over_pairs(case):
    return over_all_pairs(
        case,
        lambda *p: np.log(1 + np.exp(-15 * (case.s[p] - 0.4))),
        lambda *p: np.log(1 + np.exp(6 * (case.s[p] - 0.4))),
    )


def n_pairs(case):
    """The anchor is the first of its class, its positive the first one that it has."""
    first = {label: i for i, label in reversed(list(enumerate(case.labels)))}
    chosen = {i: np.flatnonzero(case.positives[i])[:1] for i in first.values()}
    chosen = {i: j[0] for i, j in chosen.items() if j.size}
    terms = []
    for i, own in chosen.items():
        others = [case.negatives[i, j] * np.exp(case.s[i, j]) for j in chosen.values() if j != own]
        terms.append((np.log(np.exp(case.s[i, own]) + sum(others)) - case.s[i, own], 1))
    return mean(terms)


def lifted_structure(case):
    exponentials = np.exp(0.8 - case.d) * case.negatives
    terms = []
    for i, j, w in pairs(case.positives):
        total = sum(exponentials[i, :]) + sum(exponentials[:, j])
        terms.append((max(0, case.d[i, j] + np.log(total)) ** 2 / 2 if total else 0, w))
    return mean(terms)


def angular(case):
    square_tangent, terms = np.tan(np.pi / 4) ** 2, []
    for a, p, w in pairs(case.positives):
        total = 0
        for n, wn in enumerate(case.negatives[a]):
            toward = 4 * square_tangent * (case.x[a] + case.y[p]) @ case.y[n]
            total += wn * np.exp(toward - 2 * (1 + square_tangent) * case.s[a, p])
        terms.append((np.log(1 + total), w))
    return mean(terms)


def circle(case):
    """The factors `[1 + m - s_p]_+` and `[s_n + m]_+` have no gradient."""
    terms, factors_of = [], getattr(case, "base", case).s
    for i, (positives, negatives) in enumerate(anchors(case)):
        if positives and negatives:
            pull = push = 0
            for j, s in enumerate(case.s[i]):
                toward = max(0, 1 + 0.25 - factors_of[i, j])
                away = max(0, factors_of[i, j] + 0.25)
                pull += case.positives[i, j] * np.exp(-20 * toward * (s - 1 + 0.25))
                push += case.negatives[i, j] * np.exp(20 * away * (s - 0.25))
            terms.append((np.log(1 + pull * push), 1))
    return mean(terms)


def supervised_contrastive(case):
    terms = []
    for positives, negatives in anchors(case):
        if positives:
            total = sum(w * np.exp(s / 0.2) for s, w in positives + negatives)
            terms.append((mean([(np.log(total) - s / 0.2, w) for s, w in positives]), 1))
    return mean(terms)


def fast_ap(case):
    terms = []
    for positives, negatives in anchors(case):
        if positives:
            precision = cumulated_positive = cumulated = 0
            for edge in np.linspace(0, 4, 8):
                positive, negative = (
                    sum(w * max(0, 1 - abs(2 - 2 * s - edge) * 7 / 4) for s, w in some)
                    for some in (positives, negatives)
                )
                cumulated_positive += positive
                cumulated += positive + negative
                precision += positive * cumulated_positive / cumulated if cumulated else 0
            terms.append((1 - precision / sum(w for _, w in positives), 1))
    return mean(terms)


DEFINITIONS = {
    f.__name__: f
    for f in (
        angular, binomial_deviance, binomial_deviance_over_pairs, circle, contrastive,
        contrastive_over_pairs, cosine_contrastive, fast_ap, lifted_structure, margin,
        margin_over_pairs, multi_similarity, n_pairs, supervised_contrastive,
        surrogate_precision, triplet,
        triplet_hard, triplet_hard_soft, triplet_semi_hard,
    )
}  # fmt: skip


def random_case(kind, num_anchors, num_others, classes, normalize, seed):
    """A batch; or its samples and others as references, with a mask and weights of the pairs."""
    rng = np.random.default_rng(seed)
    labels, x = rng.integers(0, classes, num_anchors), rng.normal(size=(num_anchors, 3))
    reference_labels, y, shape = labels, x, (num_anchors, num_anchors)
    mask, weights = np.ones(shape, bool), np.ones((2, *shape))
    if kind == "references":
        reference_labels = np.concatenate([labels, rng.integers(0, classes, num_others)])
        y = np.concatenate([x, rng.normal(size=(num_others, 3))])
        shape = len(x), len(y)
        mask, weights = rng.random(shape) < 0.8, rng.choice([0, 0.5, 1, 3], (2, *shape))
    same = labels[:, None] == reference_labels[None, :]
    return SimpleNamespace(
        kind=kind, labels=labels, reference_labels=reference_labels,
        mask=mask, miner=GivenWeights(*weights), normalize=normalize,
        positives=weights[0] * (same & ~np.eye(*shape, dtype=bool) & mask),
        negatives=weights[1] * (~same & mask), **geometry(x, y, normalize),
    )  # fmt: skip


def geometry(x, y, normalize):
    norms = [np.linalg.norm(z, axis=1, keepdims=True) if normalize else 2.0 for z in (x, y)]
    x, y = x / norms[0], y / norms[1]
    return {"x": x, "y": y, "s": x @ y.T, "d": np.linalg.norm(x[:, None] - y[None], axis=-1)}


def loss_of(make, case, x, y):
    normalize = {} if case.normalize else {"normalize": False}
    loss = make(miner=case.miner, **normalize)
    if case.kind == "batch":
        return loss(case.labels, x)
    labels, others = (case.labels, x), (case.reference_labels, y)
    return loss.pairwise(*labels, *others, exclude_self=True, mask=case.mask)


# Compared with the programs of others in test_field_oracles and test_program_oracles.
OF_PROGRAMS = {
    "generalized_lifted_structure", "histogram", "instance", "intra_pair_variance", "nca",
    "nt_xent", "pn", "pnp", "ranked_list", "recall_at_k", "signal_to_noise_contrastive",
    "smooth_ap", "soft_nearest_neighbor", "threshold_consistent_margin", "triplet_swap_soft",
    "tuplet_margin",
}  # fmt: skip


def test_every_pair_loss_has_a_definition():
    assert not OF_PROGRAMS & DEFINITIONS.keys()
    assert OF_PROGRAMS | DEFINITIONS.keys() == EVERY_PAIR_LOSS.keys()


# JAX compiles every operation for every shape; there all cases share theirs.
SIZES = st.just((7, 9)) if BACKEND == "jax" else st.tuples(st.integers(1, 7), st.integers(1, 9))
KINDS = ["batch", "references"]


@pytest.mark.parametrize("name", DEFINITIONS)
@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=5)
@given(
    sizes=SIZES,
    classes=st.integers(1, 4),
    normalize=st.booleans(),
    seed=st.integers(0, 1000),
)
def test_equals_the_definition(name, kind, sizes, classes, normalize, seed):
    case = random_case(kind, *sizes, classes, normalize or name == "fast_ap", seed)
    value = float(loss_of(EVERY_PAIR_LOSS[name], case, case.x, case.y))
    assert value == pytest.approx(DEFINITIONS[name](case), rel=1e-8, abs=1e-9)


@pytest.mark.parametrize("name", DEFINITIONS)
@pytest.mark.parametrize("kind", KINDS)
def test_gradient_equals_differences_of_the_definition(name, kind):
    case = random_case(kind, 7, 9, 3, True, seed=5)
    rng = np.random.default_rng(0)
    x, y = 2 * case.x, case.y if kind == "batch" else 3 * case.y
    points = [x] if kind == "batch" else [x, y]
    make = EVERY_PAIR_LOSS[name]
    _, found = gradients(lambda *points: loss_of(make, case, points[0], points[-1]), *points)
    found = [np.asarray(g) for g in found]
    assert all(np.abs(g).max() > 1e-3 for g in found)
    for _ in range(3):
        shifts = [1e-6 * rng.normal(size=g.shape) for g in found]
        there, back = (
            [p + sign * s for p, s in zip(points, shifts, strict=True)] for sign in (1, -1)
        )
        there, back = (
            SimpleNamespace(**{**vars(case), **geometry(p[0], p[-1], True)}, base=case)
            for p in (there, back)
        )
        expected = (DEFINITIONS[name](there) - DEFINITIONS[name](back)) / 2
        actual = sum(np.sum(g * s) for g, s in zip(found, shifts, strict=True))
        assert actual == pytest.approx(expected, rel=1e-6, abs=1e-14)


@pytest.mark.parametrize("name", [name for name in DEFINITIONS if name != "n_pairs"])
def test_equals_the_definition_with_label_vectors(name):
    """Samples with some of six tags, one sample without any."""
    case = random_case("batch", 8, 8, 1, True, seed=2)
    tags = np.random.default_rng(2).random((8, 6)) < 0.35
    tags[5] = False
    shared, size, others = tags.astype(int) @ tags.T, tags.sum(1), 1 - np.eye(8)
    related = shared > 0.3 * (size[:, None] + size - shared)
    case.positives, case.negatives = related * others, ~related * others
    loss = EVERY_PAIR_LOSS[name](relation="jaccard", relation_threshold=0.3)
    expected = DEFINITIONS[name](case)
    assert expected > 0
    assert float(loss(tags, case.x)) == pytest.approx(expected, rel=1e-6)


def test_dynamic_soft_margin_of_triplets_beyond_its_range():
    case, histogram = random_case("batch", 7, 7, 3, True, seed=1), np.zeros(10)
    all_t = [case.d[a, p] - case.d[a, n] for a, p, n, _ in triplets(case)]
    places = [np.clip((t + 0.5) * 10, 0, 9) for t in all_t]
    for place in places:
        histogram += np.maximum(0, 1 - np.abs(np.arange(10) - place))
    shares = np.cumsum(histogram) / len(all_t)
    expected = np.mean([shares[int(x)] * t for x, t in zip(places, all_t, strict=True)])
    loss = losses.DynamicSoftMarginLoss(-0.5, dtype="float64")
    assert float(loss(case.labels, case.x)) == pytest.approx(expected, rel=1e-9)
    np.testing.assert_allclose(np.asarray(loss.histogram), histogram / len(all_t), atol=1e-12)


# A mean over all anchors, a loss that counts the anchor itself, and means over those with a term.
@pytest.mark.parametrize(
    ("name", "reduction"),
    [
        ("multi_similarity", None),
        ("instance", None),
        ("recall_at_k", None),
        ("contrastive", "mean_per_anchor"),
        ("triplet", "mean_per_anchor"),
    ],
)
def test_similarity_mixup_is_the_loss_of_samples_and_their_mixtures(name, reduction, monkeypatch):
    labels = np.array([4, 0, 4, 2, 0, 4])  # classes of 3, 2 and 1
    x = geometry(*np.random.default_rng(0).normal(size=(2, 6, 4)), True)["x"]
    samples, numbers = list(x), list(labels)
    for i, label in enumerate(labels):
        own = list(np.flatnonzero(labels == label))
        for step in range(1, min(3, len(own))):
            partner = x[own[(own.index(i) + step) % len(own)]]
            samples.append(0.25 * x[i] + 0.75 * partner)
            numbers.append(label)
    monkeypatch.setattr(
        keras.random, "uniform", lambda shape, dtype, seed: keras.ops.full(shape, 0.25, dtype)
    )
    loss = EVERY_PAIR_LOSS[name](normalize=False, reduction=reduction)
    value = float(losses.SimilarityMixup(loss, 2, dtype="float64")(labels, x))
    assert value == pytest.approx(float(loss(np.array(numbers), np.array(samples))), rel=1e-9)
    assert value > 0


@pytest.mark.parametrize(
    "make",
    [
        losses.MultiSimilarityLoss,
        partial(losses.ContrastiveLoss, reduction="mean_per_anchor"),
        partial(losses.TripletSemiHardLoss, reduction="mean_per_anchor"),
    ],
)
def test_a_mean_over_anchors_leaves_out_those_without_a_signal(make):
    x = np.random.default_rng(0).normal(size=(7, 5)).astype("float32")
    x[6] = 3.0  # the variance of its components is 0
    labels = np.array([0, 0, 1, 1, 2, 2, 1])
    loss = make(distance="signal_to_noise", normalize=False)
    expected = loss.pairwise(labels[:6], x[:6], labels, x, exclude_self=True)
    assert float(loss(labels, x)) == pytest.approx(float(expected), rel=1e-5)
    assert float(expected) > 0


def test_potential_field():
    rng, labels = np.random.default_rng(0), np.arange(5) % 2
    x, proxies = rng.normal(size=(5, 3)), rng.normal(size=(4, 3))
    points = geometry(np.concatenate([x, proxies]), proxies, True)["x"]
    of_points, energy = [*labels, 0, 0, 1, 1], 0
    for i, j in zip(*np.nonzero(~np.eye(9, dtype=bool)), strict=True):
        d = np.linalg.norm(points[i] - points[j])
        same = of_points[i] == of_points[j]
        energy += -(max(d, 0.9) ** -1.5) if same else np.clip(d, 0.01, 0.9) ** -1.5
    loss = with_weights(losses.PotentialFieldLoss(2, 2, 1.5, 0.9, dtype="float64"), proxies)
    assert float(loss(labels, x)) == pytest.approx(energy / 9, rel=1e-9)


@pytest.mark.parametrize("super_classes", [None, (5, 5, 3, 3)])
def test_label_smoothing(super_classes):
    rng, labels = np.random.default_rng(0), np.array([0, 3, 2, 0, 1])
    x, proxies = rng.normal(size=(5, 3)), rng.normal(size=(4, 3))
    logits = geometry(x, proxies, True)["s"] / 0.5
    groups = np.zeros(4) if super_classes is None else np.array(super_classes)
    shared = groups[labels][:, None] == groups
    targets = 0.7 * np.eye(4)[labels] + 0.3 * shared / shared.sum(1, keepdims=True)
    logs = logits - np.log(np.exp(logits).sum(1, keepdims=True))
    loss = losses.LabelSmoothing(
        losses.NormalizedSoftmaxLoss(4, 0.5, dtype="float64"), 0.3, super_classes, dtype="float64"
    )
    value = float(with_weights(loss, proxies)(labels, x))
    assert value == pytest.approx(-np.mean((targets * logs).sum(1)), rel=1e-9)


def test_vicreg_of_directions_asks_for_their_even_spread():
    axes = np.concatenate([np.eye(4), -np.eye(4)]).astype("float32")
    of_directions = losses.VICRegLoss(normalize=True)
    assert float(of_directions.views(axes, 3 * axes)) == pytest.approx(0, abs=1e-5)
    narrow = axes + [5, 0, 0, 0]
    length = 2 * narrow / np.linalg.norm(narrow, axis=1, keepdims=True)
    value = float(of_directions.views(narrow, -narrow))
    assert value == pytest.approx(float(losses.VICRegLoss().views(length, -length)), rel=1e-5)
