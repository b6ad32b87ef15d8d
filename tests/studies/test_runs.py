"""The studies on small data: what they train, write and draw."""

import json
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from PIL import Image

from gsp_tf.recipe import load_recipe, resolved
from gsp_tf.runs import RunFolder, build_learner, load_splits, place_maps

pytestmark = pytest.mark.evidence  # started by name: pytest -m evidence tests/studies
SWEEPS = ("sensitivity", "ccp", "collage", "crt_generalization", "gsp_sharpness", "sweeps")
CLASSES = 12


def variants(study, name):
    """Files and options of every variant of a study."""
    module = study(name)
    if name == "sweeps":
        for files, rows in module.SWEEPS.values():
            for _, options in rows().values():
                yield [module.HERE / file for file in files], options
    elif name == "sensitivity":
        for options in (module.BY_RATIO | module.GRID | module.SCREENING).values():
            yield [module.RECIPE], options
    elif name == "ccp":
        for options in module.variants().values():
            yield [module.RECIPE], options
    else:
        files = [module.HERE / "small_collage.yaml"]
        files = [module.HERE / "gsp_sharpness.yaml"] if name == "gsp_sharpness" else files
        files += [module.CRT_RECIPE] if name == "crt_generalization" else []
        rows = module.variants(files) if name == "collage" else module.VARIANTS
        for _, options in rows.values():
            yield files, options


@pytest.mark.parametrize("name", SWEEPS)
def test_every_variant_is_a_recipe_of_its_own(study, name):
    of = study("sweep").recipe_of
    recipes = [repr(of(files, options)) for files, options in variants(study, name)]
    assert len(set(recipes)) == len(recipes) > 1


@pytest.fixture
def recipe(tmp_path):
    """A recipe of collages of 30 classes of 4 noisy 8 x 8 images, and one step of training."""
    rng = np.random.default_rng(0)
    for label in range(30):
        (tmp_path / f"data/{label:02}").mkdir(parents=True)
        for i in range(4):
            image = Image.fromarray(rng.integers(0, 256, (8, 8), np.uint8))
            image.save(tmp_path / f"data/{label:02}/{i}.png")
    data = {"name": "folder", "path": f"{tmp_path}/data", "image_size": 16, "channels": 1}
    data |= {"split_fractions": [0.4, 0.2, 0.4], "classes_per_batch": 4, "images_per_class": 2}
    data["collage"] = {"grid": 2, "background_groups": []}
    values = {"data": data, "backbone": {"name": "conv4"}, "evaluation": {"batch_size": 16}}
    values |= {"pooling": {"num_prototypes": 4}, "training": {"epochs": 1, "steps_per_epoch": 1}}
    path = tmp_path / "tiny.yaml"
    path.write_text(json.dumps(values))
    return path


@pytest.fixture
def untrained(study, monkeypatch):
    """Names of the runs that a sweep trains, whose models are left as they begin."""
    made = []

    def train(recipe, folder, threads):
        made.append(folder.path.name)
        RunFolder(folder.path).start(resolved(recipe))
        build_learner(recipe, CLASSES, 1).save(folder.model_path)
        folder.update_metrics(test={"precision_at_1": 0.25, "map_at_r": 0.125})

    monkeypatch.setattr(study("sweep"), "_train", train)
    monkeypatch.setattr(
        study("sweep"), "ProcessPoolExecutor", lambda *_, **__: ThreadPoolExecutor(1)
    )
    return made


def test_a_sweep_trains_the_runs_that_are_missing(study, recipe, tmp_path, untrained):
    collage, runs = study("collage"), tmp_path / "runs"
    rows = dict(list(collage.variants([recipe]).values())[:2])
    study("sweep").sweep(
        [recipe], {"small_collage_pnca-gsp": rows["small_collage_pnca-gsp"]}, (3,), runs
    )
    options = [f"--recipe=['{recipe}']", f"--runs={runs}", "--seeds=[3]"]
    (path, *_) = study("run").run("collage", options, tmp_path / "results", tmp_path)
    values = study("records").read(path)
    assert untrained == [
        f"small_collage_pnca-{name}-3" for name in ("gsp", "gap", "gsp-zs", "alone")
    ]
    share = "weight on the tile, unseen classes"
    assert list(values) == ["GAP", "GSP", "GSP + zero-shot", "GAP, tile alone"]
    assert values["GAP"][share] == {3: 0.25} and values["GAP, tile alone"][share] == {3: 1.0}
    assert values["GSP"]["P@1"] == {3: 25.0} and values["GSP"]["MAP@R"] == {3: 12.5}
    assert (tmp_path / "collage.png").is_file()
    there = RunFolder(runs / "small_collage_pnca-gsp-3")
    test = load_splits(there.recipe()).test
    images = np.stack([test.image(i) for i in range(len(test))])
    embedder = there.learner(compile=False).embedder
    weights = place_maps(embedder, images.astype("float32")).weights[..., 0]
    on_tile = test.foreground_masks().repeat(2, axis=1).repeat(2, axis=2)
    expected = weights[on_tile].sum() / len(images)
    assert values["GSP"][share][3] == pytest.approx(expected, abs=1e-5)
    with pytest.raises(ValueError, match="gsp-3 holds a run of another recipe"):
        study("sweep").sweep([recipe], {"small_collage_pnca-gsp": []}, (3,), runs)


def test_rows_of_the_evidence_are_recipes_of_their_own_that_its_tables_were_measured_with(study):
    plan, of = study("evidence_plan"), study("sweep").recipe_of
    dose = [(share, 160) for share in plan.SHARES] + [(0.4, size) for size in (96, 224)]
    tables = [
        (plan.COLLAGE, plan.collage_rows()),
        (plan.COLLAGE, plan.pooling_rows()),
        (plan.COLLAGE, plan.cause_rows()),
        (plan.CARS, plan.cars_rows() | plan.sharp_rows() | plan.system_rows() | plan.ccp_rows()),
        (plan.CARS, plan.fast_head_rows() | plan.ccp_cause_rows()),
        (plan.CARS, plan.loss_rows("cars")),
        (plan.CARS, plan.cars_pooling_rows(plan.POOLINGS)),
        (plan.WHOLE, plan.whole_rows()),
        (plan.WHOLE, plan.tuning_rows()),
        (plan.COLLAGE, plan.loss_rows("collage")),
        (plan.HEADS, plan.grouping_rows() | plan.branch_rows()),
        (plan.CHARACTERS, plan.hybrid_rows()),
        (plan.CANVAS, plan.upper_rows() | plan.warm_rows()),
        *((plan.CANVAS, plan.dose_rows(*place)) for place in dose),
    ]
    evidence, digests = study("evidence"), {}
    for files, rows in tables:
        assert not set(rows) & set(digests)
        assert len({repr(of(files, options)) for options in rows.values()}) == len(rows)
        digests |= {name: evidence.digest(files, options) for name, options in rows.items()}
    for path in evidence.RESULTS.glob("*.csv"):
        for name, row in study("records").read(path).items():
            if "recipe" in row and not name.endswith(plan.BEST):
                assert set(row["recipe"].values()) == {digests[name]}, name


def test_a_table_trains_what_its_file_lacks(study, tmp_path, monkeypatch):
    evidence, trained = study("evidence"), []

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

    monkeypatch.setattr(evidence, "sweep", sweep)
    table = evidence.Table(tmp_path / "cars.csv", tmp_path)
    rows = {"cars-a": ["--embedding.dim=8"], "cars-b": []}
    table.train([], {"cars-a": rows["cars-a"]}, (0,))
    table.train([], rows, (0, 1), [lambda name, seed, run: [(name, seed, "more", 7)]])
    assert trained == [("cars-a", 0), ("cars-b", 0), ("cars-a", 1), ("cars-b", 1)]
    measured = table.values["cars-a"]
    assert measured["MAP@R"] == {0: 25.0, 1: 25.0} and measured["more"] == {1: 7.0}
    table.train([], rows | {"cars-a": ["--data.path=elsewhere", "--embedding.dim=8"]}, (0, 1))
    assert len(trained) == 4 and table.best(("a", "b")) == ["a"]
    with pytest.raises(ValueError, match="another recipe for cars-a and seed 0"):
        table.train([], {"cars-a": ["--embedding.dim=16"]}, (0,))
    with pytest.raises(ValueError, match="no numbers of solar to choose from"):
        table.best(("a", "solar"))
