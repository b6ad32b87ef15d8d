"""Training under a `tf.distribute` strategy: the replicas of a step, the workers of a job.

`DistributedModel` corrects three things in Keras 3. Keras builds a model from the mean of the
replicas' first batches, which fails with several workers and with batches of different sizes;
`DistributedModel` builds from the first replica's batch. With several workers, Keras averages the
scalars of replicas along an axis that they do not have; `DistributedModel` reports those of the
first replica, whose losses see the batches of all. (Keras combines the metrics of all replicas at
the end of an epoch.) Keras clips each replica's gradients; `DistributedModel` clips their sum.

Every replica computes the loss of the rows of all replicas (`all_gather`) and descends its share
(`divide_by_replicas`). The gradients that all replicas send back to a row sum to the gradient of
the loss. The last digits of a result may differ between machines, but decisions such as when to
stop must not. Workers therefore share the first worker's results (`broadcast_from_chief`).
"""

import keras
import numpy as np
import tensorflow as tf

from gsp_tf._keras import BuiltFromBatch, wrap_clipping
from gsp_tf._typing import Tensor


class DistributedModel(BuiltFromBatch):
    """Mixin for a Keras model whose `fit` and `evaluate` work under `tf.distribute`."""

    def compile(self, *args, **kwargs):
        super().compile(*args, **kwargs)
        if self.distribute_strategy.num_replicas_in_sync > 1:
            _clip_sum_of_replicas(self.optimizer)

    def make_train_function(self, force=False):
        if _has_workers(self.distribute_strategy) and (force or self.train_function is None):
            self.train_function = self._worker_function(self.train_step)
        else:
            super().make_train_function(force)

    def make_test_function(self, force=False):
        if _has_workers(self.distribute_strategy) and (force or self.test_function is None):
            self.test_function = self._worker_function(self.test_step)
        else:
            super().make_test_function(force)

    def _worker_function(self, step):
        strategy = self.distribute_strategy

        def run_step(iterator):
            return strategy.run(step, args=(next(iterator),))

        if not self.run_eagerly:
            run_step = tf.function(
                run_step, autograph=False, reduce_retracing=True, jit_compile=self.jit_compile
            )

        def run_steps(iterator):
            for _ in range(self.steps_per_execution):
                logs = run_step(iterator)
            return keras.tree.map_structure(lambda x: _of_first_replica(strategy, x), logs)

        return run_steps

    def batch_to_build_from(self, iterator, batch):
        """The first replica's batch; raises if a variable was created outside the strategy."""
        strategy = self.distribute_strategy
        is_owned = strategy.extended.variable_created_in_scope
        foreign = [v.path for v in self.variables if not is_owned(v.value)]
        if foreign:
            raise ValueError(
                "A model under a tf.distribute strategy, its losses and layers included, must be "
                f"made within strategy.scope(); these variables were not: {foreign}."
            )
        if iterator is None:
            return batch
        _, _, batches = next(iter(iterator))
        return keras.tree.map_structure(lambda x: _of_first_replica(strategy, x), next(batches))


def broadcast_from_chief(strategy: tf.distribute.Strategy, array: np.ndarray) -> np.ndarray:
    """The first worker's numbers on every worker; all workers must call this."""
    if not _has_workers(strategy):
        return array
    array = tf.convert_to_tensor(np.asarray(array))

    def share():
        context = tf.distribute.get_replica_context()
        share = tf.where(context.replica_id_in_sync_group == 0, array, tf.zeros_like(array))
        return context.all_reduce(tf.distribute.ReduceOp.SUM, share)

    return _of_first_replica(strategy, strategy.run(share)).numpy()


def all_gather(tensor: Tensor) -> Tensor:
    """The rows `(B, ...)` of all replicas in their order; this replica passes its `(b, ...)`."""
    context = tf.distribute.get_replica_context()
    if context is None or context.num_replicas_in_sync == 1:
        return tensor
    # Copies to the replica's device: a tensor from a data set names no device.
    rows = context.all_gather(tf.identity(tensor), axis=0)
    # The gradient of a reshape is dense; `all_gather` cannot take the sparse one of a `take`.
    rows = tf.reshape(rows, tf.shape(rows))
    return tf.ensure_shape(rows, tf.TensorShape([None]).concatenate(tensor.shape[1:]))


def divide_by_replicas(loss: Tensor) -> Tensor:
    """A loss divided by the number of replicas, because Keras sums their gradients."""
    return loss / tf.distribute.get_strategy().num_replicas_in_sync


def _clip_sum_of_replicas(optimizer):
    """Makes an optimizer clip the sum of the replicas' gradients; not a `LossScaleOptimizer`."""
    if not any((optimizer.clipnorm, optimizer.global_clipnorm, optimizer.clipvalue)):
        return

    def clip_sum(gradients, clip):
        context = tf.distribute.get_replica_context()
        # A sum of sparse gradients would keep the rows of each replica apart, and so their norms.
        gradients = [tf.convert_to_tensor(gradient) for gradient in gradients]
        total = clip(context.all_reduce(tf.distribute.ReduceOp.SUM, gradients))
        # Keras does not clip again, but sums over the replicas: hence the division.
        return [gradient / context.num_replicas_in_sync for gradient in total]

    wrap_clipping(optimizer, clip_sum)


def _has_workers(strategy):
    return isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy)


def _of_first_replica(strategy, value):
    return strategy.experimental_local_results(value)[0]
