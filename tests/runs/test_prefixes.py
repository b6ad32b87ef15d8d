"""Recall by dimension, of runs trained on prefixes and of any embeddings."""

import json

import numpy as np
import pytest

from gsp_tf.evaluation import retrieval_metrics
from gsp_tf.losses import MatryoshkaLoss
from gsp_tf.recipe import load_recipe
from gsp_tf.runs import Run

PREFIXES = """
loss: {name: proxy_nca}
loss_wrapper: {name: matryoshka, dims: [2, 8]}
training: {epochs: 1, steps_per_epoch: 2}
"""


def test_a_run_reports_its_prefixes(write_recipe, tmp_path, monkeypatch):
    monkeypatch.setattr("gsp_tf.visual.plane.FEWEST_FOR_TSNE", np.inf)
    run = Run(tmp_path / "run", load_recipe(write_recipe(PREFIXES))).train()
    metrics = run.folder.metrics()
    assert isinstance(run.learner.embedding_loss, MatryoshkaLoss)
    kept = run.test_embeddings()
    assert list(metrics["test_by_dim"]) == ["2", "8"]
    for dim, found in metrics["test_by_dim"].items():
        cut = kept.queries[:, : int(dim)]
        cut = cut / np.linalg.norm(cut, axis=1, keepdims=True)
        expected = retrieval_metrics(
            cut, kept.query_labels, recall_at=run.recipe.evaluation.recall_at
        )
        assert found == pytest.approx({name: expected[name] for name in found}, abs=1e-6)
        ends = metrics["test_by_dim_intervals"][dim]
        assert ends.keys() == found.keys()
        assert all(low <= found[name] <= high for name, (low, high) in ends.items())
    page = run.report().read_text("utf-8")
    assert '<section id="prefixes">' in page and '<th scope="row">2</th>' in page
    low, high = metrics["test_by_dim_intervals"]["2"]["map_at_r"]
    assert f"<small>{100 * low:.2f}–{100 * high:.2f}</small>" in page.split('id="prefixes"')[1]


def test_any_embeddings_are_evaluated_by_their_prefixes(tmp_path, printed_by, refused):
    rng = np.random.default_rng(0)
    labels = np.arange(60) // 6
    embeddings = rng.normal(size=(10, 8))[labels] + 0.7 * rng.normal(size=(60, 8))
    file = tmp_path / "a.npz"
    np.savez(file, embeddings=embeddings, labels=labels)
    options = "--dims", 8, 2, 4, "--at", 1, 3, "--out", tmp_path / "a.json"
    assert "first dimensions of the embeddings" in printed_by("rank", file, *options)
    record = json.loads((tmp_path / "a.json").read_text())["dims"]
    assert list(record) == ["2", "4", "8"]
    for dim, found in record.items():
        cut = embeddings[:, : int(dim)]
        cut = cut / np.linalg.norm(cut, axis=1, keepdims=True)
        expected = retrieval_metrics(cut, labels, recall_at=(1, 3))
        for name in ("recall_at_1", "recall_at_3", "map_at_r"):
            assert found[name] == pytest.approx(expected[name], abs=1e-6)
    refused("between 1 and 8, received 9", "rank", file, "--dims", "9")
    by_class = "--dims", "2", "--by", "class"
    refused("--dims compares searches in one gallery", "rank", file, *by_class)
