"""`fit` and `evaluate` under `tf.distribute`, where Keras' own do not work."""

import keras
import tensorflow as tf

from gsp_tf.training.replicas import clip_sum_of_replicas
from gsp_tf.training.workers import has_workers


class DistributedModel:
    """The part of a Keras model by which it trains in the replicas of a `tf.distribute` strategy.

    Keras 3 builds a model from the mean of the replicas' first batches, which fails with several
    workers and with batches of different size; this model builds from the first of them. And Keras
    takes means of the scalars that replicas report along an axis they do not have, with several
    workers; this model reports those of the first replica, which know the batches of all replicas
    where the losses do. At the end of an epoch Keras puts the metrics of all replicas together.
    And gradients are clipped when they are summed up, not before.

    Example:
        >>> import numpy as np
        >>> class Model(DistributedModel, keras.Model):
        ...     pass
        >>> inputs = keras.Input((2,))
        >>> with tf.distribute.MirroredStrategy(["CPU:0"]).scope():
        ...     model = Model(inputs, keras.layers.Dense(1)(inputs))
        ...     model.compile("sgd", "mse")
        >>> history = model.fit(np.ones((4, 2)), np.ones(4), verbose=0)
    """

    def compile(self, *args, **kwargs):
        super().compile(*args, **kwargs)
        if self.distribute_strategy.num_replicas_in_sync > 1:
            clip_sum_of_replicas(self.optimizer)

    def make_train_function(self, force=False):
        if has_workers(self.distribute_strategy) and (force or self.train_function is None):
            self.train_function = self._worker_function(self.train_step)
        else:
            super().make_train_function(force)

    def make_test_function(self, force=False):
        if has_workers(self.distribute_strategy) and (force or self.test_function is None):
            self.test_function = self._worker_function(self.test_step)
        else:
            super().make_test_function(force)

    def _worker_function(self, step):
        strategy = self.distribute_strategy

        @tf.autograph.experimental.do_not_convert
        def run_step(iterator):
            return strategy.run(step, args=(next(iterator),))

        if not self.run_eagerly:
            run_step = tf.function(run_step, reduce_retracing=True, jit_compile=self.jit_compile)

        def run_steps(iterator):
            for _ in range(self.steps_per_execution):
                logs = run_step(iterator)
            return keras.tree.map_structure(lambda x: _of_first_replica(strategy, x), logs)

        return run_steps

    def _maybe_symbolic_build(self, iterator=None, data_batch=None):
        if self._distribute_strategy is None:
            return
        self._check_scope()
        if iterator is not None:
            _, _, batches = next(iter(iterator))
            data_batch = keras.tree.map_structure(
                lambda x: _of_first_replica(self.distribute_strategy, x), next(batches)
            )
        super()._maybe_symbolic_build(data_batch=data_batch)

    def _check_scope(self):
        is_owned = self.distribute_strategy.extended.variable_created_in_scope
        foreign = [v.path for v in self.variables if not is_owned(v.value)]
        if foreign:
            raise ValueError(
                "A model under a tf.distribute strategy, its losses and layers included, must be "
                f"made within strategy.scope(); these variables were not: {foreign}."
            )


def _of_first_replica(strategy, value):
    return strategy.experimental_local_results(value)[0]
