import importlib

import numpy as np
import pytest

from gsp_tf.recipe import load_recipe, resolved
from gsp_tf.runs import RunFolder

SWEEPS = {
    "sensitivity": ("ratio_variants", "grid_variants", "screening_variants"),
    "ccp": ("variants",),
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
        own = resolved(own)
        folder = RunFolder.create(tmp_path / f"a-{seed}", own)
        folder.update_metrics(test={"precision_at_1": 0.5, "map_at_r": 0.1 * seed})
    return recipe


def test_complete_runs_are_not_trained_again(complete, tmp_path):
    script = importlib.import_module("sweep")
    ended = []
    folders = script.sweep(
        complete, {"a": []}, (0, 1), tmp_path, ended=lambda *run: ended.append(run)
    )
    assert ended == list(folders.items())
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
    values = {name: {"MAP@R": {0: 40.0, 1: 60.0}} for name in ccp.variants()}
    steps = {"C2-CCP": {"problem 1": {0: 50, 1: 260}, "problem 2": {0: 225}}}
    weights, pools, batches, histogram = ccp.picture(values, steps).axes
    for axes in (weights, pools, batches):
        np.testing.assert_array_equal(axes.lines[0].get_ydata(), 50.0)
    assert [bar.get_height() for bar in histogram.patches] == [1, 0, 2]


def test_steps_are_those_of_the_problems():
    ccp = importlib.import_module("ccp")

    class Folder:
        def __init__(self, *steps):
            self.steps = steps

        def metrics(self):
            problems = [{"steps": steps} for steps in self.steps]
            return {"best_epoch": 4} | ({"projections": problems} if problems else {})

    folders = {
        ("C2", 0): Folder(),
        ("C2-CCP", 0): Folder(300, 100),
        ("C2-single", 1): Folder(900),
    }
    assert list(ccp.step_rows(folders)) == [
        ("C2", 0, "steps to the best", 100),
        ("C2-CCP", 0, "steps to the best", 100),
        ("C2-CCP", 0, "problems", 2),
        ("C2-CCP", 0, "steps per problem", 200),
        ("C2-single", 1, "steps to the best", 100),
        ("C2-single", 1, "problems", 1),
        ("C2-single", 1, "steps per problem", 900),
    ]
    assert list(ccp.problem_rows(folders)) == [
        ("C2-CCP", 0, "problem 1", 300),
        ("C2-CCP", 0, "problem 2", 100),
    ]


def test_geometry_is_of_all_numbers_of_centres_and_all_pairs_of_classes():
    ccp = importlib.import_module("ccp")
    rng = np.random.default_rng(0)
    points, labels = rng.normal(size=(9, 2)), np.array([4, 7, 4, 7, 4, 7, 9, 9, 9])
    radii, apart = [], []
    for label in (4, 7, 9):
        own = points[labels == label]
        first, second, third = own
        # The second centre is the farthest point from the first one, and three cover all.
        to_first = [np.linalg.norm(point - first) for point in own]
        rest = second if to_first[1] < to_first[2] else third
        chosen = third if rest is second else second
        radii += [max(to_first), min(np.linalg.norm(rest - c) for c in (first, chosen)), 0.0]
        apart += [np.linalg.norm(a - b) for a in own for b in points[labels != label]]
    measured = ccp.geometry(points, labels)
    assert measured["covering radius"] == pytest.approx(np.mean(radii))
    assert measured["distance between classes"] == pytest.approx(np.mean(apart))


def test_a_variant_of_the_centre_is_plain_ccp():
    ccp = importlib.import_module("ccp")
    recipe = load_recipe(ccp.RECIPE, ccp.options_of())
    assert load_recipe(ccp.RECIPE, ccp.options_of(**ccp.CENTRE)) == recipe
    assert ccp.name_of(**ccp.CENTRE) == "C2-CCP"
    assert recipe.data.images_per_class == ccp.IMAGES_PER_CLASS
    assert recipe.training.steps_per_epoch == ccp.STEPS_PER_EPOCH
    single = load_recipe(ccp.RECIPE, ccp.options_of("C2-single"))
    assert single.ccp.patience >= single.training.epochs and single.ccp.max_projections == 1
