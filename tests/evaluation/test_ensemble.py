import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gsp_tf.evaluation import ensemble, ensemble_metrics, retrieval_metrics

METRICS = ("precision_at_1", "r_precision", "map_at_r", "recall_at_1", "recall_at_4")


def models(rng, centres, repeats, folds=4, dim=6, noise=1.0):
    """Unit embeddings by models of each fold, of images around the centres of their classes."""
    embeddings = [
        [centres[:, :dim] + noise * rng.normal(size=(len(centres), dim)) for _ in range(repeats)]
        for _ in range(folds)
    ]
    return [[x / np.linalg.norm(x, axis=1, keepdims=True) for x in fold] for fold in embeddings]


def checked(queries, query_labels, references=None, reference_labels=None):
    """The metrics, which are means and sample deviations over choices evaluated by themselves."""
    metrics = ensemble_metrics(queries, query_labels, references, reference_labels, (1, 4))

    def values(x, others):
        found = retrieval_metrics(x, query_labels, others, reference_labels, recall_at=(1, 4))
        return [found[name] for name in METRICS]

    expected = {"separated": [], "concatenated": []}
    theirs = references or [[None] * len(fold) for fold in queries]
    folds = [list(zip(*pair, strict=True)) for pair in zip(queries, theirs, strict=True)]
    for choice in itertools.product(*folds):
        expected["separated"].append(np.mean([values(*pair) for pair in choice], axis=0))
        x, others = zip(*choice, strict=True)
        others = None if references is None else np.concatenate(others, axis=1)
        expected["concatenated"].append(values(np.concatenate(x, axis=1), others))
    for part, of_choices in expected.items():
        mean, std = ([metrics[part][of][name] for name in METRICS] for of in ("mean", "std"))
        np.testing.assert_allclose(mean, np.mean(of_choices, axis=0), atol=1e-9)
        if len(of_choices) == 1:
            assert std == [None] * len(METRICS)
        else:
            np.testing.assert_allclose(std, np.std(of_choices, axis=0, ddof=1), atol=1e-9)
    return metrics


def test_queries_and_gallery():
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(12, 6))
    query_labels, reference_labels = np.repeat(np.arange(12), 2), np.repeat(np.arange(10), 5)
    queries = models(rng, centres[query_labels], 2)
    references = models(rng, centres[reference_labels], 2)
    metrics = checked(queries, query_labels, references, reference_labels)
    assert metrics["num_queries"] == 20 and metrics["num_skipped"] == 4


@settings(max_examples=30)
@given(
    seed=st.integers(0, 2**16),
    repeats=st.lists(st.integers(1, 3), min_size=1, max_size=3),
    noise=st.sampled_from([0.0, 0.1, 10.0]),
    groups=st.sampled_from([8, 16, 1024]),
)
def test_every_concatenation_is_as_if_searched_by_itself(seed, repeats, noise, groups):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 6, size=40)
    centres = rng.normal(size=(len(repeats), 6, 6))[:, labels]
    folds = [models(rng, *given, 1, noise=noise)[0] for given in zip(centres, repeats, strict=True)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ensemble, "_GROUPS", groups)
        patch.setattr(ensemble, "_BLOCK_BYTES", 4 * 3 * 64 * 4)
        patch.setattr(ensemble, "_PIECE_ENTRIES", 20)
        metrics = checked(folds, labels)
    assert metrics["choices"] == np.prod(repeats)


@pytest.mark.parametrize("count", [40, 400])
def test_copies_come_before_near_copies(count):
    # Products in float32 do not tell them apart; the expected order is that of float64 differences.
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(count, 6)).astype(np.float32)
    centres[1::2] = centres[::2] * np.float32(1 + 1e-5)
    models = [np.tile(centres + np.float32(offset), (3, 1)) for offset in (0, 1)]
    labels = rng.integers(0, 9, 3 * count)
    for folds in (models[:1], models[1:], models):
        found = ensemble_metrics([[model] for model in folds], labels)["concatenated"]["mean"]
        points = np.concatenate(folds, axis=1).astype(float)
        squares = np.square(points[:, None] - points).sum(axis=-1)
        np.fill_diagonal(squares, np.inf)
        hits = labels[squares.argmin(axis=1)] == labels
        assert found["precision_at_1"] == pytest.approx(hits.mean(), abs=1e-12)


def test_each_model_has_its_own_unit_of_length():
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(10), 4)
    [[first], [second]] = models(rng, rng.normal(size=(10, 6))[labels], 1, folds=2)
    first_alone = ensemble_metrics([[first]], labels)
    expected = ensemble_metrics([[first], [second]], labels)
    metrics = ensemble_metrics([[1e10 * first], [1e-25 * second]], labels)
    assert metrics["separated"] == expected["separated"]
    assert metrics["concatenated"] == first_alone["concatenated"]
