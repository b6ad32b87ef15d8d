import functools
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
from digit_runs import run_command
from miniatures import BIRDS, CARS, CLOTHES, HUNDRED, PRODUCTS

from gsp_tf import backbones, data
from gsp_tf.recipe import load_recipe
from gsp_tf.runs import build_learner, check_recipe, load_splits
from gsp_tf.runs._facts import shared_facts

BENCHMARKS = Path(__file__).parents[2] / "experiments/benchmarks"
METHODS = BENCHMARKS.with_name("methods")
MINIATURES = {
    "cub200": BIRDS,
    "cars196": CARS,
    "sop": PRODUCTS,
    "in_shop": CLOTHES,
    "cifar_collage": HUNDRED._replace(load=data.load_cifar_collage),
}
SMALL = ["--backbone.name", "conv4", "--backbone.weights", "null", "--data.classes_per_batch", "4"]


@pytest.fixture(scope="module")
def miniatures(tmp_path_factory):
    """Folder of a miniature of every data set, under its name."""
    root = tmp_path_factory.mktemp("miniatures")
    for name, miniature in MINIATURES.items():
        (root / name).mkdir()
        miniature.write(root / name)
    return root


@pytest.fixture
def check(miniatures, published, tmp_path, monkeypatch, capsys):
    """Function that checks files of `experiments` on a miniature: exit code and what is printed."""
    for miniature in MINIATURES.values():
        published(miniature.load, miniature.counts)
    monkeypatch.chdir(tmp_path)

    def check(*files, options=()):
        options = ["--data.path", miniatures / files[0].stem, *options]
        code = run_command("check", *files, *options)
        assert list(tmp_path.iterdir()) == []
        return code, capsys.readouterr().out

    return check


# Models of the methods get the same backbone, built once.
SHARED = {
    name: functools.cache(getattr(backbones, name))
    for name in ("create", "freeze_batch_normalization")
}


def small(name):
    if name == "cifar_collage":
        return [*SMALL, "--data.image_size", "64"]
    return [*SMALL, "--data.image_size", "24", "--protocol.num_folds", "2"]


@pytest.mark.parametrize("name", MINIATURES)
def test_every_data_set(check, name):
    code, output = check(BENCHMARKS / f"{name}.yaml", METHODS / "ms.yaml", options=small(name))
    assert code == 0 and "Nothing is missing." in output


@pytest.mark.parametrize("path", sorted(METHODS.glob("*.yaml")), ids=lambda path: path.stem)
def test_every_method_has_a_model_and_a_loss(path, monkeypatch):
    for name, function in SHARED.items():
        monkeypatch.setattr(backbones, name, function)
    files = BENCHMARKS / "cub200.yaml", METHODS / "c1.yaml", path
    recipe = load_recipe(files, small("cub200"))
    learner = build_learner(recipe, num_classes=8, channels=3)
    side = recipe.data.image_size
    images = np.random.default_rng(0).uniform(0, 255, (8, side, side, 3)).astype("float32")
    outputs = learner(images, training=True)
    assert np.isfinite(learner.compute_loss(y=np.arange(8) // 2, y_pred=outputs))


def test_all_that_would_run(check, tmp_path_factory):
    """A row of the papers with weights from a file; the network and the images are smaller."""
    weights = tmp_path_factory.mktemp("weights") / "resnet20.weights.h5"
    backbones.create("resnet20", (32, 32, 3)).save_weights(weights)
    files = BENCHMARKS / "cub200.yaml", METHODS / "c2.yaml", METHODS / "gsp.yaml"
    options = ["--backbone.name", "resnet20", "--backbone.weights", weights]
    options += ["--data.image_size", "32", "--data.classes_per_batch", "4"]
    code, output = check(*files, options=options)
    facts = dict(line.split("  ", 1) for line in output.splitlines() if "  " in line)
    facts = {name: fact.strip() for name, fact in facts.items()}
    assert code == 0
    assert facts["name"] == "c2-gsp" and facts["run folder"] == "runs/cub200-c2-gsp-0"
    assert facts["fold 3: train"] == "16 images of 8 classes"
    assert facts["fold 3: validation"] == "4 images of 2 classes"
    assert facts["test"] == "6 images of 3 classes"
    assert facts["backbone"].startswith(f"resnet20, weights {weights}, batch normalisation frozen")
    assert facts["pooling"].startswith("gsp(num_prototypes=64, transport_ratio=0.3, entropy_smooth")
    assert "negative_margin=0.3841" in facts["loss"]
    assert facts["batch"] == "4 classes x 4 images = 16 images"
    assert facts["training"] == "at most 10,000 epochs x 100 steps, patience 15"
    assert facts["parameters of backbone"] == "273,392, trainable 270,256"
    assert float(facts["first batch"].removeprefix("loss ")) > 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--backbone.name", "mit_b1", "--data.image_size", "32"], 'pip install ".[hub]"'),
        (["--trainer", "ccp", "--training.patience", "null", "--loss.name", "proxy_nca"], "pair"),
    ],
)
def test_what_is_missing(check, monkeypatch, options, message):
    monkeypatch.setitem(sys.modules, "keras_hub", None)
    options = [*small("cub200"), *options]
    code, output = check(BENCHMARKS / "cub200.yaml", options=options)
    assert code == 1 and "Missing (1):" in output and message in output


def test_a_loss_that_is_not_finite(check):
    files = BENCHMARKS / "cub200.yaml", METHODS / "pnca.yaml"
    options = [*small("cub200"), "--loss.temperature", "1e-45"]
    code, output = check(*files, options=options)
    assert code == 1 and "The loss of the first batch is not finite" in output


def test_identical_images_that_sets_share_are_named(write_recipe, digits, tmp_path):
    folder = shutil.copytree(digits, tmp_path / "digits")
    recipe = load_recipe(write_recipe(), ["--data.path", str(folder)])
    facts = check_recipe(recipe, tmp_path / "run").facts
    assert facts["shared images"] == "none is in two of train, validation, test"
    splits = load_splits(recipe)
    first, second = splits.train.paths[0], splits.test.paths[5]
    shutil.copy(first, second)
    facts = check_recipe(recipe, tmp_path / "run").facts
    assert facts["shared images"] == f"1 of train and 1 of test, such as {first} and {second}"
    facts = shared_facts(splits._replace(validation=splits.test))  # the two are one set
    assert facts["shared images"] == f"1 of train and 1 of validation, such as {first} and {second}"
