"""Deep metric learning for Keras 3, on TensorFlow, JAX and PyTorch.

Subpackages are imported on first use, so `import gsp_tf` is cheap and
`gsp_tf.layers.GeneralizedSumPooling` works after it. Only `keras.saving.load_model` needs
`import gsp_tf.training`, which registers all layers and losses.
"""

from typing import TYPE_CHECKING

from gsp_tf._lazy import import_lazily

if TYPE_CHECKING:
    from gsp_tf import (
        backbones,
        data,
        evaluation,
        experiment,
        explore,
        layers,
        losses,
        ops,
        recipe,
        serving,
        training,
        visual,
    )

__version__ = "0.1.0"

__all__ = [
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
]

import_lazily(__name__)
