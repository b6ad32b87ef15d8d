import inspect
from typing import get_args

import numpy as np
import pytest

from gsp_tf import losses
from gsp_tf.experiment.losses import LOSSES, MINERS, WRAPPERS, build_loss, complete_arguments
from gsp_tf.recipe import LossName, LossRecipe, MinerName, WrapperName, load_recipe


@pytest.mark.parametrize(
    ("names", "classes"), [(LossName, LOSSES), (MinerName, MINERS), (WrapperName, WRAPPERS)]
)
def test_every_name_has_its_class(names, classes):
    assert set(get_args(names)) - {"none"} == set(classes)


def test_a_recipe_can_name_every_loss_with_embeddings_and_labels():
    bases = {"PairLoss", "ProxyLoss", "Miner"}
    others = bases | {"ZeroShotLoss", "GroupDiversityLoss", "ProxyPairsLoss"}
    public = {
        name
        for name in losses.__all__
        if name not in others and inspect.isclass(getattr(losses, name))
    }
    named = {c.__name__ for classes in (LOSSES, MINERS, WRAPPERS) for c in classes.values()}
    assert named == public


@pytest.mark.parametrize("name", LOSSES)
def test_every_loss_is_built_with_its_defaults(name):
    loss = build_loss(LossRecipe(name), num_classes=4)
    value = float(loss(np.arange(8) % 4, np.random.default_rng(0).normal(size=(8, 5))))
    assert type(loss) is LOSSES[name] and np.isfinite(value)
    completed = complete_arguments(LossRecipe(name)).arguments
    assert {key: loss.get_config()[key] for key in completed} == completed


@pytest.mark.parametrize("miner", MINERS)
def test_a_miner_goes_into_a_pair_loss(miner):
    loss = build_loss(LossRecipe("triplet", {"margin": 0.3}, miner), num_classes=4)
    assert type(loss.miner) is MINERS[miner] and loss.margin == 0.3


@pytest.mark.parametrize(
    ("name", "wrapper", "arguments"),
    [
        ("cosine_contrastive", "cross_batch_memory", {"capacity": 32, "batch_weight": 1}),
        ("triplet", "multi_level_distance_regularization", {"levels": [-1.0, 1.0]}),
        ("proxy_nca", "proxy_synthesis", {"alpha": 0.2}),
        ("soft_triple", "virtual_class", {}),
    ],
)
def test_a_wrapper_goes_around_a_loss(name, wrapper, arguments):
    recipe = LossRecipe(name, wrapper=wrapper, wrapper_arguments=arguments)
    loss = build_loss(recipe, num_classes=4)
    assert type(loss) is WRAPPERS[wrapper]
    config = loss.get_config()
    assert {key: config[key] for key in arguments} == {
        key: tuple(value) if isinstance(value, list) else value for key, value in arguments.items()
    }
    inner = getattr(loss, "loss", None) or loss.proxy_loss
    assert type(inner) is LOSSES[name]


@pytest.mark.parametrize(
    ("recipe", "message"),
    [
        (
            LossRecipe("triplet", {"temperature": 0.1}),
            "loss.arguments must be among margin, normalize, received temperature",
        ),
        (
            LossRecipe("proxy_nca", {"temperature": "warm"}),
            "loss.arguments.temperature must be of the type of 0.11, received 'warm'",
        ),
        (
            LossRecipe("triplet", {"normalize": 1}),
            "loss.arguments.normalize must be of the type of True, received 1",
        ),
        (LossRecipe("proxy_nca", {"temperature": 0}), "temperature must be positive, received 0"),
        (
            LossRecipe("triplet", wrapper="cross_batch_memory"),
            "loss.wrapper_arguments must give capacity",
        ),
        (
            LossRecipe(
                "proxy_nca", wrapper="cross_batch_memory", wrapper_arguments={"capacity": 9}
            ),
            "CrossBatchMemory takes a pair loss",
        ),
        (LossRecipe("triplet", wrapper="virtual_class"), "VirtualClass takes a proxy loss"),
        (
            LossRecipe("proxy_nca", miner="multi_similarity"),
            "loss.miner=multi_similarity chooses pairs, and proxy_nca is no pair loss",
        ),
        (
            LossRecipe("triplet", miner_arguments={"epsilon": 0.1}),
            "loss.miner_arguments must be among none, received epsilon",
        ),
    ],
)
def test_what_does_not_fit_is_refused(recipe, message):
    with pytest.raises(ValueError, match=message):
        build_loss(recipe, num_classes=4)


def test_arguments_come_from_a_file_and_from_the_command_line(tmp_path):
    path = tmp_path / "recipe.yaml"
    path.write_text(
        "loss:\n  name: multi_similarity\n  arguments: {alpha: 2, beta: 40.0}\n"
        "  miner: multi_similarity\n  wrapper: cross_batch_memory\n"
        "  wrapper_arguments:\n    capacity: 64\n"
    )
    recipe = load_recipe(path, ["--loss.arguments.base", "0.4", "--loss.miner_arguments.epsilon=0"])
    memory = build_loss(recipe.loss, num_classes=4)
    assert (memory.capacity, memory.loss.alpha, memory.loss.beta) == (64, 2, 40.0)
    assert (memory.loss.base, memory.loss.miner.epsilon) == (0.4, 0)
