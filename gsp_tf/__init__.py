"""Deep metric learning for Keras 3 on TensorFlow.

Subpackages are imported when first used, so that `import gsp_tf` is cheap:
`gsp_tf.layers.GeneralizedSumPooling` works after a plain `import gsp_tf`.
"""

import importlib

__version__ = "0.1.0"

_SUBPACKAGES = (
    "backbones",
    "data",
    "evaluation",
    "experiment",
    "explore",
    "layers",
    "losses",
    "ops",
    "recipe",
    "serving",
    "training",
    "visual",
)


def __getattr__(name):
    if name in _SUBPACKAGES:
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__():
    return sorted([*globals(), *_SUBPACKAGES])
