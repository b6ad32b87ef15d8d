"""Agreement of k-means clusters with classes."""

import numpy as np
from numpy.typing import ArrayLike

from gsp_tf._arguments import checked_seed
from gsp_tf.evaluation._vectors import checked_embeddings, checked_labels


def clustering_metrics(embeddings: ArrayLike, labels: ArrayLike, seed: int = 0) -> dict[str, float]:
    """NMI, AMI and pairwise F1 of as many k-means clusters as there are classes.

    With classes Y, clusters C, mutual information I and entropy H, NMI = 2 I(Y; C) / (H(Y) + H(C)).
    This is the arithmetic normalisation of scikit-learn since 0.22, which the literature reports.
    AMI subtracts the value expected by chance from numerator and denominator (Vinh et al., JMLR
    2010). F1 = 2 P R / (P + R), where P is the share of the pairs in one cluster that are in one
    class, and R is the share of the pairs in one class that are in one cluster (Oh Song et al.,
    Deep Metric Learning via Lifted Structured Feature Embedding, CVPR 2016). The pairs are counted
    as integers.

    The k-means of scikit-learn starts from k-means++, which finds well-separated classes where the
    random start of faiss merges some. It clusters the embeddings as they are: normalise them first
    to compare directions. A `ConvergenceWarning` means that there are fewer distinct embeddings
    than classes.

    Args:
        embeddings: floats `(N, D)`.
        labels: integers `(N,)` or `(N, 1)`.
        seed: random seed of k-means.

    Returns:
        `nmi` and `f1` in [0, 1], and `ami`, at most 1 and about 0 for random clusters. All are 1 if
        clusters and classes are the same partition, as for a single class.

    Example:
        >>> clustering_metrics([[0.0], [1.0], [7.0], [8.0]], [0, 0, 0, 1])
        {'nmi': 0.344, 'ami': 0.0, 'f1': 0.4}
    """
    from sklearn.cluster import KMeans
    from sklearn.metrics import adjusted_mutual_info_score, normalized_mutual_info_score

    embeddings = checked_embeddings(embeddings, "embeddings").astype(np.float64)
    labels = checked_labels(labels, len(embeddings), "labels")
    kmeans = KMeans(len(np.unique(labels)), n_init=1, random_state=checked_seed(seed))
    clusters = kmeans.fit_predict(embeddings)
    return {
        "nmi": float(normalized_mutual_info_score(labels, clusters)),
        "ami": float(adjusted_mutual_info_score(labels, clusters)),
        "f1": _pairwise_f1(labels, clusters),
    }


def _pairwise_f1(labels, clusters):
    """F1 of the pairs in one cluster against the pairs in one class; 1 if there are no pairs."""
    from sklearn.metrics.cluster import pair_confusion_matrix

    (_, only_cluster), (only_class, both) = pair_confusion_matrix(labels, clusters).tolist()
    pairs = 2 * both + only_cluster + only_class
    return 2 * both / pairs if pairs else 1.0
