"""Ranks within the rows of a matrix, made smooth by sigmoids."""

from collections.abc import Sequence

from keras import ops

from gsp_tf._backend import custom_gradient
from gsp_tf._typing import Tensor
from gsp_tf.losses._rows import fold_marked


def soft_counts_above(
    scores: Tensor, marked: Tensor, weights: Sequence[Tensor], temperature: float
) -> Sequence[Tensor]:
    """For each marked `(i, j)`, each w: `Σ_{k≠j} w_ik sigmoid((s_ik - s_ij) / T)`; 0 elsewhere."""
    # One mark per row is compared with its row at a time, in the gradient too, so that no more than
    # a few matrices of the size of `scores` are ever held.

    def compared(scores, columns, temperature):
        own = ops.take_along_axis(scores, columns, axis=1)
        above = ops.sigmoid((scores - own) / temperature)
        places = ops.arange(ops.shape(scores)[1], dtype=columns.dtype)
        return ops.where(places[None, :] == columns, 0.0, above)

    @custom_gradient
    def counts(scores, marked, temperature, *weights):
        is_marked = marked > 0

        def count(columns, is_active, is_mark, *sums):
            above = compared(scores, columns, temperature)
            return tuple(
                ops.where(is_mark, ops.sum(w * above, axis=1, keepdims=True), s)
                for w, s in zip(weights, sums, strict=True)
            )

        def gradient(*upstreams):
            def pull(columns, is_active, is_mark, total):
                above = compared(scores, columns, temperature)
                pulls = sum(
                    w * ops.take_along_axis(u, columns, axis=1)
                    for w, u in zip(weights, upstreams, strict=True)
                )
                slopes = ops.where(is_active, above * (1.0 - above) * pulls / temperature, 0.0)
                own = ops.sum(slopes, axis=1, keepdims=True)
                return (total + slopes - ops.where(is_mark, own, 0.0),)

            (total,) = fold_marked(is_marked, pull, (ops.zeros_like(scores),))
            others = (marked, temperature, *weights)
            return total, *(ops.zeros_like(x) for x in others)

        return fold_marked(is_marked, count, [ops.zeros_like(scores) for _ in weights]), gradient

    temperature = ops.convert_to_tensor(temperature, scores.dtype)
    return counts(scores, ops.cast(marked, scores.dtype), temperature, *weights)
