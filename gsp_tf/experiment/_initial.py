"""Start training from the model of another run."""

from gsp_tf.experiment.folder import RunFolder
from gsp_tf.recipe import recipe_values

_PARTS = ("data.channels", "backbone.name", "embedding", "head", "pooling")


def start_from(recipe, embedder):
    """Give an embedder the weights of the best model of `recipe.initial_run`, if they fit."""
    folder = RunFolder.open(recipe.initial_run)
    initial = folder.learner(compile=False).embedder
    shapes = [[tuple(weight.shape) for weight in model.weights] for model in (initial, embedder)]
    differing = list(_differing(folder.recipe(), recipe))
    is_other_network = any(line.startswith("backbone.name") for line in differing)
    if shapes[0] != shapes[1] or is_other_network:
        reasons = "; ".join(differing) or "the shapes of its weights"
        raise ValueError(
            f"The model of initial_run={recipe.initial_run} does not fit this recipe. What "
            f"differs: {reasons}."
        )
    embedder.set_weights(initial.get_weights())


def _differing(theirs, ours):
    """The fields that shape an embedder and differ between two recipes."""
    theirs, ours = _flat(recipe_values(theirs)), _flat(recipe_values(ours))
    for name in theirs:
        if name.startswith(_PARTS) and theirs[name] != ours.get(name):
            yield f"{name} is {theirs[name]} there and {ours.get(name)} here"


def _flat(section, prefix=""):
    """Fields of a recipe by their full names."""
    flat = {}
    for name, value in section.items():
        if isinstance(value, dict):
            flat |= _flat(value, f"{prefix}{name}.")
        else:
            flat[prefix + name] = value
    return flat
