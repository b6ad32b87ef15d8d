"""Two replicas with half a batch each give the numbers of one with the whole batch.

The number of devices is fixed when TensorFlow starts, so this file, run as a program, trains in a
process of its own and writes down what came out.
"""

import json
import sys

import keras
import numpy as np
import processes
import tensorflow as tf

from gsp_tf import losses, training
from gsp_tf.layers import GeneralizedSumPooling

CLASSES, SAMPLES = 4, 22


def embedder():
    return keras.Sequential([keras.Input((5, 3)), keras.layers.Flatten(), keras.layers.Dense(5)])


def learner_of_every_loss():
    """Five embeddings and the attributes, each with a loss of another kind."""
    features = keras.Input((5, 3))
    normalized = keras.layers.BatchNormalization(synchronized=True)(features)
    hidden = keras.layers.Dense(4, kernel_regularizer="l2")(normalized)
    pooled, attributes = GeneralizedSumPooling(4, return_attributes=True)(hidden)
    flat = keras.layers.Flatten()(features)
    outputs = [keras.layers.Dense(5)(x) for x in (flat, flat, flat, pooled)]
    # The gradient of a bias before the loss of views is 0 but for rounding, which Adam scales up.
    outputs.append(keras.layers.Dense(5, use_bias=False)(flat))
    miner = losses.DistanceWeightedMiner(seed=3)
    memory = losses.CrossBatchMemory(
        losses.MultiSimilarityLoss(miner=miner), capacity=20, warmup_steps=2, batch_weight=1.0
    )
    named = {
        "pairs": memory,
        "proxies": losses.ProxySynthesis(losses.ProxyAnchorLoss(CLASSES), seed=1),
        "sample": losses.PartialFC(losses.NormalizedSoftmaxLoss(16), 0.5, seed=1),
        "boundaries": losses.ClassMarginLoss(CLASSES),
        "views": losses.VICRegLoss(),
        "zero_shot": losses.ZeroShotLoss(CLASSES, 3),
    }
    return training.MetricLearner(keras.Model(features, [*outputs, attributes]), named)


CASES = {
    "every loss": learner_of_every_loss,
    # Proxies are samples: with a margin of 0, rounding decides whether their distance of 0 counts.
    "ccp": lambda: training.MetricLearner(
        embedder(), losses.ContrastiveLoss(0.1, 0.8), chunk_size=3
    ),
    "tags": lambda: training.MetricLearner(
        embedder(),
        losses.CrossBatchMemory(
            losses.ContrastiveLoss(0.0, 0.8, relation="jaccard"), 20, num_labels=3
        ),
    ),
}


def samples(seed):
    rng = np.random.default_rng(seed)
    labels = np.arange(SAMPLES) // 2 % CLASSES  # every label of a batch twice, for the views
    means = rng.normal(size=(CLASSES, 1, 3))[labels]
    return (means + rng.normal(size=(SAMPLES, 5, 3))).astype("float32"), labels


def train(name, strategy):
    """Histories and weights of a case; the last of its batches has 6 samples, not 8."""
    keras.utils.set_random_seed(0)
    x, labels = samples(0)
    if name == "tags":
        labels = np.stack([labels // 2, labels % 2, labels < 3], axis=1).astype("float32")

    def load(indices):
        return tf.data.Dataset.from_tensor_slices((x[indices], labels[indices])).batch(8)

    batches = load(np.arange(SAMPLES))
    evaluation = training.RetrievalEvaluation(
        tf.data.Dataset.from_tensor_slices(samples(1)).batch(8)
    )
    with strategy.scope():
        learner = CASES[name]()
        optimizer = keras.optimizers.Adam(0.01, global_clipnorm=1.0, weight_decay=0.01)
        optimizer = training.with_learning_rate_multipliers(optimizer, {"dense": 2.0})
        # To trace one replica takes longer than its few steps.
        learner.compile(
            optimizer, jit_compile=False, run_eagerly=strategy.num_replicas_in_sync == 1
        )
    if name == "ccp":
        trainer = training.ChanceConstrainedTrainer(
            learner, 2, 4, projection_weight=1.0, patience=1
        )
        pool = training.ProxyPool(labels, load)
        history = trainer.fit(
            batches.repeat(),
            pool,
            [evaluation, training.Schedule({"projection_weight": lambda epoch: 1.0 + 0.1 * epoch})],
            steps_per_epoch=3,
            epochs=6,
            verbose=0,
        )
        assert len(trainer.projections) > 1
        learner = trainer.learner
    else:
        steps = keras.optimizers.schedules.PolynomialDecay(0.5, 6, 1.0)
        first = next(iter(learner.named_losses))
        numbers = {f"loss_weights.{first}": lambda epoch: 1.0 + epoch, "loss.batch_weight": steps}
        history = learner.fit(
            batches,
            epochs=2,
            validation_data=batches,
            validation_freq=2,
            verbose=0,
            callbacks=[training.Schedule(numbers)],
        )
    return history.history, [
        [variable.name, variable.numpy().tolist(), replicas_differ(variable)]
        for variable in learner.variables
    ]


def replicas_differ(variable):
    copies = getattr(variable.value, "values", [variable.value])
    return any(not np.array_equal(copies[0].numpy(), copy.numpy()) for copy in copies)


def main(path):
    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
    # To optimize these graphs takes longer than to run them.
    tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})
    two = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
    results = {
        name: [train(name, strategy) for strategy in (tf.distribute.get_strategy(), two)]
        for name in CASES
    }
    outside = losses.ProxySynthesis(losses.ProxyAnchorLoss(CLASSES), seed=1)
    with two.scope():
        learner = training.MetricLearner(embedder(), outside)
        learner.compile("sgd", jit_compile=False)
    try:
        learner.fit(*samples(0), verbose=0)
    except ValueError as error:
        results["outside"] = str(error)
    with open(path, "w") as file:
        json.dump(results, file)


def test_two_replicas_give_the_numbers_of_one(tmp_path):
    path = tmp_path / "results.json"
    processes.run_file(__file__, path)
    results = json.loads(path.read_text())
    # A loss made outside the scope.
    assert "must be made within strategy.scope()" in results["outside"]
    assert "seed_generator_state" in results.pop("outside")
    for name, ((one_history, one), (two_history, two)) in results.items():
        assert one_history.keys() == two_history.keys(), name
        for key, values in one_history.items():
            agree(two_history[key], values, f"{name}: {key}")
        assert np.all(one_history["loss"]) and len(one) == len(two), name
        for (variable, expected, _), (_, value, differ) in zip(one, two, strict=True):
            agree(value, expected, f"{name}: {variable}")
            assert not differ, (name, variable)


def agree(value, expected, what):
    np.testing.assert_allclose(value, expected, rtol=1e-5, atol=1e-5, err_msg=what)


if __name__ == "__main__":
    main(sys.argv[1])
