"""The private names of Keras that training builds on are there, and in one module alone."""

import inspect
import re
from pathlib import Path

import keras

from gsp_tf import training

OWNERS = {
    "_apply_weight_decay": keras.optimizers.Optimizer,
    "_clip_gradients": keras.optimizers.Optimizer,
    "_get_variable_index": keras.optimizers.Optimizer,
    "_flatten_layers": keras.Model,
    "_maybe_symbolic_build": keras.Model,
}
PARAMETERS = {
    "_apply_weight_decay": ["self", "variables"],
    "_clip_gradients": ["self", "grads"],
    "_get_variable_index": ["self", "variable"],
    "_maybe_symbolic_build": ["self", "iterator", "data_batch"],
}


def test_keras_has_them():
    for name, owner in OWNERS.items():
        assert callable(getattr(owner, name)), name
    for name, parameters in PARAMETERS.items():
        assert list(inspect.signature(getattr(OWNERS[name], name)).parameters) == parameters, name
    assert isinstance(inspect.getattr_static(keras.optimizers.Optimizer, "learning_rate"), property)
    assert hasattr(keras.Model(), "_distribute_strategy")


def test_they_are_named_in_one_module():
    names = re.compile("|".join([*OWNERS, "_distribute_strategy"]))
    modules = Path(training.__file__).parent.parent.rglob("*.py")
    found = {path.name for path in modules if names.search(path.read_text("utf-8"))}
    assert found == {"_keras.py"}
