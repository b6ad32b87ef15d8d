import functools
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
from digit_runs import run_command
from miniatures import write_cars196, write_cifar100, write_cub200, write_in_shop, write_sop

from gsp_tf import backbones, data
from gsp_tf.recipe import load_recipe
from gsp_tf.runs import Splits, build_learner, check_recipe, load_splits
from gsp_tf.runs._facts import shared_facts

EXPERIMENTS = Path(__file__).parents[2] / "experiments"
BENCHMARKS = EXPERIMENTS / "benchmarks"
METHODS = EXPERIMENTS / "methods"
WRITERS = {
    "cub200": lambda folder: write_cub200(folder, 44),
    "cars196": lambda folder: write_cars196(folder, 44),
    "sop": lambda folder: write_sop(folder, 48),
    "in_shop": lambda folder: write_in_shop(folder, 48),
    "cifar_collage": write_cifar100,
}
COUNTS = {
    "cub200": {"train": (44, 88), "test": (3, 6)},
    "cars196": {"train": (44, 88), "test": (3, 6)},
    "sop": {"train": (48, 96), "test": (3, 9)},
    "in_shop": {"train": (48, 96), "query": (3, 3), "gallery": (3, 6)},
    "cifar_collage": {"all": (100, 300)},
}
SMALL = ["--backbone.name", "conv4", "--backbone.weights", "null"]


@pytest.fixture(scope="module")
def miniatures(tmp_path_factory):
    """Folder of a miniature of every data set, under its name."""
    root = tmp_path_factory.mktemp("miniatures")
    for name, write in WRITERS.items():
        (root / name).mkdir()
        write(root / name)
    return root


@pytest.fixture
def check(miniatures, published, tmp_path, monkeypatch, capsys):
    """Function that checks files of `experiments` on a miniature: exit code and what is printed."""
    for name, counts in COUNTS.items():
        published(getattr(data, f"load_{name}"), counts)
    monkeypatch.chdir(tmp_path)

    def check(*files, options=()):
        options = ["--data.path", miniatures / files[0].stem, *options]
        code = run_command("check", *files, *options)
        assert list(tmp_path.iterdir()) == []
        return code, capsys.readouterr().out

    return check


SHARED = {
    name: functools.cache(getattr(backbones, name))
    for name in ("create", "freeze_batch_normalization")
}


@pytest.fixture
def shared_backbones(monkeypatch):
    """Every model gets the same backbone, built once."""
    for name, function in SHARED.items():
        monkeypatch.setattr(backbones, name, function)


def small(name):
    if name == "cifar_collage":
        return [*SMALL, "--data.image_size", "64"]
    return [*SMALL, "--data.image_size", "24", "--protocol.num_folds", "2"]


@pytest.mark.parametrize("name", WRITERS)
def test_every_data_set(check, name):
    code, output = check(BENCHMARKS / f"{name}.yaml", METHODS / "ms.yaml", options=small(name))
    assert code == 0 and "Nothing is missing." in output


@pytest.mark.parametrize("path", sorted(METHODS.glob("*.yaml")), ids=lambda path: path.stem)
def test_every_method_has_a_model_and_a_loss(path, shared_backbones):
    files = BENCHMARKS / "cub200.yaml", METHODS / "c1.yaml", path
    recipe = load_recipe(files, small("cub200"))
    learner = build_learner(recipe, num_classes=8, channels=3)
    side = recipe.data.image_size
    images = np.random.default_rng(0).uniform(0, 255, (8, side, side, 3)).astype("float32")
    outputs = learner(images, training=True)
    assert np.isfinite(learner.compute_loss(y=np.arange(8) // 2, y_pred=outputs))


def test_cifar_collage_names_the_classifier_that_it_starts_from(check, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # where no runs are
    files = BENCHMARKS / "cifar_collage.yaml", METHODS / "cifar_collage/c2.yaml"
    code, output = check(*files, options=["--data.classes_per_batch", "4"])
    assert code == 1 and "Missing (1):" in output
    assert "runs/resnetv2_20_cifar100-0 is not a run folder: it has no recipe.yaml." in output
    assert "96 images of 16 classes" in output and "4 classes x 4 images" in output


@pytest.mark.parametrize("name", ["resnet50", "bn_inception"])
@pytest.mark.parametrize("large", [[], ["large"], ["cars196"]])
def test_the_conventional_protocol(name, large):
    protocol = [EXPERIMENTS / "conventional" / f"{part}.yaml" for part in [name, *large]]
    recipe = load_recipe([BENCHMARKS / "cub200.yaml", *protocol, METHODS / "c1.yaml"])
    assert recipe.embedding.dim == 512 and recipe.protocol.monitor == "val_recall_at_1"
    assert recipe.backbone.name == name and recipe.backbone.freeze_batch_normalization
    if name == "resnet50":
        assert recipe.backbone.weights in backbones.pretrained(name)


def test_all_that_would_run(check, tmp_path_factory):
    """A row of the papers with weights from a file; the network and the images are smaller."""
    weights = tmp_path_factory.mktemp("weights") / "resnet20.weights.h5"
    backbones.create("resnet20", (32, 32, 3)).save_weights(weights)
    files = BENCHMARKS / "cub200.yaml", METHODS / "c2.yaml", METHODS / "gsp.yaml"
    options = ["--backbone.name", "resnet20", "--backbone.weights", weights]
    options += ["--data.image_size", "32"]
    code, output = check(*files, options=options)
    facts = dict(line.split("  ", 1) for line in output.splitlines() if "  " in line)
    facts = {name: fact.strip() for name, fact in facts.items()}
    assert code == 0
    assert facts["name"] == "c2-gsp" and facts["run folder"] == "runs/cub200-c2-gsp-0"
    assert facts["fold 3: train"] == "66 images of 33 classes"
    assert facts["fold 3: validation"] == "22 images of 11 classes"
    assert facts["test"] == "6 images of 3 classes"
    assert facts["backbone"].startswith(f"resnet20, weights {weights}, batch normalisation frozen")
    assert facts["pooling"].startswith("gsp(num_prototypes=64, transport_ratio=0.3, entropy_smooth")
    assert facts["embedding"].startswith("128 dimensions")
    assert "negative_margin=0.3841" in facts["loss"]
    assert facts["batch"] == "8 classes x 4 images = 32 images"
    assert facts["training"] == "at most 10,000 epochs x 100 steps, patience 15"
    assert facts["models"] == "4"
    assert facts["parameters of backbone"] == "273,392, trainable 270,256"
    assert float(facts["first batch"].removeprefix("loss ")) > 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--backbone.name", "mit_b1", "--data.image_size", "32"], 'pip install ".[hub]"'),
        (["--backbone.weights", "imagenet"], "weights of backbone 'conv4' must be None or"),
        (["--trainer", "ccp", "--training.patience", "null", "--loss.name", "proxy_nca"], "pair"),
    ],
)
def test_what_is_missing(check, monkeypatch, options, message):
    monkeypatch.setitem(sys.modules, "keras_hub", None)
    options = [*small("cub200"), *options]
    code, output = check(BENCHMARKS / "cub200.yaml", options=options)
    assert code == 1 and "Missing (1):" in output and message in output


def test_a_broken_image_and_a_loss_that_is_not_finite(check, tmp_path_factory):
    broken = tmp_path_factory.mktemp("broken")
    write_cub200(broken, 44)
    for path in broken.rglob("*.jpg"):
        path.write_bytes(b"no image")
    files = BENCHMARKS / "cub200.yaml", METHODS / "c1.yaml"
    code, output = check(*files, options=[*small("cub200"), "--data.path", broken])
    assert code == 1 and "Missing (1):" in output and "not an image" in output
    files = BENCHMARKS / "cub200.yaml", METHODS / "pnca.yaml"
    options = [*small("cub200"), "--data.classes_per_batch", "8", "--loss.temperature", "1e-45"]
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
    expected = f"1 of train and 1 of test, such as {first} and {second}"
    assert facts["shared images"] == expected


def test_identical_arrays_that_sets_share_are_counted():
    pixels = np.random.default_rng(0).integers(0, 256, (6, 8, 8, 1)).astype("uint8")
    pixels[4] = pixels[1]
    train, validation, test = (
        data.ArrayImages(pixels[part : part + 2], [0, 0], ["a"]) for part in (0, 2, 4)
    )
    text = shared_facts(Splits(train, validation, test))["shared images"]
    assert text == "1 of train and 1 of test, such as image 1 and image 0"
    text = shared_facts(Splits(train, test, test))["shared images"]  # the two are one set
    assert text == "1 of train and 1 of validation, such as image 1 and image 0"
