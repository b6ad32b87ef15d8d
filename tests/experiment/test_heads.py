"""Every pooling and every head of a recipe: built, with a gradient, and looked at."""

import re
import shlex
from pathlib import Path
from typing import get_args

import keras
import numpy as np
import pytest
import tensorflow as tf

from gsp_tf.experiment import place_maps
from gsp_tf.experiment.heads import GROUPINGS
from gsp_tf.experiment.model import build_embedder, build_learner
from gsp_tf.experiment.poolings import OF_KERAS, POOLINGS
from gsp_tf.recipe import (
    BackboneRecipe,
    DataRecipe,
    EmbeddingRecipe,
    HeadRecipe,
    LossRecipe,
    PoolingName,
    PoolingRecipe,
    Recipe,
    ZeroShotRecipe,
    load_recipe,
)

ROOT = Path(__file__).parents[2]

WIDE = ("net_vlad", "optimal_transport")
GROUPED = LossRecipe("class_margin", miner="distance_weighted", wrapper="grouped")
BRANCHES = HeadRecipe(
    "coded_residual", {"num_prototypes": [4, 3], "second_dim": 6, "hidden_dim": 5}
)


def recipe(dim=12, **sections):
    return Recipe(
        data=DataRecipe(image_size=16),
        backbone=BackboneRecipe("conv4"),
        **{"embedding": EmbeddingRecipe(dim), **sections},
    )


def grouping(name):
    arguments = {"attentive_grouping": {"key_dim": 4}, "linear_grouping": {}}
    return HeadRecipe(name, {"num_groups": 3, **arguments.get(name, {"hidden_dim": 4})})


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
    return learner, {m.name: float(m.result()) for m in learner.metrics} | {"loss": float(loss)}


def test_every_pooling_has_a_name():
    assert set(get_args(PoolingName)) == {*POOLINGS, *OF_KERAS}


@pytest.mark.parametrize("name", get_args(PoolingName))
def test_every_pooling_can_train(name):
    position = "after_pooling" if name in WIDE else "before_pooling"
    learner, _ = one_step(
        recipe(embedding=EmbeddingRecipe(12, position), pooling=PoolingRecipe(name))
    )
    embeddings = learner(batch()[0]).numpy()
    assert embeddings.shape == (8, 12)
    np.testing.assert_allclose(np.linalg.norm(embeddings, axis=1), 1, rtol=1e-5)
    weights = place_maps(learner.embedder, batch()[0]).weights
    if weights is not None:
        assert weights.shape == (8, 4, 4, 1)
        np.testing.assert_allclose(weights.sum((1, 2)), 1, rtol=1e-4)


@pytest.mark.parametrize("name", WIDE)
def test_a_pooling_that_makes_more_values_needs_a_map_after_it(name):
    with pytest.raises(ValueError, match=rf"{name} makes 768 values of 12: it needs embedding.pos"):
        build_embedder(recipe(pooling=PoolingRecipe(name)), channels=1)


@pytest.mark.parametrize("name", ["gsp", "gsp_max", "gsp_mean"])
def test_attributes_of_gsp_and_its_combinations(name):
    learner, values = one_step(recipe(pooling=PoolingRecipe(name), zero_shot=ZeroShotRecipe(0.1)))
    assert learner.embedder.output_shape == [(None, 12), (None, 64)] and values["attribute_loss"]


def test_a_recipe_sets_every_argument_of_the_zero_shot_loss():
    zero_shot = ZeroShotRecipe(0.3, 7, ridge=0.2, scale=1.0, reduction="sum_of_means")
    learner = build_learner(recipe(zero_shot=zero_shot), num_classes=4, channels=1)
    config = {"weight": learner.loss_weights["attribute"], **learner.attribute_loss.get_config()}
    assert vars(zero_shot).items() <= config.items()


@pytest.mark.parametrize(
    "sections", [{"pooling": PoolingRecipe("crow")}, {"head": grouping("linear_grouping")}]
)
def test_attributes_of_anything_else_are_refused(sections):
    with pytest.raises(ValueError, match="needs the attributes of pooling.name=gsp, gsp_max"):
        build_embedder(recipe(zero_shot=ZeroShotRecipe(0.1), **sections), channels=1)


@pytest.mark.parametrize("name", GROUPINGS)
def test_every_grouping_trains_on_its_groups(name):
    learner, _ = one_step(recipe(head=grouping(name), loss=GROUPED))
    assert len([v for v in learner.trainable_variables if v.path.endswith("betas")]) == 3
    groups = learner(batch()[0]).numpy().reshape(8, 3, 4)
    np.testing.assert_allclose(np.linalg.norm(groups, axis=-1), 3**-0.5, rtol=1e-5)
    weights = place_maps(learner.embedder, batch()[0]).weights
    assert weights.shape == (8, 4, 4, 3)
    np.testing.assert_allclose(weights.sum((1, 2)), 1, rtol=1e-4)


def test_both_branches_train_and_the_loss_is_the_total_loss():
    losses = {}
    loss = LossRecipe("multi_similarity", weights={"second": 0.1})
    for weight in (0.0, 1.0):
        weights = {"diversity_weight": weight, "consistency_weight": weight}
        head = HeadRecipe("coded_residual", {**BRANCHES.arguments, **weights})
        learner, values = one_step(recipe(head=head, loss=loss))
        losses[weight] = values
    assert learner.embedder.output_shape == [(None, 12), (None, 6)]
    metric = losses[0.0]["first_loss"] + 0.1 * losses[0.0]["second_loss"]
    np.testing.assert_allclose(losses[0.0]["loss"], metric, rtol=1e-5)
    assert losses[1.0]["loss"] > losses[0.0]["loss"] + 1e-3
    correlations = place_maps(learner.embedder, batch()[0]).correlations
    assert correlations.shape == (8, 4, 4, 4)


def ablations_of_crt():
    """Options by row of the table of ablations in docs/crt.md."""
    page = (ROOT / "docs/crt.md").read_text("utf-8")
    rows = re.findall(r"^\| ([\d, ]+\|[^|]+) \| (?:none|`(--.*)`) \|$", page, re.MULTILINE)
    assert len(rows) == 7
    return dict(rows)


@pytest.mark.parametrize("row", ablations_of_crt())
def test_every_ablation_of_crt_trains(row):
    options = [*shlex.split(ablations_of_crt()[row]), "--data.image_size=16"]
    small = ["--embedding.dim=6", "--training.jit_compile=false"]
    ablation = load_recipe(ROOT / "experiments/methods/crt.yaml", [*options, *small])
    head = ablation.head.name
    sizes = {"second_dim": 8, "hidden_dim": 4}
    ablation.head.arguments.update(
        {name: size for name, size in sizes.items() if name in ablation.head.arguments}
    )
    learner, values = one_step(ablation)
    shapes = (None, 6) if head == "pooling" else [(None, 6), (None, 8)]
    assert learner.embedder.output_shape == shapes
    assert ("second_loss" in values) == (head != "pooling")
    assert (head == "coded_residual") == ("CRT" not in row)


@pytest.mark.parametrize(
    ("backbone", "heads", "side"),
    [
        ("conv4", "both", 4),
        ("resnet20", "both", 8),
        ("resnetv2_20", "both", 8),
        ("resnet20", "global", 4),
        ("resnet20", "local", 8),
        ("resnet20", "single", 4),
    ],
)
def test_the_two_heads_train(backbone, heads, side):
    arguments = {"key_dim": 4, "heads": heads}
    sections = recipe(head=HeadRecipe("global_local", arguments), loss=LossRecipe("hybrid"))
    sections.backbone.name = backbone
    learner, _ = one_step(sections)
    assert place_maps(learner.embedder, batch()[0]).weights.shape == (8, side, side, 1)


def test_the_two_heads_train_without_attention():
    head = HeadRecipe("global_local", {"key_dim": 4, "attention": False})
    learner, _ = one_step(recipe(head=head, loss=LossRecipe("hybrid")))
    assert place_maps(learner.embedder, batch()[0]).weights is None


@pytest.mark.parametrize(
    ("sections", "message"),
    [
        ({"head": grouping("linear_grouping")}, "needs loss.wrapper=grouped.*wrapper=none with 3"),
        ({"loss": GROUPED}, "received loss.wrapper=grouped with no groups"),
        (
            {"head": HeadRecipe("linear_grouping", {"num_groups": 5}), "loss": GROUPED},
            "embedding.dim=12 does not divide into head.arguments.num_groups=5",
        ),
        (
            {"head": HeadRecipe("linear_grouping", {"key_dim": 5}), "loss": GROUPED},
            "head.arguments must be among num_groups, received key_dim",
        ),
        ({"head": HeadRecipe("coded_residual")}, "head.arguments must give num_prototypes, hid"),
        (
            {"head": HeadRecipe("dense_branches", {"num_prototypes": [4, 4]})},
            "head.arguments must be among consistency_weight, received num_prototypes",
        ),
        ({"pooling": PoolingRecipe("weldon", {"k": 5})}, "must be among k_max, k_min, received k"),
        ({"pooling": PoolingRecipe("gap", {"k": 5})}, "must be among none, received k"),
    ],
)
def test_what_does_not_fit_together_is_refused(sections, message):
    with pytest.raises(ValueError, match=message):
        build_learner(recipe(**sections), num_classes=4, channels=1)


def test_a_pooling_has_its_arguments_in_its_own_section():
    with pytest.raises(ValueError, match="empty with head.name=pooling, which has pooling.arg"):
        HeadRecipe("pooling", {"p": 3.0})
