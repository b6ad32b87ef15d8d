"""Every pooling and every head of a recipe: built, with a gradient, and looked at."""

import re
import shlex
from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf

from gsp_tf._names import NAMES
from gsp_tf.recipe import (
    BackboneRecipe,
    ClassRecipe,
    DataRecipe,
    EmbeddingRecipe,
    Recipe,
    ZeroShotRecipe,
    load_recipe,
)
from gsp_tf.runs import place_maps
from gsp_tf.runs.model import build_embedder, build_learner

ROOT = Path(__file__).parents[2]

WIDE = ("net_vlad", "optimal_transport")
GROUPED = {
    "loss": ClassRecipe("class_margin"),
    "miner": ClassRecipe("distance_weighted"),
    "loss_wrapper": ClassRecipe("grouped"),
}
KEYS = {"key_dim": 4}


def recipe(dim=12, **sections):
    return Recipe(
        data=DataRecipe(image_size=16),
        **{"backbone": BackboneRecipe("conv4"), "embedding": EmbeddingRecipe(dim), **sections},
    )


def batch():
    images = np.random.default_rng(0).uniform(0, 255, (8, 16, 16, 1)).astype("float32")
    return images, np.arange(8) % 4


def one_step(recipe):
    """A learner, and its losses in training; every trainable weight of its head gets a gradient."""
    keras.utils.set_random_seed(0)
    learner = build_learner(recipe, num_classes=4, channels=1)
    images, labels = batch()
    with tf.GradientTape() as tape:
        loss = learner.compute_loss(y=labels, y_pred=learner(images, training=True))
    gradients = tape.gradient(loss, learner.trainable_variables)
    assert np.isfinite(loss) and all(gradient is not None for gradient in gradients)
    values = map(tf.convert_to_tensor, gradients)
    assert np.mean([bool(tf.reduce_any(value != 0)) for value in values]) > 0.5
    metrics = {metric.name: float(metric.result()) for metric in learner.metrics}
    return learner, {**metrics, "loss": float(loss)}


@pytest.mark.parametrize("name", NAMES["pooling"])
def test_every_pooling_can_train(name):
    position = "after_pooling" if name in WIDE else "before_pooling"
    learner, _ = one_step(
        recipe(embedding=EmbeddingRecipe(12, position), pooling=ClassRecipe(name))
    )
    embeddings = learner(batch()[0]).numpy()
    assert embeddings.shape == (8, 12)
    np.testing.assert_allclose(np.linalg.norm(embeddings, axis=1), 1, rtol=1e-5)
    weights = place_maps(learner.embedder, batch()[0]).weights
    if weights is not None:
        assert weights.shape == (8, 4, 4, 1)
        np.testing.assert_allclose(weights.sum((1, 2)), 1, rtol=1e-4)


@pytest.mark.parametrize("position", ["before_pooling", "after_pooling"])
@pytest.mark.parametrize("kind", ["linear", "mlp", None])
def test_an_embedding_without_a_dimension_starts_as_the_mean_of_the_features(kind, position):
    chosen = recipe(embedding=EmbeddingRecipe(None, position, kind), pooling=ClassRecipe("gap"))
    embedder = build_embedder(chosen, channels=1)
    local = keras.ops.convert_to_numpy(embedder.get_layer("conv4")(batch()[0]))
    expected = local.mean((1, 2))
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    np.testing.assert_allclose(embedder(batch()[0]), expected, atol=1e-5)
    sizes = {"linear": 1, "mlp": 2, None: 0}
    own = [weight.path for weight in embedder.weights if "embedding" in weight.path]
    assert len([path for path in own if "kernel" in path]) == sizes[kind]
    again = keras.saving.deserialize_keras_object(keras.saving.serialize_keras_object(embedder))
    assert again.output_shape == (None, 64)


def test_the_two_heads_need_a_part_of_the_network_to_train():
    sections = {"head": ClassRecipe("global_local", KEYS), "loss": ClassRecipe("hybrid")}
    frozen = BackboneRecipe("conv4", frozen_to="network")
    with pytest.raises(ValueError, match="there are block_1, block_2, received 'network'"):
        build_learner(recipe(backbone=frozen, **sections), 4, 1)


@pytest.mark.parametrize("name", WIDE)
def test_a_pooling_that_makes_more_values_needs_a_map_after_it(name):
    with pytest.raises(ValueError, match=rf"{name} makes 768 values of 12: it needs embedding.pos"):
        build_embedder(recipe(pooling=ClassRecipe(name)), channels=1)


def test_a_recipe_sets_every_argument_of_the_zero_shot_loss():
    zero_shot = ZeroShotRecipe(0.3, 7, ridge=0.2, scale=1.0, reduction="sum_of_means")
    learner = build_learner(recipe(zero_shot=zero_shot), num_classes=4, channels=1)
    config = {"weight": learner.loss_weights["attribute"], **learner.attribute_loss.get_config()}
    assert vars(zero_shot).items() <= config.items()


@pytest.mark.parametrize("name", [x for x in NAMES["head"] if x.endswith("_grouping")])
def test_every_grouping_trains_on_its_groups(name):
    arguments = {"attentive_grouping": KEYS, "linear_grouping": {}}.get(name, {"hidden_dim": 4})
    head = ClassRecipe(name, {"num_groups": 3, **arguments})
    learner, _ = one_step(recipe(head=head, **GROUPED))
    assert len([v for v in learner.trainable_variables if v.path.endswith("betas")]) == 3
    groups = learner(batch()[0]).numpy().reshape(8, 3, 4)
    np.testing.assert_allclose(np.linalg.norm(groups, axis=-1), 3**-0.5, rtol=1e-5)
    weights = place_maps(learner.embedder, batch()[0]).weights
    assert weights.shape == (8, 4, 4, 3)
    np.testing.assert_allclose(weights.sum((1, 2)), 1, rtol=1e-4)


# Options by row of the table of ablations.
PAGE = (ROOT / "docs/crt.md").read_text("utf-8")
ABLATIONS = dict(re.findall(r"^\| ([\d, ]+\|[^|]+) \| (?:none|`(--.*)`) \|$", PAGE, re.MULTILINE))


@pytest.mark.parametrize("row", ABLATIONS)
def test_every_ablation_of_crt_trains(row):
    assert len(ABLATIONS) == 7
    options = [*shlex.split(ABLATIONS[row]), "--data.image_size=16"]
    small = ["--embedding.dim=6", "--training.jit_compile=false"]
    branched = "--head null" not in " ".join(options)
    small += ["--embedding.second_dim=8" if branched else "--embedding.second_dim=null"]
    ablation = load_recipe(ROOT / "experiments/methods/crt.yaml", [*options, *small])
    head = None if ablation.head is None else ablation.head.name
    if head == "coded_residual":
        ablation.head.arguments["hidden_dim"] = 4
    learner, values = one_step(ablation)
    shapes = (None, 6) if head is None else [(None, 6), (None, 8)]
    assert learner.embedder.output_shape == shapes
    assert ("second_loss" in values) == (head is not None)
    assert (head == "coded_residual") == ("CRT" not in row)


@pytest.mark.parametrize(
    ("backbone", "arguments", "side"),
    [
        ("resnet20", {}, 8),
        ("conv4", {"heads": "global"}, 4),
        ("conv4", {"attention": False}, None),
    ],
)
def test_the_two_heads_train(backbone, arguments, side):
    head = ClassRecipe("global_local", {**KEYS, **arguments})
    sections = {"backbone": BackboneRecipe(backbone), "head": head, "loss": ClassRecipe("hybrid")}
    learner, _ = one_step(recipe(**sections))
    weights = place_maps(learner.embedder, batch()[0]).weights
    assert (weights is None) if side is None else weights.shape == (8, side, side, 1)
