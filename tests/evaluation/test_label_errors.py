import numpy as np
import pytest
from sklearn.datasets import load_digits

from gsp_tf.evaluation import _cells, label_errors, label_votes


def by_hand(embeddings, labels, k):
    """Scores and suggested labels from the definition."""
    scores, suggested = [], []
    for row in range(len(embeddings)):
        distances = np.linalg.norm(embeddings - embeddings[row], axis=1)
        distances[row] = np.inf
        order = np.argsort(distances, kind="stable")[: k + 1]
        weights = 1 - distances[order[:k]] / distances[order[k]]
        shares = {label: 0.0 for label in np.unique(labels)}
        for other, weight in zip(order[:k], weights / weights.sum(), strict=True):
            shares[labels[other]] += weight
        own = shares.pop(labels[row])
        best = max(shares, key=shares.get)
        scores.append(shares[best] - own)
        suggested.append(best)
    return np.array(scores), np.array(suggested)


def test_votes_are_those_of_the_definition(monkeypatch):
    rng = np.random.default_rng(0)
    embeddings = rng.normal(size=(80, 3)).astype("float32")
    labels = rng.choice([2, 5, 9], 80)
    votes = label_votes(embeddings, labels, k=7)
    scores, suggested = by_hand(embeddings.astype(float), labels, 7)
    np.testing.assert_allclose(votes.scores, scores, atol=1e-5)
    has_other = votes.suggested_shares > 0
    np.testing.assert_array_equal(votes.suggested[has_other], suggested[has_other])
    np.testing.assert_allclose(votes.suggested_shares - votes.given_shares, votes.scores)
    monkeypatch.setattr(label_errors, "_PAIRS", 3 * 49)  # three rows at once
    np.testing.assert_array_equal(label_votes(embeddings, labels, k=7), votes)
    ranked = votes.scores[votes.ranked()]
    assert (np.diff(ranked) <= 0).all() and len(ranked) == np.count_nonzero(scores > 1e-6)


@pytest.mark.parametrize("with_cells", [False, True])
def test_wrong_labels_of_handwritten_digits_are_found(monkeypatch, with_cells):
    if with_cells:
        monkeypatch.setattr(label_errors, "_MOST_EXACT", 1000)
        monkeypatch.setattr(_cells, "_FEWEST", 1000)
    embeddings, labels = load_digits(return_X_y=True)
    rng = np.random.default_rng(0)
    wrong = rng.choice(len(labels), 180, replace=False)  # one in ten
    given = labels.copy()
    given[wrong] = (labels[wrong] + rng.integers(1, 10, len(wrong))) % 10
    votes = label_votes(embeddings, given)
    ranked = votes.ranked()
    is_wrong = np.isin(ranked, wrong)
    assert is_wrong.sum() >= 0.98 * len(wrong)  # recall
    assert is_wrong.mean() > 0.8 and is_wrong[: len(wrong)].mean() > 0.95  # precision
    suggested = votes.suggested[ranked[is_wrong]]
    assert (suggested == labels[ranked[is_wrong]]).mean() > 0.97


def test_nearest_others_through_cells_include_the_far_zero_vectors(monkeypatch):
    monkeypatch.setattr(_cells, "_FEWEST", 8)
    embeddings = np.random.default_rng(0).normal(size=(60, 4)).astype("float32")
    embeddings[[0, 7]] = 0
    lengths = np.linalg.norm(embeddings.astype("float64"), axis=1, keepdims=True)
    units = embeddings / np.where(lengths, lengths, 1)
    expected = 1 - units @ units.T  # a zero vector has similarity 0 to all but its copies
    expected[np.ix_([0, 7], [0, 7])] = 0
    ((found, distances),) = _cells.Cells(embeddings, "cosine", 64, 0).nearest(59)
    np.testing.assert_allclose(distances, np.take_along_axis(expected, found, 1), atol=1e-6)
    assert (np.diff(distances, axis=1) >= 0).all()
    assert all(set(row) | {number} == set(range(60)) for number, row in enumerate(found.tolist()))


def test_equal_distances_vote_equally_and_a_class_of_one_is_not_judged():
    embeddings = np.r_[np.zeros((6, 2)), [[5.0, 5.0]]]
    votes = label_votes(embeddings, [0, 0, 0, 0, 1, 1, 2], k=3)
    assert np.isnan(votes.scores[6]) and 6 not in votes.ranked()
    assert np.isfinite(votes.scores[:6]).all()
    np.testing.assert_allclose((3 * votes.given_shares) % 1, 0, atol=1e-12)


@pytest.mark.parametrize("k", range(2, 14, 2))
def test_classes_with_as_many_votes_tie(k):
    embeddings = np.zeros((2 * k + 2, 2))
    votes = label_votes(embeddings, np.arange(2 * k + 2) % 2, k=k)
    halves = np.isclose(votes.given_shares, 0.5)
    assert not votes.scores[halves].any() and not set(votes.ranked()) & set(halves.nonzero()[0])
