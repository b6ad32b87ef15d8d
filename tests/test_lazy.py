import functools
import importlib
import os
import pkgutil
import subprocess
import sys
import types

import keras
import numpy as np
import pytest
from digit_runs import eagerly

import gsp_tf
from gsp_tf._lazy import _CORETYPE, _KERNELS, _origins, _registered_names

PACKAGES = ("data", "evaluation", "export", "runs", "search", "visual")


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


LOAD = """
import sys
import gsp_tf
import keras
loaded = [name for name in sys.modules if name.startswith("gsp_tf.")]
assert sorted(loaded) == ["gsp_tf._lazy", "gsp_tf._version"]
model = keras.saving.load_model(sys.argv[1])
learner = keras.saving.load_model(sys.argv[2])
import numpy as np
images = np.ones((2, 4, 4, 3), "float32")
print(float(keras.ops.sum(model(images))), type(learner.embedding_loss).__name__)
"""


def test_keras_loads_what_the_library_saved_in_a_new_process(tmp_path):
    """Where Keras is imported first, README.md is tested."""
    from gsp_tf.layers import GeneralizedSumPooling, L2Normalization
    from gsp_tf.losses import ProxyAnchorLoss
    from gsp_tf.training import MetricLearner, with_learning_rate_multipliers

    pooled = GeneralizedSumPooling(4)(image := keras.Input((4, 4, 3)))
    model = keras.Model(image, L2Normalization()(pooled))
    learner = MetricLearner(model, ProxyAnchorLoss(3))
    learner.compile(with_learning_rate_multipliers(keras.optimizers.SGD(), {"proxies": 2.0}))
    images = np.ones((2, 4, 4, 3), "float32")
    with eagerly():
        learner.fit(images, np.arange(2), verbose=0)
    paths = tmp_path / "model.keras", tmp_path / "learner.keras"
    model.save(paths[0])
    learner.save(paths[1])
    total, loss = subprocess.check_output([sys.executable, "-c", LOAD, *paths], text=True).split()
    expected = float(keras.ops.sum(model(images)))
    assert float(total) == pytest.approx(expected, rel=1e-5) and loss == "ProxyAnchorLoss"


def test_keras_finds_every_class_that_is_registered():
    registered = set()
    for module in pkgutil.walk_packages(gsp_tf.__path__, "gsp_tf."):
        if not module.name.endswith("__main__"):
            values = vars(importlib.import_module(module.name)).values()
            classes = (value for value in values if isinstance(value, type))
            registered |= {keras.saving.get_registered_name(of) for of in classes}
    ours = {name for name in registered if name.startswith("gsp_tf>")}
    assert ours <= _registered_names()


KERNELS = """
import os
import gsp_tf
import faiss
from threadpoolctl import threadpool_info

kernels = {
    library["filepath"]: library["architecture"]
    for library in threadpool_info()
    if library["internal_api"] == "openblas"
}
of_faiss = [name for path, name in kernels.items() if "faiss" in path]
of_numpy = [name for path, name in kernels.items() if "numpy" in path]
print(*of_faiss, *of_numpy, os.environ.get("OPENBLAS_CORETYPE"))
"""


def test_faiss_computes_with_kernels_for_this_processor():
    known = {"Cooperlake": "SkylakeX", "SapphireRapids": "SkylakeX"}
    environment = {name: value for name, value in os.environ.items() if name != _CORETYPE}
    run = functools.partial(subprocess.check_output, [sys.executable, "-c", KERNELS], text=True)
    of_faiss, of_numpy, left = run(env=environment).split()
    assert left == "None"  # processes that it starts choose their own
    if known.get(of_numpy, of_numpy) in _KERNELS:
        assert of_faiss == known.get(of_numpy, of_numpy)
    assert run(env=environment | {_CORETYPE: "Haswell"}).split() == ["Haswell"] * 3
