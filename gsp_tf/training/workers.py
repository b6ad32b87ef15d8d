"""What the workers of a `MultiWorkerMirroredStrategy` must agree on."""

import numpy as np
import tensorflow as tf


def has_workers(strategy):
    """Whether a strategy is one of several processes.

    Args:
        strategy: `tf.distribute.Strategy`.

    Returns:
        bool.

    Example:
        >>> has_workers(tf.distribute.get_strategy())
        False
    """
    return isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy)


def is_chief(strategy):
    """Whether this process is the one that writes files: the only one, or the first worker.

    Args:
        strategy: `tf.distribute.Strategy`.

    Returns:
        bool.

    Example:
        >>> is_chief(tf.distribute.get_strategy())
        True
    """
    return strategy.extended.should_checkpoint


def of_chief(strategy, array):
    """The array that the first worker gives, in all workers, which must all ask for it.

    Numbers that each worker computes for itself may differ in the last digits from machine to
    machine, and what follows from them, such as an end to training, must not.

    Args:
        strategy: `tf.distribute.Strategy`.
        array: array of numbers, of the same shape in all workers.

    Returns:
        NumPy array, or what was given if there are no workers.

    Example:
        >>> of_chief(tf.distribute.get_strategy(), [0.5])
        [0.5]
    """
    if not has_workers(strategy):
        return array
    array = tf.convert_to_tensor(np.asarray(array))

    def share():
        context = tf.distribute.get_replica_context()
        share = tf.where(context.replica_id_in_sync_group == 0, array, tf.zeros_like(array))
        return context.all_reduce(tf.distribute.ReduceOp.SUM, share)

    return strategy.experimental_local_results(strategy.run(share))[0].numpy()
