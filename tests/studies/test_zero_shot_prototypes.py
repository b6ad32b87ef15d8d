import numpy as np
import pytest
from PIL import Image

from gsp_tf.data import ArrayImages
from gsp_tf.evaluation import zero_shot_prediction
from gsp_tf.recipe import load_recipe, resolved
from gsp_tf.runs import RunFolder, Splits, build_embedder, build_learner

RECIPE = (
    "{data: {image_size: 8, channels: 1}, backbone: {name: conv4}, "
    "embedding: {position: after_pooling}, pooling: {num_prototypes: 3}}"
)


def noise(classes, seed):
    pixels = np.random.default_rng(seed).integers(0, 256, (4 * classes, 8, 8, 1), np.uint8)
    return ArrayImages(pixels, np.arange(4 * classes) % classes, [str(c) for c in range(classes)])


def test_numbers_and_picture_of_runs_that_are_there(script, tmp_path, monkeypatch, capsys):
    recipe = tmp_path / "tiny.yaml"
    recipe.write_text(RECIPE)
    splits = Splits(noise(12, 0), noise(2, 1), noise(7, 2))
    monkeypatch.setattr(script, "load_splits", lambda recipe: splits)
    for name, options in script.VARIANTS.values():
        own = load_recipe(recipe, [*options, f"--name={name}"])
        own = resolved(own)
        folder = RunFolder.create(tmp_path / f"runs/{name}-0", own)
        build_learner(own, 12, 1).save(folder.model_path)
        folder.update_metrics(test={"precision_at_1": 0.5, "map_at_r": 0.25})
    out, figure = tmp_path / "results.csv", tmp_path / "figures/prototypes.png"
    script.main((str(recipe),), str(tmp_path / "runs"), (0,), 1, 5, str(out), str(figure))
    values = script.records.read(out)
    assert list(values) == [script.GSP, script.ZERO_SHOT]
    for row in values.values():
        assert row["P@1"] == {0: 50.0} and row["MAP@R"] == {0: 25.0}
        assert row["chance, training classes"] == {0: 20.0}
        # Halves of 3 and 4 classes: 2 in 7 by chance.
        assert row["chance, unseen classes"][0] == pytest.approx(200 / 7, abs=1e-3)
        for rule in ("euclidean", "cosine", "random embeddings"):
            assert 0 <= row[f"{rule}, unseen classes"][0] <= 100
    assert script.ZERO_SHOT in capsys.readouterr().out
    with Image.open(figure) as picture:
        assert min(picture.size) > 600 and len(picture.convert("RGB").getcolors(1 << 20)) > 50


def test_attributes_are_those_of_the_model(script, tmp_path):
    recipe = tmp_path / "tiny.yaml"
    recipe.write_text(RECIPE)
    own = load_recipe(recipe, ["--zero_shot.weight=0.5"])
    embedder, images = build_embedder(own, 1), noise(3, 0)
    pixels, maps, attributes = script.attributes_of(embedder, own, images)
    np.testing.assert_array_equal(pixels, images.images)
    assert maps.shape == (12, 2, 2, 3)
    _, expected = embedder(images.images.astype("float32"), training=False)
    np.testing.assert_allclose(attributes, expected, atol=1e-5)


def test_means_of_classes_are_found_where_random_embeddings_are_not(script):
    rng = np.random.default_rng(0)
    labels = np.arange(300) % 15
    attributes = rng.dirichlet(np.ones(4), 15)[labels]
    embeddings = attributes @ rng.normal(size=(4, 6)) + rng.normal(scale=0.01, size=(300, 6))
    means = script.class_means(embeddings, labels)
    np.testing.assert_allclose(means[3], embeddings[3::15].mean(axis=0))
    found = script.predictions(attributes, labels, means, splits=40, seed=0)
    assert found["euclidean"] > 0.8 and found["cosine"] > 0.8
    assert found["chance"] == pytest.approx(0.2)
    random = script.predictions(attributes, labels, rng.normal(size=(15, 6)), splits=40, seed=0)
    assert random["cosine"] < 0.4


def test_of_ten_classes_or_fewer_all_are_halved(script):
    rng = np.random.default_rng(1)
    labels = np.arange(40) % 4
    attributes, means = rng.dirichlet(np.ones(3), 40), rng.normal(size=(4, 5))
    found = script.predictions(attributes, labels, means, splits=3, seed=0)
    halves = [zero_shot_prediction(attributes, labels, means, 1, seed=split) for split in range(3)]
    assert found == {name: np.mean([half[name] for half in halves]) for name in halves[0]}
