"""Runs that adapt a network: what trains, what is saved, and that a stop changes nothing."""

from dataclasses import replace

import keras
import numpy as np
import pytest
from digit_runs import interrupted_in
from tensorflow.python.framework.config import disable_op_determinism

from gsp_tf._keras import is_of_lora
from gsp_tf.export import export_run
from gsp_tf.recipe import LoRARecipe, load_recipe
from gsp_tf.runs import Run, build_learner
from gsp_tf.runs._initial import start_from
from gsp_tf.runs._training import warm_up
from gsp_tf.runs.model import compile_learner
from gsp_tf.search import RunModel
from gsp_tf.training import SaveBest

ALL = """
backbone: {{name: conv4, lora: {{rank: 2, alpha: 4, layers: ["conv2d"]}}}}
loss: {{name: contrastive}}
trainer: {trainer}
ccp: {{proxies_per_class: 2, pool_size: 3, patience: 1}}
training:
  epochs: 3
  steps_per_epoch: 2
  optimizer: lion
  optimizer_arguments: {{beta_1: 0.8}}
  learning_rate: 0.01
  lowest_layer_multiplier: 0.5
  warmup_epochs: 1
  warmup_steps: 2
  ema_momentum: 0.9
  gradient_accumulation_steps: 2
  chunk_size: 8
  deterministic: true
"""


def train(run, method="train"):
    try:
        return getattr(run, method)()
    finally:
        disable_op_determinism()


@pytest.fixture(scope="module", params=["fit", pytest.param("ccp", marks=pytest.mark.evidence)])
def tuned(request, write_recipe, tmp_path_factory):
    """A finished run with every way of fine-tuning at once."""
    recipe = load_recipe(write_recipe(ALL.format(trainer=request.param)))
    return train(Run(tmp_path_factory.mktemp("runs") / "run", recipe))


def test_a_stopped_run_ends_as_if_it_had_not_been(tuned, tmp_path):
    with interrupted_in(2):
        stopped = train(Run(tmp_path / "stopped", tuned.recipe), "fit")
    assert (stopped.status, stopped.folder.metrics()["epochs"]) == ("interrupted", 2)
    resumed = train(Run(tmp_path / "stopped"), "resume")
    assert resumed.folder.history() == tuned.folder.history()
    assert resumed.folder.metrics()["test"] == tuned.folder.metrics()["test"]
    for ours, theirs in zip(resumed.learner.weights, tuned.learner.weights, strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_the_saved_model_is_plain_and_its_export_gives_the_same(tuned, tmp_path):
    embedder, backbone = tuned.learner.embedder, tuned.recipe.backbone
    assert not any(is_of_lora(variable) for variable in embedder.variables)
    plain = replace(tuned.recipe, backbone=replace(backbone, lora=LoRARecipe()))
    assert embedder.count_params() == learner_of(plain).embedder.count_params()
    folder = export_run(tuned.folder.path, "keras", tmp_path / "exported")
    exported = keras.models.load_model(folder / "embedder.keras")
    images = np.random.default_rng(0).uniform(0, 255, (4, 16, 16, 1))
    np.testing.assert_allclose(exported(images), embedder(images), atol=1e-5)
    assert not tuned.folder.learner().compiled
    assert RunModel(tuned.folder.path).dim == 8


def learner_of(recipe):
    return build_learner(recipe, num_classes=4, channels=1)


@pytest.fixture(scope="module")
def recipe(write_recipe):
    return load_recipe(write_recipe(ALL.format(trainer="fit")))


def test_the_warm_up_leaves_frozen_what_was_frozen(recipe, tmp_path):
    learner = learner_of(recipe)
    backbone = next(x for x in learner.embedder.layers if isinstance(x, keras.Model))
    adapted = [v.path for v in backbone.trainable_variables]
    assert {path.split("/")[-1] for path in adapted} == {"lora_kernel_a", "lora_kernel_b"}
    assert len(adapted) == 8
    modes = [layer.trainable for layer in backbone.layers]
    best = SaveBest(tmp_path / "best.keras")
    best.set_model(learner)
    with warm_up(recipe.training, learner, best) as save_best:
        assert not backbone.trainable_variables and learner.trainable_variables
        best._is_due = True
        save_best.on_epoch_begin(0)
        assert not backbone.trainable_variables
    assert [v.path for v in backbone.trainable_variables] == adapted
    assert [layer.trainable for layer in backbone.layers] == modes
    assert best.path.exists()


def test_an_adapted_network_starts_as_the_run_that_it_comes_from(trained):
    there = Run(trained.path)
    backbone = replace(there.recipe.backbone, lora=LoRARecipe(rank=2))
    recipe = replace(there.recipe, backbone=backbone, initial_run=str(trained.path))
    embedder = learner_of(recipe).embedder
    start_from(recipe, embedder)
    images = np.random.default_rng(0).uniform(0, 255, (4, 16, 16, 1))
    for ours, theirs in zip(embedder(images), there.learner.embedder(images), strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-6)


def test_the_averages_of_a_learning_that_is_free_of_schedules_begin_at_the_weights(write_recipe):
    """ScheduleFreeAdamW keeps the weights that it is built with: those after they are loaded."""
    options = ["--training.optimizer", "schedule_free_adamw", "--training.epochs", "1"]
    learner = learner_of(load_recipe(write_recipe(), options))
    for variable in learner.trainable_variables:
        variable.assign(variable + 1.0)
    compile_learner(learner, load_recipe(write_recipe(), options))
    for variable, momentum in zip(
        learner.trainable_variables, learner.optimizer._momentums, strict=True
    ):
        np.testing.assert_array_equal(momentum, variable)
