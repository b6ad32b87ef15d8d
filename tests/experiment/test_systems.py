"""The systems of the papers learn to tell characters apart that they were not trained on."""

import numpy as np
import pytest

from gsp_tf.data import ArrayImages
from gsp_tf.experiment import Run, Splits
from gsp_tf.recipe import load_recipe

RECIPE = """
data:
  image_size: 20
  channels: 1
  split_fractions: [0.4, 0.2, 0.4]
  classes_per_batch: 8
  images_per_class: 4
backbone: {name: conv4}
training: {epochs: 2, steps_per_epoch: 60, learning_rate: 0.002}
"""
SYSTEMS = {
    "gsp": "pooling: {name: gsp, num_prototypes: 16}",
    "agrouping": """
head: {name: attentive_grouping, num_groups: 4, key_dim: 16}
loss_wrapper: {name: grouped}
""",
    "crt": """
embedding: {second_dim: 96}
head: {name: coded_residual, num_prototypes: [16, 16], hidden_dim: 32}
loss: {name: multi_similarity}
loss_weights: {first: 1.0, second: 0.1}
""",
    "multihead": """
head: {name: global_local, key_dim: 16}
loss: {name: hybrid}
""",
}
PICTURES = {"gsp": "overlays", "agrouping": "overlays", "crt": "correlations"}


def ten_of_each_class(images):
    order = np.argsort(images.labels, kind="stable")
    kept = order[np.arange(len(images)) % 40 < 10]
    return ArrayImages(images.images[kept], images.labels[kept], images.class_names)


@pytest.mark.parametrize("name", SYSTEMS)
def test_a_system_learns_classes_that_it_has_not_seen(name, tmp_path):
    path = tmp_path / "recipe.yaml"
    path.write_text(RECIPE + SYSTEMS[name], encoding="utf-8")
    run = Run(tmp_path / "run", load_recipe(path, ["--name", name]))
    train, validation, test, _ = run.splits
    run.splits = Splits(train, ten_of_each_class(validation), ten_of_each_class(test))
    metrics = run.train().folder.metrics()
    untrained, test = metrics["untrained"], metrics["test"]
    assert metrics["best_val_map_at_r"] > 1.5 * untrained["val_map_at_r"]
    chance = 9 / (test["num_queries"] - 1)
    assert test["precision_at_1"] > 60 * chance
    page = run.report().read_text("utf-8")
    assert f'<section id="{PICTURES.get(name, "overlays")}">' in page
    assert ("group 4" in page) == (name == "agrouping")
