from functools import partial

import numpy as np
import pytest
import tensorflow as tf

from gsp_tf.losses import (
    AngularLoss,
    ArcFaceLoss,
    BinomialDevianceLoss,
    CircleLoss,
    ClassMarginLoss,
    ContrastiveLoss,
    CosFaceLoss,
    CosineContrastiveLoss,
    CrossBatchMemory,
    FastAPLoss,
    HybridLoss,
    LiftedStructureLoss,
    MarginLoss,
    MultiLevelDistanceRegularization,
    MultiSimilarityLoss,
    NormalizedSoftmaxLoss,
    NPairsLoss,
    ProxyAnchorLoss,
    ProxyNCALoss,
    ProxySynthesis,
    SoftTripleLoss,
    SupervisedContrastiveLoss,
    TripletHardLoss,
    TripletLoss,
    TripletSemiHardLoss,
    VirtualClass,
)

# Every loss that is a layer, for four classes.
LAYERS = {
    "proxy_anchor": lambda **k: ProxyAnchorLoss(4, **k),
    "proxy_nca": lambda **k: ProxyNCALoss(4, **k),
    "soft_triple": lambda **k: SoftTripleLoss(4, 3, **k),
    "normalized_softmax": lambda **k: NormalizedSoftmaxLoss(4, **k),
    "arc_face": lambda **k: ArcFaceLoss(4, **k),
    "cos_face": lambda **k: CosFaceLoss(4, **k),
    "class_margin": lambda **k: ClassMarginLoss(4, 0.3, 1.1, nu=0.01, **k),
    "hybrid": lambda **k: HybridLoss(4, **k),
    "proxy_synthesis": lambda **k: ProxySynthesis(ProxyNCALoss(4, **k), seed=3, **k),
    "virtual_class": lambda **k: VirtualClass(NormalizedSoftmaxLoss(4, **k), **k),
    "memory": lambda **k: CrossBatchMemory(CosineContrastiveLoss(0.2), 40, **k),
    "levels": lambda **k: MultiLevelDistanceRegularization(ContrastiveLoss(0, 1.5), **k),
}

# Every pair loss, with arguments that are not the defaults.
PAIR_LOSSES = {
    "angular": partial(AngularLoss, 45.0),
    "binomial_deviance": partial(BinomialDevianceLoss, 3.0, 0.4, 10.0),
    "circle": partial(CircleLoss, 0.25, 20.0),
    "contrastive": partial(ContrastiveLoss, 0.1, 1.2),
    "cosine_contrastive": partial(CosineContrastiveLoss, 0.2),
    "fast_ap": partial(FastAPLoss, 7),
    "lifted_structure": partial(LiftedStructureLoss, 0.8),
    "margin": partial(MarginLoss, 0.3, 1.1),
    "multi_similarity": partial(MultiSimilarityLoss, 3.0, 20.0, 0.3),
    "n_pairs": NPairsLoss,
    "supervised_contrastive": partial(SupervisedContrastiveLoss, 0.2),
    "triplet": partial(TripletLoss, 0.5),
    "triplet_hard": partial(TripletHardLoss, 0.6, "angular"),
    "triplet_hard_soft": partial(TripletHardLoss, distance="squared_euclidean", soft=True),
    "triplet_semi_hard": partial(TripletSemiHardLoss, 0.6, "squared_euclidean"),
}

# With one mean over all pairs, which the many negatives of a batch decide.
OVER_PAIRS = {
    "binomial_deviance_over_pairs": partial(
        BinomialDevianceLoss, 3.0, 0.4, 2.0, 5.0, mean_over_pairs=True
    ),
    "contrastive_over_pairs": partial(ContrastiveLoss, 0.1, 1.2, mean_over_pairs=True),
    "margin_over_pairs": partial(MarginLoss, 0.3, 1.1, mean_over_pairs=True),
}


@pytest.fixture(scope="session", params=PAIR_LOSSES)
def pair_loss(request):
    """Name and maker of a pair loss; a test without parameters runs for each of them."""
    return request.param, PAIR_LOSSES[request.param]


@pytest.fixture(scope="session", params=PAIR_LOSSES | OVER_PAIRS)
def any_pair_loss(request):
    """As `pair_loss`, those with a mean over all pairs too."""
    return request.param, (PAIR_LOSSES | OVER_PAIRS)[request.param]


@pytest.fixture(scope="session", params=OVER_PAIRS)
def loss_over_pairs(request):
    """Makes one of the pair losses with a mean over all pairs."""
    return OVER_PAIRS[request.param]


@pytest.fixture(scope="session")
def value_and_gradient():
    def compute(loss, labels, embeddings):
        """Value of a loss, and its gradient of the embeddings, as tensors."""
        embeddings = tf.convert_to_tensor(embeddings)
        with tf.GradientTape() as tape:
            tape.watch(embeddings)
            value = loss(labels, embeddings)
        return value, tape.gradient(value, embeddings)

    return compute


@pytest.fixture(scope="session")
def makers():
    """Name and maker of every loss that is a layer."""
    return LAYERS


@pytest.fixture(params=LAYERS)
def make_loss(request):
    """Makes one of the losses that are layers; a test without parameters runs for each of them."""
    return LAYERS[request.param]


@pytest.fixture(scope="session")
def with_weights():
    def build(loss, *weights, columns=None, seed=0):
        """Build a loss layer for embeddings of some columns, with these weights or random ones."""
        loss.build((None,), (None, weights[0].shape[1] if columns is None else columns))
        rng = np.random.default_rng(seed)
        weights = weights or [rng.normal(size=w.shape) for w in loss.trainable_weights]
        for weight, value in zip(loss.trainable_weights, weights, strict=True):
            weight.assign(value)
        return loss

    return build


@pytest.fixture(scope="session")
def value_and_gradients():
    def compute(loss, labels, embeddings, jit_compile=False, **arguments):
        """Value of a loss layer, its gradient of the embeddings, and those of its weights."""
        embeddings = tf.convert_to_tensor(embeddings)

        def run(embeddings):
            with tf.GradientTape() as tape:
                tape.watch(embeddings)
                value = loss(labels, embeddings, **arguments)
            weights = [w.value for w in loss.trainable_weights]
            return value, *tape.gradient(value, [embeddings, *weights])

        run = tf.function(run, jit_compile=True) if jit_compile else run
        value, *gradients = run(embeddings)
        return float(value), *(tf.cast(g, "float64").numpy() for g in gradients)

    return compute
