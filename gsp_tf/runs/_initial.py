"""Start training from the model, or the backbone, of another run."""

from pathlib import Path

import keras

from gsp_tf._keras import is_of_lora
from gsp_tf._names import flattened
from gsp_tf.layers import FrozenNetwork
from gsp_tf.recipe import recipe_values
from gsp_tf.runs.folder import RunFolder

_MODEL = "model.keras"
_PARTS = (
    "data.channels",
    "backbone.name",
    "backbone.preset",
    "backbone.tokens",
    "embedding",
    "head",
    "pooling",
)


def start_from(recipe, embedder, loss=None, train_classes=None):
    """Give an embedder the weights of the best model of `recipe.initial_run`, if they fit.

    A loss takes those of the same loss, such as proxies, if the training classes are the same.
    """
    folder = RunFolder.open(recipe.initial_run)
    learner = folder.learner(compile=False)
    initial = learner.embedder
    weights = [weight for weight in embedder.weights if not is_of_lora(weight)]
    shapes = [[tuple(weight.shape) for weight in of] for of in (initial.weights, weights)]
    differing = list(_differing(folder.recipe(), recipe))
    is_other_network = any(line.startswith("backbone.name") for line in differing)
    if shapes[0] != shapes[1] or is_other_network:
        reasons = "; ".join(differing) or "the shapes of its weights"
        raise ValueError(
            f"The model of initial_run={recipe.initial_run} does not fit this recipe. What "
            f"differs: {reasons}."
        )
    for weight, value in zip(weights, initial.get_weights(), strict=True):
        weight.assign(value)
    theirs = folder.recipe()
    same = (theirs.loss, theirs.loss_wrapper) == (recipe.loss, recipe.loss_wrapper)
    if same and loss is not None and folder.metrics().get("train_classes") == train_classes:
        pairs = [getattr(of, "trainable_weights", ()) for of in (loss, learner.embedding_loss)]
        shapes = [[tuple(weight.shape) for weight in weights] for weights in pairs]
        if shapes[0] == shapes[1]:  # ccp adds proxies of its own
            for weight, of_initial in zip(*pairs, strict=True):
                weight.assign(of_initial)


def is_run(weights):
    """Whether initial weights are those of a run: its folder, or the model in it."""
    path = Path(weights)
    is_file = path.is_file() or path.suffix == ".h5"
    return path.name == _MODEL or path.is_dir() or (len(path.parts) > 1 and not is_file)


def weights_of_run(weights, backbone):
    """The weights of the backbone in a run, if it is the same network as `backbone`."""
    path = Path(weights)
    folder = RunFolder.open(path.parent if path.name == _MODEL else path)
    name = folder.recipe().backbone.name
    if name != backbone.name:
        raise ValueError(
            f"backbone.weights={weights} must be a run with backbone.name={backbone.name}; its "
            f"backbone is {name}."
        )
    parts = [
        layer
        for layer in folder.learner(compile=False).embedder.layers
        if isinstance(layer, keras.Model | FrozenNetwork)
    ]
    values = [value for part in parts for value in part.get_weights()]
    shapes = [[value.shape for value in values], [tuple(w.shape) for w in backbone.weights]]
    if shapes[0] != shapes[1]:
        raise ValueError(
            f"The backbone of backbone.weights={weights} does not fit: its weights have other "
            "shapes, as with other data.channels."
        )
    return values


def _differing(theirs, ours):
    """The fields that shape an embedder and differ between two recipes."""
    theirs, ours = (flattened(recipe_values(recipe)) for recipe in (theirs, ours))
    for name in theirs:
        if name.startswith(_PARTS) and theirs[name] != ours.get(name):
            yield f"{name} is {theirs[name]} there and {ours.get(name)} here"
