"""Zero-shot prediction of classes from attributes."""

import numpy as np
from numpy.typing import ArrayLike

from gsp_tf._arguments import check_positive, check_sizes, checked_seed
from gsp_tf.evaluation._vectors import checked_embeddings, checked_labels, unit_vectors


def zero_shot_prediction(
    attributes: ArrayLike,
    labels: ArrayLike,
    class_embeddings: ArrayLike,
    num_splits: int = 1000,
    ridge: float = 0.05,
    seed: int = 0,
) -> dict[str, float]:
    """Accuracy of predicting classes from attributes by a regression fitted on other classes.

    Cross-batch zero-shot prediction of Gürbüz, Şener, Alatan, "Generalized Sum Pooling for Metric
    Learning", ICCV 2023, section 5.1, and thesis 2022, section 5.3.3. The classes are split into
    two random halves. The linear map of (P3) from attributes z to class embeddings υ is fitted on
    the images of one half, `A = argmin Σ_i ||A z_i - υ_{y_i}||^2 + ridge ||A||^2`. It predicts
    `A z` for each class of the other half from the mean z of its images. The class is found if its
    own υ is the nearest of that half. Then the halves swap roles. In the paper, the υ are the mean
    embeddings of the classes. With one correct answer per class, this accuracy is MAP@R.

    Args:
        attributes: floats `(N, m)`, z.
        labels: integers `(N,)`, rows of `class_embeddings`; every class needs an image.
        class_embeddings: floats `(C, D)`, υ.
        num_splits: number of random splits into halves. With an odd C, one half has one class more.
        ridge: weight of the ridge penalty, > 0.
        seed: seed of the random splits.

    Returns:
        means over classes and splits. `euclidean` and `cosine` are the accuracies with the nearest
        embedding by Euclidean distance and by cosine similarity. `chance` is the accuracy of
        guessing among the classes of the half.

    Example:
        >>> classes = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0], [1.0, -1.0]])
        >>> labels = np.arange(40) % 4
        >>> zero_shot_prediction(classes[labels], labels, classes, num_splits=6)
        {'euclidean': 1.0, 'cosine': 1.0, 'chance': 0.5}
    """
    attributes = checked_embeddings(attributes, "attributes").astype(np.float64)
    labels = checked_labels(labels, len(attributes), "labels")
    class_embeddings = checked_embeddings(class_embeddings, "class_embeddings")
    num_classes = len(class_embeddings)
    if num_classes < 2 or not np.array_equal(np.unique(labels), np.arange(num_classes)):
        raise ValueError(
            "class_embeddings must be two rows or more, one for every class of labels; received "
            f"{num_classes} rows and {len(np.unique(labels))} classes from {labels.min()} to "
            f"{labels.max()}."
        )
    check_sizes(num_splits=num_splits)
    check_positive(ridge=ridge)
    classes = _Classes(attributes, labels, class_embeddings, ridge)
    rng = np.random.default_rng(checked_seed(seed))
    hits = np.zeros(3)
    for _ in range(num_splits):
        halves = np.array_split(rng.permutation(num_classes), 2)
        hits += classes.hits(*halves) + classes.hits(*reversed(halves))
    means = hits / (num_splits * num_classes)
    return dict(zip(("euclidean", "cosine", "chance"), map(float, means), strict=True))


class _Classes:
    """Sums over each class that the regressions of all halves need."""

    # With X the attributes and Y the class embeddings of the images of one half, the prediction for
    # z is `Yᵀ X (Xᵀ X + ridge I)^-1 z`. Both rules compare it with every embedding by a dot
    # product, so the products of the embeddings are enough.

    def __init__(self, attributes, labels, class_embeddings, ridge):
        by_class = [attributes[labels == label] for label in range(len(class_embeddings))]
        self.grams = np.stack([z.T @ z for z in by_class])
        self.sums = np.stack([z.sum(axis=0) for z in by_class])
        self.means = np.stack([z.mean(axis=0) for z in by_class])
        self.penalty = ridge * np.eye(attributes.shape[1])
        embeddings = class_embeddings.astype(np.float64)
        self.products = embeddings @ embeddings.T
        self.directions = embeddings @ unit_vectors(class_embeddings).T

    def hits(self, fitted, predicted):
        """Numbers of `predicted` classes found by each rule, and expected by chance."""
        gram = self.grams[fitted].sum(axis=0) + self.penalty
        maps = self.means[predicted] @ np.linalg.solve(gram, self.sums[fitted].T)
        lengths = self.products[predicted, predicted]
        nearest = (2 * maps @ self.products[np.ix_(fitted, predicted)] - lengths).argmax(axis=1)
        aligned = (maps @ self.directions[np.ix_(fitted, predicted)]).argmax(axis=1)
        truth = np.arange(len(predicted))
        return np.array([np.sum(nearest == truth), np.sum(aligned == truth), 1.0])
