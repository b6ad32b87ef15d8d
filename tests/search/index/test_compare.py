"""The comparison of the kinds of indexes on a user's own vectors."""

import itertools

import numpy as np
import pytest
from clusters import around_many_centres
from embedded import rows_of, write_embeddings
from PIL import Image

from gsp_tf.search import Index, build_index, compare_indexes
from gsp_tf.search.index.compare import COMPARED


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    vectors = around_many_centres(1200, 16)
    return write_embeddings(tmp_path_factory.mktemp("e") / "e", vectors, shard_size=500)


def test_every_kind_is_measured_and_the_smallest_good_one_recommended(source, tmp_path, printed_by):
    output = printed_by("index", source, "--compare", "--out", tmp_path / "out")
    found = rows_of(tmp_path / "out" / "comparison.csv")
    assert [(row["kind"], row["rescore"] or None) for row in found] == list(COMPARED)
    by_name = {(row["kind"], row["rescore"] or None): row for row in found}
    exact = by_name["exact", None]
    assert exact["recall_at_10"] == exact["recall_at_1"] == 1
    assert by_name["ivf_pq", None]["recall_at_10"] < by_name["ivf_pq", "sq8"]["recall_at_10"]
    assert by_name["ivf_pq", "vectors"]["recall_at_10"] > 0.95
    good = [row for row in found if row["recall_at_10"] >= 0.95]
    (best,) = [row for row in found if row["is_recommended"]]
    assert best["memory_bytes"] == min(row["memory_bytes"] for row in good)
    assert f"Recommended: --kind {best['kind']}" in output and output.count("│") > 50
    curve = [row for row in found if row["is_on_curve"]]
    assert curve
    for row, other in itertools.product(curve, found):
        is_as_good = other["recall_at_10"] >= row["recall_at_10"]
        is_as_small = other["memory_bytes"] <= row["memory_bytes"]
        assert not (is_as_good and is_as_small and other["milliseconds"] < row["milliseconds"])
    with Image.open(tmp_path / "out" / "comparison.png") as picture:
        assert picture.size[0] > 800


def test_a_sample_is_said_to_be_one(source, printed_by):
    options = ["--sample", "300", "--dim", "8", "--recall", "1"]
    text = " ".join(printed_by("index", source, "--compare", *options).split())
    assert "270 vectors of 8 dimensions, a random sample of 1,200; 30 other" in text
    assert "Recall@10 of 100 % or more" in text
    few = compare_indexes(source, most_vectors=40, seed=3)
    assert [index.kind for index in few.indexes] == ["exact", "hnsw"]
    assert few.is_sample and few.recommended.kind == "exact"


def test_the_exact_index_always_qualifies(tmp_path, printed_by):
    """Products of nearly the same vectors differ by less than their rounding."""
    rng = np.random.default_rng(0)
    same = rng.standard_normal((3, 8))[np.arange(600) % 3] + 1e-4 * rng.normal(size=(600, 8))
    path = write_embeddings(tmp_path / "same", same, shard_size=600)
    found = compare_indexes(path, metric="cosine", compared=COMPARED[:2])
    assert max(index.recall_at_10 for index in found.indexes) < 0.95
    assert found.recommended.kind == "exact"
    without = compare_indexes(path, 1, compared=[("ivf_sq8", None), ("ivf_pq", None)])
    best = max(without.indexes, key=lambda index: index.recall_at_10)
    assert without.recommended == best
    index = build_index(path, tmp_path / "index", metric="cosine").path
    output = printed_by("index", index, "--compare", "--recall", "1")
    assert "Recommended: --kind exact, which misses only vectors that are as near" in output


def test_what_cannot_be_compared(source, tmp_path, refused):
    build_index(source, tmp_path / "pq", "ivf_pq")
    with pytest.raises(ValueError, match="to compare: ivf_pq need at least 256 vectors; .* 36."):
        compare_indexes(source, most_vectors=40, compared=[("ivf_pq", None)])
    for arguments, message in (
        ([source, "--compare", "--kind", "hnsw"], "--compare takes --out, --metric, --dim,"),
        ([source, "--compare", "--sample", "1"], "needs at least 2 vectors"),
        ([tmp_path / "pq", "--compare"], "is compressed .ivf_pq. and does not hold its"),
        ([source, "--recall", "0.9", "--out", tmp_path / "x"], "--recall and --sample are for"),
        ([tmp_path / "pq", "--verify", "--dim", "1"], "--verify takes an index and no other"),
        ([tmp_path / "pq", "--delete", "/000.png", "--table", "t.csv"], "--table has metadata of"),
    ):
        refused(message, "index", *arguments)
    assert len(Index(tmp_path / "pq")) == 1200
