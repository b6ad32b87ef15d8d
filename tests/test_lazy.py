import importlib
import types

import pytest

import gsp_tf

PACKAGES = ("data", "evaluation", "experiment", "serving", "visual")


@pytest.mark.parametrize("package", PACKAGES)
def test_every_exported_name_is_there_and_no_module(package):
    package = getattr(gsp_tf, package)
    assert set(package.__all__) <= set(dir(package))
    for name in package.__all__:
        assert not isinstance(getattr(package, name), types.ModuleType), name


@pytest.mark.parametrize("name", ["serving.search"])
def test_a_function_hides_the_module_of_its_name(name):
    package, function = name.split(".")
    module = importlib.import_module(f"gsp_tf.{name}")
    assert isinstance(module, types.ModuleType)
    assert getattr(getattr(gsp_tf, package), function) is getattr(module, function)


def test_other_names_are_missing():
    with pytest.raises(AttributeError, match="module 'gsp_tf.visual' has no attribute 'nothing'"):
        _ = gsp_tf.visual.nothing
    with pytest.raises(AttributeError, match="module 'gsp_tf' has no attribute 'nothing'"):
        _ = gsp_tf.nothing
