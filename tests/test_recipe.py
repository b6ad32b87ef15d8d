from pathlib import Path

import pytest

from gsp_tf.experiment import build_learner
from gsp_tf.recipe import Recipe, load_recipe, save_recipe

EXPERIMENTS = Path(__file__).parent.parent / "experiments"


@pytest.mark.parametrize("path", sorted(EXPERIMENTS.glob("*.yaml")), ids=lambda path: path.stem)
def test_every_recipe_builds_its_learner(path):
    recipe = load_recipe(path)
    learner = build_learner(recipe, num_classes=20, channels=1)
    assert learner.embedder.output_names


def test_a_pair_of_recipes_differs_in_the_pooling_only():
    gap, gsp = (
        load_recipe(EXPERIMENTS / f"omniglot_collage_{name}.yaml") for name in ("gap", "gsp")
    )
    assert (gap.data, gap.backbone, gap.embedding) == (gsp.data, gsp.backbone, gsp.embedding)
    assert (gap.loss, gap.training, gap.evaluation) == (gsp.loss, gsp.training, gsp.evaluation)


def test_round_trip_of_a_resolved_recipe(tmp_path):
    recipe = load_recipe(EXPERIMENTS / "demo.yaml", ["--pooling.transport_ratio", "0.2"])
    assert recipe.pooling.transport_ratio == 0.2
    save_recipe(recipe, tmp_path / "recipe.yaml")
    assert load_recipe(tmp_path / "recipe.yaml") == recipe
    assert [path.name for path in tmp_path.iterdir()] == ["recipe.yaml"]


def test_every_field_has_a_help_text(capsys):
    from jsonargparse import ArgumentParser

    from gsp_tf.recipe import add_recipe_arguments

    parser = ArgumentParser()
    add_recipe_arguments(parser)
    undocumented = [
        action.dest
        for action in parser._actions
        if action.option_strings and "." in action.dest and not action.help
    ]
    assert not undocumented
    assert Recipe().pooling.transport_ratio == 0.3
