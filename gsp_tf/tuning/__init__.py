"""The search for a better recipe: trials by optuna, judged on the validation classes."""

from typing import TYPE_CHECKING

from gsp_tf._lazy import import_lazily

if TYPE_CHECKING:
    from gsp_tf.tuning.space import TuningSpace
    from gsp_tf.tuning.tuning import Tuning

__all__ = ["TuningSpace", "Tuning"]

import_lazily(__name__)
