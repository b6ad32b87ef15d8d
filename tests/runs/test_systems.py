"""The systems of the papers learn to tell characters apart that they were not trained on."""

import numpy as np
import pytest

from gsp_tf.data import ArrayImages
from gsp_tf.recipe import load_recipe
from gsp_tf.runs import Run

RECIPE = """
data:
  image_size: 20
  channels: 1
  split_fractions: [0.4, 0.2, 0.4]
  classes_per_batch: 8
  images_per_class: 4
backbone: {name: conv4}
training: {epochs: 2, learning_rate: 0.002}
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


@pytest.fixture(scope="module", autouse=True)
def eager_functions():
    """These runs train for long, with graphs."""


STEPS = {"gsp": 50, "agrouping": 45, "crt": 30, "multihead": 45}


def some_of_each_class(images, number):
    order = np.argsort(images.labels, kind="stable")
    kept = order[np.arange(len(images)) % 40 < number]
    return ArrayImages(images.images[kept], images.labels[kept], images.class_names)


# Their heads train in the tests of heads and layers.
LONGEST = [pytest.param(name, marks=pytest.mark.evidence) for name in ("agrouping", "multihead")]


@pytest.mark.parametrize("name", ["gsp", "crt", *LONGEST])
def test_a_system_learns_classes_that_it_has_not_seen(name, tmp_path, monkeypatch):
    monkeypatch.setattr("gsp_tf.visual.plane.FEWEST_FOR_TSNE", np.inf)
    path = tmp_path / "recipe.yaml"
    path.write_text(RECIPE + SYSTEMS[name], encoding="utf-8")
    run = Run(
        tmp_path / "run",
        load_recipe(path, ["--name", name, "--training.steps_per_epoch", str(STEPS[name])]),
    )
    few = {
        part: some_of_each_class(getattr(run.splits, part), number)
        for part, number in {"validation": 10, "test": 20}.items()
    }
    run.splits = run.splits._replace(**few)
    metrics = run.train().folder.metrics()
    untrained, test = metrics["untrained"], metrics["test"]
    assert metrics["best_val_map_at_r"] > 1.5 * untrained["val_map_at_r"]
    chance = 19 / (test["num_queries"] - 1)
    assert test["precision_at_1"] > 60 * chance
    page = run.report().read_text("utf-8")
    assert f'<section id="{"correlations" if name == "crt" else "overlays"}">' in page
    assert ("group 4" in page) == (name == "agrouping")
