"""Every run that starts from a pretrained network is compared with it."""

import contextlib
import io
import json
import shutil
from dataclasses import replace

import keras
import numpy as np
import pytest
from digit_runs import run_command, with_noise_to_test
from sklearn.covariance import LedoitWolf

from gsp_tf import backbones
from gsp_tf.evaluation import RankingMetrics
from gsp_tf.recipe import ClassRecipe, Recipe, TrainingRecipe, load_recipe, resolved
from gsp_tf.runs import Run, RunFolder, evaluation_batches, frozen, frozen_metrics, frozen_recipe
from gsp_tf.runs._inputs import evaluation_inputs
from gsp_tf.training import embed

HURT = """
backbone: {{name: conv4, weights: "{weights}"}}
embedding: {{dim: 2}}
training: {{epochs: 1, steps_per_epoch: 1, learning_rate: 1.0e-9}}
"""


@pytest.fixture(scope="module")
def pretrained(tmp_path_factory):
    """A file of weights."""
    path = tmp_path_factory.mktemp("weights") / "conv4.weights.h5"
    keras.utils.set_random_seed(1)
    backbones.create("conv4", (16, 16, 1)).save_weights(path)
    return path


@pytest.fixture(scope="module")
def hurt(write_recipe, pretrained, tmp_path_factory):
    """A run that loses what the network had: its path and what the command printed."""
    path = tmp_path_factory.mktemp("runs") / "run"
    recipe = write_recipe(HURT.format(weights=pretrained))
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        assert run_command("train", recipe, "--run", path) == 0
    return path, printed.getvalue()


def test_a_run_that_lost_to_the_frozen_network_says_so_in_the_end(hurt):
    path, printed = hurt
    metrics = json.loads((path / "metrics.json").read_text())
    ours, theirs, head = metrics["test"], metrics["frozen"], metrics["head"]
    for compared, gain in (theirs, "gain"), (head, "gain_over_head"):
        assert metrics[gain]["map_at_r"] == pytest.approx(ours["map_at_r"] - compared["map_at_r"])
    low, high = metrics["gain_intervals"]["map_at_r"]
    assert low <= metrics["gain"]["map_at_r"] <= high < 0
    last = printed.splitlines()[-1]
    assert last == frozen.gain_text(Run(path).recipe, metrics)
    assert last.startswith(f"The model before training: MAP@R is {100 * ours['map_at_r']:.1f} %")
    assert f"[{100 * low:+.1f}, {100 * high:+.1f}] points over the same 60 queries" in last
    assert last.endswith("3 test classes are few: intervals of so few are too narrow.")
    page = (path / "report.html").read_text()
    assert last.replace("'", "&#39;") in page
    places = [page.index(f"{name}</th>") for name in ("frozen network", "linear head", "digits")]
    assert places == sorted(places)
    for found in (theirs, head, ours):
        assert f"{100 * found['map_at_r']:.2f}<br><small>" in page
    assert page.count("<td>60</td>") == 3 and ">Skipped</th>" not in page


@pytest.fixture
def features(hurt, pretrained):
    """Function that gives the averaged features of the network, at length 1, and the labels."""
    network = backbones.create("conv4", (16, 16, 1))
    network.load_weights(pretrained)

    def of(images):
        images, labels = zip(*evaluation_batches(Run(hurt[0]).recipe, images), strict=True)
        found = np.mean(network(np.concatenate(images)), axis=(1, 2), dtype="float64")
        return found / np.linalg.norm(found, axis=1, keepdims=True), np.concatenate(labels)

    return of


def test_the_frozen_network_gives_its_averaged_features(hurt, features):
    """By another way: every distance in turn."""
    run = Run(hurt[0])
    queries, labels = features(run.splits.test)
    similarities = queries @ queries.T - 9 * np.eye(len(queries))
    expected = labels[similarities.argmax(axis=1)] == labels
    found = frozen_metrics(run.recipe, run.splits)
    np.testing.assert_array_equal(found.values["precision_at_1"], expected)
    kept = run.folder.metrics()
    assert found.means()["map_at_r"].value == pytest.approx(kept["frozen"]["map_at_r"])


def test_a_linear_head_is_computed_from_several_images_of_each_of_its_classes(hurt, monkeypatch):
    run = Run(hurt[0])
    model, inputs = evaluation_inputs(run.recipe, run.learner.embedder)
    every = np.bincount(run.splits.train.labels)
    for most, expected in ((10_000, every), (8, [2] * len(every)), (4, [0, 0, 2, 2])):
        monkeypatch.setattr(frozen, "_FITTED", most)
        _, labels = frozen._embed_some(model, inputs, run.splits.train, "Embedding")
        assert sorted(np.bincount(labels, minlength=len(every))) == sorted(expected)


def test_proxies_of_a_whitened_map_start_as_the_means_of_all_classes_or_stay(
    write_recipe, pretrained, tmp_path, monkeypatch, without_pages
):
    whitened = ["--embedding.dim=null", "--embedding.position=after_pooling"]
    whitened += ["--embedding.whitening=true", "--training.epochs=0"]
    recipe = load_recipe(write_recipe(HURT.format(weights=pretrained)), whitened)
    for most in (10_000, 4):
        monkeypatch.setattr(frozen, "_FITTED", most)  # 4 are images of two of the classes
        run = Run(tmp_path / str(most), recipe).fit()
        embeddings, labels = embed(
            run.learner.embedder, evaluation_batches(recipe, run.splits.train)
        )
        means = np.stack([embeddings[labels == label].mean(axis=0) for label in np.unique(labels)])
        means /= np.linalg.norm(means, axis=1, keepdims=True)
        proxies = np.asarray(run.learner.embedding_loss.proxies)
        assert np.allclose(proxies, means, atol=1e-4) == (most == 10_000)


def test_the_linear_head_compares_by_the_covariance_within_the_training_classes(hurt, features):
    """By another way: cosines of Mahalanobis, with the inverse of the covariance."""
    run = Run(hurt[0])
    training, classes = features(run.splits.train)
    centred = np.concatenate([x - x.mean(0) for x in (training[classes == c] for c in range(4))])
    precision = np.linalg.inv(LedoitWolf(assume_centered=True).fit(centred).covariance_)
    queries, labels = features(run.splits.test)
    queries = queries - training.mean(axis=0)
    products = queries @ precision @ queries.T
    lengths = np.sqrt(np.diag(products))
    cosines = products / np.outer(lengths, lengths) - 9 * np.eye(len(queries))
    expected = labels[cosines.argmax(axis=1)] == labels
    found = frozen.kept_baselines(run)["head"]
    assert np.mean(found.values["precision_at_1"] == expected) > 0.97  # nearly equal neighbours
    kept = run.folder.metrics()["head"]["precision_at_1"]
    assert kept == pytest.approx(found.means()["precision_at_1"].value)
    assert kept == pytest.approx(expected.mean(), abs=0.02)


def test_a_head_for_features_that_do_not_vary_is_finite():
    head = frozen._linear_head(np.ones((6, 3), "float32"), np.repeat([0, 1], 3))
    assert np.isfinite(head(np.eye(3, dtype="float32"))).all()
    np.testing.assert_array_equal(head(np.ones((1, 3), "float32")), np.zeros((1, 3)))


def test_it_is_measured_once_and_shown_with_how_training_ended(hurt, tmp_path, monkeypatch, capsys):
    run = Run(shutil.copytree(hurt[0], tmp_path / "run"))
    before = run.folder.metrics()
    monkeypatch.setattr(frozen, "embed", None)
    run.evaluate()
    assert run.folder.metrics() == before
    monkeypatch.setattr(Run, "report", lambda run: "report.html")
    for epoch, text in ((1, "Report: report.html"), (None, "No epoch was better than the ")):
        run.folder.update_metrics(best_epoch=epoch)
        run.show()
        printed = capsys.readouterr().out
        assert text in printed and "of the frozen network is" in printed
        longer = f"To train longer: gsp-tf train --resume {run.folder.path} --training.epochs"
        assert (longer in printed.splitlines()[-1]) == (epoch == before["epochs"])


def test_an_evaluation_of_other_depths_compares_with_the_same_depths(hurt, tmp_path):
    path = shutil.copytree(hurt[0], tmp_path / "run")
    recipe = Run(path).recipe
    depths = replace(recipe.evaluation, recall_at=(1, 7))
    RunFolder(path).write_recipe(replace(recipe, evaluation=depths))
    Run(path).evaluate()
    metrics = RunFolder(path).metrics()
    for entry in ("test", "frozen", "head", "gain"):
        assert {"recall_at_1", "recall_at_7"} <= metrics[entry].keys()
        assert "recall_at_2" not in metrics[entry]


def test_an_evaluation_of_other_images_compares_on_these_images(hurt, tmp_path):
    folder = with_noise_to_test(hurt[0], tmp_path)
    before, run = folder.metrics(), Run(folder.path)
    run.evaluate()
    metrics, expected = folder.metrics(), frozen_metrics(run.recipe).means()["map_at_r"].value
    assert before["frozen"]["map_at_r"] > expected + 0.1
    assert metrics["frozen"]["map_at_r"] == pytest.approx(expected, abs=1e-6)
    gain = metrics["test"]["map_at_r"] - expected
    assert metrics["gain"]["map_at_r"] == pytest.approx(gain, abs=1e-6)
    assert metrics["head"]["map_at_r"] < before["head"]["map_at_r"] - 0.1


def test_a_rung_is_compared_with_the_network_and_not_with_the_rung_below(hurt, tmp_path):
    rungs = [shutil.copytree(hurt[0], tmp_path / "rungs" / name) for name in ("head", "network")]
    below, rung = map(RunFolder, rungs)
    rung.write_recipe(replace(rung.recipe(), initial_run=str(below.path)))
    for folder in below, rung:
        folder.frozen_path.unlink()
        folder.head_path.unlink()
        Run(folder.path).evaluate()
    for entry in ("frozen", "head"):
        assert rung.metrics()[entry] == pytest.approx(below.metrics()[entry])


def test_an_evaluation_without_its_start_keeps_no_gain_of_another(hurt, tmp_path):
    folder = RunFolder(shutil.copytree(hurt[0], tmp_path / "run"))
    weights = {"weights": str(tmp_path / "gone.h5")}
    recipe = Run(folder.path).recipe
    folder.write_recipe(replace(recipe, backbone=replace(recipe.backbone, **weights)))
    folder.frozen_path.unlink()
    with pytest.warns(UserWarning, match="is not there to compare with: .*gone.h5"):
        Run(folder.path).evaluate()
    assert "test" in folder.metrics()
    assert not folder.metrics().keys() & {"frozen", "head", "gain", "gain_over_head"}


def test_without_classes_or_training_there_is_less_to_compare_with(hurt):
    run = Run(hurt[0])
    assert frozen.kept_baselines(run).keys() == {"frozen", "head"}
    data = replace(run.recipe.data, classes_per_batch=0, unlabelled_per_batch=4, views=2)
    run.recipe = replace(run.recipe, data=data, loss=ClassRecipe("nt_xent"))
    assert frozen.kept_baselines(run).keys() == {"frozen"}
    assert resolved(frozen_recipe(run.recipe)).data == run.recipe.data
    mixed = replace(data, classes_per_batch=2, unlabelled="more")
    recipe = replace(run.recipe, data=mixed, view_loss=run.recipe.loss, loss=ClassRecipe("circle"))
    assert resolved(frozen_recipe(recipe)).view_loss.name == "nt_xent"
    untrained = TrainingRecipe(epochs=0)
    run.recipe = replace(Run(hurt[0]).recipe, training=untrained)
    assert frozen.kept_baselines(run) == {}


def test_a_run_from_another_one_is_compared_with_its_model(trained):
    run = Run(trained.path)
    recipe = replace(run.recipe, initial_run=str(trained.path))
    found = frozen_metrics(recipe, run.splits).means()
    for name in ("map_at_r", "precision_at_1"):
        assert found[name].value == pytest.approx(run.folder.metrics()["test"][name], abs=1e-6)


def entries(gains, labels, over_head=None):
    """Entries of metrics.json for queries whose metrics rise by gains, from a head by others."""
    after = {"map_at_r": np.full(len(gains), 0.5), "precision_at_1": np.full(len(gains), 0.25)}
    baselines = {"frozen": gains, "head": gains if over_head is None else over_head}
    tuned = RankingMetrics(after, np.array(labels))
    test = {name: found.value for name, found in tuned.means().items()}
    before = {
        key: RankingMetrics({name: values - of for name, values in after.items()}, tuned.labels)
        for key, of in baselines.items()
    }
    found = frozen.gain_entries(tuned, before, list(after))
    test["num_queries"] = len(gains)
    return json.loads(json.dumps({"test": test, "num_classes": {"test": 12}, **found}))


@pytest.mark.parametrize(
    ("gains", "labels", "text"),
    [
        ([0.1, 0.2, 0.3], [0, 1, 2], "Training made retrieval better. MAP@R is 50.0 %"),
        ([-0.1, 0.2, 0.3], [0, 1, 2], "Training is not shown to make retrieval better."),
        ([-0.1, -0.2, -0.3], [0, 1, 2], "Training made retrieval worse. MAP@R is 50.0 %"),
        ([0.1, 0.3], [0, 0], "a difference of +20.0 points over the same 2 queries."),
        ([0.0, -2e-4], [0, 0], "a difference of +0.0 points over the same 2 queries."),
    ],
)
def test_the_verdict_follows_from_the_interval(gains, labels, text):
    metrics = entries(np.array(gains), labels)
    said = frozen.gain_text(Recipe(), metrics)
    assert text in said
    is_better = said.startswith("Training made retrieval better.")
    assert (frozen.ADVICE in said) == (not is_better)


@pytest.mark.parametrize(
    ("status", "best_epoch", "epochs", "text"),
    [
        ("finished", None, 3, "The model before training: MAP@R is 50.0 %"),
        ("interrupted", None, 3, "Training was interrupted after 3 epochs. The model before tra"),
        ("running", 2, 3, "Training was stopped before its end; the model is the best until "),
    ],
)
def test_a_training_that_was_stopped_or_in_vain_is_not_judged(status, best_epoch, epochs, text):
    metrics = entries(np.array([0.1, 0.2, 0.3]), [0, 1, 2])
    metrics |= {"status": status, "best_epoch": best_epoch, "epochs": epochs}
    said = frozen.gain_text(Recipe(), metrics)
    assert said.startswith(text) and "Training made" not in said and frozen.ADVICE not in said


def test_a_linear_head_may_do_as_well():
    metrics = entries(np.array([0.1, 0.2, 0.3]), [0, 1, 2], np.array([-0.1, 0.1, 0.1]))
    said = frozen.gain_text(Recipe(), metrics)
    assert said.startswith("Training made retrieval better, but not better than a linear head does")
    assert "computed from the training images it is 46.7 %, a difference of +3.3 [" in said
    del metrics["gain_over_head"]
    assert frozen.gain_text(Recipe(), metrics).startswith("Training made retrieval better. MAP@R")
