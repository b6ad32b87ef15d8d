import keras
import numpy as np
import pytest
import tensorflow as tf

from gsp_tf._names import NAMES
from gsp_tf.recipe import BackboneRecipe, Recipe, ScheduleRecipe, TrainingRecipe, load_recipe
from gsp_tf.runs import Run, build_learner
from gsp_tf.runs._optimizer import build_optimizer, build_warmup_optimizer, plateau_callbacks


def rates(recipe, epochs):
    """The learning rate at the start of the first epochs."""
    schedule = build_optimizer(recipe)
    values = []
    for epoch in range(epochs):
        schedule.iterations.assign(epoch * recipe.steps_per_epoch)
        values.append(float(schedule.learning_rate))
    return values


def test_step():
    schedule = ScheduleRecipe("step", decay_factor=0.1, decay_epochs=2)
    recipe = TrainingRecipe(learning_rate=1.0, steps_per_epoch=7, schedule=schedule)
    assert rates(recipe, 5) == pytest.approx([1, 1, 0.1, 0.1, 0.01])


@pytest.mark.parametrize(("minimum", "last"), [(None, 0.0), (0.25, 0.25)])
def test_cosine_ends_with_training(minimum, last):
    schedule = ScheduleRecipe("cosine", minimum=minimum)
    recipe = TrainingRecipe(
        epochs=7, warmup_epochs=3, learning_rate=0.5, steps_per_epoch=5, schedule=schedule
    )
    middle = (0.5 + last) / 2
    values = rates(recipe, 6)
    assert [values[i] for i in (0, 2, 4, 5)] == pytest.approx([0.5, middle, last, last])


@pytest.mark.parametrize(("minimum", "smallest"), [(None, 1e-6), (0.0, 0.0)])
def test_plateau(minimum, smallest):
    schedule = ScheduleRecipe("plateau", patience=3, cooldown=4, min_delta=0.2, minimum=minimum)
    callback = plateau_callbacks(schedule, "score")["plateau"]
    assert isinstance(callback, keras.callbacks.ReduceLROnPlateau)
    assert (callback.monitor, callback.mode) == ("score", "max")
    assert (callback.factor, callback.patience, callback.cooldown) == (0.5, 3, 4)
    assert abs(callback.min_delta) == 0.2 and callback.min_lr == smallest


@pytest.mark.parametrize("name", NAMES["optimizer"])
def test_every_optimizer_of_the_list_takes_the_fields(name):
    recipe = TrainingRecipe(
        optimizer=name,
        weight_decay=0.2,
        ema_momentum=0.0 if name == "schedule_free_adamw" else 0.9,
        gradient_accumulation_steps=2,
    )
    found = build_optimizer(recipe)
    assert type(found).__name__.lower() == name.replace("_", "")
    assert (found.weight_decay, found.gradient_accumulation_steps) == (0.2, 2)
    assert found.use_ema == (name != "schedule_free_adamw")
    if found.use_ema:
        assert found.ema_momentum == 0.9
    assert not build_warmup_optimizer(recipe, []).use_ema  # the averages begin after it
    plain = build_optimizer(TrainingRecipe(optimizer="muon"))
    assert plain.weight_decay is plain.adam_weight_decay is plain.global_clipnorm is None


def test_arguments_of_an_optimizer():
    recipe = TrainingRecipe(optimizer="sgd", optimizer_arguments={"nesterov": True})
    assert (build_optimizer(recipe).momentum, build_optimizer(recipe).nesterov) == (0.9, True)


@pytest.mark.parametrize(("name", "late"), [("constant", [0.8, 0.8]), ("cosine", [0.4, 0.0])])
def test_the_rate_rises_after_the_warmup_epochs(name, late):
    recipe = TrainingRecipe(
        epochs=3,
        warmup_epochs=1,
        steps_per_epoch=10,
        learning_rate=0.8,
        warmup_steps=4,
        schedule=ScheduleRecipe(name),
    )
    optimizer, rates = build_optimizer(recipe), []
    for step in (0, 1, 2, 4, 12, 20):
        optimizer.iterations.assign(step)
        rates.append(float(optimizer.learning_rate))
    assert rates == pytest.approx([0.0, 0.2, 0.4, 0.8, *late], abs=1e-6)
    assert float(build_warmup_optimizer(recipe, []).learning_rate) == pytest.approx(0.8)


def test_rules_reach_the_learner_whose_layers_of_the_backbone_have_falling_rates():
    training = TrainingRecipe(
        lowest_layer_multiplier=0.16,
        learning_rate_multipliers={"conv2d_3/": 7.0, "proxies": 3.0},
        weight_decay=0.1,
        weight_decay_exclusions=["prototypes"],
    )
    keras.backend.clear_session()
    recipe = Recipe(backbone=BackboneRecipe("conv4", freeze=["normalization"]), training=training)
    learner = build_learner(recipe, num_classes=3, channels=1)
    paths = [variable.path for variable in learner.trainable_variables]
    factors = dict(zip(paths, learner.optimizer._factors, strict=True))
    found = [factor for path, factor in factors.items() if path.startswith("conv2d")]
    assert found == pytest.approx([0.16 ** (1 - i / 4) for i in range(3)] + [7.0])
    assert factors[learner.embedding_loss.proxies.path] == 3.0
    assert factors["embedding/kernel"] == 1.0
    assert learner.optimizer.weight_decay_exclusions == training.weight_decay_exclusions


def test_loss_scaling_goes_around_the_rules():
    recipe = TrainingRecipe(precision="mixed_float16", learning_rate_multipliers={"proxies": 3.0})
    optimizer = build_optimizer(recipe)
    assert isinstance(optimizer, keras.optimizers.LossScaleOptimizer)
    assert dict(optimizer.inner_optimizer.learning_rate_multipliers) == {"proxies": 3.0}


def test_the_warmup_leaves_the_patterns_of_the_backbone_out():
    recipe = TrainingRecipe(
        learning_rate=1e-4,
        warmup_learning_rate_multiplier=20.0,
        schedule=ScheduleRecipe("cosine"),
        learning_rate_multipliers={"conv2d": 0.5, "proxies": 100.0},
        weight_decay=0.1,
        weight_decay_exclusions=["batch_normalization", "prototypes"],
    )
    variables = [keras.Variable([1.0], name=name) for name in ("proxies", "prototypes")]
    optimizer = build_warmup_optimizer(recipe, variables)
    optimizer.build(variables)
    assert dict(optimizer.learning_rate_multipliers) == {"proxies": 100.0}
    assert list(optimizer.weight_decay_exclusions) == ["prototypes"]
    optimizer.iterations.assign(10**6)
    assert float(optimizer.learning_rate) == pytest.approx(2e-3)


def test_l2_regularization_adds_a_share_of_the_weights_to_the_gradient():
    def learner(rate):
        training = TrainingRecipe(
            optimizer="sgd",
            l2_regularization=rate,
            weight_decay_exclusions=["batch_normalization"] if rate else [],
        )
        keras.utils.set_random_seed(0)
        recipe = Recipe(backbone=BackboneRecipe("conv4"), training=training)
        return build_learner(recipe, num_classes=3, channels=1)

    images = np.random.default_rng(0).uniform(0, 255, (6, 48, 48, 1)).astype("float32")
    labels = np.arange(6) % 3
    gradients = []
    for model in (learner(0.0), learner(0.2)):
        with tf.GradientTape() as tape:
            loss = model.compute_loss(y=labels, y_pred=model(images, training=True))
        gradients.append(tape.gradient(loss, [v.value for v in model.trainable_variables]))
    for variable, plain, regular in zip(model.trainable_variables, *gradients, strict=True):
        share = 0.0 if "batch_normalization" in variable.path else 0.2
        np.testing.assert_allclose(regular - plain, share * variable.numpy(), atol=2e-4)
    assert any("batch_normalization" in variable.path for variable in model.trainable_variables)


CCP = """
trainer: ccp
loss: {name: contrastive}
ccp: {proxies_per_class: 2, pool_size: 3}
training: {epochs: 1, steps_per_epoch: 1, patience: null, l2_regularization: 0.2}
"""


def test_l2_regularization_reaches_the_proxies_of_ccp(write_recipe, tmp_path, monkeypatch):
    gradients = []

    def look(epoch, logs):
        model, proxies = callback.model, callback.model.embedding_loss.proxies
        with tf.GradientTape() as tape:
            total = tf.add_n(model.losses)
        gradients.append((tape.gradient(total, proxies.value), proxies.numpy()))

    callback = keras.callbacks.LambdaCallback(on_epoch_begin=look)
    monkeypatch.setattr(Run, "evaluate", lambda self: None)
    Run(tmp_path / "run", load_recipe(write_recipe(CCP))).fit([callback])
    ((gradient, proxies),) = gradients
    np.testing.assert_allclose(gradient, 0.2 * proxies, rtol=1e-5)


def test_an_exclusion_without_a_weight_is_refused():
    training = TrainingRecipe(l2_regularization=0.1, weight_decay_exclusions=["centres"])
    recipe = Recipe(backbone=BackboneRecipe("conv4"), training=training)
    with pytest.raises(ValueError, match=r"\['centres'\] match none of the trainable variables"):
        build_learner(recipe, num_classes=3, channels=1)
