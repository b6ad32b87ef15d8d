import inspect

import numpy as np
import pytest

from gsp_tf import losses
from gsp_tf._names import NAMES, named
from gsp_tf.losses import ArcFaceLoss, LpRegularizer, RegularFaceRegularizer
from gsp_tf.recipe import ClassRecipe, DataRecipe, Recipe, load_recipe, recipe_text, resolved
from gsp_tf.runs.model import _build_loss

LABELS, X = np.arange(8) % 4, np.random.default_rng(0).normal(size=(8, 5))
TWO_VIEWS = DataRecipe(images_per_class=2)
OF_LENGTHS = {"ada_face", "large_margin_softmax", "sphere_face"}
NEEDED = {"vicreg": {"normalize": True}, "weighted_sum": {"terms": [{"name": "triplet"}]}}


def loss_of(num_classes=4, **sections):
    return _build_loss(resolved(Recipe(**sections)), num_classes)


def test_a_recipe_can_name_every_loss_with_embeddings_and_labels():
    bases = {"PairLoss", "ProxyLoss", "LossLayer", "TwoViewLoss", "Miner", "TripletMiner", "Pairs"}
    objects = {
        named(part, name).__name__ for part in ("distance", "reduction") for name in NAMES[part]
    }
    bases |= objects | {"Distance", "SoftmaxClassifier"}
    others = bases | {"ZeroShotLoss", "GroupDiversityLoss", "ProxyPairsLoss", "SemiSupervisedLoss"}
    public = {
        name
        for name in losses.__all__
        if name not in others
        and not name.endswith("Regularizer")
        and inspect.isclass(getattr(losses, name))
    }
    sections = ("loss", "miner", "loss_wrapper")
    assert {named(part, name).__name__ for part in sections for name in NAMES[part]} == public


def test_a_recipe_gives_a_loss_its_distance_and_reduction():
    sums = {"class_weights": [1.0, 2.0, 1.0, 0.5], "thresholds": [None, 2.0]}
    given = {"distance": {"name": "lp", "p": 1.0}, "reduction": {"name": "sum", **sums}}
    loss = loss_of(loss=ClassRecipe("contrastive", given))
    expected = losses.ContrastiveLoss(
        distance=losses.LpDistance(1.0), reduction=losses.Reduction("sum", **sums)
    )(LABELS, X)
    assert float(loss(LABELS, X)) == float(expected) != 0


def test_former_arguments_at_their_defaults_load():
    given = {"distance": None, "p": 2.0, "power": 1.0, "class_weights": None, "thresholds": None}
    former, plain = (Recipe(loss=ClassRecipe("triplet", x)) for x in (given, {}))
    assert resolved(former) == resolved(plain)


@pytest.mark.parametrize("name", sorted(NAMES["loss"].keys() - OF_LENGTHS))
def test_every_loss_is_built_with_its_defaults(name):
    needed = NEEDED.get(name, {})
    loss = loss_of(loss=ClassRecipe(name, needed), data=TWO_VIEWS)
    value = float(loss(LABELS, X))
    assert type(loss) is named("loss", name) and np.isfinite(value)
    recipe = Recipe(loss=ClassRecipe(name, needed), data=TWO_VIEWS)
    completed = dict(resolved(recipe).loss.arguments)
    for key in ("terms", "term_weights") if name == "weighted_sum" else ():
        del completed[key]
    assert {key: loss.get_config()[key] for key in completed} == completed


@pytest.mark.parametrize("name", NAMES["loss"])
def test_losses_of_lengths_are_refused(name):
    made = named("loss", name)
    # BarlowTwinsLoss standardises the dimensions of a batch.
    assert (getattr(made, "normalize", True) is False) == (name in OF_LENGTHS | {"barlow_twins"})
    if name in OF_LENGTHS:
        for chosen in (ClassRecipe(name), ClassRecipe("weighted_sum", {"terms": [{"name": name}]})):
            with pytest.raises(ValueError, match=f"loss.name={name} depends on the length of the"):
                loss_of(loss=chosen)


def test_a_recipe_sums_losses(tmp_path):
    (tmp_path / "recipe.yaml").write_text(
        "loss: {name: weighted_sum, term_weights: [1, 0.5], "
        "terms: [{name: proxy_anchor, margin: 0.2}, {name: threshold_consistent_margin}]}"
    )
    recipe = load_recipe(tmp_path / "recipe.yaml")
    (tmp_path / "complete.yaml").write_text(recipe_text(recipe))
    assert load_recipe(tmp_path / "complete.yaml") == recipe
    given = {"name": "proxy_anchor", "margin": 0.2, "alpha": 32}
    assert recipe.loss.arguments["terms"][0].items() >= given.items()
    loss = _build_loss(recipe, 4)
    values = [float(term(LABELS, X)) for term in loss.terms]
    assert float(loss(LABELS, X)) == pytest.approx(values[0] + 0.5 * values[1])


@pytest.mark.parametrize("place", ["loss", "term", "wrapper"])
def test_a_recipe_regularizes_proxies_and_embeddings(place, tmp_path):
    given = (
        "proxies_regularizer: {name: regular_face, weight: 0.5}, "
        "embedding_regularizer: {name: lp, p: 1}"
    )
    text = {
        "loss": f"loss: {{name: arc_face, scale: 8, {given}}}",
        "term": f"loss: {{name: weighted_sum, terms: [{{name: arc_face, scale: 8, {given}}}]}}",
        "wrapper": "loss: {name: arc_face, scale: 8}\n"
        f"loss_wrapper: {{name: partial_fc, sample_rate: 1.0, {given}}}",
    }[place]
    (tmp_path / "recipe.yaml").write_text(text)
    recipe = load_recipe(tmp_path / "recipe.yaml")
    (tmp_path / "complete.yaml").write_text(recipe_text(recipe))
    assert load_recipe(tmp_path / "complete.yaml") == recipe
    loss, plain = _build_loss(recipe, 4), ArcFaceLoss(4, scale=8.0)
    value = float(loss(LABELS, X))
    plain.build((None,), (None, 5))
    plain.proxies.assign(next(w for w in loss.weights if "proxies" in w.name))
    proxies, x = plain.proxies.numpy(), X.astype("float32")
    terms = plain(LABELS, x), RegularFaceRegularizer(0.5)(proxies), LpRegularizer(p=1.0)(x)
    assert value == pytest.approx(sum(map(float, terms)), rel=1e-5)


@pytest.mark.parametrize("miner", NAMES["miner"])
def test_a_miner_goes_into_a_pair_loss_and_one_in_a_memory(miner):
    sections = {"loss": ClassRecipe("triplet", {"margin": 0.3}), "miner": ClassRecipe(miner)}
    memory = ClassRecipe("cross_batch_memory", {"capacity": 64})
    for loss in (loss_of(**sections), loss_of(**sections, loss_wrapper=memory).loss):
        assert type(loss.miner) is named("miner", miner) and loss.margin == 0.3


@pytest.mark.parametrize(
    ("name", "wrapper", "arguments"),
    [
        ("cosine_contrastive", "cross_batch_memory", {"capacity": 32, "batch_weight": 1}),
        ("triplet", "multi_level_distance_regularization", {"levels": [-1.0, 1.0]}),
        ("proxy_nca", "proxy_synthesis", {"alpha": 0.2}),
        ("nt_xent", "self_supervised", {"symmetric": False}),
        ("arc_face", "label_smoothing", {"super_classes": [0, 0, 1, 1]}),
        ("arc_face", "partial_fc", {"sample_rate": 0.25, "seed": 3}),
        ("soft_triple", "matryoshka", {"dims": [8, 64], "weights": [2.0, 1.0]}),
    ],
)
def test_a_wrapper_goes_around_a_loss(name, wrapper, arguments):
    data = TWO_VIEWS if wrapper == "self_supervised" else DataRecipe()
    loss = loss_of(loss=ClassRecipe(name), loss_wrapper=ClassRecipe(wrapper, arguments), data=data)
    assert type(loss) is named("loss_wrapper", wrapper)
    config = loss.get_config()
    assert {key: config[key] for key in arguments} == {
        key: tuple(value) if isinstance(value, list) else value for key, value in arguments.items()
    }
    inner = getattr(loss, "loss", None) or loss.proxy_loss
    assert type(inner) is named("loss", name)
