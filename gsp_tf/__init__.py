"""Deep metric learning for Keras 3, on TensorFlow, JAX and PyTorch.

Subpackages are imported on first use, so `import gsp_tf` is cheap and
`gsp_tf.layers.GeneralizedSumPooling` works after it. Then `keras.saving.load_model` loads every
model with layers, losses or optimizers of this library.
"""

from typing import TYPE_CHECKING

from gsp_tf._lazy import import_lazily, load_with_faiss, load_with_keras
from gsp_tf._version import __version__ as __version__

if TYPE_CHECKING:
    from gsp_tf import (
        backbones,
        data,
        evaluation,
        export,
        layers,
        losses,
        ops,
        recipe,
        runs,
        search,
        training,
        tuning,
        visual,
    )
    from gsp_tf.export import from_pretrained, save_pretrained

__all__ = [
    "backbones",
    "data",
    "evaluation",
    "export",
    "from_pretrained",
    "layers",
    "losses",
    "ops",
    "recipe",
    "runs",
    "save_pretrained",
    "search",
    "training",
    "tuning",
    "visual",
]

import_lazily(__name__)
load_with_keras()
load_with_faiss()
