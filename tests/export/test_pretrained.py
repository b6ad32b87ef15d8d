"""Published models: what their folders hold, who can load them, and what is refused."""

import copy
import dataclasses
import json
import os
import shutil
import sys
import typing

import huggingface_hub
import keras
import numpy as np
import pytest
import yaml
from huggingface_hub import constants

import gsp_tf
from gsp_tf.export import verify_export
from gsp_tf.export.metadata import ExportMetadata, public_recipe
from gsp_tf.export.pretrained import _model_card
from gsp_tf.losses import ContrastiveLoss
from gsp_tf.recipe import BackboneRecipe, ClassRecipe, Recipe, load_recipe, recipe_values
from gsp_tf.recipe._sections import Section
from gsp_tf.runs import RunFolder
from gsp_tf.search import RunModel, calibrate, find_thresholds
from gsp_tf.training import MetricLearner

METRICS = {
    "status": "finished",
    "num_train_images": 32,
    "num_classes": {"train": 4, "validation": 3, "test": 3},
    "test": {"precision_at_1": 0.75, "map_at_r": 0.123456, "num_queries": 24, "num_skipped": 0},
    "test_intervals": {"map_at_r": [0.1, 0.2]},
    "frozen": {"precision_at_1": 0.7, "map_at_r": 0.1},
    "frozen_intervals": {},
    "gain": {"precision_at_1": 0.05, "map_at_r": 0.023456},
    "gain_intervals": {"map_at_r": [-0.01, 0.05]},
    "head": {"map_at_r": 0.125},
    "head_intervals": {},
    "gain_over_head": {"map_at_r": -0.001544},
    "gain_over_head_intervals": {"map_at_r": [-0.02, 0.01]},
}


@pytest.fixture(scope="module")
def calibrated(prepared_run, tmp_path_factory):
    """An evaluated and calibrated run, whose recipe names trackers and places of files."""
    path = shutil.copytree(prepared_run, tmp_path_factory.mktemp("secret") / "run")
    folder = RunFolder(path)
    folder.update_metrics(**METRICS)
    values = yaml.safe_load(folder.recipe_path.read_text("utf-8"))
    values["data"] |= {"cache": "/secret/cache"}
    values["backbone"] |= {"weights": "/secret/start.weights.h5"}
    values["callbacks"] = {"wandb": {"entity": "secret"}}
    folder.recipe_path.write_text(yaml.safe_dump(values), "utf-8")
    calibrate(path, 0.05, num_resamples=20)
    return folder


@pytest.fixture(scope="module")
def published(calibrated, tmp_path_factory):
    folder = tmp_path_factory.mktemp("published") / "birds"
    assert gsp_tf.save_pretrained(calibrated.path, folder, license="apache-2.0") == folder
    return folder


def test_a_published_run_is_the_model(calibrated, published):
    images = np.random.default_rng(0).uniform(0, 255, (5, 16, 16, 1)).astype("float32")
    expected = calibrated.learner(compile=False).embedder(images)
    for source in (published, calibrated.path):
        found = gsp_tf.from_pretrained(source)(images)
        np.testing.assert_allclose(found, expected, atol=1e-6)
    sizes = [path.stat().st_size for path in (published / "model.keras", calibrated.model_path)]
    assert sizes[0] <= sizes[1]
    assert verify_export(published) == ExportMetadata.read(published)
    assert ExportMetadata.read(published).name == "birds"
    assert load_recipe(published / "recipe.yaml").pooling == calibrated.recipe().pooling


def test_nothing_private_is_published(calibrated, published):
    texts = [path for path in published.iterdir() if path.suffix != ".keras"]
    names = "README.md metadata.json metrics.json recipe.yaml thresholds.json"
    assert sorted(path.name for path in texts) == names.split()
    for path in texts:
        text = path.read_text("utf-8")
        assert "secret" not in text and str(calibrated.path.parent) not in text, path


def with_secret_texts(section, lists):
    """A section whose every text is a path; collects the names of lists of texts."""
    filled = copy.copy(section)
    for field in dataclasses.fields(section):
        value, hint = getattr(section, field.name), typing.get_type_hints(type(section))[field.name]
        if dataclasses.is_dataclass(value):
            value = with_secret_texts(value, lists)
        elif hint in (str, str | None):
            value = f"/secret/place/{field.name}"
        elif "list[str]" in str(hint):
            lists.add(field.name)
        object.__setattr__(filled, field.name, value)
    return filled


def test_every_text_of_a_recipe_loses_its_folders(monkeypatch):
    monkeypatch.setattr(Section, "__post_init__", lambda self: None)  # what is accepted aside
    lists = set()
    recipe = with_secret_texts(Recipe(head=ClassRecipe("crt", {"rate": "/secret/place"})), lists)
    values = recipe_values(public_recipe(recipe))
    assert "secret" not in str(values)
    found = values["data"]["unlabelled"], values["backbone"]["weights"], values["initial_run"]
    assert found == ("unlabelled", "weights", "initial_run")
    patterns = {"freeze", "layers", "optimizer_arguments", "weight_decay_exclusions"}
    assert lists == {"background_groups", *patterns}


def test_a_preset_keeps_its_name_or_its_address():
    for preset, published in (
        ("hf://user/model", "hf://user/model"),
        ("file:///home/me/model", "model"),
        (r"C:\Users\me\model", "model"),
        ("dinov2_small", "dinov2_small"),
    ):
        recipe = Recipe(backbone=BackboneRecipe("hub", preset=preset, freeze=["stem/conv"]))
        backbone = public_recipe(recipe).backbone
        assert (backbone.preset, backbone.freeze) == (published, ["stem/conv"])


def test_the_model_card(published):
    card = huggingface_hub.ModelCard.load(published / "README.md")
    assert (card.data.license, card.data.library_name) == ("apache-2.0", "gsp_tf")
    assert card.data.pipeline_tag == "image-feature-extraction"
    results = {result.metric_type: result.metric_value for result in card.data.eval_results}
    assert results == {"precision_at_1": 0.75, "map_at_r": 0.123456}
    for line in (
        "| MAP@R | 12.35 | 10.00 to 20.00 |",
        "| metric | frozen network | gain | with a linear head | gain |\n"
        "| --- | --- | --- | --- | --- |\n"
        "| P@1 | 70.00 | +5.00 |  |  |\n"
        "| MAP@R | 10.00 | +2.35 [-1.00, +5.00] | 12.50 | -0.15 [-2.00, +1.00] |\n\n",
        'embedder = gsp_tf.from_pretrained("hf://USER/birds")  # or a folder',
        "(B, 16, 16, 1), pixels in [0, 255]",
        "2. cut out the central square, 16/18 of the shorter side wide",
        "Licence: apache-2.0.",
    ):
        assert line in card.text


@pytest.mark.parametrize(
    ("ended", "says"),
    [
        ({"status": "finished", "epochs": 3}, "32 images of 4 classes were trained on, but the"),
        ({"status": "interrupted", "epochs": 0}, "ended before the first epoch was complete"),
    ],
)
def test_the_card_of_an_untrained_model_claims_no_training(published, ended, says):
    metadata, recipe = ExportMetadata.read(published), load_recipe(published / "recipe.yaml")
    metrics = {**metadata.metrics, "best_epoch": None, **ended}
    card = _model_card(dataclasses.replace(metadata, metrics=metrics), recipe, None, "me/birds")
    assert says in card and "Its weights are those before training." in card
    assert "classes trained the model" not in card and "what training added" not in card
    assert "best until then" not in card and "Best epoch" not in card


def test_commands_take_a_published_folder_as_a_run(published, images, tmp_path, command):
    folder = shutil.copytree(published, tmp_path / "birds")
    assert command("embed", folder, images)[0] == 0
    assert command("index", folder / "embeddings")[0] == 0
    code, printed, _ = command("search", folder, next(images.glob("*/*.png")), "--k", "1")
    assert code == 0 and "match" in printed  # by the thresholds of the run
    thresholds = find_thresholds(None, RunModel(folder).info, folder)
    assert thresholds.calibrated_on.source == "run" and thresholds.model.run == "birds"
    assert gsp_tf.from_pretrained(folder).output_shape == (None, 8)  # other files may be there


def test_a_model_without_a_run(tmp_path, without_tracing):
    layers = keras.layers.GlobalAveragePooling2D(), keras.layers.Dense(4)
    embedder = keras.Sequential([keras.Input((None, None, 3)), *layers])
    learner = MetricLearner(embedder, ContrastiveLoss())
    folder = gsp_tf.save_pretrained(learner, tmp_path / "mine")
    found, images = gsp_tf.from_pretrained(folder), np.ones((2, 9, 7, 3), "float32")
    np.testing.assert_array_equal(found(images), embedder(images))
    card = huggingface_hub.ModelCard.load(folder / "README.md")
    assert card.data.license is None and "No licence was stated." in card.text
    assert "(B, H, W, 3), pixels in [0, 255]" in card.text and "Evaluation" not in card.text
    with pytest.raises(FileNotFoundError, match="mine is not a run folder"):
        RunModel(folder)

    features = embedder.layers[0].output
    outputs = {name: keras.layers.Dense(dim)(features) for name, dim in (("b", 3), ("a", 5))}
    folder = gsp_tf.save_pretrained(keras.Model(embedder.inputs, outputs), tmp_path / "two")
    assert verify_export(folder).outputs == {"embedding": [None, 3]}  # the first, not that of a

    class Subclassed(keras.Model):
        """A model whose shapes are unknown."""

    with pytest.raises(ValueError, match="functional or sequential, .* received a Subclassed"):
        gsp_tf.save_pretrained(Subclassed(), tmp_path / "other")


def test_a_damaged_folder_is_refused(published, tmp_path):
    folder = shutil.copytree(published, tmp_path / "birds")
    (folder / "README.md").write_text("My own card.")
    (folder / ".gitattributes").write_text("*.keras filter=lfs")
    gsp_tf.from_pretrained(folder)
    gsp_tf.export.verify_export(folder)
    whole = (folder / "model.keras").read_bytes()
    (folder / "model.keras").write_bytes(whole[:-9])
    with pytest.raises(ValueError, match=r"not those that metadata.json lists .*: model.keras"):
        gsp_tf.from_pretrained(folder)
    (folder / "model.keras").write_bytes(whole)
    (folder / "README.md").unlink()
    metadata = gsp_tf.export.verify_export(folder)
    # One may edit the metadata, and then removes their checksum.
    edited = {**json.loads((folder / "metadata.json").read_text("utf-8")), "train_classes": None}
    (folder / "metadata.json").write_text(json.dumps(edited), "utf-8")
    with pytest.raises(ValueError, match="or was edited: .* If you edited it, remove its entry"):
        gsp_tf.from_pretrained(folder)
    del edited["seal"]
    (folder / "metadata.json").write_text(json.dumps(edited), "utf-8")
    assert gsp_tf.export.verify_export(folder).train_classes is None
    less = {name: of for name, of in metadata.sha256.items() if name != "model.keras"}
    dataclasses.replace(metadata, sha256=less).write(folder)
    with pytest.raises(ValueError, match="metadata.json does not list model.keras"):
        gsp_tf.from_pretrained(folder)
    metadata.write(folder)
    for name in "model.keras", "metadata.json":
        (folder / name).unlink()
    with pytest.raises(FileNotFoundError, match="holds no model: it has no model.keras or"):
        gsp_tf.from_pretrained(folder)


def test_a_model_on_hugging_face(published, tmp_path, monkeypatch):
    """In the cache of huggingface_hub, whose own code finds it without a connection."""
    place = tmp_path / "models--user--birds"
    shutil.copytree(published, place / "blobs")
    for name, commit in (("main", "a" * 40), ("v2", "b" * 40)):
        snapshot = place / "snapshots" / commit
        snapshot.mkdir(parents=True)
        for file in os.listdir(published):  # the cache holds each file once, behind links
            (snapshot / file).symlink_to(f"../../blobs/{file}")
        (place / "refs").mkdir(exist_ok=True)
        (place / "refs" / name).write_text(commit)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    (snapshot / "model.keras").unlink()
    (snapshot / "model.keras").write_bytes(b"changed")
    assert gsp_tf.from_pretrained("hf://user/birds").output_shape == (None, 8)
    with pytest.raises(ValueError, match="model.keras"):
        gsp_tf.from_pretrained("hf://user/birds", revision="v2")
    with pytest.raises(OSError, match="hf://user/cats cannot be downloaded: "):
        gsp_tf.from_pretrained("hf://user/cats")
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(ImportError, match=r'hf://user/birds needs .*_hub: pip install "\.'):
        gsp_tf.from_pretrained("hf://user/birds")


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """A folder for the repositories in the place of Hugging Face, where someone is logged in."""

    def upload(repo_id, folder_path, allow_patterns, delete_patterns, **_):
        for name in delete_patterns:
            (tmp_path / "hub" / repo_id / name).unlink(missing_ok=True)
        for name in os.listdir(folder_path):
            assert name in allow_patterns
            shutil.copy(f"{folder_path}/{name}", tmp_path / "hub" / repo_id)

    def create(repo_id, exist_ok):
        (tmp_path / "hub" / repo_id).mkdir(parents=True, exist_ok=exist_ok)

    monkeypatch.setattr(huggingface_hub, "get_token", lambda: "token")
    monkeypatch.setattr(huggingface_hub, "create_repo", create)
    monkeypatch.setattr(huggingface_hub, "upload_folder", upload)
    monkeypatch.chdir(tmp_path)
    return tmp_path / "hub"


def test_an_upload_to_hugging_face(calibrated, published, hub, command):
    code, printed, _ = command("publish", calibrated.path, "--out", "hf://me/birds")
    assert code == 0 and printed == "Uploaded: hf://me/birds\n"
    uploaded = hub / "me/birds"
    assert sorted(os.listdir(uploaded)) == sorted(os.listdir(published))
    assert sorted(os.listdir()) == ["hub"]
    assert gsp_tf.from_pretrained(uploaded).output_shape == (None, 8)
    assert 'from_pretrained("hf://me/birds")' in (uploaded / "README.md").read_text("utf-8")
    (uploaded / "LICENSE").touch()
    embedder = keras.Sequential([keras.Input((4, 4, 3)), keras.layers.Flatten()])
    assert gsp_tf.save_pretrained(embedder, "hf://me/birds") == "hf://me/birds"
    files = ["LICENSE", "README.md", "metadata.json", "model.keras"]  # none of the earlier run
    assert sorted(os.listdir(uploaded)) == files


def test_refusals_of_an_upload(calibrated, hub, monkeypatch, refused):
    def refuse(*args, **kwargs):
        raise ConnectionError("No route\nto host")

    publish = "publish", calibrated.path, "--out"
    for name in ("hf://birds", "hf://me/my birds", "hf://a/b/c"):
        refused(f"is named hf://USER/NAME; received {name}.", *publish, name)
    monkeypatch.setattr(huggingface_hub, "upload_folder", refuse)
    with pytest.raises(OSError, match="^hf://me/birds cannot be uploaded: No route to host$"):
        gsp_tf.save_pretrained(calibrated.path, "hf://me/birds")
    monkeypatch.setattr(huggingface_hub, "get_token", lambda: None)
    refused("hf://me/birds needs a login at Hugging Face: run hf auth", *publish, "hf://me/birds")
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(ImportError, match="hf://me/birds needs huggingface_hub: pip install"):
        gsp_tf.save_pretrained(calibrated.path, "hf://me/birds")
    assert sorted(os.listdir()) == ["hub"]
