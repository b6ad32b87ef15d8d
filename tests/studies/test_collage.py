import importlib
from concurrent.futures import Future
from pathlib import Path

import numpy as np
import pytest
from miniatures import write_cifar100
from PIL import Image

from gsp_tf.data import load_cifar100
from gsp_tf.recipe import load_recipe, resolved
from gsp_tf.runs import RunFolder, build_learner, load_splits, place_maps

STUDIES = Path(__file__).parent.parent.parent / "experiments/studies"


TRAIN_CLASSES = 12


@pytest.fixture
def recipe(tmp_path):
    """A recipe of collages of 30 classes of 4 noisy 8 x 8 images, and one step of training."""
    rng = np.random.default_rng(0)
    for label in range(30):
        (tmp_path / f"data/{label:02}").mkdir(parents=True)
        for i in range(4):
            Image.fromarray(rng.integers(0, 256, (8, 8), np.uint8)).save(
                tmp_path / f"data/{label:02}/{i}.png"
            )
    path = tmp_path / "tiny.yaml"
    path.write_text(
        f"data: {{name: folder, path: {tmp_path}/data, image_size: 16, channels: 1,\n"
        "  split_fractions: [0.4, 0.2, 0.4], collage: {grid: 2, background_groups: []},\n"
        "  classes_per_batch: 4, images_per_class: 2}\n"
        "backbone: {name: conv4}\n"
        "pooling: {num_prototypes: 4}\n"
        "training: {epochs: 1, steps_per_epoch: 1}\n"
        "evaluation: {batch_size: 16}\n"
    )
    return path


@pytest.fixture
def untrained(monkeypatch):
    """Names of the runs that a sweep trains, whose models are left as they begin."""
    sweep = importlib.import_module("sweep")
    made = []

    def train(recipe, folder, threads):
        made.append(folder.path.name)
        RunFolder.create(folder.path, resolved(recipe))
        build_learner(recipe, TRAIN_CLASSES, 1).save(folder.model_path)
        folder.update_metrics(test={"precision_at_1": 0.25, "map_at_r": 0.125})

    class Here:
        """An executor in this process."""

        def __init__(self, *_, **__):
            pass

        __enter__ = __exit__ = lambda self, *_: self

        def submit(self, function, *arguments):
            future = Future()
            future.set_result(function(*arguments))
            return future

    monkeypatch.setattr(sweep, "_train", train)
    monkeypatch.setattr(sweep, "ProcessPoolExecutor", Here)
    return made


def test_takes_the_runs_that_are_there_and_trains_the_others(
    script, recipe, tmp_path, monkeypatch, capsys, untrained
):
    monkeypatch.delitem(script.VARIANTS, script.ZERO_SHOT)
    runs, name = tmp_path / "runs", script.VARIANTS[script.GSP][0]
    script.sweep([recipe], {name: script.variants([recipe])[name]}, (3,), runs)
    assert untrained == ["small_collage_pnca-gsp-3"]
    out, figure = tmp_path / "results/collage.csv", tmp_path / "figures/collage.png"
    script.main((str(recipe),), str(runs), (3,), 1, str(out), str(figure))
    assert untrained == [f"small_collage_pnca-{name}-3" for name in ("gsp", "gap", "alone")]

    values = script.records.read(out)
    share = "weight on the tile, unseen classes"
    assert list(values) == [script.GAP, script.GSP, script.ALONE]
    assert values[script.GAP][share] == {3: 0.25} and values[script.ALONE][share] == {3: 1.0}
    assert values[script.GSP]["P@1"] == {3: 25.0} and values[script.GSP]["MAP@R"] == {3: 12.5}
    assert "tile alone | " in capsys.readouterr().out

    there = RunFolder(runs / "small_collage_pnca-gsp-3")
    test = load_splits(there.recipe()).test
    images = np.stack([test.image(i) for i in range(len(test))])
    embedder = there.learner(compile=False).embedder
    weights = place_maps(embedder, images.astype("float32")).weights[..., 0]
    on_tile = test.foreground_masks().repeat(2, axis=1).repeat(2, axis=2)
    expected = weights[on_tile].sum() / len(images)
    assert values[script.GSP][share][3] == pytest.approx(expected, abs=1e-5)
    with Image.open(figure) as picture:
        assert min(picture.size) > 600 and len(picture.convert("RGB").getcolors(1 << 20)) > 50


def test_a_run_is_trained_in_a_process_of_its_own(recipe, tmp_path):
    sweep = importlib.import_module("sweep")
    folders = sweep.sweep([recipe], {"gap": ["--pooling.name=gap"]}, (1,), tmp_path / "runs")
    folder = folders["gap", 1]
    assert (folder.recipe().name, folder.recipe().seed) == ("gap", 1)
    assert 0 <= folder.metrics()["test"]["map_at_r"] <= 1 and folder.model_path.is_file()


def test_the_recipes_are_those_of_the_runs(script, recipe):
    recipes = {
        variant: load_recipe(recipe, script.variants([recipe])[name])
        for variant, (name, _) in script.VARIANTS.items()
    }
    assert recipes[script.ZERO_SHOT].zero_shot.weight == 0.1
    assert recipes[script.ZERO_SHOT].pooling.arguments["transport_ratio"] == 0.25
    alone, collage = recipes[script.ALONE], load_recipe(recipe)
    assert alone.training == collage.training
    assert (alone.data.collage.grid, alone.data.image_size) == (1, 8)


def test_the_collages_may_be_of_cifar100(script, tmp_path, published):
    published(load_cifar100, {"all": (100, 300)})
    write_cifar100(tmp_path)
    cifar100 = STUDIES / "cifar100.yaml"
    files = [STUDIES.parent / "small_collage.yaml", cifar100]
    options = script.variants(files)
    for name, size in (("small_collage_pnca-gsp", 64), ("small_collage_pnca-alone", 32)):
        recipe = load_recipe(files, [*options[name], f"--data.path={tmp_path}"])
        splits = load_splits(recipe)
        assert splits.train.image(0).shape == splits.test.image(0).shape == (size, size, 3)
    data = load_recipe([STUDIES.parent / "zero_shot_prototypes.yaml", cifar100]).data
    assert (data.name, data.image_size, data.collage.grid) == ("cifar100", 64, 0)
