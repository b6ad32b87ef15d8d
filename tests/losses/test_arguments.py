from functools import partial

import pytest

from gsp_tf.losses import (
    AdaFaceLoss,
    AngularLoss,
    AntiCollapseLoss,
    ArcFaceLoss,
    ClassMarginLoss,
    ContrastiveLoss,
    CrossBatchMemory,
    DistanceWeightedMiner,
    DynamicSoftMarginLoss,
    FastAPLoss,
    GroupDiversityLoss,
    GroupedLoss,
    HybridLoss,
    LabelSmoothing,
    LargeMarginSoftmaxLoss,
    LpDistance,
    LpRegularizer,
    ManifoldLoss,
    MatryoshkaLoss,
    MultiLevelDistanceRegularization,
    MultiSimilarityLoss,
    NHardMiner,
    PartialFC,
    PotentialFieldLoss,
    ProxyAnchorLoss,
    ProxyNCALoss,
    ProxyPairsLoss,
    ProxySynthesis,
    Reduction,
    SoftTripleLoss,
    SparseCentersRegularizer,
    SphereFaceLoss,
    SupervisedContrastiveLoss,
    SurrogatePrecisionLoss,
    TripletHardLoss,
    TripletSemiHardLoss,
    VirtualClass,
    ZeroShotLoss,
)

NAN = float("nan")
PAIR_LOSS, PROXY_LOSS = ContrastiveLoss(), ProxyNCALoss(2)
NO_NUMBER = ContrastiveLoss(reduction="none")
REGULARIZED = ProxyNCALoss(2, embedding_regularizer=LpRegularizer())
EUCLIDEAN = ProxyNCALoss(2, distance="euclidean")

NO_SIMILARITIES_ALONE = [
    AdaFaceLoss(2),
    LargeMarginSoftmaxLoss(2),
    ManifoldLoss(2),
    PotentialFieldLoss(2),
    SphereFaceLoss(2),
]


@pytest.mark.parametrize(
    "wrapper",
    [
        AntiCollapseLoss,
        LabelSmoothing,
        partial(MatryoshkaLoss, dims=[2]),
        PartialFC,
        ProxySynthesis,
        VirtualClass,
    ],
)
@pytest.mark.parametrize("loss", NO_SIMILARITIES_ALONE, ids=lambda loss: type(loss).__name__)
def test_wrappers_refuse_losses_that_are_no_function_of_similarities(wrapper, loss):
    with pytest.raises(ValueError, match=f"takes a .* received .*{type(loss).__name__}"):
        wrapper(loss)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (partial(AngularLoss, 0.0), "angle must lie between 0 and 83 degrees, received 0.0"),
        (partial(FastAPLoss, 0), "num_bins must be at least 1, received 0"),
        (partial(MultiSimilarityLoss, 0.0), "alpha must be positive, received 0.0"),
        (partial(SupervisedContrastiveLoss, 0.0), "temperature must be positive, received 0.0"),
        (partial(TripletHardLoss, 1.0, "L2"), "one of euclidean, squared_euclidean, angular"),
        (partial(ContrastiveLoss, distance="L2"), "one of euclidean, squared_euclidean, angular"),
        (partial(LpDistance, p=0.5), "at least 1, and power .* received p=0.5"),
        (partial(FastAPLoss, normalize=False), "cover unit vectors, received normalize=False"),
        (partial(ContrastiveLoss, reduction="max"), "reduction must be one of mean, .* received"),
        (partial(TripletSemiHardLoss, reduction="none"), "takes no reduction='none'"),
        (partial(Reduction, "mean", [1, -1]), r"not negative; received \(1, -1\)"),
        (
            partial(Reduction, "mean", []),
            r"one number for each class, .* received \(\)",
        ),
        (
            partial(ArcFaceLoss, 3, reduction=Reduction("mean", [1, 1])),
            "of the 3 classes, received 2",
        ),
        (partial(Reduction, "mean", None, (2, 1)), r"a smaller and a larger number.* \(2, 1\)"),
        (partial(ContrastiveLoss, embedding_regularizer=3), "must be a regulariser such as Lp.* 3"),
        (partial(ArcFaceLoss, 2, proxies_regularizer="l2"), "regulariser such as Lp.* 'l2'"),
        (partial(CrossBatchMemory, NO_NUMBER, 9), r"Memory takes a loss that gives one number"),
        (partial(VirtualClass, REGULARIZED), "Give embedding_regularizer to VirtualClass, and not"),
        (partial(VirtualClass, EUCLIDEAN), "mixes unit vectors, and takes a proxy loss of cosine"),
        (partial(AdaFaceLoss, 3, reduction=Reduction("mean", [1])), "of the 3 classes, received 1"),
        (partial(AdaFaceLoss, 3, distance="lp"), "AdaFaceLoss: .*distance.*lp"),
        (partial(ClassMarginLoss, 3, nu=0.1, reduction="none"), "takes nu=0, received nu=0.1"),
        (partial(DynamicSoftMarginLoss, reduction="sum"), "SoftMarginLoss: .*reduction.*sum"),
        (partial(CrossBatchMemory, PAIR_LOSS, 9, miner="hard"), "Memory: .*miner.*hard"),
        (partial(SurrogatePrecisionLoss, 0), "k must be at least 1, received 0"),
        (partial(NHardMiner, 0), "positive_ranks must be a number of at least 1, .* received 0"),
        (partial(NHardMiner, 1, (3, 2)), r"negative_ranks must be .* received \(3, 2\)"),
        (partial(LpRegularizer, -1.0), "weight must not be negative, received -1.0"),
        (partial(LpRegularizer, p=0.5), "at least 1, and power finite and positive, received"),
        (partial(SparseCentersRegularizer, 1.0, 1), "centers_per_class must be at least 2"),
        (partial(ContrastiveLoss, miner="hard"), "miner must be a miner such as .* 'hard'"),
        (partial(ContrastiveLoss, miner=PAIR_LOSS), "miner must be a miner such as .*Contrastive"),
        (partial(DistanceWeightedMiner, 0.0, 1.4), "0 < cutoff < nonzero_loss_cutoff, received"),
        (partial(ProxyNCALoss, 0), "num_classes must be at least 1, received 0"),
        (partial(ProxyNCALoss, 2, proxies_per_class=2), "proxies_per_class"),
        (partial(ProxyNCALoss, 2, 0.0), "temperature must be positive, received 0.0"),
        (partial(ProxyAnchorLoss, 2, alpha=0.0), "alpha must be positive, received 0.0"),
        (partial(SoftTripleLoss, 2, 0), "centers_per_class must be at least 1, received 0"),
        (partial(ArcFaceLoss, 2, -1.0), "margin_degrees must lie in 0 to 180, received -1.0"),
        (partial(ClassMarginLoss, 2, nu=-1.0), "nu must not be negative, received -1.0"),
        (partial(HybridLoss, 2, -1), "proxy_weight must not be negative, received -1"),
        (partial(ZeroShotLoss, 0, 4), "num_classes must be at least 1, received 0"),
        (partial(ZeroShotLoss, 3, 4, 0.0), "ridge must be positive, received 0.0"),
        (partial(ZeroShotLoss, 3, 4, reduction="sum"), "one of mean, sum_of_means, received 'sum'"),
        (partial(ProxySynthesis, PAIR_LOSS), "Synthesis takes a proxy loss .* received .*Contr"),
        (partial(ProxySynthesis, PROXY_LOSS, 0.0), "alpha must be positive, received 0.0"),
        (partial(ProxySynthesis, PROXY_LOSS, ratio=-0.1), "ratio must lie in 0 to 1"),
        (partial(CrossBatchMemory, PROXY_LOSS, 9), "Memory takes a pair loss .*<ProxyNCALoss"),
        (partial(CrossBatchMemory, PAIR_LOSS, 0), "capacity must be at least 1, received 0"),
        (partial(CrossBatchMemory, PAIR_LOSS, 9, -1), "warmup_steps must not be negative"),
        (partial(MultiLevelDistanceRegularization, PROXY_LOSS), "takes a pair loss .*<ProxyNCAL"),
        (partial(MultiLevelDistanceRegularization, PAIR_LOSS, -1.0), "weight must not be negative"),
        (partial(MultiLevelDistanceRegularization, PAIR_LOSS, 1.0, ()), "at least one level"),
        (partial(ProxyPairsLoss, PROXY_LOSS, 2), "takes a pair loss"),
        (partial(ProxyPairsLoss, PAIR_LOSS, 2, 0), "proxies_per_class must be at least 1"),
        (partial(GroupedLoss, GroupDiversityLoss(), 3), "takes a pair loss .* <.*GroupDiversity"),
        (partial(GroupedLoss, PAIR_LOSS, 0), "num_groups must be at least 1, received 0"),
        (partial(GroupedLoss, PAIR_LOSS, 3, diversity=PAIR_LOSS), "must be a GroupDiversityLoss"),
    ],
)
def test_refuses_arguments(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize("loss", [ContrastiveLoss(), ProxyNCALoss(2)])
def test_a_saved_loss_of_the_former_form_loads_or_says_the_new_one(loss):
    former = loss.get_config() | {"p": 2.0, "power": 1.0, "class_weights": None, "thresholds": None}
    assert type(loss).from_config(former).get_config() == loss.get_config()
    for name, value, now in (("p", 1.0, "distance=Lp"), ("class_weights", [1, 2], "reduction=Re")):
        with pytest.raises(ValueError, match=f"was saved with {name}=.*, which is {now}.* now"):
            type(loss).from_config(former | {name: value})


def test_arguments_of_the_constructor_of_ones_own_loss_are_saved():
    class Own(ContrastiveLoss):
        def __init__(self, scale, **kwargs):
            super().__init__(**kwargs)
            self.scale = scale

    config = Own(3.0, normalize=False, reduction="sum").get_config()
    assert Own.from_config(config).get_config() == config
    assert (config["scale"], config["normalize"], config["reduction"]) == (3.0, False, "sum")


@pytest.mark.parametrize(
    "loss", [ContrastiveLoss(), ProxyNCALoss(2), ClassMarginLoss(2)], ids=lambda x: type(x).__name__
)
@pytest.mark.parametrize(("name", "value"), [("distance", "cosine"), ("reduction", "sum")])
def test_a_distance_and_a_reduction_are_read_once(loss, name, value):
    with pytest.raises(ValueError, match=f"{name} of .* cannot change, .* it was read already"):
        setattr(loss, name, value)
