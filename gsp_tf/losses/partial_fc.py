"""Partial FC (An et al., CVPR 2022)."""

from typing import Any

import keras
from keras import ops

from gsp_tf._arguments import checked_seed
from gsp_tf._backend import rows_of
from gsp_tf._typing import Tensor
from gsp_tf.losses._proxy import ProxyLoss, SoftmaxWrapper
from gsp_tf.losses._rows import first_equals


class PartialFC(SoftmaxWrapper):
    """Softmax over the classes of the batch and a random sample of the other classes.

    `L = -mean_i log( exp(z_iy) / Σ_{c in S} exp(z_ic) )` with the logits z of a proxy loss, margins
    included. Each step draws S: all classes of the batch, and others, uniformly and without
    replacement, until S has r C of the C classes. If the batch has more classes, S has just those.
    "Partial FC: Training 10 Million Identities on a Single Machine" (ICCV workshops 2021), whose
    authors lose no accuracy with r = 0.1, and "Killing Two Birds with One Stone: Efficient and
    Robust Training of Face Recognition CNNs by Partial FC" (CVPR 2022). As in the papers, the sum
    is not corrected for the classes left out, so the loss is at most that of all classes.

    Logits and their gradient take `B r C` numbers instead of `B C`. Proxies outside S have no
    gradient. On TensorFlow `SGD` without momentum and weight decay then updates the rows of S
    alone; other optimizers, and other backends, go through all C rows. A term of the proxies
    alone, as in `SoftTripleLoss`, still counts all of them. In evaluation the loss is that of all
    classes.

    Args:
        proxy_loss: a loss that is the cross-entropy of logits, such as `ArcFaceLoss(num_classes)`.
        sample_rate: r, above 0 and at most 1.
        seed: of the draws.

    Weight: `proxies` of the proxy loss.

    Call: `loss(labels, embeddings, training=True)`.

    Example:
        >>> import numpy as np
        >>> from gsp_tf.losses import ArcFaceLoss
        >>> loss = PartialFC(ArcFaceLoss(num_classes=1000), sample_rate=0.1, seed=0)
        >>> embeddings = np.random.default_rng(0).normal(size=(4, 8)).astype("float32")
        >>> labels = [3, 3, 7, 9]
        >>> bool(loss(labels, embeddings) < loss(labels, embeddings, training=False))
        True
    """

    unscheduled = ("sample_rate",)

    def __init__(
        self,
        proxy_loss: ProxyLoss,
        sample_rate: float = 0.1,
        seed: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(proxy_loss, **kwargs)
        if not 0 < sample_rate <= 1:
            raise ValueError(
                f"sample_rate must lie above 0 and at most at 1, received {sample_rate}."
            )
        self.sample_rate = sample_rate
        self.seed = seed
        self.seed_generator = keras.random.SeedGenerator(checked_seed(seed))

    def augmented_loss(self, labels: Tensor, embeddings: Tensor) -> Tensor:
        classes, is_class, places = self.sampled_classes(labels)
        k = self.proxy_loss.proxies_per_class
        rows = ops.reshape(k * classes[:, None] + ops.arange(k, dtype=classes.dtype), (-1,))
        similarities = self.proxy_loss.similarities(embeddings, rows_of(self.proxies, rows))
        losses = self.proxy_loss.sample_losses(places, similarities, is_class)
        return self.proxy_loss.reduced_samples(labels, losses)

    def sampled_classes(self, labels: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Draw the classes of a step.

        Args:
            labels: int32 tensor `(B,)`.

        Returns:
            classes: int32 tensor `(B + round(r C),)`.
            is_class: boolean tensor of that shape, True where S has the class; once for each.
            places: int32 tensor `(B,)`, where the classes have those of the labels.
        """
        size = max(1, round(self.sample_rate * self.num_classes))
        places, is_first = first_equals(labels[:, None] == labels[None, :])
        keys = keras.random.uniform((self.num_classes,), dtype="float32", seed=self.seed_generator)
        # The batch has its classes already.
        last = ops.full((ops.shape(labels)[0],), -1.0, dtype="float32")
        others = ops.top_k(ops.scatter_update(keys, labels[:, None], last), size)[1]
        num_others = size - ops.sum(ops.cast(is_first, "int32"))
        is_other = ops.arange(size, dtype="int32") < num_others
        return (
            ops.concatenate([labels, ops.cast(others, labels.dtype)]),
            ops.concatenate([is_first, is_other]),
            places,
        )
