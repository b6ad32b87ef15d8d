import types

import pytest

import gsp_tf
from gsp_tf._lazy import _origins

PACKAGES = ("data", "evaluation", "experiment", "serving", "visual")


@pytest.mark.parametrize("package", PACKAGES)
def test_every_exported_name_is_there_and_is_not_a_module(package):
    package = getattr(gsp_tf, package)
    assert set(package.__all__) <= set(dir(package))
    for name in package.__all__:
        assert not isinstance(getattr(package, name), types.ModuleType), name
    # Importing a module would replace the function of the same name in the package.
    assert not [name for name, module in _origins(package).items() if module.endswith(f".{name}")]


def test_other_names_are_missing():
    with pytest.raises(AttributeError, match="module 'gsp_tf.visual' has no attribute 'nothing'"):
        _ = gsp_tf.visual.nothing
    with pytest.raises(AttributeError, match="module 'gsp_tf' has no attribute 'nothing'"):
        _ = gsp_tf.nothing
