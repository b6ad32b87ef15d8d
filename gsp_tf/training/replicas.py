"""What the replicas of a `tf.distribute` strategy share in a training step."""

import tensorflow as tf


def of_all_replicas(tensor):
    """The rows that all replicas hold, in the order of the replicas.

    Outside the replicas of a strategy, or with a single one, these are the rows given. The gradient
    of a row is the sum of what all replicas send back to it, so with one loss of all rows in every
    replica, and `share_of_replica` of it to descend, each row gets the gradient of that loss.

    Args:
        tensor: tensor `(b, ...)`; b may differ between replicas.

    Returns:
        tensor `(B, ...)`, the same in every replica, where B is the sum of all b.

    Example:
        >>> of_all_replicas(tf.range(3)).numpy().tolist()
        [0, 1, 2]
    """
    context = tf.distribute.get_replica_context()
    if context is None or context.num_replicas_in_sync == 1:
        return tensor
    # A copy on the replica's device: what comes from a data set bears the name of none.
    rows = context.all_gather(tf.identity(tensor), axis=0)
    return tf.ensure_shape(rows, tf.TensorShape([None]).concatenate(tensor.shape[1:]))


def share_of_replica(loss):
    """A loss divided by the number of replicas, over which Keras sums gradients.

    Args:
        loss: scalar, the same in every replica.

    Returns:
        scalar.

    Example:
        >>> float(share_of_replica(3.0))
        3.0
    """
    return loss / tf.distribute.get_strategy().num_replicas_in_sync


def clip_sum_of_replicas(optimizer):
    """Have an optimizer clip the sum of the replicas' gradients, as with one replica.

    Keras would clip what each replica adds to the sum, by itself.

    Args:
        optimizer: Keras optimizer, changed in place. One that does not clip stays as it is, and so
            does a `LossScaleOptimizer`, whose replicas clip by themselves.
    """
    if not any((optimizer.clipnorm, optimizer.global_clipnorm, optimizer.clipvalue)):
        return

    def clip_sum(gradients):
        context = tf.distribute.get_replica_context()
        total = type(optimizer)._clip_gradients(
            optimizer, context.all_reduce(tf.distribute.ReduceOp.SUM, gradients)
        )
        # Keras clips no further, and sums over the replicas.
        return [gradient / context.num_replicas_in_sync for gradient in total]

    optimizer._clip_gradients = clip_sum
