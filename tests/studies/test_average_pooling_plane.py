import importlib

import numpy as np
import pytest
from PIL import Image

from gsp_tf.data import ArrayImages


@pytest.fixture
def script(script, monkeypatch):
    monkeypatch.setattr(script, "SIZE", 16)
    return script


def noise(images_per_class, seed):
    labels = np.repeat(np.arange(10), images_per_class)
    pixels = np.random.default_rng(seed).integers(0, 256, (len(labels), 16, 16, 3), np.uint8)
    return ArrayImages(pixels, labels, [f"class {label}" for label in range(10)])


def test_numbers_and_pictures(script, tmp_path, monkeypatch, capsys, without_tracing):
    monkeypatch.setattr(script, "ten_classes", lambda folder: [noise(6, 0), noise(3, 1)])
    script.main("", str(tmp_path), str(tmp_path), (4,), "conv4", 2, (2, 48))
    values = script.records.read(tmp_path / "average_pooling_plane.csv")
    assert list(values) == ["m = 2", "m = 48"]
    for row in values.values():
        (radius,) = row["radius"].values()
        assert 0 < row["mean error"][4] <= row["largest error"][4] <= radius < 2
        assert 0 <= row["P@1 of PCC (%)"][4] <= 100
        assert row["overlapping hulls (%)"][4] <= 100
    assert values["m = 48"]["radius"][4] < values["m = 2"]["radius"][4]
    assert values["m = 2"]["prototypes per class"][4] <= 2
    assert "seed 4: P@1 of GAP" in capsys.readouterr().out
    for name in ("average_pooling_plane", "average_pooling_plane_hulls"):
        with Image.open(tmp_path / f"{name}.png") as picture:
            assert len(picture.convert("RGB").getcolors(1 << 20)) > 20


def test_features_of_64_images_a_class_in_the_unit_disc(script, monkeypatch):
    monkeypatch.setattr(script, "IMAGES_PER_CLASS", 2)
    images = noise(3, 0)
    network = script.keras.Sequential(
        [script.keras.Input((16, 16, 3)), script.keras.layers.Conv2D(2, 4, 4)]
    )
    features, labels = script.local_features(network, images)
    assert features.shape == (20, 4, 4, 2) and labels.tolist() == np.repeat(range(10), 2).tolist()
    assert np.linalg.norm(features, axis=-1).max() == pytest.approx(1)
    expected = network(images.images[[0, 1, 3]].astype("float32")).numpy()
    ratio = features[:3] / features[0, 0, 0, 0]
    np.testing.assert_allclose(ratio, expected / expected[0, 0, 0, 0], rtol=1e-4)


def test_a_prototype_is_active_for_the_classes_whose_features_it_holds(script):
    histograms = np.array([[0.5, 0.5, 0, 0], [0, 1, 0, 0], [0, 0.2, 0.8, 0]])
    active = script.active_prototypes(histograms, np.array([0, 0, 1]))
    assert active.tolist() == [[True, True, False, False], [False, True, True, False]]


def test_ten_classes_in_the_order_of_the_files(tmp_path):
    module = importlib.import_module("ten_classes")
    folder = tmp_path / "cifar-100-binary"
    folder.mkdir()
    (folder / "fine_label_names.txt").write_text("\n".join(f"class{i}" for i in range(12)))
    (folder / "coarse_label_names.txt").write_text("all")
    for part, copies, value in (("train", 5, 1), ("test", 1, 2)):
        records = [bytes([0, label]) + bytes([value] * 3072) for label in range(12)] * copies
        (folder / f"{part}.bin").write_bytes(b"".join(records))
    train, test = module.ten_classes(tmp_path, counts={"all": (12, 72)})
    assert len(train) == 50 and len(test) == 10 and len(test.class_names) == 10
    assert (train.images == 1).all() and (test.images == 2).all()
    assert test.labels.tolist() == list(range(10))
