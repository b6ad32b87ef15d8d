"""Two parts of a backbone: the layers up to one of them, and the rest."""

import math
import re

import keras

WHOLE = "network"
"""Name for all layers of a backbone, and of the last but one of a transformer from keras-hub."""

_ACTIVATIONS = (keras.layers.Activation, keras.layers.ReLU)


def cut_layers(model: keras.Model) -> list[str]:
    """Names of the layers at which a model can be split, from the image to the last map.

    All that later layers see passes through such a layer: no branch leads past it. Layers that
    Keras names by a counter (conv2d_3) are left out, because the counter depends on other models.

    Args:
        model: functional model, as `create` builds.

    Example:
        >>> from gsp_tf.backbones import create
        >>> cut_layers(create("resnet20", (32, 32, 3)))
        ['stage_1', 'stage_2']
    """
    names = [(operation.name, _counter_name(operation)) for operation in _cuts(model)]
    return [name for name, counter in names if not re.fullmatch(counter, name)]


def split(model: keras.Model, layer: str) -> tuple[keras.Model, keras.Model]:
    """Split a backbone at a layer.

    Args:
        model: functional model, as `create` builds.
        layer: name of the last layer of the lower part, one of `cut_layers(model)`; "network" for
            all layers of a model with one output.

    Returns:
        The lower part, from images to the output of the layer, and the upper part, from there to
        the outputs of the model. They share the weights of the model.

    Example:
        >>> from gsp_tf.backbones import create
        >>> lower, upper = split(create("resnet20", (32, 32, 3)), "stage_2")
        >>> lower.output_shape, upper.output_shape
        ((None, 16, 16, 32), (None, 8, 8, 64))
    """
    names = cut_layers(model)
    if layer == WHOLE and WHOLE not in names and len(model.outputs) == 1:
        features = keras.Input(model.output_shape[1:])
        return model, keras.Model(features, keras.layers.Identity()(features), name=model.name)
    if layer not in names:
        where = f"there are {', '.join(names)}" if names else "it has no layer for that"
        raise ValueError(
            f"Backbone {model.name!r} can be split after a layer that all of its later layers "
            f"depend on alone; {where}, received {layer!r}."
        )
    cut = model.get_layer(layer).output
    lower = keras.Model(model.input, cut, name=f"{model.name}_lower")
    return lower, keras.Model(cut, model.output, name=model.name)


def last_block(model: keras.Model) -> str | None:
    """Name of the layer below the last block of a model, for `split`; `None` without one."""
    # The block holds 15 to 50 % of the parameters. It begins after the smallest map, which takes
    # the least space on disk, and is the smallest such block.
    found = []
    for name in cut_layers(model):
        lower, upper = split(model, name)
        if 0.15 <= upper.count_params() / model.count_params() <= 0.5:
            found.append((math.prod(lower.output_shape[1:]), upper.count_params(), name))
    return min(found)[-1] if found else None


def last_map(model: keras.Model, stride: int) -> keras.KerasTensor:
    """The last map of a network at a stride: that of its trunk, normalised and activated."""
    # The trunk are the maps that no branch leads past. Where branches lead past all maps of that
    # stride, as in NASNet, it is the last of the widest ones.
    strides = {id(image): 1 for image in model.inputs}
    for operation in _operations(model):
        reached = max(strides[id(x)] for x in keras.tree.flatten(operation.input))
        for output in keras.tree.flatten(operation.output):
            strides[id(output)] = reached * _stride(operation)
    maps = [
        operation
        for operation in _operations(model)
        if strides[id(operation.output)] == stride
        and not isinstance(operation, keras.layers.ZeroPadding2D)
    ]
    trunk = [operation for operation in _cuts(model) if operation in maps] or maps
    width = max(operation.output.shape[-1] for operation in trunk)
    last = [operation for operation in trunk if operation.output.shape[-1] == width][-1]
    for operation in maps[maps.index(last) + 1 :]:
        is_pointwise = isinstance(operation, (*_ACTIVATIONS, keras.layers.BatchNormalization))
        if is_pointwise and operation.input is last.output:
            last = operation
    return last.output


def _operations(model):
    """The layers of a model and the functions between them, such as a sum, from the image on."""
    return [x for x in model.operations if not isinstance(x, keras.layers.InputLayer)]


def _cuts(model):
    """The operations whose output is all that later ones depend on."""
    operations = _operations(model)
    last_use = {id(output): math.inf for output in model.outputs}
    for position, operation in enumerate(operations):
        for tensor in keras.tree.flatten(operation.input):
            last_use.setdefault(id(tensor), position)
            last_use[id(tensor)] = max(last_use[id(tensor)], position)
    cuts, still_needed = [], max((last_use[id(image)] for image in model.inputs), default=-1)
    for position, operation in enumerate(operations):
        outputs = keras.tree.flatten(operation.output)
        uses = [last_use.get(id(output), -1) for output in outputs]
        is_last = len(model.outputs) == 1 and outputs[0] is model.outputs[0]
        if still_needed <= position and len(outputs) == 1 and not is_last and uses[0] > position:
            cuts.append(operation)
        still_needed = max(still_needed, *uses)
    return cuts


def _stride(operation):
    """How many times smaller the output of a layer is than its input."""
    if isinstance(operation, keras.Sequential):
        return math.prod(map(_stride, operation.layers))
    strides = getattr(operation, "strides", 1)
    return strides[0] if isinstance(strides, tuple) else strides


def _counter_name(layer):
    """A pattern of the names that Keras gives the layers of a class itself."""
    words = re.sub("(.)([A-Z][a-z]+)", r"\1_\2", type(layer).__name__)
    words = re.sub("([a-z])([A-Z])", r"\1_\2", words)
    return words.lower() + r"(_\d+)?"
