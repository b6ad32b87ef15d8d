import types

import numpy as np

from gsp_tf.recipe import load_recipe


def test_every_variant_is_a_recipe_of_its_own(script):
    file = script.ROOT / "experiments/gsp_sharpness.yaml"
    recipes = {title: load_recipe(file, options) for title, (_, options) in script.VARIANTS.items()}
    pooling = recipes[script.DEFAULTS].pooling
    assert pooling.name == "gsp" and pooling.arguments["entropy_smoothing"] == 5.0
    assert recipes[script.DEFAULTS].training.adapt_batches == 0
    assert len({repr(recipe) for recipe in recipes.values()}) == len(script.VARIANTS)


def test_gains_are_over_the_defaults_of_the_same_seed(script):
    rows = [
        (script.DEFAULTS, 0, "MAP@R", 4.0),
        (script.DEFAULTS, 1, "MAP@R", 6.0),
        ("ε 20", 0, "P@1", 50.0),
        ("ε 20", 0, "MAP@R", 5.0),
        ("ε 20", 1, "MAP@R", 4.5),
    ]
    name = "MAP@R over defaults"
    assert script.gains(rows) == [("ε 20", 0, name, 1.0), ("ε 20", 1, name, -1.5)]


def test_the_spread_is_that_of_weight_over_average_weight(script, monkeypatch):
    average = np.full((3, 2, 4), 1 / 8)
    halves = np.tile([[0.0, 0.25]], (3, 4, 1))
    weights = {"GAP": average, script.DEFAULTS: halves}
    run = types.SimpleNamespace(
        recipe=lambda: None, learner=lambda compile: types.SimpleNamespace(embedder="GAP")
    )
    other = types.SimpleNamespace(
        recipe=lambda: None, learner=lambda compile: types.SimpleNamespace(embedder=script.DEFAULTS)
    )
    monkeypatch.setattr(script, "load_splits", lambda recipe: types.SimpleNamespace(test="images"))
    monkeypatch.setattr(script, "weights_of", lambda name, recipe, images: (None, weights[name]))
    rows = list(script.sharpness_rows({("GAP", 0): run, (script.DEFAULTS, 0): other}))
    name = "std of weight / average"
    assert rows == [("GAP", 0, name, 0.0), (script.DEFAULTS, 0, name, 1.0)]
