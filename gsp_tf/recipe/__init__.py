"""The typed description of one experiment, and its form on disk (YAML)."""

from gsp_tf.recipe._augmentation import augmentation_layers
from gsp_tf.recipe._classes import (
    BRANCHES,
    OBJECTS,
    VIEWS,
    has_branches,
    num_groups,
    parameters,
)
from gsp_tf.recipe._files import (
    add_recipe_arguments,
    compose,
    given_values,
    load_recipe,
    plain_values,
    recipe_text,
    recipe_values,
    save_recipe,
)
from gsp_tf.recipe._resolved import resolved
from gsp_tf.recipe._sections import (
    BackboneRecipe,
    CanvasRecipe,
    CCPRecipe,
    ClassRecipe,
    CollageRecipe,
    DataRecipe,
    EmbeddingRecipe,
    EvaluationRecipe,
    LoRARecipe,
    ProtocolRecipe,
    Recipe,
    ScheduleRecipe,
    TrainingRecipe,
    ZeroShotRecipe,
)
from gsp_tf.recipe._values import VALUES, load_values

__all__ = [
    "BackboneRecipe",
    "CCPRecipe",
    "CanvasRecipe",
    "ClassRecipe",
    "CollageRecipe",
    "DataRecipe",
    "EmbeddingRecipe",
    "EvaluationRecipe",
    "LoRARecipe",
    "ProtocolRecipe",
    "Recipe",
    "ScheduleRecipe",
    "TrainingRecipe",
    "ZeroShotRecipe",
    "load_recipe",
    "save_recipe",
]
