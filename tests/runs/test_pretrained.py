"""Pretrained networks without training, and heads that are trained on their features."""

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from digit_runs import interrupted_in, run_command
from faults import stopped_at
from own_model import register_pretrained, write_folder
from PIL import Image
from presets import write_preset
from ray_jobs import ray_without_processes

from gsp_tf import backbones
from gsp_tf.cli import main
from gsp_tf.data import load_folder
from gsp_tf.evaluation import ranking_metrics
from gsp_tf.recipe import EvaluationRecipe
from gsp_tf.runs import Run, RunFolder, _inputs, evaluation_batches, frozen, pretrained_run
from gsp_tf.runs._evaluation import embed_test_images, kept_embeddings
from gsp_tf.search import EmbeddingsFolder, Index, RunModel
from gsp_tf.search import collection as workers
from gsp_tf.search._tables import vectors_of
from gsp_tf.search.explore import server
from gsp_tf.training import embed

SMALL = ["--data.image_size", "32", "--training.epochs", "2", "--training.steps_per_epoch", "2"]
NAMED = ["--backbone.name", "small", *SMALL]
SHORTEST = ["--training.epochs", "1", "--training.steps_per_epoch", "1"]


@pytest.fixture
def networks(tmp_path, monkeypatch):
    """Two small networks with weights, and photographs of ten classes."""
    monkeypatch.chdir(tmp_path)
    register_pretrained(monkeypatch, tmp_path, "small", "other")
    write_folder("my_images", 10)
    return tmp_path


def mean_features(recipe, images, name="small"):
    """Means of the last maps of a network for images, at length 1, and the labels."""
    side = recipe.data.image_size
    network = backbones.create(name, (side, side, 3))
    maps, labels = embed(network, evaluation_batches(recipe, images))
    means = maps.mean((1, 2))
    return means / np.linalg.norm(means, axis=1, keepdims=True), labels


def test_a_network_embeds_and_searches_without_training(networks, printed_by, refused):
    printed_by("embed", "small", "my_images")
    folder = RunFolder("runs/small")
    assert folder.recipe().data.image_size == 224
    (shard,) = EmbeddingsFolder.open("runs/small/embeddings").shards()
    expected, _ = mean_features(folder.recipe(), load_folder("my_images"))
    np.testing.assert_allclose(vectors_of(shard), expected, atol=1e-5)
    written = folder.model_path.stat().st_mtime_ns
    query = shard["path"].to_pylist()[6]
    first = printed_by("search", "small", query, "--k", "2").splitlines()[2]
    assert first.split()[:5] == ["1", "0.0000", "pattern", "1", "6.png"]
    assert first.endswith("(the same file)")
    assert len(Index("runs/small/index")) == 40
    assert run_command("index", "small", "--verify") == 0
    assert run_command("index", "small", "--out", "copy") == 0
    assert len(Index("copy")) == 40
    assert run_command("index", "small", "--compare", "--sample", "30") == 0
    refused("smal does not exist", "index", "smal")
    of_another = "search", "other", query, "--index", "runs/small/index"
    refused("do not belong together: the models are of", *of_another)
    assert run_command("dedup", "my_images", "--run", "small", "--distance", "1e-4") == 0
    assert run_command("export", "small", "--format", "keras") == 0
    assert folder.model_path.stat().st_mtime_ns == written
    assert run_command("calibrate", "runs/small/index", "--false-match-rate", "0.1") == 0
    refused("runs/small has no final results yet", "report", "runs/small", "--out", "tables")
    for command in (["evaluate"], ["rank"], ["calibrate", "--false-match-rate", "0.1"]):
        refused("a pretrained network has no images of its own", *command, "runs/small")


def test_a_network_cleans_embeds_a_collection_and_is_explored(networks, monkeypatch, printed_by):
    monkeypatch.setattr(workers, "_ray_session", ray_without_processes)
    monkeypatch.setattr(server._Server, "run", lambda self, sockets: None)
    printed = printed_by("clean", "my_images", "--run", "small")
    assert "of 40 images disagree with the label" in printed
    paths = sorted(map(str, networks.glob("my_images/*/*")))
    pq.write_table(pa.table({"path": paths}), "collection.parquet")
    assert run_command("embed-collection", "small", "collection.parquet") == 0
    (shard,) = EmbeddingsFolder.open("runs/small/embeddings").shards()
    assert sorted(shard["path"].to_pylist()) == paths
    assert run_command("explore", "small") == 0
    assert len(Index("runs/small/index")) == 40
    assert RunFolder("runs/small").metrics()["epochs"] == 0


def test_other_names_are_refused(networks, refused):
    (networks / "random.yaml").write_text("backbone: {name: small}")
    RunFolder("runs/other").start(RunFolder(pretrained_run("small")).recipe())
    for name, message in (
        ("smal", "smal is neither a run folder nor a network of gsp-tf backbones; did you mean sm"),
        ("conv4", "conv4 has no pretrained weights, and without training it needs some"),
        ("small:tiny", "backbone.preset must be null with backbone.name=small; it is for hub"),
        ("random.yaml", "backbone.weights must be those of a pretrained network in random.yaml"),
        ("other", "runs/other is another run than other as it is"),
    ):
        refused(message, "embed", name, "my_images")
    assert sorted(path.name for path in (networks / "runs").iterdir()) == ["other", "small"]


def test_a_recipe_file_and_a_preset_name_a_network(networks):
    (networks / "tall.yaml").write_text(
        "name: tall\ndata: {image_size: 48}\nbackbone: {name: small, weights: imagenet}\n"
        "pooling: {name: gsp}\nembedding: {dim: 7}\n"
    )
    recipe = RunFolder(pretrained_run("tall.yaml")).recipe()
    assert (recipe.data.image_size, recipe.pooling.name) == (48, "gap")
    assert RunModel("runs/tall").dim == 8
    write_preset("ViT", "vit")
    path = pretrained_run("hub:vit")
    recipe = RunFolder(path).recipe()
    RunFolder(path).write_recipe(replace(recipe, evaluation=EvaluationRecipe(batch_size=7)))
    assert path == pretrained_run("hub:vit") and path.name == "hub-vit"
    assert RunModel(path).dim == 16


def test_a_head_of_gsp_trains_on_features(networks, digits, without_pages):
    options = "--head", "gsp", "--pooling.entropy_smoothing", "20", *NAMED
    assert run_command("adapt", digits, *options, "--name", "digits") == 0
    recipe = Run("runs/digits-0").recipe
    assert (recipe.pooling.name, recipe.embedding.dim) == ("gsp", None)
    assert recipe.pooling.arguments["entropy_smoothing"] == 20


def test_a_linear_head_trains_on_features(networks, digits, printed_by, monkeypatch, without_pages):
    printed = printed_by("adapt", digits, "--head", "linear", *NAMED, "--name", "digits")
    run = Run("runs/digits-0")
    recipe, metrics = run.recipe, run.folder.metrics()
    assert (recipe.pooling.name, recipe.embedding.dim) == ("gap", None)
    searched = mean_features(recipe, run.splits.test)
    expected = ranking_metrics(*searched, at=recipe.evaluation.recall_at)
    of_pixels = expected.means()["map_at_r"].value  # the kept features are float16
    assert metrics["frozen"]["map_at_r"] == pytest.approx(of_pixels, abs=1e-3)
    assert 0.1 < metrics["frozen"]["map_at_r"] < 0.9
    start = ranking_metrics(*mean_features(recipe, run.splits.validation)).means()
    found = metrics["untrained"]["val_map_at_r"]  # it starts as the network
    assert found == pytest.approx(start["map_at_r"].value, abs=0.02)
    assert "small with the weights imagenet, frozen" in printed
    assert "frozen network" in printed and "with a linear" in printed and "trained head" in printed
    # Its features are kept, and from pixels it is the same but for rounding.
    from_pixels = replace(recipe, data=replace(recipe.data, feature_cache=None))
    expected = frozen._StartingNetwork(from_pixels, run.splits).head_metrics().means()
    assert metrics["head"]["map_at_r"] == pytest.approx(expected["map_at_r"].value, abs=0.01)
    monkeypatch.setattr(_inputs, "inference", lambda network: None)  # nothing passes it again
    network = frozen._StartingNetwork(recipe, run.splits)
    assert network.head_metrics().num_queries == network.metrics().num_queries
    searched = kept_embeddings(run), embed_test_images(run)
    np.testing.assert_array_equal(*(of.queries for of in searched))
    shutil.rmtree(recipe.data.feature_cache)  # as on another machine
    elsewhere = embed_test_images(run).queries
    np.testing.assert_allclose(elsewhere, searched[0].queries, atol=2e-3)
    assert not Path(recipe.data.feature_cache).exists()
    of_network = [w for w in run.learner.embedder.weights if "conv2d" in w.path]
    assert of_network and not any(weight.trainable for weight in of_network)
    assert run_command("embed", run.folder.path, "my_images") == 0


def test_an_adaptation_continues_and_another_one_gets_a_folder(
    networks, printed_by, refused, monkeypatch, without_pages
):
    command = ["adapt", "my_images", "--head", "mlp", *NAMED]
    with interrupted_in(1):
        assert run_command(*command) == 130
    monkeypatch.setattr(_inputs, "inference", lambda network: None)  # nothing is computed again
    printed_by(*command)
    folder = RunFolder("runs/my_images-mlp-0")
    assert folder.metrics()["status"] == "finished" and len(folder.history()["loss"]) == 2
    before = folder.model_path.read_bytes()
    assert "a difference of" in printed_by(*command)  # only shows the result
    assert folder.model_path.read_bytes() == before
    command += ["--loss.name", "triplet"]
    assert run_command(*command, "--training.epochs", "1") == 0
    assert RunFolder("runs/my_images-mlp-0-2").recipe().loss.name == "triplet"
    refused("is a run of another recipe or of other phot", *command, "--run", folder.path)


@pytest.mark.parametrize(
    ("file", "options"),
    [
        ("metrics.json", ["--run", "mine"]),
        ("history.csv", ["--data.feature_cache", "null"]),
    ],
)
def test_an_adaptation_that_was_stopped_at_a_file_continues(
    networks, capsys, without_pages, file, options
):
    command = ["adapt", "my_images", *NAMED, *SHORTEST, *options]
    with stopped_at(file):
        main(command)
    capsys.readouterr()
    assert run_command(*command) == run_command(*command) == 0
    assert "have changed" not in capsys.readouterr().err
    (folder,) = ["mine"] if "--run" in options else networks.glob("runs/my_images*")
    assert RunFolder(folder).metrics()["status"] == "finished"
    assert len(RunFolder(folder).history()["loss"]) == 1


def test_an_adaptation_begins_again_for_other_photographs(networks, capfd, refused, without_pages):
    command = ["adapt", "my_images", *NAMED, *SHORTEST]
    assert run_command(*command) == 0
    first = RunFolder("runs/my_images-linear-0")
    before = first.metrics()
    photograph = next((networks / "my_images/pattern 0").iterdir())
    Image.new("RGB", (16, 16)).save(photograph)
    refused("of other photographs. Choose another folder", *command, "--run", first.path)
    assert run_command(*command) == 0
    notes = " ".join(capfd.readouterr().err.split())
    assert "have changed since it began, so this run goes to runs/my_images-linear-0-2" in notes
    second = RunFolder("runs/my_images-linear-0-2").metrics()
    assert second["status"] == "finished" and second["images"] != before["images"]
    assert run_command(*command) == 0  # shows the second
    assert first.metrics() == before and not list(networks.glob("runs/*-3"))


def test_what_cannot_be_adapted_is_named(networks, refused, monkeypatch):
    (networks / "empty").mkdir()
    write_folder("alone", 1)
    for arguments, message in (
        (["missing"], "missing does not exist"),
        (["alone"], "at least two classes are needed"),
        (["my_images", "--backbone.name", "smal"], "Unknown backbone 'smal'"),
        (["my_images", *NAMED, "--initial_run", "runs/x"], "not from initial_run=runs/x"),
        (["my_images", *NAMED, "--protocol.name", "mlrc"], "name it with protocol.fold"),
    ):
        refused(message, "adapt", *arguments)
    monkeypatch.setattr(backbones.WeightsPackage, "installed", lambda self: None)
    monkeypatch.setenv("GSP_TF_CACHE", str(networks / "cache"))
    refused("No network has pretrained weights on this machine", "adapt", "my_images")
