"""The demo on a folder of photographs."""

from dataclasses import replace

import keras
import numpy as np
import pytest
from digit_runs import run_command
from own_model import register_pretrained, write_folder

from gsp_tf import backbones
from gsp_tf.runs import Run, _demo

SIDE = 32


@pytest.fixture
def network(tmp_path, monkeypatch):
    """A small network with "ImageNet weights" replaces EfficientNet-Lite0; epochs have one step."""
    monkeypatch.chdir(tmp_path)
    register_pretrained(monkeypatch, tmp_path, "small")
    monkeypatch.setattr(_demo, "_NETWORK", "small")

    def smaller(*arguments, choose=_demo.choose_recipe):
        recipe = choose(*arguments)
        return replace(recipe, data=replace(recipe.data, image_size=SIDE))

    monkeypatch.setattr(_demo, "choose_recipe", smaller)
    fit = keras.Model.fit
    monkeypatch.setattr(
        keras.Model, "fit", lambda *args, **options: fit(*args, **options | {"steps_per_epoch": 1})
    )


def test_the_untrained_network_comes_first(network, tmp_path, capsys):
    write_folder("my_images", 6)
    assert run_command("demo", "--data", "my_images", "--epochs", "1") == 0
    printed = capsys.readouterr().out
    assert "network      small with the weights imagenet" in printed
    results = printed[printed.index("Training GSP") :]
    assert results.index("untrained") < results.index(" GAP ") < results.index(" GSP ")
    (folder,) = tmp_path.glob("runs/demo-*")
    page = (folder / "report.html").read_text("utf-8")
    assert "<strong>untrained</strong>: It was not trained." in page
    legend = page[page.index('id="curves"') :].split("</ul>")[0]
    assert "GAP" in legend and "GSP" in legend and "untrained" not in legend
    runs = {name: Run(folder / name) for name in ("untrained", "gap", "gsp")}
    assert [run.recipe.pooling.name for run in runs.values()] == ["gap", "gap", "gsp"]
    assert [run.folder.metrics()["epochs"] for run in runs.values()] == [0, 1, 1]
    (classes,) = {run.folder.metrics()["test_classes"] for run in runs.values()}
    check_untrained(runs["untrained"])


def check_untrained(run):
    """Its embedding is the mean of the last map, of length 1."""
    learner, images = run.learner, np.random.default_rng(0).uniform(0, 255, (2, SIDE, SIDE, 3))
    network = backbones.create("small", (SIDE, SIDE, 3))
    means = keras.ops.convert_to_numpy(network(images)).mean((1, 2))
    found = keras.ops.convert_to_numpy(learner.embedder(images))
    expected = means / np.linalg.norm(means, axis=1, keepdims=True)
    np.testing.assert_allclose(found, expected, atol=1e-5)
