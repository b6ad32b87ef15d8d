from pathlib import Path

import numpy as np
import pytest
from digit_runs import run_command
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gsp_tf.recipe import (
    BackboneRecipe,
    CCPRecipe,
    ClassRecipe,
    CollageRecipe,
    DataRecipe,
    Recipe,
    ScheduleRecipe,
    TrainingRecipe,
    load_recipe,
    resolved,
    save_recipe,
)
from gsp_tf.runs import build_learner

EXPERIMENTS = Path(__file__).parent.parent / "experiments"


@pytest.mark.parametrize("path", sorted(EXPERIMENTS.glob("*.yaml")), ids=lambda path: path.stem)
def test_every_recipe_builds_its_learner(path):
    recipe = load_recipe(path)
    learner = build_learner(recipe, num_classes=2, channels=1)
    assert learner.embedder.output_names


def test_round_trip_of_a_training_with_everything(tmp_path):
    training = TrainingRecipe(
        learning_rate_multipliers={"proxies|centers$": 100.0, "conv2d": 0.0},
        schedule=ScheduleRecipe("plateau", minimum=1e-6),
        warmup_epochs=1,
        warmup_learning_rate_multiplier=10.0,
        weight_decay=1e-4,
        weight_decay_exclusions=["batch_normalization", "bias"],
        clip_norm=10.0,
        optimizer="sgd",
        optimizer_arguments={"momentum": 0.8, "nesterov": True},
        ema_momentum=0.99,
        gradient_accumulation_steps=2,
        lowest_layer_multiplier=0.1,
    )
    recipe = resolved(
        Recipe(pooling=ClassRecipe("gsp", {"transport_ratio": 0.2}), training=training)
    )
    save_recipe(recipe, tmp_path / "recipe.yaml")
    loaded = load_recipe(tmp_path / "recipe.yaml")
    assert loaded == recipe and [path.name for path in tmp_path.iterdir()] == ["recipe.yaml"]
    assert list(loaded.training.learning_rate_multipliers) == ["proxies|centers$", "conv2d"]


def test_numbers_of_numpy_are_saved_as_those_of_python(tmp_path):
    training = TrainingRecipe(np.int64(3), learning_rate=np.float32(0.5))
    recipe = resolved(Recipe(seed=np.uint32(7), training=training))
    assert recipe == resolved(Recipe(seed=7, training=TrainingRecipe(3, learning_rate=0.5)))
    save_recipe(recipe, tmp_path / "recipe.yaml")
    assert load_recipe(tmp_path / "recipe.yaml") == recipe
    with pytest.raises(ValueError, match="training.epochs must be an integer from 0 .* -1"):
        TrainingRecipe(np.int64(-1))


@pytest.mark.parametrize("text", ["1e5", "-1_0.5E+3", "1:30", "0x1f", "true", "2026-01-02", "é "])
def test_a_text_that_looks_like_a_number_stays_a_text(tmp_path, text):
    recipe = resolved(Recipe(name="run", initial_run=text, data=DataRecipe(path=text)))
    save_recipe(recipe, tmp_path / "recipe.yaml")
    assert load_recipe(tmp_path / "recipe.yaml") == recipe


def test_multipliers_on_the_command_line_replace_those_of_the_file(tmp_path):
    path = tmp_path / "recipe.yaml"
    path.write_text("training: {learning_rate_multipliers: {proxies: 100}}")
    assert load_recipe(path).training.learning_rate_multipliers == {"proxies": 100.0}
    options = ["--training.learning_rate_multipliers", "{bias: 2}"]
    assert load_recipe(path, options).training.learning_rate_multipliers == {"bias": 2.0}


@pytest.fixture
def write(tmp_path):
    """Function that writes recipe files, given as `name=text`, and returns their paths."""

    def write(**texts):
        for name, text in texts.items():
            (tmp_path / f"{name}.yaml").write_text(text)
        return [tmp_path / f"{name}.yaml" for name in texts]

    return write


def test_later_files_win_field_by_field(write):
    files = write(
        images="data: {name: cub200, image_size: 227, collage: {grid: 2}}\nccp: {pool_size: 7}",
        loss="loss: {name: multi_similarity, alpha: 14.35, base: 0.66}",
        other="data: {image_size: 224}\nloss: {name: contrastive, negative_margin: 1}",
    )
    recipe = load_recipe(files, ["--ccp.patience", "9"])
    assert recipe.data == DataRecipe("cub200", image_size=224, collage=CollageRecipe(grid=2))
    expected = {"positive_margin": 0.0, "normalize": True, "negative_margin": 1.0}
    assert recipe.loss.name == "contrastive"
    assert recipe.loss.arguments.items() >= expected.items()
    assert "alpha" not in recipe.loss.arguments
    assert recipe.ccp == CCPRecipe(pool_size=7, patience=9)
    recipe = load_recipe(files, ["--data.image_size", "64", "--loss.positive_margin", "0.1"])
    assert recipe.data.image_size == 64
    assert recipe.loss.arguments.items() >= {"negative_margin": 1, "positive_margin": 0.1}.items()


def test_a_file_that_names_another_class_starts_its_section_afresh(write):
    files = write(
        gsp="pooling: {num_prototypes: 7}", same="pooling: {name: gsp, transport_ratio: 0.2}"
    )
    arguments = load_recipe(files).pooling.arguments
    assert (arguments["num_prototypes"], arguments["transport_ratio"]) == (7, 0.2)
    assert load_recipe(files, ["--pooling.name", "gap"]).pooling == ClassRecipe("gap")
    back = write(gap="pooling: {name: gap}", gsp_again="pooling: {name: gsp}")
    assert load_recipe([*files, *back]).pooling.arguments["num_prototypes"] == 64
    miner = write(miner="{loss: {name: triplet}, miner: {name: multi_similarity}}")
    assert load_recipe(miner, ["--miner.epsilon", "0.3"]).miner.arguments == {"epsilon": 0.3}
    assert load_recipe(miner, ["--miner", "null"]).miner is None


def test_the_name_of_several_files(write):
    files = write(cub200="data: {name: cub200}", c2="{seed: 1}", gsp="{seed: 2}")
    assert load_recipe(files).name == "c2-gsp"
    assert load_recipe(files, ["--name", "mine"]).name == "mine"
    assert load_recipe([files[0]]).name == load_recipe(files[0]).name == Recipe().name
    assert load_recipe([*files, *write(named="name: Ours")]).name == "Ours"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("trainer: ccp", "training.patience must be null with trainer=ccp"),
        ("training: {schedule: null}", "training.schedule must have fields, received null"),
        ("x: [1", "did not find expected"),
    ],
)
def test_an_error_names_its_file(write, text, message):
    files = write(first="training: {patience: 3}", last="{seed: 1}", bad=text, other="{seed: 2}")
    with pytest.raises(ValueError, match=f"^{files[2]}: .*{message}"):
        load_recipe(files)


def test_an_error_of_the_command_line_names_no_file_and_a_missing_file_is_named(write, tmp_path):
    files = write(first="training: {patience: 3}", last="{seed: 1}")
    with pytest.raises(ValueError, match="^training.epochs must be an integer from 0"):
        load_recipe(files, ["--training.epochs", "-1"])
    with pytest.raises(ValueError, match=f"^{tmp_path}/none.yaml: .*does not exist"):
        load_recipe([*files, tmp_path / "none.yaml"])


def test_a_file_that_is_no_text_is_refused_as_one(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("photo.jpg").write_bytes(b"\xff\xd8\xff\xe0")
    for arguments in ["train", "photo.jpg"], ["tune", "a.yaml", "--search", "photo.jpg"]:
        assert run_command(*arguments) == 1
        said = "gsp-tf: error: photo.jpg: the file is not text in UTF-8; expected YAML\n"
        assert capsys.readouterr().err == said


def test_a_fault_that_a_later_file_mends(write):
    files = write(first="training: {optimizer: adamw}", last="training: {weight_decay: 0.1}")
    assert load_recipe(files).training.weight_decay == 0.1
    with pytest.raises(ValueError, match="above 0 with training.optimizer=adamw"):
        load_recipe(files[:1])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Recipe(trainer="CCP"), "trainer must be one of fit, ccp, classification, rec"),
        (lambda: Recipe(data={"name": "glyphs"}), "data must be a DataRecipe, received {'name'"),
        (lambda: Recipe(pooling=None), "pooling must be a ClassRecipe, received null"),
        (lambda: DataRecipe(views=True), "data.views must be one of 1, 2, received True"),
        (lambda: DataRecipe(horizontal_flip="no"), "horizontal_flip must be true or false, rec"),
        (lambda: BackboneRecipe(freeze="stem"), r"freeze must be a list of texts in brackets"),
    ],
)
def test_a_section_refuses_values_of_other_types(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_recipes_and_options_of_sections_name_no_code(tmp_path, monkeypatch, capsys):
    (tmp_path / "bad_module.py").write_text("open('executed', 'w')")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    for text in "class_path: bad_module.A", "loss: {margins: [{class_path: bad_module.A}]}":
        (tmp_path / "recipe.yaml").write_text(text)
        assert run_command("check", "recipe.yaml") == 1
        told = "recipe.yaml: Line 1: a recipe names no classes, received"
        assert told in capsys.readouterr().err
    for section in "data", "data.canvas", "training":
        for text in "bad_module.Data", "bad_module.py", "os.path":
            assert run_command("check", f"--{section}", text) == 1
            told = f"{section} is a section; give its fields, such as --{section}."
            assert told in capsys.readouterr().err
    assert not (tmp_path / "executed").exists()


NAMES = st.sampled_from(
    ["name", "seed", "data", "training", "loss", "margin", "schedule", "epochs", "miner", "x.y"]
)
SCALARS = st.one_of(
    NAMES,
    st.integers(-3, 2**70).map(str),
    st.floats().map(str),
    st.sampled_from(
        ["null", "true", "~", "*a", "&a 3", "!!str 3", "=", "<<", "'", "[", "2020-01-01"]
    ),
    st.text(max_size=5),
)
YAML = st.recursive(
    SCALARS,
    lambda parts: st.one_of(
        st.lists(parts, max_size=3).map(lambda values: f"[{', '.join(values)}]"),
        st.lists(st.tuples(NAMES, parts), max_size=4).map(
            lambda pairs: "{" + ", ".join(f"{key}: {value}" for key, value in pairs) + "}"
        ),
    ),
    max_leaves=8,
)


@given(st.lists(st.tuples(NAMES, YAML), max_size=3))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
def test_any_file_is_a_recipe_or_refused(tmp_path, pairs):
    file = tmp_path / "any.yaml"
    text = "\n".join(f"{key}: {value}" for key, value in pairs)
    file.write_bytes(text.encode("utf-8", "surrogatepass"))
    options = ["--" + "=".join(pairs[0])] if pairs else []
    for arguments in ((file, ()), ((), options)):
        try:
            recipe = load_recipe(*arguments)
        except ValueError as error:
            assert str(error)
        else:
            assert isinstance(recipe, Recipe)
