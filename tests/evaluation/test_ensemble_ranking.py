import numpy as np

from gsp_tf.evaluation.ensemble_ranking import EnsembleRanking


def unit_vectors(x):
    return (x / np.linalg.norm(x, axis=1, keepdims=True)).astype(np.float32)


def test_agreeing_models_leave_few_references_to_rank():
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(300), 10)
    centres = 10 * rng.normal(size=(300, 6))[labels]
    folds = [
        [unit_vectors(centres + 0.3 * rng.normal(size=centres.shape)) for _ in range(3)]
        for _ in range(4)
    ]
    ranking = EnsembleRanking(folds, labels, None, labels, recall_at=(1,))
    rows = np.arange(3000)
    distances = np.empty((12, 3000, 3072), np.float32)
    for factors, out in zip(ranking._factors, distances, strict=True):
        ranking._measure(rows, factors, out)
    parts = list(ranking._candidates(distances, depth=9))
    assert sorted(np.concatenate([places for places, _ in parts])) == rows.tolist()
    assert 9 * 3000 <= sum(left.size for _, left in parts) < 100 * 3000
