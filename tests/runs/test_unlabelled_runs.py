"""Runs on images without a class, alone and beside labelled ones."""

import shutil

import numpy as np
import pytest
from PIL import Image

from gsp_tf.losses import CrossBatchMemory, SemiSupervisedLoss
from gsp_tf.recipe import load_recipe, save_recipe
from gsp_tf.runs import Run, build_learner, load_splits
from gsp_tf.runs._inputs import ImageInputs
from gsp_tf.search.cleaning._images import _of_recipe

ALONE = """
data:
  name: unlabelled
  path: {path}
  channels: 1
  image_size: 16
  split_fractions: [0.6, 0.2, 0.2]
  classes_per_batch: 0
  unlabelled_per_batch: 8
  views: 2
  min_crop_area: 0.4
  augmentation: [{{name: rotation, factor: 0.05}}, {{name: erasing, factor: 0.5}}]
loss: {{name: nt_xent, temperature: 0.1}}
training: {{epochs: 2, steps_per_epoch: 3, deterministic: true, health_every: 2}}
"""
BESIDE = """
data:
  name: folder
  path: {path}
  unlabelled: {unlabelled}
  channels: 1
  image_size: 16
  split_fractions: [0.4, 0.3, 0.3]
  classes_per_batch: 4
  images_per_class: 2
  unlabelled_per_batch: 6
  views: 2
  min_crop_area: 0.4
loss: {{name: proxy_anchor}}
view_loss: {{name: vicreg, normalize: true}}
loss_weights: {{views: 0.5}}
training: {{epochs: 1, steps_per_epoch: 2, health_every: 1}}
"""


@pytest.fixture(scope="module")
def photos(digits, tmp_path_factory):
    """Sixty digits without a class."""
    folder = tmp_path_factory.mktemp("unsorted")
    for number, path in enumerate(sorted(digits.rglob("*.png"))[::3][:60]):
        shutil.copy(path, folder / f"{number}.png")
    return folder


def test_images_without_a_class_train_and_are_found_by_their_views(
    photos, write_recipe, tmp_path, printed_by
):
    recipe = write_recipe(ALONE.format(path=photos))
    picture = tmp_path / "views.png"
    printed = printed_by("check", recipe, "--augmented", picture)
    for fact in (
        "36 images without a class",
        "2 views of each of 12 images without a class",
        "8 images of any class, in 2 views = 16 images",
        "changed by rotation, erasing",
        f"8 training images, 6 views of each, drawn in {picture}",
    ):
        assert fact in printed
    with Image.open(picture) as drawn:
        assert np.ptp(np.asarray(drawn.convert("L"))) > 200
    printed = printed_by("train", recipe, "--run", tmp_path / "run")
    assert "24 views of 12 unseen images, in percent" in printed
    run = Run(tmp_path / "run")
    metrics = run.folder.metrics()
    assert metrics["test"]["num_queries"] == 24 and metrics["num_train_images"] == 36
    assert metrics["test"]["recall_at_1"] == pytest.approx(metrics["test"]["map_at_r"])
    assert "how often a view finds the others of its image" in run.folder.report_path.read_text()
    sets = [set(images.class_names) for images in run.splits[:3]]
    assert len(set.union(*sets)) == sum(map(len, sets)) == 60


LOSSES_OF_VIEWS = {
    "self_supervised": "loss: {name: nt_xent}\nloss_wrapper: {name: self_supervised}",
    "sim_siam": "loss: {name: sim_siam, hidden_dim: 4}",
    "weighted_sum": "loss: {name: weighted_sum, terms: [{name: sim_siam}, {name: contrastive}]}",
}


@pytest.mark.parametrize("name", LOSSES_OF_VIEWS)
def test_losses_of_views_train_on_the_views_of_an_image(name, photos, write_recipe):
    text = ALONE.format(path=photos).replace("loss: {name: nt_xent, temperature: 0.1}", "")
    recipe = load_recipe(write_recipe(text + LOSSES_OF_VIEWS[name] + "\n"))
    splits = load_splits(recipe)
    images, labels = next(iter(ImageInputs(recipe).training_batches(splits.train)))
    learner = build_learner(recipe, len(splits.train.class_names), 1)
    embeddings = np.asarray(learner(images, training=False))
    loss = learner.embedding_loss
    value = float(loss(labels, embeddings))
    assert np.isfinite(value)
    if hasattr(loss, "views"):
        again = loss.views(embeddings[::2], embeddings[1::2])
        assert value == pytest.approx(float(again), rel=1e-4)
    learner.compile("adam", run_eagerly=True)
    before = [np.array(weight) for weight in learner.trainable_weights]
    assert np.isfinite(learner.train_on_batch(images, labels)).all()
    changed = [
        not np.array_equal(weight, old)
        for weight, old in zip(learner.trainable_weights, before, strict=True)
    ]
    assert np.mean(changed) > 0.5


def test_images_without_a_class_beside_labelled_ones(
    photos, digits, write_recipe, without_pages, tmp_path, printed_by
):
    recipe = write_recipe(BESIDE.format(path=digits, unlabelled=photos))
    printed = printed_by("train", recipe, "--run", tmp_path / "run")
    assert "60 images without a class also train" in printed
    assert "4 classes x 2 images + 6 images without class, in 2 views = 28 images" in printed
    run = Run(tmp_path / "run")
    loss = run.learner.embedding_loss
    assert isinstance(loss, SemiSupervisedLoss) and loss.num_labelled == 16
    assert loss.view_weight == 0.5 and loss.loss.num_classes == 4
    assert len(run.splits.unlabelled) == 60
    (photos / "0.png").rename(tmp_path / "0.png")
    try:
        with pytest.raises(ValueError, match=r"data.unlabelled=.* has other images\."):
            Run(tmp_path / "run").resume(epochs=2)
    finally:
        (tmp_path / "0.png").rename(photos / "0.png")


@pytest.mark.parametrize("text", [ALONE, BESIDE])
def test_cleaning_knows_which_images_have_no_class(text, digits, photos, write_recipe):
    path = digits if text is BESIDE else photos
    recipe = load_recipe(write_recipe(text.format(path=path, unlabelled=photos)))
    part = _of_recipe(recipe, "the run")
    without = [name for name, label in zip(part.paths, part.labels, strict=True) if label is None]
    assert sorted(without) == sorted(str(path) for path in photos.iterdir())
    assert len(set(part.paths)) == len(part.paths) == (260 if text is BESIDE else 60)


def test_other_systems_with_a_loss_of_views(digits, photos, write_recipe):
    memory = "loss: {name: contrastive}\nloss_wrapper: {name: cross_batch_memory, capacity: 64}\n"
    text = BESIDE.format(path=digits, unlabelled=photos)
    recipe = load_recipe(write_recipe(text.replace("loss: {name: proxy_anchor}\n", memory)))
    assert isinstance(build_learner(recipe, 4, 1).embedding_loss.loss, CrossBatchMemory)
    branches = "head: {name: coded_residual, num_prototypes: [4, 4], hidden_dim: 8}\n"
    weights = "loss_weights: {second: 0.1, views: 0.5}"
    recipe = load_recipe(
        write_recipe(branches + text.replace("loss_weights: {views: 0.5}", weights))
    )
    learner = build_learner(recipe, 4, 1)
    assert learner.loss_weights == {"first": 1.0, "second": 0.1, "regularizers": 1.0}
    assert all(loss.view_weight == 0.5 for loss in learner.named_losses.values())


def test_a_recipe_keeps_every_option_of_its_layers(tmp_path):
    (tmp_path / "a.yaml").write_text("data: {augmentation: [{name: erasing, factor: 0.5}]}")
    recipe = load_recipe(tmp_path / "a.yaml")
    assert recipe.data.augmentation == [
        {"name": "erasing", "factor": 0.5, "scale": [0.02, 0.33], "fill_value": None}
    ]
    save_recipe(recipe, tmp_path / "b.yaml")
    assert load_recipe(tmp_path / "b.yaml") == recipe
    options = ["--data.augmentation", "[{name: flip, mode: vertical}]"]
    assert load_recipe(tmp_path / "a.yaml", options).data.augmentation[0]["mode"] == "vertical"
