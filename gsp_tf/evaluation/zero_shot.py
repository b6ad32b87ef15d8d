"""Zero-shot prediction: what attributes of some classes tell of other classes."""

import numpy as np

from gsp_tf.evaluation.checks import checked_embeddings, checked_labels
from gsp_tf.evaluation.normalization import unit_vectors


def zero_shot_prediction(attributes, labels, class_embeddings, num_splits=1000, ridge=0.05, seed=0):
    """Accuracy of predicting classes from attributes by a regression fitted on other classes.

    The question of the zero-shot loss of Gürbüz, Şener, Alatan, "Generalized Sum Pooling for Metric
    Learning", ICCV 2023, section 4.3, asked of random halves of the classes. On one half the map
    `A = argmin Σ ||A z_i - υ_{y_i}||^2 + ridge ||A||^2` from attributes z to class embeddings υ is
    fitted. It predicts `A z` for the images of the other half, and each is given the class of that
    half whose embedding is nearest to the prediction; then the halves change places.

    Args:
        attributes: floats `(N, m)`, z.
        labels: integers `(N,)`, each a row of `class_embeddings`.
        class_embeddings: floats `(C, D)`, υ, such as `ZeroShotLoss.class_embeddings`.
        num_splits: how many times the classes are halved at random; with an odd C one half holds a
            class more.
        ridge: weight of the penalty of the regression, > 0.
        seed: seed of the halves.

    Returns:
        dict of floats, means over images and splits: `euclidean` and `cosine`, the accuracies with
        the nearest embedding by Euclidean distance and by cosine similarity, and `chance`, that of
        guessing among the classes of the half.

    Raises:
        ValueError: if the arrays do not fit together or are not finite, there are fewer than two
            classes, or `num_splits` or `ridge` is out of range.
        TypeError: if the arrays do not hold numbers, or labels integers.

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
    if num_classes < 2 or not 0 <= labels.min() <= labels.max() < num_classes:
        raise ValueError(
            "class_embeddings must be two rows or more, one for every label; received "
            f"{num_classes} rows and labels from {labels.min()} to {labels.max()}."
        )
    if num_splits < 1 or not ridge > 0:
        raise ValueError(
            "num_splits must be at least 1 and ridge positive; received "
            f"num_splits {num_splits} and ridge {ridge}."
        )
    classes = _Classes(attributes, labels, class_embeddings, ridge)
    rng = np.random.default_rng(seed)
    hits = np.zeros(3)
    for _ in range(num_splits):
        halves = np.array_split(rng.permutation(num_classes), 2)
        hits += classes.hits(*halves) + classes.hits(*reversed(halves))
    means = hits / (num_splits * len(labels))
    return dict(zip(("euclidean", "cosine", "chance"), map(float, means), strict=True))


class _Classes:
    """What the regressions of all halves need, summed up class by class.

    With X the attributes and Y the class embeddings of the images of one half, the prediction for z
    is `Yᵀ X (Xᵀ X + ridge I)^-1 z`. Both rules compare it with every embedding by a dot product
    alone, so that of the embeddings their products are all that is needed.
    """

    def __init__(self, attributes, labels, class_embeddings, ridge):
        of_class = [attributes[labels == label] for label in range(len(class_embeddings))]
        self.of_class = of_class
        self.grams = np.stack([z.T @ z for z in of_class])
        self.sums = np.stack([z.sum(axis=0) for z in of_class])
        self.penalty = ridge * np.eye(attributes.shape[1])
        embeddings = class_embeddings.astype(np.float64)
        self.products = embeddings @ embeddings.T
        self.directions = embeddings @ unit_vectors(class_embeddings).T

    def hits(self, fitted, predicted):
        """Images of the `predicted` classes hit by either rule, and expected to be by chance."""
        gram = self.grams[fitted].sum(axis=0) + self.penalty
        inverse = np.linalg.solve(gram, self.sums[fitted].T)
        attributes = np.concatenate([self.of_class[label] for label in predicted])
        truth = np.repeat(
            np.arange(len(predicted)), [len(self.of_class[label]) for label in predicted]
        )
        products = self.products[np.ix_(fitted, predicted)]
        lengths = self.products[predicted, predicted]
        nearest = (attributes @ (2 * inverse @ products) - lengths).argmax(axis=1)
        directions = self.directions[np.ix_(fitted, predicted)]
        aligned = (attributes @ (inverse @ directions)).argmax(axis=1)
        return np.array(
            [np.sum(nearest == truth), np.sum(aligned == truth), len(truth) / len(predicted)]
        )
