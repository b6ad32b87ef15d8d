"""The ladder of `gsp-tf train FOLDER`: what each rung starts from, and what is kept."""

import shlex

import numpy as np
import pytest
from digit_runs import run_command
from own_model import register_pretrained
from PIL import Image

from gsp_tf.runs import Ensemble, Ladder, Run, RunFolder, choices, choose_recipe, ladder_recipes
from gsp_tf.runs.frozen import _whitening, whitening_weights

SMALL = ["--backbone.name", "two_blocks", "--data.image_size", "32"]
SHORT = [*SMALL, "--training.epochs", "2", "--training.steps_per_epoch", "2"]


@pytest.fixture
def photographs(tmp_path, monkeypatch):
    """Photographs of ten classes, and a network with weights whose second block can train alone."""
    monkeypatch.chdir(tmp_path)
    register_pretrained(monkeypatch, tmp_path, "two_blocks", blocks=((24, 4), (8, 2)))
    rng = np.random.default_rng(0)
    for number, colours in enumerate(rng.integers(0, 256, (40, 4, 4, 3))):
        folder = tmp_path / "my_images" / f"class {number % 10}"
        folder.mkdir(parents=True, exist_ok=True)
        tint = np.eye(3)[number % 3] * 12 * (number % 10)
        Image.fromarray(np.uint8(0.5 * colours + tint)).resize((32, 32)).save(
            folder / f"{number}.png"
        )
    return tmp_path


def rung(name, path="runs/my_images-0"):
    return RunFolder(f"{path}/rungs/{name}")


def test_a_ladder_that_was_stopped_continues_and_each_rung_starts_as_the_best_below(
    photographs, printed_by, refused, monkeypatch
):
    printed = printed_by("train", "my_images", *SHORT, "--minutes", "0")
    assert "About" in printed and printed.splitlines()[-1] == (
        "The time is over. To continue: gsp-tf train --resume runs/my_images-0"
    )
    assert rung("head").metrics()["epochs"] == 1 and not rung("block").metrics()
    assert Run("runs/my_images-0").folder.metrics() == rung("head").metrics()
    printed = printed_by("train", "--resume", "runs/my_images-0")
    rungs = [rung(name) for name in ("head", "block", "network")]
    assert [of.metrics()["epochs"] for of in rungs] == [2, 2, 2]
    trained = [len(Run(of.path).learner.embedder.trainable_weights) for of in rungs]
    assert trained == [2, 4, 6]  # the map; a block with it; both blocks, batch normalisation frozen
    best = -1.0
    for below, folder in zip([None, *rungs], rungs, strict=False):
        metrics = folder.metrics()
        if below is not None:
            assert metrics["untrained"]["val_map_at_r"] == pytest.approx(best, abs=0.02)  # float16
        assert metrics["best_val_map_at_r"] >= metrics["untrained"]["val_map_at_r"]
        best = metrics["best_val_map_at_r"]
    kept = RunFolder("runs/my_images-0")
    assert kept.metrics()["best_val_map_at_r"] == best
    assert "(kept)" in printed
    frozen = {of.metrics()["frozen"]["map_at_r"] for of in (*rungs, kept)}
    assert len(frozen) == 1 and "initial run" not in printed
    before = kept.model_path.read_bytes()
    assert before != rungs[0].model_path.read_bytes()
    assert kept.report_path.exists()
    monkeypatch.setattr(Run, "report", lambda self: "report.html")
    for status in "interrupted", "finished":  # only shows the result
        rungs[-1].update_metrics(status=status)
        printed = printed_by("train", "my_images", *SHORT, "--minutes", "0")
        assert kept.model_path.read_bytes() == before
        assert ("The time is over" in printed) == (status == "interrupted")
    assert not list(photographs.glob("runs/*-2"))
    assert run_command("evaluate", "runs/my_images-0") == 0
    assert run_command("train", "--resume", "runs/my_images-0", "--training.epochs", "3") == 0
    assert [of.metrics()["epochs"] for of in rungs] == [2, 2, 3]
    of_another = "train", "my_images", *SHORT[:-4], "--run", "runs/my_images-0"
    refused("is a run of another recipe", *of_another)
    others = ladder_recipes(choose_recipe("my_images", backbone="two_blocks"))
    splits = Run("runs/my_images-0").splits
    with pytest.warns(UserWarning, match="so this run goes to runs/my_images-0-2"):
        beside = Ladder.at("runs/my_images-0", others, splits, or_beside=True)
    assert beside.path.name == "my_images-0-2"
    with pytest.raises(FileNotFoundError, match="not a ladder"):
        Ladder("my_images")


def test_photographs_that_are_read_in_another_way_climb_and_the_rungs_share_copies(
    photographs, monkeypatch, printed_by, without_pages
):
    monkeypatch.setattr(choices, "_LARGE", 0)
    options = *SHORT, "--minutes", "0", "--data.skip_unreadable", "false"
    printed = printed_by("train", "my_images", *options)
    assert "to reduced copies in runs/images" in printed and "trained head (kept)" in printed
    assert rung("head").metrics()["epochs"] == 1
    assert rung("network").recipe().data.cache == "runs/images"
    folders = [rung(name) for name in ("head", "block", "network")]
    found = {Run(of.path).test_images for of in (*folders, RunFolder("runs/my_images-0"))}
    assert found == {rung("head").metrics()["test_images"]}
    copies = [np.load(path).shape for path in photographs.glob("runs/images/*/*.npy")]
    assert copies == [(32, 32, 3)] * 40
    assert run_command("adapt", "my_images", *SHORT) == 0  # reads each photograph once
    assert RunFolder("runs/my_images-linear-0").recipe().data.cache is None


def test_a_folder_trains_the_models_of_a_protocol(photographs, monkeypatch):
    trained = []
    monkeypatch.setattr(Ensemble, "train", lambda run: trained.extend(run.folds))
    monkeypatch.setattr(Ensemble, "show", lambda run: None)
    protocol = ["--protocol.name", "mlrc", "--protocol.num_folds", "2"]
    assert run_command("train", "my_images", *SMALL, *protocol) == 0
    assert [sorted(of.train.class_names + of.validation.class_names) for of in trained] == [
        [f"class {number}" for number in range(5)]
    ] * 2


def test_a_manifest_climbs_with_the_splits_that_it_lists(photographs, printed_by, without_pages):
    lines = ["path,label,split"]
    for label, split in enumerate(["train"] * 4 + ["validation"] * 2 + ["query"] * 2):
        for number, path in enumerate(sorted(photographs.glob(f"my_images/class {label}/*.png"))):
            is_searched = split == "query" and number == 0
            lines.append(f"{path},class {label},{'gallery' if is_searched else split}")
    (photographs / "listed.csv").write_text("\n".join(lines))
    printed = printed_by("train", "listed.csv", *SHORT, "--minutes", "0")
    assert "32 of 8 classes (4 each)" in printed
    assert "4 train, 2 choose the best model, 2 test it unseen" in printed
    run = Run("runs/listed-0")
    assert run.splits.train.class_names == ("class 0", "class 1", "class 2", "class 3")
    assert run.splits.searched.class_names == ("class 6", "class 7")
    assert run.folder.metrics()["test"]["num_queries"] == len(run.splits.test) == 6


def test_a_ladder_ends_where_a_rung_is_no_better(photographs, printed_by, without_pages):
    path = "runs/my images"
    options = "--training.learning_rate", "1e-12", "--run", path
    printed = printed_by("train", "my_images", *SHORT, *options)
    assert rung("block", path).metrics()["best_epoch"] is None
    assert not rung("network", path).metrics()
    begin = "so the whole network was not tried. To train it all the same: gsp-tf train "
    words = shlex.split(printed.split(begin)[1].splitlines()[0])
    checked = " ".join(printed_by("check", *words, "--run", "runs/all").split())
    assert f"two_blocks, the model of {path}, batch normalisation frozen" in checked
    assert "at most 2 epochs x 2 steps" in checked


def test_fields_that_are_given_hold_for_all_rungs(photographs):
    recipe = choose_recipe("my_images", backbone="two_blocks", weights="imagenet")
    own = ladder_recipes(recipe)
    assert len({of.training.epochs for of in own.values()}) == 3
    given = ladder_recipes(recipe, {"training": {"epochs": 15}, "data": {"feature_cache": None}})
    assert {of.training.epochs for of in given.values()} == {15}
    assert given["head"].data.feature_cache is None
    with pytest.raises(ValueError, match="No network has pretrained weights"):
        ladder_recipes(choose_recipe("my_images", backbone="conv4"))


def test_whitened_features_spread_alike_within_their_classes():
    rng = np.random.default_rng(0)
    labels = np.arange(4000) % 5
    spread = rng.normal(size=(4, 4))
    features = 3 * rng.normal(size=(5, 4))[labels] + rng.normal(size=(4000, 4)) @ spread + 7
    kernel, bias = _whitening(features, labels)
    mapped = features @ kernel + bias
    within = mapped - np.stack([mapped[labels == label].mean(0) for label in range(5)])[labels]
    np.testing.assert_allclose(np.cov(within.T), np.eye(4), atol=0.05)
    np.testing.assert_allclose(mapped.mean(0), 0, atol=1e-9)
    scaled, scaled_bias = whitening_weights(features, labels, 4)
    np.testing.assert_allclose(np.linalg.norm(scaled), 2)  # that of an identity
    np.testing.assert_allclose(scaled_bias / bias, scaled[0, 0] / kernel[0, 0])
    two, _ = _whitening(features, labels, 2)
    kept = np.var(features @ two, axis=0).sum()
    directions = rng.normal(size=(200, 4, 2))
    others = (np.linalg.qr(direction)[0] for direction in directions)
    assert all(kept >= np.var(mapped @ other, axis=0).sum() - 1e-6 for other in others)
