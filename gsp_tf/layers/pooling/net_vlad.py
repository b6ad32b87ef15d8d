"""NetVLAD (Arandjelović, Gronat, Torii, Pajdla, Sivic, CVPR 2016)."""

import math
from collections.abc import Iterable
from typing import Any

import keras
import numpy as np
from keras import ops

from gsp_tf._arguments import check_sizes, checked_seed
from gsp_tf._numerics import at_least_float32, masked_softmax
from gsp_tf._typing import Tensor
from gsp_tf.layers._local_features import DataFormat, InitializerLike
from gsp_tf.layers.pooling._base import LocalFeaturePooling, sample_local_features
from gsp_tf.ops import l2_normalize

# How many times larger the assignment to the nearest centre is than to the second, on average.
_NEAREST_TO_SECOND = 100.0
# Below this gap the centres coincide as far as float32 can tell, and the shares coincide too.
_SMALLEST_GAP = 1e-30


class NetVLAD(LocalFeaturePooling):
    """Residuals of the local features to cluster centres, summed by soft assignment.

    "NetVLAD: CNN Architecture for Weakly Supervised Place Recognition" (CVPR 2016), eqs. 3 and 4:
    `V_k = Σ_j a_kj (f_j - c_k)` with `a_kj = softmax_k(w_kᵀ f_j + b_k)`, where w, b and c are
    separate weights. Each V_k is L2-normalised ("intra-normalisation") before the whole vector. The
    residuals `(B, n, K, C)` are never formed.

    Args:
        num_clusters: K, number of clusters.
        centers_initializer: initialiser of the centres; `adapt` takes all weights from data.
        data_format: layout of feature maps, `None` for Keras' global setting.

    Weights: `centers (K, C)`, `assignment_kernel (C, K)`, `assignment_bias (K,)`.

    Input: a map or a set. Output: `(B, K * C)`, cluster by cluster, of length 1. With a linear map
    to D / K channels before the layer, the embedding has D dimensions (thesis, section 5.3.5, with
    K = 8 and D = 128).

    Example:
        >>> import keras
        >>> features = keras.Input((7, 7, 16))
        >>> NetVLAD(num_clusters=4)(features).shape
        (None, 64)
    """

    def __init__(
        self,
        num_clusters: int = 64,
        centers_initializer: InitializerLike = "glorot_uniform",
        data_format: DataFormat | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(data_format=data_format, **kwargs)
        check_sizes(num_clusters=num_clusters)
        self.num_clusters = num_clusters
        self.centers_initializer = keras.initializers.get(centers_initializer)

    def build(self, input_shape):
        channels = self.num_channels(input_shape)
        self.centers = self.add_kernel(
            "centers", (self.num_clusters, channels), self.centers_initializer
        )
        self.assignment_kernel = self.add_kernel("assignment_kernel", (channels, self.num_clusters))
        self.assignment_bias = self.add_kernel("assignment_bias", (self.num_clusters,), "zeros")

    def pool(self, features: Tensor, average: Tensor) -> Tensor:
        features, centers, kernel, bias = at_least_float32(
            features, self.centers, self.assignment_kernel, self.assignment_bias
        )
        assignment = masked_softmax(ops.matmul(features, kernel) + bias)
        assignment = ops.where(ops.expand_dims(average, -1) > 0, assignment, 0.0)
        residuals = ops.einsum("bnk,bnc->bkc", assignment, features)
        residuals = residuals - ops.expand_dims(ops.sum(assignment, axis=1), -1) * centers
        pooled = ops.reshape(l2_normalize(residuals), (ops.shape(features)[0], -1))
        return l2_normalize(pooled)

    def adapt(self, features: Tensor | Iterable, seed: int = 0) -> None:
        """Take centres and assignment from data, as the paper initialises them (section 3.1).

        The centres c_k are those of k-means over local features. With `w_k = 2 α c_k` and
        `b_k = -α ||c_k||²`, the assignment is `softmax_k(-α ||f - c_k||²)`. α is such that the
        nearest centre has a hundred times the share of the second, in geometric mean. If there are
        more than 65,536 local features, a random sample of that many is used.

        Args:
            features: as in `GeneralizedSumPooling.adapt`, which raises the same errors.
            seed: seed of the sample and of k-means.

        Example:
            >>> import numpy as np
            >>> vlad = NetVLAD(num_clusters=2)
            >>> vlad.adapt(np.array([[[0.0], [0.2], [1.0], [1.2]]], "float32"))
            >>> sorted(vlad.centers.numpy().round(1).ravel().tolist())
            [0.1, 1.1]
        """
        from sklearn.cluster import KMeans

        pool = sample_local_features(self, features, seed, num_clusters=self.num_clusters)
        clusters = KMeans(self.num_clusters, n_init=1, random_state=checked_seed(seed)).fit(pool)
        centers = clusters.cluster_centers_
        sharpness = 1.0
        if self.num_clusters > 1:
            nearest, second = np.sort(clusters.transform(pool) ** 2, axis=1)[:, :2].T
            gap = np.mean(second - nearest)
            if gap > _SMALLEST_GAP:
                sharpness = math.log(_NEAREST_TO_SECOND) / gap
        self.centers.assign(centers)
        self.assignment_kernel.assign(2 * sharpness * centers.T)
        self.assignment_bias.assign(-sharpness * np.sum(centers**2, axis=1))

    def compute_output_shape(self, input_shape):
        return (input_shape[0], self.num_clusters * self.num_channels(input_shape))
