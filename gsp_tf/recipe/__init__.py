"""The typed description of one experiment, and its form on disk (YAML)."""

from gsp_tf.recipe._files import (
    VALUES,
    add_recipe_arguments,
    compose,
    given_values,
    load_recipe,
    load_values,
    plain_values,
    recipe_text,
    recipe_values,
    save_recipe,
)
from gsp_tf.recipe._resolved import (
    BRANCHES,
    OBJECTS,
    VIEWS,
    augmentation_layers,
    has_branches,
    num_groups,
    parameters,
    resolved,
)
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
