import json

import keras
import numpy as np
import pytest

from gsp_tf.losses import (
    ArcFaceLoss,
    ClassMarginLoss,
    ContrastiveLoss,
    CosFaceLoss,
    CrossBatchMemory,
    HybridLoss,
    MultiLevelDistanceRegularization,
    MultiSimilarityMiner,
    NormalizedSoftmaxLoss,
    ProxyAnchorLoss,
    ProxyNCALoss,
    ProxySynthesis,
    SoftTripleLoss,
    VirtualClass,
)
from gsp_tf.training import MetricLearner

WITH_PROXIES = {
    ProxyAnchorLoss: {"margin": 0.2, "alpha": 16.0},
    ProxyNCALoss: {"temperature": 0.3},
    SoftTripleLoss: {
        "centers_per_class": 3,
        "scale": 7.0,
        "gamma": 0.2,
        "tau": 0.1,
        "margin": 0.05,
    },
    NormalizedSoftmaxLoss: {"temperature": 0.2},
    ArcFaceLoss: {"margin_degrees": 20.0, "scale": 30.0},
    CosFaceLoss: {"margin": 0.2, "scale": 30.0},
    ClassMarginLoss: {
        "margin": 0.3,
        "beta": 1.1,
        "nu": 0.01,
        "shared_beta": True,
        "mean_over_pairs": True,
        "normalize": False,
        "miner": None,
    },
    HybridLoss: {
        "proxy_weight": 0.5,
        "alpha": 3.0,
        "beta": 20.0,
        "base": 0.4,
        "margin": 0.2,
        "proxy_alpha": 16.0,
    },
}
AROUND_A_LOSS = [
    (ProxySynthesis, SoftTripleLoss(3, 2), {"alpha": 0.7, "ratio": 0.5, "seed": 5}),
    (VirtualClass, CosFaceLoss(3, margin=0.1), {}),
    (
        CrossBatchMemory,
        ContrastiveLoss(0.1, 0.7, miner=MultiSimilarityMiner(0.2)),
        {"capacity": 9, "warmup_steps": 2, "batch_weight": 0.5},
    ),
    (
        MultiLevelDistanceRegularization,
        ContrastiveLoss(0.1, 0.7, normalize=False),
        {"weight": 0.3, "levels": (-1.0, 0.5)},
    ),
]


def twin(loss):
    config = json.loads(json.dumps(keras.saving.serialize_keras_object(loss)))
    return keras.saving.deserialize_keras_object(config)


@pytest.mark.parametrize("loss", WITH_PROXIES)
def test_config_round_trip(loss):
    arguments = {"num_classes": 7, "name": "of_seven", "dtype": "float64", **WITH_PROXIES[loss]}
    loss = loss(**arguments)
    assert type(twin(loss)) is type(loss)
    assert twin(loss).get_config() == loss.get_config()
    assert {**loss.get_config(), "dtype": "float64"} == {**arguments, "trainable": True}


@pytest.mark.parametrize(("wrapper", "inner", "arguments"), AROUND_A_LOSS)
def test_config_round_trip_around_a_loss(wrapper, inner, arguments):
    loss = wrapper(inner, name="around", **arguments)
    config = loss.get_config()
    assert type(twin(loss)) is wrapper
    assert twin(loss).get_config() == config
    assert {key: config[key] for key in arguments} == arguments
    inside = getattr(twin(loss), "proxy_loss", getattr(twin(loss), "loss", None))
    assert type(inside) is type(inner) and inside.get_config() == inner.get_config()


NAN = float("nan")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        *((lambda loss=loss: loss(0), "num_classes must be at least 1") for loss in WITH_PROXIES),
        *(
            (lambda alpha=alpha: ProxyAnchorLoss(2, alpha=alpha), "alpha must be positive")
            for alpha in (0.0, NAN)
        ),
        *(
            (
                lambda loss=loss, t=t: loss(2, temperature=t),
                f"temperature .* positive, received {t}",
            )
            for loss in (ProxyNCALoss, NormalizedSoftmaxLoss)
            for t in (0.0, -1.0, NAN)
        ),
        (lambda: SoftTripleLoss(2, 0), "centers_per_class must be at least 1, received 0"),
        (lambda: SoftTripleLoss(2, scale=0.0), "scale and gamma must be .* received 0.0, 0.1"),
        (lambda: SoftTripleLoss(2, gamma=0.0), "scale and gamma must be .* received 20.0, 0.0"),
        (lambda: SoftTripleLoss(2, tau=-1.0), "tau not negative, received 20.0, 0.1 and -1.0"),
        *(
            (lambda m=m: ArcFaceLoss(2, margin_degrees=m), f"lie in 0 to 180, received {m}")
            for m in (-1.0, 181.0, NAN)
        ),
        (lambda: ArcFaceLoss(2, scale=0.0), "scale must be positive, received 0.0"),
        (lambda: CosFaceLoss(2, scale=-1.0), "scale must be positive, received -1.0"),
        *(
            (lambda nu=nu: ClassMarginLoss(2, nu=nu), f"nu must not be negative, received {nu}")
            for nu in (-1.0, NAN)
        ),
        (lambda: HybridLoss(2, proxy_weight=-1), "proxy_weight must not be negative, received -1"),
        (lambda: HybridLoss(2, beta=0.0), "alpha and beta must be positive, received 2.0 and 0.0"),
        (lambda: HybridLoss(2, proxy_alpha=0.0), "alpha must be positive, received 0.0"),
        (lambda: ProxyNCALoss(2, proxies_per_class=2), "proxies_per_class"),
        *(
            (
                lambda w=w: w(ContrastiveLoss()),
                f"{w.__name__} takes a proxy loss .* received .*Cont",
            )
            for w in (ProxySynthesis, VirtualClass)
        ),
        *(
            (lambda a=a: ProxySynthesis(ProxyNCALoss(2), alpha=a), "alpha must be positive")
            for a in (0.0, NAN)
        ),
        *(
            (lambda r=r: ProxySynthesis(ProxyNCALoss(2), ratio=r), r"ratio must lie in \[0, 1\]")
            for r in (-0.1, 1.1, NAN)
        ),
        *(
            (lambda w=w: w(ProxyNCALoss(2), 9), f"{w.__name__} takes a pair loss .*<ProxyNCALoss")
            for w in (CrossBatchMemory, MultiLevelDistanceRegularization)
        ),
        (lambda: CrossBatchMemory(ContrastiveLoss(), 0), "capacity must be at least 1, received 0"),
        (
            lambda: CrossBatchMemory(ContrastiveLoss(), 9, warmup_steps=-1),
            "warmup_steps must not be negative, received -1",
        ),
        *(
            (
                lambda b=b: CrossBatchMemory(ContrastiveLoss(), 9, batch_weight=b),
                "batch_weight must",
            )
            for b in (-1.0, NAN)
        ),
        (
            lambda: MultiLevelDistanceRegularization(ContrastiveLoss(), weight=-1.0),
            "weight must not be negative, received -1.0",
        ),
        (
            lambda: MultiLevelDistanceRegularization(ContrastiveLoss(), levels=()),
            "levels must hold at least one level",
        ),
    ],
)
def test_refuses_bad_arguments(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([0, 4, 1], r"must lie in 0 to 3 \(num_classes=4\), received 4"),
        ([0, -1, 1], r"must lie in 0 to 3 \(num_classes=4\), received -1"),
        ([0.0, 0.5, 1.0], "must be whole numbers, received 0.5"),
        ([False, True, True], "must be of an integer type, received bool"),
    ],
)
@pytest.mark.parametrize(
    "make_loss",
    ["proxy_anchor", "soft_triple", "class_margin", "hybrid", "proxy_synthesis", "virtual_class"],
    indirect=True,
)
def test_labels_that_are_no_class_are_refused(make_loss, labels, message):
    features = np.eye(3, 5, dtype="float32")
    with pytest.raises(ValueError, match=message):
        make_loss()(np.array(labels), features)
    embedder = keras.Sequential([keras.Input((5,)), keras.layers.Dense(4)])
    learner = MetricLearner(embedder, make_loss())
    learner.compile(run_eagerly=True)
    with pytest.raises(ValueError, match=message):
        learner.fit(features, np.array(labels), verbose=0)


@pytest.mark.parametrize(
    ("make_loss", "first", "last"),
    [("memory", 0, 2**31 - 1), ("levels", -(2**40), 2**40)],
    indirect=["make_loss"],
)
def test_losses_over_pairs_take_any_whole_label(make_loss, first, last):
    features = np.eye(3, 5, dtype="float32")
    assert np.isfinite(make_loss()(np.array([first, last, 9]), features))
    with pytest.raises(ValueError, match="must be whole numbers, received 0.5"):
        make_loss()(np.array([0.0, 0.5, 1.0]), features)


@pytest.mark.parametrize("label", [-1, 2**31])
@pytest.mark.parametrize("make_loss", ["memory"], indirect=True)
def test_labels_that_the_memory_cannot_hold_are_refused(make_loss, label):
    with pytest.raises(ValueError, match=f"must lie in 0 to 2147483647.*received {label}"):
        make_loss()(np.array([0, label, 1]), np.eye(3, 5, dtype="float32"))


@pytest.mark.parametrize(
    ("labels", "embeddings"), [((3, 3), (3, 4)), ((2,), (3, 4)), ((3,), (3,)), ((3,), (3, 2, 2))]
)
def test_shapes_that_do_not_fit_are_refused(make_loss, labels, embeddings):
    with pytest.raises(ValueError, match=r"takes integer labels \(B,\) or \(B, 1\).*received"):
        make_loss()(np.zeros(labels, int), np.ones(embeddings, "float32"))
