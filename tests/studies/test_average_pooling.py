import csv
import io
import zipfile

import numpy as np
import pytest
from jsonargparse import auto_cli
from PIL import Image


def write_characters(path, classes=10, drawings=4):
    """A zip file like Omniglot's, of drawings that are noise."""
    rng = np.random.default_rng(0)
    with zipfile.ZipFile(path, "w") as archive:
        for character in range(classes):
            for drawing in range(drawings):
                content = io.BytesIO()
                pixels = 255 * rng.integers(0, 2, (105, 105), np.uint8)
                Image.fromarray(pixels).save(content, "PNG")
                name = f"character{character:02}/{character:04}_{drawing:02}.png"
                archive.writestr(f"images/Alphabet/{name}", content.getvalue())


def test_numbers_and_pictures(script, tmp_path, capsys, without_tracing):
    write_characters(tmp_path / "images_background_noise.zip")
    folders = {"results": tmp_path / "results", "figures": tmp_path / "figures"}
    given = {"data": tmp_path, **folders, "seeds": "[4]", "steps": 2, "image_size": 16}
    given["prototypes"] = "[1,3]"
    arguments = [f"--{name}={value}" for name, value in given.items()]
    auto_cli(script.main, as_positional=False, args=arguments)

    values = {}
    path = folders["results"] / "average_pooling.csv"
    for row in csv.DictReader(path.read_text("utf-8").splitlines()):
        assert row["seed"] == "4"
        values.setdefault(row["variant"], {})[row["quantity"]] = float(row["value"])
    gap = {name: values.pop(f"{name}, GAP") for name in ("train", "unseen")}
    assert list(values) == [f"{panel}, m = {count}" for panel in script.PANELS for count in (1, 3)]
    for row in values.values():
        assert 0 < row["mean error"] <= row["largest error"] <= row["radius"]
        assert row["mean error"] <= row["mean distance"] <= row["radius"]
    # One centre of k-means is the mean of all features, from which the averages spread.
    assert values["unseen, k-means, m = 1"]["relative error"] == pytest.approx(1, abs=0.05)
    for panel in ("train", "unseen"):
        assert values[f"{panel}, m = 3"]["radius"] <= values[f"{panel}, m = 1"]["radius"]
    for row in (*gap.values(), *values.values()):
        assert 0 <= row["P@1"] <= 1
    assert "| unseen, k-means, m = 3 |" in capsys.readouterr().out

    names = ["", "_feature_hulls", "_hulls", "_k_center", "_k_means"]
    found = sorted(folders["figures"].iterdir())
    assert [file.name for file in found] == sorted(f"average_pooling{name}.png" for name in names)
    for file in found:
        with Image.open(file) as picture:
            assert len(picture.convert("RGB").getcolors(1 << 20)) > 20


def test_every_feature_a_prototype_retrieves_as_average_pooling(script):
    features = np.random.default_rng(0).normal(size=(6, 2, 2, 3)).astype("float32")
    head = script.keras.layers.Identity()
    labels = np.repeat([0, 1, 2], 2)
    values = script.measure(features, script.k_center(features, 24), head, labels)
    assert values["radius"] == 0 and values["relative error"] < 1e-6
    assert values["P@1"] == script.precision(head, features.mean(axis=(1, 2)), labels)
