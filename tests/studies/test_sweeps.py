import dataclasses
import importlib

import numpy as np
import pytest

from gsp_tf.experiment import RunFolder
from gsp_tf.experiment.losses import complete_arguments
from gsp_tf.recipe import load_recipe

SWEEPS = {
    "sensitivity": ("ratio_variants", "grid_variants", "screening_variants"),
    "ccp": ("several_seeds", "one_seed"),
}


@pytest.mark.parametrize("name", SWEEPS)
def test_every_variant_is_a_recipe_of_its_own(name):
    script = importlib.import_module(name)
    recipes = {}
    for variants in SWEEPS[name]:
        for variant, options in getattr(script, variants)().items():
            assert variant not in recipes
            recipes[variant] = load_recipe(script.RECIPE, options)
    texts = [repr(recipe) for recipe in recipes.values()]
    assert len(texts) == len(set(texts))
    assert all(recipe.loss.name == "contrastive" for recipe in recipes.values())


def test_effects_are_those_of_a_linear_model():
    script = importlib.import_module("sensitivity")
    slopes = np.arange(1.0, 8.0)
    values = 5.0 + script.screening_levels() @ slopes / 2
    effects = script.effects(values)
    assert list(effects) == list(script.FACTORS)
    np.testing.assert_allclose(list(effects.values()), slopes, atol=1e-12)
    runs = np.array(
        [
            [flag in options for _, flag in script.FACTORS.values()]
            for options in script.screening_variants().values()
        ]
    )
    np.testing.assert_array_equal(runs, script.screening_levels() > 0)


@pytest.fixture
def complete(tmp_path):
    """A recipe, and complete runs of it with the seeds 0 and 1."""
    recipe = tmp_path / "tiny.yaml"
    recipe.write_text("training: {epochs: 1}")
    for seed in (0, 1):
        own = load_recipe(recipe, ["--name=before", f"--seed={seed}", "--data.path=elsewhere"])
        own = dataclasses.replace(own, loss=complete_arguments(own.loss))
        folder = RunFolder.create(tmp_path / f"a-{seed}", own)
        folder.update_metrics(test={"precision_at_1": 0.5, "map_at_r": 0.1 * seed})
    return recipe


def test_complete_runs_are_not_trained_again(complete, tmp_path):
    script = importlib.import_module("sweep")
    folders = script.sweep(complete, {"a": []}, (0, 1), tmp_path)
    assert script.retrieval_rows(folders) == [
        ("a", 0, "P@1", 50.0),
        ("a", 0, "MAP@R", 0.0),
        ("a", 1, "P@1", 50.0),
        ("a", 1, "MAP@R", 10.0),
    ]


def test_runs_of_another_recipe_are_refused(complete, tmp_path):
    script = importlib.import_module("sweep")
    with pytest.raises(ValueError, match="a-0 holds a run of another recipe"):
        script.sweep(complete, {"a": ["--training.epochs=2"]}, (0, 1), tmp_path)


def test_the_pictures_show_the_means():
    sensitivity, ccp = map(importlib.import_module, ("sensitivity", "ccp"))
    values = {name: {"MAP@R": {0: 1.0, 1: 3.0}} for name in sensitivity.ratio_variants()}
    values |= {name: {"MAP@R": {0: 7.5}} for name in sensitivity.grid_variants()}
    effects = dict(zip(sensitivity.FACTORS, range(-3, 4), strict=True))
    left, middle, right = sensitivity.picture(values, effects).axes
    np.testing.assert_array_equal(left.lines[-1].get_ydata(), 2.0)
    assert {text.get_text() for text in middle.texts} == {"7.5"}
    assert [bar.get_width() for bar in right.patches] == list(effects.values())[::-1]
    names = [*ccp.several_seeds(), *ccp.one_seed()]
    values = {name: {"MAP@R": {0: 40.0, 1: 60.0}, ccp.STEPS: {0: 300, 1: 500}} for name in names}
    left, middle, right = ccp.picture(values).axes
    assert {tuple(line.get_xdata()) for line in left.lines} == {(300, 500)}
    np.testing.assert_array_equal(middle.lines[0].get_ydata(), 50.0)
    np.testing.assert_array_equal(right.lines[0].get_ydata(), 40.0)


def test_a_variant_of_the_recipes_own_values_is_the_recipe():
    ccp = importlib.import_module("ccp")
    assert load_recipe(ccp.RECIPE, ccp.options_of(**ccp.CENTRE)) == load_recipe(
        ccp.RECIPE, ccp.TRAINERS["C2-CCP"]
    )
    assert ccp.name_of(**ccp.CENTRE) == "C2-CCP"
    assert load_recipe(ccp.RECIPE).data.images_per_class == ccp.IMAGES_PER_CLASS
