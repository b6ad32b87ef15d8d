import json
from dataclasses import replace

import numpy as np
import pytest
from digit_runs import run_command
from embedded import save_digits, save_run, write_embeddings

from gsp_tf.evaluation import RERANKINGS, ranking_metrics
from gsp_tf.runs import Run, TokenModel, build_embedder, features_model, has_local_features

pytestmark = pytest.mark.tensorflow


@pytest.fixture(scope="module")
def digit_images(tmp_path_factory):
    return save_digits(tmp_path_factory.mktemp("digits"))


@pytest.fixture(scope="module")
def gsp_run(tmp_path_factory, digit_images):
    path = tmp_path_factory.mktemp("runs") / "gsp"
    return save_run(path, digit_images, pooling="{name: gsp, num_prototypes: 4}")


def gsp_embedder(gsp_run, **embedding):
    recipe = Run(gsp_run).recipe
    recipe = replace(recipe, embedding=replace(recipe.embedding, **embedding))
    return build_embedder(recipe, channels=1)


@pytest.mark.parametrize(
    ("position", "whitening"),
    [("before_pooling", False), ("after_pooling", False), ("after_pooling", True)],
)
def test_tokens_add_up_to_the_embedding(gsp_run, position, whitening):
    embedder = gsp_embedder(gsp_run, position=position, whitening=whitening)
    if whitening:
        layer = embedder.get_layer("embedding")
        layer.bias.assign(np.linspace(-0.5, 1, 8))
    images = np.random.default_rng(0).uniform(0, 255, (3, 16, 16, 1)).astype("float32")
    tokens = TokenModel(embedder, k=None)
    sets = tokens(images)
    assert tokens.k == np.prod(tokens.grid) == sets.weights.shape[1] and tokens.dim == 8
    features, pooling = features_model(embedder)
    local = features(images, training=False)
    weights = np.asarray(pooling.pooling_weights(local)).reshape(3, -1)
    local = np.asarray(local).reshape(*weights.shape, -1)
    if position == "after_pooling":
        pooled = np.einsum("bn,bnc->bc", weights, local)
        local = local @ np.asarray(embedder.get_layer("embedding").kernel)
    if whitening:
        lengths = np.linalg.norm(pooled, axis=1)
        local = local + lengths[:, None, None] * np.asarray(layer.bias)
    sums = np.einsum("bn,bnd->bd", weights, local)
    sums /= np.linalg.norm(sums, axis=1, keepdims=True)
    np.testing.assert_allclose(sums, np.asarray(embedder(images)), atol=1e-5)
    kept = np.take_along_axis(local, sets.places[..., None].astype(int), axis=1)
    cosines = (kept * sets.tokens).sum(-1) / np.linalg.norm(kept, axis=-1)
    cosines /= np.linalg.norm(sets.tokens.astype(float), axis=-1)
    np.testing.assert_allclose(cosines, 1, atol=1e-3)
    few = TokenModel(embedder, k=3)(images)
    np.testing.assert_array_equal(few.tokens, sets.tokens[:, :3])


def test_tokens_of_a_map_with_a_hidden_layer_are_refused_after_the_pooling(gsp_run):
    mapped = {"map": "mlp", "dim": None}
    after = gsp_embedder(gsp_run, position="after_pooling", **mapped)
    assert not has_local_features(after)
    layers = r"Dense \(embedding_hidden\), Dense \(embedding_output\)"
    with pytest.raises(ValueError, match=rf"at most a linear map; .*, {layers}\."):
        TokenModel(after)
    before = gsp_embedder(gsp_run, position="before_pooling", **mapped)
    assert has_local_features(before) and TokenModel(before).dim == before.output_shape[1]


def test_evaluate_re_ranks_a_run(gsp_run, printed_by):
    table = printed_by("evaluate", gsp_run, "--rerank", "all", "--tokens", 4)
    results = json.loads((gsp_run / "reranking.json").read_text("utf-8"))
    assert list(results)[:2] == ["search", "k_reciprocal"] and "transport" in results
    metrics = Run(gsp_run).folder.metrics()
    assert results["search"]["map_at_r"] == metrics["test"]["map_at_r"]
    for name in ("map_at_r", "precision_at_1"):
        assert results["search"]["intervals"][name] == metrics["test_intervals"][name]
    assert results["transport"]["bytes"] == 4 * 8 + 4 * (8 + 1 + 2)
    assert all(name in table for name in results) and "bytes per image" in " ".join(table.split())
    before = (gsp_run / "metrics.json").read_bytes()
    assert run_command("evaluate", gsp_run, "--rerank", "k_reciprocal", "whitening") == 0
    assert (gsp_run / "metrics.json").read_bytes() == before
    options = "--rerank", "whitening", "--whitening", gsp_run, "--out", gsp_run / "learned.json"
    assert run_command("rank", gsp_run, *options) == 0
    learned = json.loads((gsp_run / "learned.json").read_text("utf-8"))
    assert list(learned) == ["search", "learned_whitening_8"]
    assert learned["search"]["map_at_r"] == metrics["test"]["map_at_r"]


def test_rank_takes_the_images_of_its_last_evaluation(gsp_run, tmp_path, refused):
    run, table = Run(gsp_run), tmp_path / "cameras.csv"
    cameras = np.arange(len(run.splits.test)) % 2
    lines = [f"{path},{c}" for path, c in zip(run.splits.test.paths, cameras, strict=True)]
    table.write_text("\n".join(["path,camera", *lines]))
    found = run.test_embeddings()
    expected = ranking_metrics(found.queries, found.query_labels, query_sources=cameras).means()
    arguments = "rank", gsp_run, "--exclude-same", "camera"
    assert run_command(*arguments, "--table", table) == 0
    record = json.loads((gsp_run / "ranking.json").read_text("utf-8"))["all"]
    assert record["map_at_10"] == pytest.approx(expected["map_at_10"].value)
    assert run_command(*arguments, "--table", table, "--rerank", "k_reciprocal") == 0
    reranked = json.loads((gsp_run / "reranking.json").read_text("utf-8"))["search"]
    assert reranked["map_at_10"] == pytest.approx(expected["map_at_10"].value)
    refused("has no column camera. Name a table", *arguments)
    other = write_embeddings(tmp_path / "other", np.eye(8), labels=list("aabbccdd"))
    refused("do not belong together: the models are of", "rank", gsp_run, "--gallery", other)
    labels = np.take(run.splits.test.class_names, found.query_labels)
    np.savez(tmp_path / "gallery.npz", embeddings=found.queries, labels=labels)
    arguments = "rank", gsp_run, "--gallery", tmp_path / "gallery.npz", "--rerank", "whitening"
    assert run_command(*arguments) == 0
    assert "whitening_8" in json.loads((gsp_run / "reranking.json").read_text("utf-8"))


def test_evaluate_refuses_what_it_cannot_re_rank(
    gsp_run, digit_images, tmp_path, printed_by, refused
):
    known = f"among {', '.join(RERANKINGS)}; received magic"
    refused(known, "evaluate", gsp_run, "--rerank", "all", "magic")
    average = save_run(tmp_path / "gap", digit_images)
    reason = r"needs a pooling with weights, such as gsp.* GlobalAveragePooling2D \(pooling\)\."
    refused(reason, "evaluate", average, "--rerank", "transport")
    printed = printed_by("evaluate", average, "--rerank", "all")
    assert "note: transport is left out" in printed
    assert "database_augmentation" in json.loads((average / "reranking.json").read_text("utf-8"))
