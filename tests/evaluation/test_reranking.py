import numpy as np
import pytest

from gsp_tf.evaluation import (
    RERANKINGS,
    ExactSearch,
    KReciprocalSearch,
    PCAWhitening,
    Reranker,
    augment_database,
    expand_queries,
)

FOUND = np.random.default_rng(3).normal(size=(40, 6)).astype("float32")


@pytest.mark.parametrize("among", [False, True])
@pytest.mark.parametrize("method", [name for name in RERANKINGS if name != "transport"])
def test_each_method_is_the_search_that_it_names(method, among):
    references, queries = (FOUND, FOUND) if among else (FOUND[:30], FOUND[30:])
    others, rows = None if among else references, np.arange(len(queries))
    found = Reranker(references, method)(None if among else queries)(rows, 5)
    if method == "k_reciprocal":
        expected = KReciprocalSearch(queries, others, 20, 6)(rows, 5)
    else:
        searched = references
        if method == "query_expansion":
            queries = expand_queries(queries, others, 10)
        elif method == "database_augmentation":
            searched = augment_database(references, 10)
        else:
            whitening = PCAWhitening(references)
            queries, searched = whitening(queries), whitening(references)
        expected = ExactSearch(searched, "cosine")(queries, 5, rows if among else None)
    for ours, theirs in zip(found, expected, strict=True):
        np.testing.assert_array_equal(ours, theirs)
