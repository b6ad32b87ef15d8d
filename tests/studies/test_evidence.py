import importlib
from dataclasses import replace

import numpy as np
import pytest

from gsp_tf.recipe import load_recipe
from gsp_tf.runs import RunFolder, build_learner


@pytest.fixture
def plan():
    return importlib.import_module("evidence_plan")


def tables(plan):
    """Files and rows of every table."""
    dose = [(share, 160) for share in plan.SHARES] + [(0.4, size) for size in (96, 224)]
    return [
        (plan.COLLAGE, plan.collage_rows()),
        (plan.COLLAGE, plan.pooling_rows()),
        (plan.COLLAGE, plan.cause_rows()),
        (plan.CARS, plan.cars_rows() | plan.sharp_rows() | plan.system_rows() | plan.ccp_rows()),
        (plan.CARS, plan.fast_head_rows() | plan.ccp_cause_rows()),
        (plan.CARS, plan.cars_pooling_rows(plan.POOLINGS)),
        (plan.WHOLE, plan.whole_rows()),
        (plan.WHOLE, plan.tuning_rows()),
        (plan.CARS, plan.loss_rows("cars")),
        (plan.COLLAGE, plan.loss_rows("collage")),
        (plan.CANVAS, plan.upper_rows() | plan.warm_rows()),
        *((plan.CANVAS, plan.dose_rows(*place)) for place in dose),
    ]


def test_every_row_is_a_recipe_of_its_own(script, plan):
    recipes = {}
    for files, rows in tables(plan):
        assert not set(rows) & set(recipes)
        found = {name: script.recipe_of(files, options) for name, options in rows.items()}
        assert len({repr(recipe) for recipe in found.values()}) == len(found)
        recipes |= found
    for name, recipe in recipes.items():
        data, group = recipe.data, name.partition("-")[0]
        batch = 60 if name.startswith("cars_crt") else 64
        assert data.classes_per_batch * data.images_per_class == batch
        assert (data.canvas.name == "cifar100") == ("dose" in group)
        assert recipe.embedding.dim == (None if name.endswith("-wide-head") else 128)
        is_whole = group.startswith(("collage", "whole", "tuning"))
        assert (recipe.backbone.frozen_to is None) == (is_whole and not name.endswith("-head"))


def test_the_numbers_are_those_of_the_thesis(script, plan):
    def gsp(name, rows, files):
        recipe = script.recipe_of(files, rows[name])
        numbers = ("num_prototypes", "transport_ratio", "entropy_smoothing")
        chosen = [recipe.zero_shot.weight, recipe.zero_shot.scale]
        return [recipe.pooling.arguments[key] for key in numbers] + chosen

    collage, cars = plan.collage_rows(), plan.cars_rows()
    assert gsp("collage_pnca-gsp-zs", collage, plan.COLLAGE) == [64, 0.2, 10, 0.5, 1]  # 5.3.2, 4.4
    assert gsp("collage_c2-gsp", collage, plan.COLLAGE)[:4] == [64, 0.2, 10, 0]
    for loss, smoothing in (("c2", 5), ("ms", 5), ("pnca", 0.5), ("pa", 0.5)):  # 5.2.4
        assert gsp(f"cars_{loss}-gsp-zs", cars, plan.CARS)[:4] == [64, 0.3, smoothing, 0.1]
    ccp = script.recipe_of(plan.CARS, plan.ccp_rows()["ccp_ms-ccp"])  # 3.3.2.1
    assert (ccp.trainer, ccp.ccp.proxies_per_class, ccp.ccp.patience) == ("ccp", 8, 3)
    assert ccp.training.steps_per_epoch == 25
    assert ccp.loss.arguments | {"alpha": 14.35, "beta": 75.83, "base": 0.66} == ccp.loss.arguments


def test_a_table_has_the_same_steps(script, plan):
    for files, rows in tables(plan)[:2] + tables(plan)[6:]:
        recipes = [script.recipe_of(files, options) for options in rows.values()]
        trained = {(r.training.epochs, r.training.steps_per_epoch) for r in recipes}
        assert len(trained) == 1
    rows = plan.ccp_rows().values()
    recipes = [script.recipe_of(plan.CARS, options) for options in rows]
    assert {r.training.epochs * r.training.steps_per_epoch for r in recipes} == {600}


def test_rows_are_chosen_by_their_mean_on_validation_classes(script, tmp_path):
    table = script.Table(tmp_path / "collage.csv", tmp_path)
    found = {"c2-max": 5, "pnca-max": 1, "c2-delf": 4, "pnca-delf": 4, "c2-gap": 9}
    rows = [(f"collage_{name}", 0, script.VALIDATION, value) for name, value in found.items()]
    script.records.add(table.path, rows)
    assert table.best(("max", "delf"), 2) == ["delf", "max"]
    with pytest.raises(ValueError, match="no numbers of solar to choose from"):
        table.best(("max", "solar"))
    kept = script.ending({"collage_c2-max": 1, "collage_c2-delf": 2}, ["delf"])
    assert kept == {"collage_c2-delf": 2}


def test_a_table_trains_what_its_file_lacks(script, tmp_path, monkeypatch):
    trained = []

    class Run:
        def metrics(self):
            test = {"precision_at_1": 0.5, "map_at_r": 0.25}
            return {"test": test, "best_val_map_at_r": 0.3, "best_epoch": 2, "epochs": 3}

        def recipe(self):
            return load_recipe([])

    def sweep(files, variants, seeds, runs, jobs, ended):
        for name in variants:
            trained.append((name, *seeds))
            ended((name, *seeds), Run())

    monkeypatch.setattr(script, "sweep", sweep)
    table = script.Table(tmp_path / "cars.csv", tmp_path)
    rows = {"cars-a": ["--embedding.dim=8"], "cars-b": []}
    table.train([], {"cars-a": rows["cars-a"]}, (0,))
    table.train([], rows, (0, 1), [lambda name, seed, run: [(name, seed, "more", 7)]])
    assert trained == [("cars-a", 0), ("cars-b", 0), ("cars-a", 1), ("cars-b", 1)]
    measured = script.records.read(table.path)["cars-a"]
    assert measured["MAP@R"] == {0: 25.0, 1: 25.0} and measured["more"] == {1: 7.0}
    table.train([], rows | {"cars-a": ["--data.path=elsewhere", "--embedding.dim=8"]}, (0, 1))
    assert len(trained) == 4
    with pytest.raises(ValueError, match="another recipe for cars-a and seed 0"):
        table.train([], {"cars-a": ["--embedding.dim=16"]}, (0,))


@pytest.fixture
def cluttered(digits, tmp_path):
    """A recipe of digits on canvases of digits, which conv4 embeds."""
    path = tmp_path / "recipe.yaml"
    path.write_text(
        f"data: {{name: folder, path: '{digits}', image_size: 24, channels: 1, "
        "classes_per_batch: 3, canvas: {"
        f"name: folder, path: '{digits}', share: 0.5, tile_size: 8}}}}\n"
        "protocol: {name: ablation}\nbackbone: {name: conv4}\n"
    )
    return load_recipe(path)


def test_frozen_networks_are_measured_once(script, cluttered, tmp_path, monkeypatch):
    table = script.Table(tmp_path / "cars.csv", tmp_path)
    table.frozen("cars", cluttered)
    measured = table.values
    assert set(measured["cars-frozen"]) == {"P@1", "MAP@R"}
    assert 10 < measured["cars-frozen"]["P@1"][0] <= 100
    monkeypatch.setattr(script, "frozen_metrics", None)
    table.frozen("cars", cluttered)
    assert table.values == measured


class Run:
    """What the rows of a table read from a `RunFolder`, with a network that was not trained."""

    def __init__(self, recipe):
        self._recipe = recipe

    def recipe(self):
        return self._recipe

    def learner(self, compile):
        return build_learner(self._recipe, 3, channels=1)


def test_weights_on_the_objects_are_those_of_gsp(script, cluttered, monkeypatch):
    monkeypatch.setattr(script, "WEIGHED", 5)
    averaged = replace(cluttered, pooling=replace(cluttered.pooling, name="gap", arguments={}))
    assert script.weight_rows("gap", 0, Run(averaged)) == []
    assert script.weight_rows("gsp", 1, Run(cluttered)) == []
    ((variant, seed, quantity, share),) = script.weight_rows("gsp", 0, Run(cluttered))
    assert (variant, seed, quantity) == ("gsp", 0, "weight on the object")
    np.testing.assert_allclose(share, (17 / 24) ** 2, atol=0.2)


def test_gradients_are_those_of_gsp(script, cluttered, monkeypatch):
    gradients = importlib.import_module("gsp_gradient")
    monkeypatch.setattr(gradients, "BATCHES", 1)
    averaged = replace(cluttered, pooling=replace(cluttered.pooling, name="gap", arguments={}))
    assert script.gradient_rows("gap", 0, Run(averaged)) == []
    by_weights, by_features = script.gradient_rows("gsp", 2, Run(cluttered))
    assert by_weights[:3] == ("gsp", 2, "gradient by weights / by features")
    assert by_features[:3] == ("gsp", 2, "by features / of GAP")
    assert 0 < by_weights[3] < 1  # ε 5 stays close to the average
    np.testing.assert_allclose(by_features[3], 1, atol=0.2)


def test_gains_are_in_points(script, tmp_path):
    folder = RunFolder(tmp_path)
    folder.update_metrics(
        gain={"map_at_r": 0.02},
        gain_intervals={"map_at_r": [0.01, 0.04]},
        gain_over_head={"map_at_r": -0.03},
        head={"precision_at_1": 0.4, "map_at_r": 0.08},
    )
    *head, first, low, high, over = script.gain_rows("tuning_c2-lora", 1, folder)
    assert head == [("tuning-linear-frozen", 0, "P@1", 40), ("tuning-linear-frozen", 0, "MAP@R", 8)]
    rows = [first, low, high, over]
    assert [row[:3] for row in rows] == [
        ("tuning_c2-lora", 1, name)
        for name in ("gain", "gain from", "gain to", "over a linear head")
    ]
    assert [row[3] for row in rows] == pytest.approx([2.0, 1.0, 4.0, -3.0])
