import numpy as np
import pytest

from gsp_tf import losses

EXPORTED = {name: getattr(losses, name) for name in losses.__all__}


@pytest.mark.parametrize(
    "wrapper", ["AntiCollapseLoss", "LabelSmoothing", "PartialFC", "ProxySynthesis", "VirtualClass"]
)
@pytest.mark.parametrize(
    "name", ["AdaFace", "LargeMarginSoftmax", "Manifold", "PotentialField", "SphereFace"]
)
def test_wrappers_refuse_losses_that_are_no_function_of_similarities(wrapper, name):
    loss = EXPORTED[f"{name}Loss"](2)
    with pytest.raises(ValueError, match=f"takes a .* received .*{name}Loss"):
        EXPORTED[wrapper](loss)
    with pytest.raises(ValueError, match=f"takes a .* received .*{name}Loss"):
        losses.MatryoshkaLoss(loss, dims=[2])


REFUSED = {
    "AngularLoss(0.0)": "angle must lie between 0 and 83 degrees, received 0.0",
    "MultiSimilarityLoss(0.0)": "alpha must be positive and finite, received 0.0",
    "TripletHardLoss(1.0, 'L2')": "one of euclidean, squared_euclidean, angular",
    "LpDistance(p=0.5)": "at least 1, and power .* received p=0.5",
    "FastAPLoss(normalize=False)": "cover unit vectors, received normalize=False",
    "ContrastiveLoss(reduction='max')": "reduction must be one of mean, .* received",
    "TripletSemiHardLoss(reduction='none')": "takes no reduction='none'",
    "Reduction('mean', [1, -1])": r"not negative; received \(1, -1\)",
    "ArcFaceLoss(3, reduction=Reduction('mean', [1, 1]))": "of the 3 classes, received 2",
    "Reduction('mean', None, (2, 1))": r"a smaller and a larger number.* \(2, 1\)",
    "ContrastiveLoss(embedding_regularizer=3)": "must be a regulariser such as Lp.* 3",
    "CrossBatchMemory(ContrastiveLoss(reduction='none'), 9)":
        r"Memory takes a loss that gives one number",
    "VirtualClass(ProxyNCALoss(2, embedding_regularizer=LpRegularizer()))":
        "Give embedding_regularizer to VirtualClass, and not",
    "VirtualClass(ProxyNCALoss(2, distance='euclidean'))":
        "mixes unit vectors, and takes a proxy loss of cosine",
    "AdaFaceLoss(3, distance='lp')": "AdaFaceLoss: .*distance.*lp",
    "ClassMarginLoss(3, nu=0.1, reduction='none')": "takes nu=0, received nu=0.1",
    "RecallAtKLoss([])": "recall_at must hold at least one number, received none",
    "ProxyNCALoss('a')": "num_classes must be an integer of at least 1, received 'a'",
    "NHardMiner(1, (3, 2))": r"negative_ranks must not decrease, received \(3, 2\)",
    "LpRegularizer(-1.0)": "weight must not be negative, received -1.0",
    "ContrastiveLoss(miner='hard')": "miner must be a miner such as .* 'hard'",
    "DistanceWeightedMiner(0.0, 1.4)": "0 < cutoff < nonzero_loss_cutoff, received",
    "ArcFaceLoss(2, -1.0)": "margin_degrees must lie in 0 to 180, received -1.0",
    "ProxySynthesis(ContrastiveLoss())": "Synthesis takes a proxy loss .* received .*Contr",
    "ProxySynthesis(ProxyNCALoss(2), ratio=-0.1)": "ratio must lie in 0 to 1",
    "CrossBatchMemory(ProxyNCALoss(2), 9)": "Memory takes a pair loss .*<ProxyNCALoss",
    "MultiLevelDistanceRegularization(ContrastiveLoss(), 1.0, ())": "at least one level",
    "GroupedLoss(GroupDiversityLoss(), 3)": "takes a pair loss .* <.*GroupDiversity",
    "GroupedLoss(ContrastiveLoss(), 3, diversity=ContrastiveLoss())":
        "must be a GroupDiversityLoss",
    "MatryoshkaLoss(ProxyNCALoss, [6])": "takes a pair loss .*<class .*ProxyNCALoss",
    "MatryoshkaLoss(ContrastiveLoss(), [4, 2])": r"must be increasing .* received \(4, 2\)",
    "MatryoshkaLoss(ContrastiveLoss(), [2, 6], [1.0])":
        r"one number per dimension, 2, .*received \(1.0,\)",
    "PartialFC(ProxyAnchorLoss(20))":
        "PartialFC takes a loss that is a cross-entropy of logits, such as ArcFaceLoss",
    "PartialFC(CosFaceLoss(20), float('nan'))": "sample_rate must lie above 0 .*, received nan",
    "BatchEasyHardMiner('all')": "positive='all' and negative='semi_hard'",
    "BatchEasyHardMiner(positive_range=(2, 1))": "positive_range must be a sm",
    "HDCMiner(0.0)": "share must lie above 0 and up to 1, received 0.0",
    "TripletLoss(triplets_per_anchor=2, miner=TripletMarginMiner(0.1))":
        "draws from all triplets, and TripletMarginMiner chooses them itself",
    "NPairsLoss(relation='any')": "needs classes, received relation='any'",
    "TripletLoss(relation='cosine')": "TripletLoss takes pairs that are either",
    "ContrastiveLoss(relation='jaccard', miner=HardNegativeMiner())":
        "HardNegativeMiner takes pairs that are either positive or negative",
    "ContrastiveLoss(relation='any', reduction=Reduction(class_weights=[1, 2]))":
        "class_weights belong to relation='equal', received relation='any'",
    "CrossBatchMemory(ContrastiveLoss(relation='any'), 9)":
        "relation='any' compares label vectors .* give num_labels",
    "CrossBatchMemory(ContrastiveLoss(), 9, num_labels=4)":
        "num_labels belongs to .*received num_labels=4 with relation='equal'",
    "ProxyPairsLoss(ContrastiveLoss(relation='any'), num_classes=4)": "takes a loss with relation=",
    "SelfSupervisedLoss(ContrastiveLoss(reduction=Reduction(class_weights=[1, 2])))":
        "loss of views must do without classes and class_weights; received a ContrastiveLoss of 2",
    "SemiSupervisedLoss(ProxyNCALoss(2), ProxyNCALoss(2), 4)":
        "view_loss must do without classes, such as NTXentLoss",
    "SemiSupervisedLoss(ProxyNCALoss(2), SimSiamLoss(4, dtype='float64'), 4)":
        "SimSiamLoss, float64, received",
    "SemiSupervisedLoss(ProxyNCALoss, NTXentLoss(), 4)": "takes losses such as .*<class .*ProxyNCA",
}  # fmt: skip


@pytest.mark.parametrize("call", REFUSED)
def test_refuses_arguments(call):
    with pytest.raises(ValueError, match=REFUSED[call]):
        eval(call, EXPORTED)


@pytest.mark.parametrize("loss", [losses.ContrastiveLoss(), losses.ProxyNCALoss(2)])
def test_a_saved_loss_of_the_former_form_loads_or_says_the_new_one(loss):
    former = loss.get_config() | {"p": 2.0, "power": 1.0, "class_weights": None, "thresholds": None}
    assert type(loss).from_config(former).get_config() == loss.get_config()
    for name, value, now in (("p", 1.0, "distance=Lp"), ("class_weights", [1, 2], "reduction=Re")):
        with pytest.raises(ValueError, match=f"was saved with {name}=.*, which is {now}.* now"):
            type(loss).from_config(former | {name: value})


def test_arguments_of_the_constructor_of_ones_own_loss_are_saved():
    class Own(losses.ContrastiveLoss):
        def __init__(self, scale, p=5.0, **kwargs):  # another p than the former one
            super().__init__(**kwargs)
            self.scale, self.p = scale, p

    for p in (2.0, 3.0):
        config = Own(3.0, p, normalize=False, reduction="sum").get_config()
        assert Own.from_config(config).get_config() == config
        assert (config["scale"], config["p"], config["normalize"]) == (3.0, p, False)
        assert config["reduction"] == "sum"


def test_a_miner_around_another_one_comes_back_with_it():
    class Around(losses.Miner):
        def __init__(self, inner):
            self.inner = inner

    restored = Around.from_config(Around(losses.MultiSimilarityMiner(0.2)).get_config())
    assert type(restored.inner) is losses.MultiSimilarityMiner and restored.inner.epsilon == 0.2


def test_fractions_are_not_cut_off():
    with pytest.raises(TypeError, match="dims must be integers"):
        losses.MatryoshkaLoss(losses.ContrastiveLoss(), [1.5, 2.0])
    with pytest.raises(TypeError, match="super_classes must be integers"):
        losses.LabelSmoothing(losses.ArcFaceLoss(2), 0.1, [1.5, 2.0])


WEIGHTED = losses.ContrastiveLoss(reduction=losses.Reduction(class_weights=[1.0, 2.0]))


@pytest.mark.parametrize(
    "loss",
    [
        WEIGHTED,
        losses.CrossBatchMemory(WEIGHTED, 9),
        losses.MatryoshkaLoss(WEIGHTED, [1, 2]),
        losses.CrossBatchMemory(losses.MatryoshkaLoss(WEIGHTED, [1, 2]), 9),
        losses.MultiLevelDistanceRegularization(WEIGHTED),
        losses.SimilarityMixup(WEIGHTED),
    ],
)
def test_a_label_without_a_class_weight_is_refused(loss):
    assert float(loss([0, 1, 1], np.eye(3, 2))) > 0
    with pytest.raises(ValueError, match=r"lie in 0 to 1 \(num_classes=2\), received 5"):
        loss([0, 5, 5], np.eye(3, 2))


@pytest.mark.parametrize(
    "loss",
    [losses.ContrastiveLoss(), losses.ProxyNCALoss(2), losses.ClassMarginLoss(2)],
    ids=lambda x: type(x).__name__,
)
@pytest.mark.parametrize(("name", "value"), [("distance", "cosine"), ("reduction", "sum")])
def test_a_distance_and_a_reduction_are_read_once(loss, name, value):
    with pytest.raises(ValueError, match=f"{name} of .* cannot change, .* it was read already"):
        setattr(loss, name, value)
