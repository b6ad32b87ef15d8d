import importlib

import numpy as np
import pytest
from PIL import Image

from gsp_tf.experiment import RunFolder, build_learner, load_splits, place_maps
from gsp_tf.recipe import load_recipe


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


def test_takes_the_runs_that_are_there_and_trains_the_others(recipe, tmp_path, monkeypatch, capsys):
    script = importlib.import_module("collage")
    made = []

    def untrained(own, path, splits):
        made.append(path.name)
        folder = RunFolder.create(path, own)
        build_learner(own, len(splits.train.class_names), 1).save(folder.model_path)
        folder.update_metrics(test={"precision_at_1": 0.25, "map_at_r": 0.125})
        return folder

    monkeypatch.setattr(script, "train_recipe", untrained)
    monkeypatch.delitem(script.VARIANTS, script.ZERO_SHOT)
    gsp = script.variant_recipe(recipe, script.GSP, 3)
    splits = load_splits(gsp)
    there = untrained(gsp, tmp_path / "runs/small_collage_pnca-gsp-3", splits)
    out, figure = tmp_path / "results/collage.csv", tmp_path / "figures/collage.png"
    script.main(str(recipe), str(tmp_path / "runs"), (3,), str(out), str(figure))
    assert made == [f"small_collage_pnca-{name}-3" for name in ("gsp", "gap", "alone")]

    values = script.records.read(out)
    share = "weight on the tile, unseen classes"
    assert list(values) == [script.GAP, script.GSP, script.ALONE]
    assert values[script.GAP][share] == {3: 0.25} and values[script.ALONE][share] == {3: 1.0}
    assert values[script.GSP]["P@1"] == {3: 25.0} and values[script.GSP]["MAP@R"] == {3: 12.5}
    assert "tile alone | " in capsys.readouterr().out

    images = np.stack([splits.test.image(i) for i in range(len(splits.test))])
    embedder = there.learner(compile=False).embedder
    weights = place_maps(embedder, images.astype("float32")).weights[..., 0]
    on_tile = splits.test.foreground_masks().repeat(2, axis=1).repeat(2, axis=2)
    expected = weights[on_tile].sum() / len(images)
    assert values[script.GSP][share][3] == pytest.approx(expected, abs=1e-5)
    with Image.open(figure) as picture:
        assert min(picture.size) > 600 and len(picture.convert("RGB").getcolors(1 << 20)) > 50


def test_the_recipes_are_those_of_the_runs(recipe):
    script = importlib.import_module("collage")
    names = [script.variant_recipe(recipe, variant, 1).name for variant in script.VARIANTS]
    assert names == ["pnca-gap", "pnca-gsp", "pnca-gsp-zs", "pnca-alone"]
    zero_shot = script.variant_recipe(recipe, script.ZERO_SHOT, 1)
    assert (zero_shot.seed, zero_shot.zero_shot.weight) == (1, 0.1)
    assert zero_shot.pooling.transport_ratio == 0.25
    alone, collage = script.variant_recipe(recipe, script.ALONE, 1), load_recipe(recipe)
    assert alone.training == collage.training
    assert (alone.data.collage.grid, alone.data.image_size) == (1, 8)
