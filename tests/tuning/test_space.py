import re

import optuna
import pytest

from gsp_tf._names import nested
from gsp_tf.recipe import ClassRecipe, DataRecipe, Recipe, compose, resolved
from gsp_tf.tuning import TuningSpace

BASE = resolved(Recipe(loss=ClassRecipe("contrastive", {"negative_margin": 1.0})))


def distributions(space):
    """The parameters of a trial that optuna proposes."""
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
    trial = study.ask()
    values = space.suggest(trial)
    assert space.values(trial.params) == values == space.suggest(trial)  # a trial keeps its own
    return trial.distributions, values


def test_ranges_and_choices_become_those_of_optuna():
    loss = [{"name": "triplet", "margin": 0.2}, {"name": "contrastive"}]
    fields = {
        "training.learning_rate": {"low": 1e-5, "high": 1e-2, "log": True},
        "embedding.dim": {"low": 16, "high": 64, "step": 16},
        "training.schedule.name": ["constant", "cosine"],
        "loss": loss,
        "head": [None],
    }
    space = TuningSpace(fields).fitted(BASE)
    of_optuna, values = distributions(space)
    classes = optuna.distributions
    assert of_optuna == {
        "training.learning_rate": classes.FloatDistribution(1e-5, 1e-2, log=True),
        "embedding.dim": classes.IntDistribution(16, 64, step=16),
        "training.schedule.name": classes.CategoricalDistribution(["constant", "cosine"]),
        "loss": classes.CategoricalDistribution(
            ["{name: triplet, margin: 0.2}", "{name: contrastive}"]
        ),
        "head": classes.CategoricalDistribution([None]),
    }
    recipe = space.recipe(BASE, {**values, "loss": loss[0], "embedding.dim": 48})
    assert recipe.loss.arguments["margin"] == 0.2 and recipe.embedding.dim == 48


@pytest.mark.parametrize(
    ("field", "others"),
    [
        ("loss_weights.first", {"second": 0.1}),
        ("training.learning_rate_multipliers.conv.*", {"proxies": 100.0, "x.y": 0.0}),
        ("training.optimizer_arguments.epsilon", {"amsgrad": True}),
    ],
)
def test_a_search_of_one_entry_keeps_the_others(field, others):
    mapping, _, entry = field.removesuffix(".*").rpartition(".")
    entry += ".*" * field.endswith(".*")
    base = compose([], nested({"head.name": "dense_branches", mapping: others}))
    space = TuningSpace({field: {"low": 0, "high": 1}}).fitted(base)
    ((_, distribution),) = distributions(space)[0].items()
    assert isinstance(distribution, optuna.distributions.IntDistribution)
    recipe = space.recipe(base, {field: 0.5})
    for part in mapping.split("."):
        recipe = getattr(recipe, part)
    assert recipe == {**others, entry: 0.5}
    base = space.recipe(base, {field: 0.5})  # which now has a fraction there
    ((_, distribution),) = distributions(space.fitted(base))[0].items()
    assert isinstance(distribution, optuna.distributions.FloatDistribution)


def test_a_search_from_files_and_texts(tmp_path):
    (tmp_path / "search.yaml").write_text("embedding.dim: [32]\nloss.margin: {low: 0.1, high: 1}")
    space = TuningSpace.read([str(tmp_path / "search.yaml"), "embedding.dim: [16, 64]"])
    assert space.fields == {"embedding.dim": [16, 64], "loss.margin": {"low": 0.1, "high": 1}}
    dims = list(range(8, 256))  # a text that is too long for the name of a file
    assert TuningSpace.read([f"embedding.dim: {dims}"]).fields == {"embedding.dim": dims}
    assert TuningSpace.read(["a.b: {low: 1e-5, high: 1, log: true}"]).fields["a.b"]["low"] == 1e-5


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("no/such/file.yaml", "'no/such/file.yaml' is neither a file nor a search such as"),
        ("embedding.dim: 3", "The search of embedding.dim: expected a list of choices, such as"),
        ("training.jit_compile: [1, true]", "must be different values"),
        ("{loss: ['{name: triplet}', {name: triplet}]}", "must be different values"),
        ("embedding.dim: {low: 3, hihg: 4}", "hihg is not a part of a range; did you mean high?"),
        ("embedding.dim: {low: 3, high: 3}", "low must be below high"),
        ("embedding.dim: {low: 0, high: 3, log: true}", "a range with log above 0"),
        ("{loss: [{name: triplet}], loss.margin: [1]}", "loss and loss.margin overlap"),
        ("data.split_seed: [1, 2]", "data.split_seed cannot be searched: it decides on which"),
    ],
)
def test_refused_searches(source, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        TuningSpace.read([source])


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"embeding.dim": [3]}, "The search of embeding.dim cannot try 3: embeding is not a field"),
        ({"embedding.dim": {"low": 0, "high": 8}}, "cannot try 0: embedding.dim must be an"),
        ({"embedding.dim": {"low": 16, "high": 17, "step": 0.5}}, "dim cannot try 16.5"),
        ({"loss.name": ["triplt"]}, "cannot try 'triplt': loss.name must be one of"),
    ],
)
def test_values_that_the_recipe_does_not_take(fields, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        TuningSpace(fields).fitted(BASE)


@pytest.mark.parametrize("field", ["augmentation", "horizontal_flip", "min_crop_area"])
def test_views_that_judge_a_trial_cannot_be_searched(field):
    views = {"views": 2, "classes_per_batch": 0, "unlabelled_per_batch": 8, "min_crop_area": 0.2}
    choices = TuningSpace({f"data.{field}": [getattr(DataRecipe(), field)]})
    of_classes, unlabelled = (
        resolved(Recipe(data=DataRecipe(name, "photos", **views), loss=ClassRecipe("nt_xent")))
        for name in ("folder", "unlabelled")
    )
    assert choices.fitted(of_classes).names == [f"data.{field}"]
    with pytest.raises(ValueError, match=f"data.{field} cannot be searched: it decides on which"):
        choices.fitted(unlabelled)
