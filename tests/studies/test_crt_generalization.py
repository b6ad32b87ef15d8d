import json
from pathlib import Path

import numpy as np
import pytest
from own_model import write_folder

from gsp_tf.recipe import load_recipe, resolved
from gsp_tf.runs import Run, RunFolder, build_learner, fingerprint, load_splits

ROOT = Path(__file__).parents[2]
COLLAGE = ROOT / "experiments/small_collage.yaml"


def test_the_numbers_are_those_of_the_run(script, tmp_path, monkeypatch, without_tracing):
    data = {"name": "folder", "path": str(tmp_path / "images"), "image_size": 16}
    data |= {"collage": {"background_groups": []}, "classes_per_batch": 4}
    write_folder(data["path"], num_classes=160)
    tiny = tmp_path / "tiny.yaml"
    tiny.write_text(json.dumps({"data": data, "training": {"epochs": 1, "steps_per_epoch": 1}}))
    recipe = load_recipe([COLLAGE, tiny, script.CRT_RECIPE])
    run = RunFolder.create(tmp_path / "small_collage_crt-0", resolved(recipe))
    splits = load_splits(recipe)
    build_learner(recipe, len(splits.train.class_names), 3).save(run.model_path)
    run.update_metrics(status="finished", train_classes=fingerprint(splits.train))
    Run(run.path).evaluate()
    monkeypatch.setattr(script, "VARIANTS", {"CRT": script.VARIANTS["CRT"]})
    results, figure = tmp_path / "crt.csv", tmp_path / "crt.png"
    script.main((str(COLLAGE), str(tiny)), str(tmp_path), (0,), 1, str(results), str(figure))
    values = script.read(results)
    assert list(values) == ["CRT, training classes", "CRT, unseen classes"]
    unseen = values["CRT, unseen classes"]
    test = run.metrics()["test"]
    assert unseen["MAP@R (%)"][0] == pytest.approx(100 * test["map_at_r"], rel=1e-4)
    ratio = unseen["within classes"][0] / unseen["between classes"][0]
    assert unseen["density"][0] == pytest.approx(ratio, rel=1e-4)
    assert figure.stat().st_size > 1000


def test_the_geometry_of_two_opposite_classes(script):
    embeddings = np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0], [0.0, -1.0]])
    numbers = script.geometry(embeddings, [0, 0, 1, 1])
    assert numbers["within classes"] == pytest.approx(1)
    assert numbers["between classes"] == pytest.approx(2)
    assert numbers["density, Euclidean"] == pytest.approx(1)
    assert numbers["spectral decay"] == pytest.approx(0, abs=1e-12)
    assert numbers["MAP@R (%)"] == pytest.approx(50)
