"""A backbone that is trained as a classifier, and recipes that start from it."""

import keras
import numpy as np
import pytest

from gsp_tf import data
from gsp_tf.losses import SoftmaxClassifier
from gsp_tf.recipe import load_recipe
from gsp_tf.runs import Run, build_embedder
from gsp_tf.runs._report import _notes, print_results

CLASSIFIER = """
trainer: classification
training: {epochs: 2, steps_per_epoch: 8, learning_rate: 0.01}
"""


@pytest.fixture(scope="module")
def classifier(write_recipe, tmp_path_factory):
    """A finished run that classifies the digits."""
    path = tmp_path_factory.mktemp("classifiers") / "run"
    return Run(path, load_recipe(write_recipe(CLASSIFIER))).train()


def test_the_loss_is_the_cross_entropy_of_keras():
    rng = np.random.default_rng(0)
    features = rng.normal(size=(6, 5)).astype("float32")
    labels = rng.integers(0, 4, 6)
    classifier = SoftmaxClassifier(4)
    value = float(classifier(labels, features))
    probabilities = keras.ops.softmax(features @ classifier.kernel.numpy())
    expected = keras.losses.SparseCategoricalCrossentropy()(labels, probabilities)
    assert value == pytest.approx(float(expected), rel=1e-5)
    with pytest.raises(ValueError, match="num_classes must be an integer of at least 1"):
        SoftmaxClassifier(0)


def test_its_parts_have_the_same_classes_and_other_images(classifier):
    splits = classifier.splits
    assert splits.train.class_names == splits.validation.class_names == splits.test.class_names
    paths = [set(part.paths) for part in splits[:3]]
    assert [len(part) for part in paths] == [80, 60, 60]
    assert len(set.union(*paths)) == 200
    for part in splits[:3]:
        assert (np.bincount(part.labels) == len(part) // 10).all()
        assert all(
            part.class_names[label] in path
            for path, label in zip(part.paths, part.labels, strict=True)
        )


def test_a_classifier_is_evaluated_by_its_accuracy(classifier, capsys):
    metrics, learner = classifier.folder.metrics(), classifier.learner
    assert metrics["status"] == "finished" and metrics["num_classes"]["test"] == 10
    correct = []
    for images, labels in data.evaluation_dataset(classifier.splits.test, 16, 20):
        logits = learner.embedding_loss.logits(learner.embedder(images, training=False))
        correct += (np.argmax(logits, axis=1) == labels.numpy()).tolist()
    assert metrics["test"]["accuracy"] == pytest.approx(np.mean(correct)) and np.mean(correct) > 0.3
    history = classifier.folder.history()
    best = max(metrics["untrained"]["val_accuracy"], *history["val_accuracy"])
    assert metrics["best_val_accuracy"] == pytest.approx(best)
    assert learner.embedder.output_shape == (None, 64)
    print_results([classifier.folder])
    printed = capsys.readouterr().out
    assert "60 images of 10 classes, in percent" in printed and "accuracy" in printed
    notes = _notes(classifier.recipe, metrics, classifier.splits.test)
    assert "60 images of the 10 classes of training" in notes[0]


def started(recipe, weights, *options):
    """The embedder of a recipe that starts from weights."""
    recipe = load_recipe(recipe, ["--backbone.weights", str(weights), *options])
    return build_embedder(recipe, channels=recipe.data.channels)


def test_a_recipe_starts_from_the_backbone_of_a_run(classifier, write_recipe):
    recipe, backbone = write_recipe(), classifier.learner.embedder.get_layer("conv4")
    whole = started(recipe, classifier.folder.path).get_layer("conv4").get_weights()
    halved = started(recipe, classifier.folder.model_path, "--backbone.frozen_to", "block_1")
    lower, upper = (halved.get_layer(name).get_weights() for name in ("frozen", "conv4"))
    for values in (whole, [*lower, *upper]):
        np.testing.assert_equal(values, backbone.get_weights())
    for options, message in (
        (["--backbone.name", "resnet20"], "backbone.name=resnet20; its backbone is conv4"),
        (["--data.channels", "3"], "does not fit: its weights have other shapes"),
        (["--backbone.weights", "no/run"], "no/run is not a run folder"),
        (["--backbone.weights", "imagenet"], "must be None or the path of a .weights.h5 file"),
    ):
        with pytest.raises((ValueError, FileNotFoundError), match=message):
            started(recipe, classifier.folder.path, *options)
