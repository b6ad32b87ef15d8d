"""What the functions of evaluation refuse."""

import numpy as np
import pytest
from clusters import around_centres, clusters

from gsp_tf import evaluation

CHECKS = ("checked_embeddings", "checked_labels")
EXPORTED = {name: getattr(evaluation, name) for name in (*evaluation.__all__, *CHECKS)}
EYE, TWO, THREE = (np.eye(4, columns) for columns in (4, 2, 3))
PAIRS = [0, 0, 1, 1]
LINE = [[0.0], [1.0], [2.0]]
BROKEN = np.array([[0, np.nan], [np.inf, 1], [0, 0], [1, 1]])
E, L = around_centres(10)  # 80 embeddings of 10 classes
MANY = clusters(30)[0]
PROBES = np.arange(7.0)[:, None], [0, 1, 1, 1, 5, 6, 6], [[0.0], [10.0], [20.0]], [0, 1, 1]
MAPS, TOKENS = np.random.default_rng(0).normal(size=(5, 4, 3, 6)), np.ones((3, 2, 4))
FOUR = evaluation.PairDistances([[0.0], [1.0], [3.0], [5.0]], PAIRS)
PACK = evaluation.TokenSets.pack
SETS, WIDER = (PACK(np.ones((3, 2, dim)), np.ones((3, 2)), k=2) for dim in (4, 5))
REFUSED = {
    "calibrate_thresholds(PairDistances(E, L), 0.0)":
        "false_match_rate must be between 0 and 1; received 0",
    "calibrate_thresholds(PairDistances(E, L), 1e-4)":
        r"needs at least 30,000 pairs .*; there are 2,880.*support is 0\.0011\.",
    "calibrate_thresholds(PairDistances(np.ones((20, 3)), np.arange(20) // 2), 0.1)":
        "No pair may match at a false match rate of 0.1",
    **{f"grouped_recall(E, L, {size})": f"at least 2 and at most 10, .* received {size}"
       for size in (0, 1, 11)},
    "checked_embeddings(BROKEN, 'x')": "x must be finite in float32; 2 of 4 rows",
    "checked_embeddings(TWO + 1e300, 'x')": "4 of 4 rows",
    "checked_embeddings(TWO[:, 0], 'x')": r"\(N, D\) array; received \(4,\)",
    "checked_embeddings(TWO[:0], 'x')": r"non-empty .* received \(0, 2\)",
    "checked_embeddings(TWO.astype(str), 'x')": "real numbers; received dtype <U",
    "checked_labels(np.zeros(4), 4, 'y')": "integers; received dtype float64",
    "conformal_threshold(E, L, 0.95)": "coverage of 0.95 needs at least 19 classes .* are 10",
    "conformal_threshold(E, L, 1)": "between 0 and 1; received 1",
    **{f"covering_radius_curve(EYE, {count})": f"between 1 and 4, .* received {count}"
       for count in (0, -1, 5)},
    "embedding_density([[1, 0], [0, 1], [-1, 0]], [4, 4, 2], 'l1')":
        "distance must be one of euclidean, cosine, received 'l1'",
    "embedding_density(EYE, [3] * 4)": "1 classes of at most 4",
    "embedding_density(EYE, [0, 1, 2, 3])": "4 classes of at most 1",
    "ensemble_metrics([[EYE], []], PAIRS)": r"at least one model for every fold; received \[1, 0\]",
    "ensemble_metrics([[EYE, np.eye(3)]], PAIRS)": r"of the same images; received \[3, 4\] rows",
    "ensemble_metrics([[np.full((4, 2), np.nan)]], PAIRS)": r"queries\[0\]\[0\] must be finite",
    "ensemble_metrics([[TWO, THREE]], PAIRS, [[THREE, TWO]], PAIRS)": "of the same models",
    "ensemble_metrics([[[[1e38]]]], [0], [[[[1.0], [2.0]]]], [0, 1])": "too far",
    **{f"gallery_metrics(EYE, PAIRS, [7, 8, 8], EYE[:3], L[:3], query_sources=PAIRS, "
       f"reference_sources={sources})": rf"reference_sources .* \(3,\) .*received \({count},\)"
       for count, sources in ((2, [0, 0]), (4, PAIRS))},
    "gallery_metrics(EYE, PAIRS, [7, 8], EYE[:2], [98, 99])":
        "None of the 4 queries has a positive",
    "gallery_metrics(EYE, PAIRS, [7, 8, 9], EYE[:2], [1, 2])":
        r"one per reference, \(2,\); received \(3,\)",
    **{f"nearest_neighbours(np.eye(3), k={k})": f"between 1 and 2; received {k}" for k in (0, 3)},
    "expand_queries(MANY, alpha=-1)": "alpha must be at least 0 .* received -1",
    "PCAWhitening(np.ones((4, 3)))": "The 4 embeddings are all the same",
    "PCAWhitening(MANY)(MANY[:, :3])": "must have dimension 8; received 3",
    "LearnedWhitening(MANY[:6, :3], np.zeros(6, int))": "two classes or more",
    "LearnedWhitening(MANY[:6, :3], np.arange(6))": "0 matched pairs do not span",
    "foreground_share(np.ones((2, 2)), np.ones((1, 2, 2)))": r"received \(2, 2\) and \(1, 2, 2\)",
    "foreground_share(np.ones((2, 2, 2)), np.ones((1, 2, 2)))": "of the same images",
    "foreground_share(-np.ones((1, 2, 2)), np.ones((1, 2, 2)))": "not negative",
    "foreground_share(np.zeros((1, 2, 2)), np.ones((1, 2, 2)))": "those of 1 images have none",
    "foreground_share(np.ones((1, 2, 2)), np.full((1, 2, 2), 255))": "from 255.0 to 255.0",
    "open_set_identification(PROBES[0], [0, 1, 1, 1, 0, 0, 0], *PROBES[2:], [0.5])":
        "received 7 and 0",
    "open_set_identification(*PROBES, [0.01])": "at least 1/3 with 3 queries of other classes",
    "KReciprocalSearch(MANY, k1=30)":
        "1 <= k2 <= k1 < 30, the number of images; received k1=30 and k2=6",
    "KReciprocalSearch(MANY, weight=1.5)": "weight must lie in 0 to 1, received 1.5",
    "KReciprocalSearch(MANY, k1=5, k2=2)([0], 30)": "k must be between 1 and 29; received 30",
    "KReciprocalSearch(MANY, k1=5, k2=2)([30], 3)": "rows must be between 0 and 29",
    "label_votes([[0.0]], [0])": "two classes or more are needed; received 1",
    "near_duplicate_groups(LINE, -1.0)": "distance must be finite and 0 or more; received -1.0",
    "near_duplicate_groups(LINE, 1.0, 'cosine', 2.5)": "most_cells must be an integer .* 2.5",
    "prototype_partition(MAPS, np.ones((7, 5)))": "as many channels; received 6 and 5",
    "prototype_partition(np.full((1, 2, 6), np.nan), np.ones((7, 6)))": "features must be finite",
    "average_pooling_error(MAPS, np.ones((7, 6)), np.ones((7, 5)))":
        r"have shape \(5, 7\).* received shape \(7, 5\)",
    "average_pooling_error(MAPS, np.ones((7, 6)), np.full((5, 7), np.inf))":
        "histograms must be finite",
    "ranking_metrics(E, L, query_sources=np.zeros(80, int))":
        "nothing to average, without those of its own source",
    "ranking_metrics(E, L, E + 1, L, query_sources=L)": "go together; received only one",
    "ranking_metrics(E, L).by([1, 2, 3])": r"one per query, \(80,\); received \(3,\)",
    **{f"Reranker(MANY, '{method}')": f"k_reciprocal, .*, whitening; received '{method}'"
       for method in ("transport", "qe")},
    "retrieval_metrics(EYE[:, :2], PAIRS, BROKEN, PAIRS)": "references .* 2 of 4 rows",
    "retrieval_metrics(EYE, PAIRS[:3])": r"query_labels .* \(4,\) or \(4, 1\).*\(3,\)",
    "retrieval_metrics(EYE, PAIRS, np.zeros((4, 3)), PAIRS)": "dimension; received 4 and 3",
    "retrieval_metrics(EYE, PAIRS, EYE)": "received only references",
    "retrieval_metrics(EYE, PAIRS, None, PAIRS)": "received only reference_labels",
    "retrieval_metrics(EYE, PAIRS, EYE, [7, 7, 8, 8])": "None of the 4 queries",
    "retrieval_metrics(EYE, [5] * 4)": "All 4 references are of class 5, .* at least two classes",
    "retrieval_metrics(EYE, PAIRS, recall_at=(0, 1))": r"at least 1; received \(0, 1\)",
    "retrieval_metrics(EYE, PAIRS, metric='manhattan')": "euclidean.*manhattan",
    # Label vectors.
    **{f"{metrics}_metrics(EYE, {arguments})": message
       for metrics in ("retrieval", "ranking")
       for arguments, message in {
           "EYE": r"received \(4, 4\)\. Label vectors need a relation|received dtype float64",
           "PAIRS, relation='any'": r"must have shape \(4, C\).*received \(4,\)",
           "np.ones((3, 2)), relation='any'": r"must have shape \(4, C\).*received \(3, 2\)",
           "2 * EYE, relation='any'": "must be finite and lie in 0 to 1; received 2.0",
           "np.array([['a']] * 4), relation='any'": "must hold numbers; received dtype <U1",
           "EYE, relation='any'": "None of the 4 queries has a related reference",
           "TWO, relation='all'": "relation must be one of equal, any",
           "TWO, relation='any', relation_threshold=1.0": "at least 0 and below 1; received 1.0",
       }.items()},
    "ranking_metrics(EYE, TWO, query_sources=PAIRS, relation='any')":
        "Sources belong to relation='equal'; received them with",
    "opis(FOUR, (0.5, 0.5))": "false_match_rates must ascend",
    "opis(FOUR, (0.01, 0.1))": "OPIS needs two distances between .* 0.01 and 0.1; the 4 pairs of",
    "TokenSets.pack(TOKENS, np.ones((3, 2)), k=3)": "k must be between 1",
    "TokenSets.pack(TOKENS, -np.ones((3, 2)), k=1)": "not negative",
    "TokenSets.pack(np.ones((3, 4)), np.ones((3, 4)), k=1)": r"must be \(N, n, D\)",
    "match_tokens(SETS, WIDER)": "same dimension; received 4 and 5",
    "match_tokens(SETS, SETS.take([0]))": "pairs; received 3 and 1 images",
    "rerank_by_transport([[1]], SETS)": r"\(Q, K\) for 3 queries; received \(1, 1\)",
    "rerank_by_transport([[1]] * 3, SETS, weight=0.5)": r"shape \(3, 1\); received",
    "reranking_metrics(E, L, methods=['transport'])":
        "transport needs query_tokens of 80 images; received No",
    "reranking_metrics(E, L, methods=['magic'])": "methods must be among k_rec.*; received magic",
    "PairDistances([[0.0], [1.0]], [0, 0])": "2 embeddings of 1 classes",
    "PairDistances([[0.0], [1.0]], [0, 1])": "2 embeddings of 2 classes",
    "verification_metrics(FOUR, [1e-3])": "at least 1/4 with 4 pairs",
    "verification_metrics(FOUR, [2.0])": "received 2",
    "verification_metrics(FOUR, [0.5], num_resamples=0)": "received 0 and 0.95",
    "FOUR.at_true_match_rate(-1)": r"rates must be in \[0, 1\]; received -1",
    "zero_shot_prediction(np.eye(3), [0, 1, 2], np.ones((2, 2)))":
        "received 2 rows and 3 classes from 0 to 2",
    "zero_shot_prediction(np.eye(3), [0, 0, 0], np.ones((1, 2)))": "two rows or more",
}  # fmt: skip


@pytest.mark.parametrize("call", REFUSED)
def test_refuses_arguments(call):
    with pytest.raises((ValueError, TypeError), match=REFUSED[call]):
        eval(call, EXPORTED | globals())
