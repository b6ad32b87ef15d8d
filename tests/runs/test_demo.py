"""The demo on a folder of photographs."""

from dataclasses import replace

import keras
from digit_runs import run_command
from own_model import register_pretrained, write_folder

from gsp_tf.runs import Run, _demo


def test_the_untrained_network_comes_first(tmp_path, capsys, monkeypatch):
    """A small network with "ImageNet weights" replaces EfficientNet-Lite0; epochs have one step."""
    monkeypatch.chdir(tmp_path)
    register_pretrained(monkeypatch, tmp_path, "small")
    monkeypatch.setattr(_demo, "_NETWORK", "small")

    def smaller(*arguments, choose=_demo.choose_recipe):
        recipe = choose(*arguments)
        return replace(recipe, data=replace(recipe.data, image_size=32))

    monkeypatch.setattr(_demo, "choose_recipe", smaller)
    fit = keras.Model.fit
    monkeypatch.setattr(
        keras.Model, "fit", lambda *args, **options: fit(*args, **options | {"steps_per_epoch": 1})
    )
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
    assert len({run.folder.metrics()["test_classes"] for run in runs.values()}) == 1
    assert runs["untrained"].recipe.embedding.dim is None  # the mean of the last map
