from pathlib import Path

import pytest

from gsp_tf.experiment import build_learner
from gsp_tf.recipe import Recipe, ScheduleRecipe, TrainingRecipe, load_recipe, save_recipe

EXPERIMENTS = Path(__file__).parent.parent / "experiments"


@pytest.mark.parametrize("path", sorted(EXPERIMENTS.glob("*.yaml")), ids=lambda path: path.stem)
def test_every_recipe_builds_its_learner(path):
    recipe = load_recipe(path)
    learner = build_learner(recipe, num_classes=20, channels=1)
    assert learner.embedder.output_names


def test_a_pair_of_recipes_differs_in_the_pooling_only():
    gap, gsp = (
        load_recipe(EXPERIMENTS / f"omniglot_collage_{name}.yaml") for name in ("gap", "gsp")
    )
    assert (gap.data, gap.backbone, gap.embedding) == (gsp.data, gsp.backbone, gsp.embedding)
    assert (gap.loss, gap.training, gap.evaluation) == (gsp.loss, gsp.training, gsp.evaluation)


def test_round_trip_of_a_resolved_recipe(tmp_path):
    recipe = load_recipe(EXPERIMENTS / "demo.yaml", ["--pooling.transport_ratio", "0.2"])
    assert recipe.pooling.transport_ratio == 0.2
    save_recipe(recipe, tmp_path / "recipe.yaml")
    assert load_recipe(tmp_path / "recipe.yaml") == recipe
    assert [path.name for path in tmp_path.iterdir()] == ["recipe.yaml"]


def test_round_trip_of_a_training_with_everything(tmp_path):
    training = TrainingRecipe(
        learning_rate_multipliers={"proxies|centers$": 100.0, "conv2d": 0.0},
        schedule=ScheduleRecipe("plateau", minimum=1e-6),
        warmup_epochs=1,
        warmup_learning_rate_multiplier=10.0,
        weight_decay=1e-4,
        weight_decay_exclusions=["batch_normalization", "bias"],
        clip_norm=10.0,
    )
    save_recipe(Recipe(training=training), tmp_path / "recipe.yaml")
    loaded = load_recipe(tmp_path / "recipe.yaml").training
    assert loaded == training
    assert list(loaded.learning_rate_multipliers) == ["proxies|centers$", "conv2d"]


def test_multipliers_on_the_command_line_replace_those_of_the_file(tmp_path):
    path = tmp_path / "recipe.yaml"
    path.write_text("training: {learning_rate_multipliers: {proxies: 100}}")
    assert load_recipe(path).training.learning_rate_multipliers == {"proxies": 100.0}
    options = ["--training.learning_rate_multipliers", "{bias: 2}"]
    assert load_recipe(path, options).training.learning_rate_multipliers == {"bias": 2.0}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"learning_rate": 0.0}, "learning_rate must be positive and finite, received 0.0"),
        (
            {"learning_rate_multipliers": {"bias": -1.0}},
            r"learning_rate_multipliers\[bias\] must be 0 or more and finite, received -1.0",
        ),
        ({"learning_rate_multipliers": {"bias": float("inf")}}, "must be 0 or more and finite"),
        ({"warmup_epochs": -1}, "warmup_epochs must be 0 or more and below training.epochs, 10"),
        ({"warmup_epochs": 10}, "received 10"),
        ({"warmup_learning_rate_multiplier": 0.0}, "must be positive and finite, received 0.0"),
        ({"weight_decay": -0.1}, "weight_decay must be 0 or more and finite, received -0.1"),
        ({"l2_regularization": -1.0}, "l2_regularization must be 0 or more and finite"),
        ({"optimizer": "adamw"}, "weight_decay must be above 0 with training.optimizer=adamw"),
        ({"weight_decay_exclusions": ["bias"]}, "must be empty without a training.weight_decay or"),
        ({"clip_norm": 0.0}, "clip_norm must be null, or positive and finite, received 0.0"),
        (
            {"learning_rate": 1e-5, "schedule": ScheduleRecipe(minimum=1e-4)},
            "minimum must be at most training.learning_rate, 1e-05, received 0.0001",
        ),
    ],
)
def test_training_out_of_range(settings, message):
    with pytest.raises(ValueError, match=message):
        TrainingRecipe(**settings)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"decay_factor": 1.0}, "decay_factor must be above 0 and below 1, received 1.0"),
        ({"decay_factor": 0.0}, "received 0.0"),
        ({"decay_epochs": 0}, "decay_epochs must be 1 or more, received 0"),
        ({"patience": 0}, "patience must be 1 or more, received 0"),
        ({"min_delta": -0.1}, "min_delta must be 0 or more, received -0.1"),
        ({"cooldown": -1}, "cooldown must be 0 or more, received -1"),
        ({"minimum": -0.1}, "minimum must be null, or 0 or more, received -0.1"),
        ({"minimum": float("nan")}, "received nan"),
    ],
)
def test_schedule_out_of_range(settings, message):
    with pytest.raises(ValueError, match=f"^training.schedule.*{message}"):
        ScheduleRecipe(**settings)


def test_every_field_has_a_help_text(capsys):
    from jsonargparse import ArgumentParser

    from gsp_tf.recipe import add_recipe_arguments

    parser = ArgumentParser()
    add_recipe_arguments(parser)
    undocumented = [
        action.dest
        for action in parser._actions
        if action.option_strings and "." in action.dest and not action.help
    ]
    assert not undocumented
    assert Recipe().pooling.transport_ratio == 0.3
