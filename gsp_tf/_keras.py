"""The private parts of Keras and keras-hub that gsp_tf uses; no other module names them."""

import contextlib
import functools
import types
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import keras
from keras.src.backend.common.dtypes import BIT64_TO_BIT32_DTYPE

_TORCH_OPTIMIZERS = "keras.src.backend.torch.optimizers."


def keep_float64() -> None:
    """Makes operations of Keras give float64 for float64, as on TensorFlow, on every backend."""
    # On JAX and PyTorch, those of two operands would give float32, and Keras' own layers of float64
    # would lose digits or fail: https://github.com/keras-team/keras/issues/23704
    BIT64_TO_BIT32_DTYPE["float64"] = "float64"


class FactoredRates(keras.optimizers.Optimizer):
    """Mixin for an optimizer that multiplies its learning rate by one factor per variable."""

    _rate_factor = 1.0

    def set_factors(self, factors):
        """Sets the factors, in the order of the variables that the optimizer is built with."""
        self._factors = tuple(factors)

    def update_step(self, gradient, variable, learning_rate):
        factor = self._factors[self._get_variable_index(variable)]
        if factor:
            super().update_step(gradient, variable, learning_rate * factor)

    def _apply_weight_decay(self, variables):
        for variable in filter(self._use_weight_decay, variables):
            self._rate_factor = self._factors[self._get_variable_index(variable)]
            super()._apply_weight_decay([variable])
        self._rate_factor = 1.0

    def _get_current_learning_rate(self):
        # Keras passes the rate to the update, but its weight decay reads the rate here.
        rate = super()._get_current_learning_rate()
        return rate if self._rate_factor == 1.0 else rate * self._rate_factor


class BuiltFromBatch:
    """Mixin for a model that Keras builds from the batch that `batch_to_build_from` chooses."""

    def _maybe_symbolic_build(self, iterator=None, data_batch=None):
        if self._distribute_strategy is not None:
            batch = self.batch_to_build_from(iterator, data_batch)
            super()._maybe_symbolic_build(data_batch=batch)


def wrap_clipping(optimizer: keras.optimizers.Optimizer, wrap: Callable) -> None:
    """Makes an optimizer clip with `wrap(gradients, clip)`; `clip` is the method of its class."""
    clip = functools.partial(type(optimizer)._clip_gradients, optimizer)
    optimizer._clip_gradients = functools.partial(wrap, clip=clip)


def steps_by_variable(optimizer_class: type) -> type:
    """The class of optimizers that updates one variable after the other."""
    # On PyTorch, Keras replaces its optimizers by subclasses that update all variables at once.
    if optimizer_class.__module__.startswith(_TORCH_OPTIMIZERS):
        return getattr(keras.optimizers, optimizer_class.__name__)
    return optimizer_class


def serialized_optimizer(optimizer: keras.optimizers.Optimizer) -> dict:
    """The config of an optimizer under the name that every backend knows."""

    def portable(config):
        if isinstance(config, dict):
            config = {name: portable(value) for name, value in config.items()}
            if str(config.get("module")).startswith(_TORCH_OPTIMIZERS):
                config["module"] = "keras.optimizers"
        return config

    return portable(keras.saving.serialize_keras_object(optimizer))


def batches_of(optimizer: keras.optimizers.Optimizer) -> tuple[int, int]:
    """The batches that an optimizer has seen, and how many of them make a step."""
    optimizer = getattr(optimizer, "inner_optimizer", optimizer)  # of a LossScaleOptimizer
    seen = int(keras.ops.convert_to_numpy(optimizer._iterations))
    return seen, optimizer.gradient_accumulation_steps or 1


def averages_of(
    optimizer: keras.optimizers.Optimizer,
) -> list[tuple[keras.Variable, keras.Variable]]:
    """Pairs of a weight and its moving average; none before the first step, or without averages."""
    optimizer = getattr(optimizer, "inner_optimizer", optimizer)  # of a LossScaleOptimizer
    if not getattr(optimizer, "use_ema", False) or not int(optimizer.iterations):
        return []
    averages = optimizer._model_variables_moving_average
    return list(zip(optimizer._trainable_variables, averages, strict=True))


def check_image_layer(layer: keras.layers.Layer) -> None:
    """Refuses other than image layers, and one number for a saturation, which makes images grey."""
    if not hasattr(layer, "_get_seed_generator"):
        raise ValueError(
            "An augmentation is an image layer such as keras.layers.RandomRotation, received a "
            f"{type(layer).__name__}."
        )
    saturation = getattr(layer, "random_saturation", layer)
    if isinstance(saturation, keras.layers.RandomSaturation) and saturation.factor[0] < 0:
        raise ValueError(
            f"keras.layers.{type(layer).__name__} takes two numbers for the saturation, such as "
            "(0.3, 0.7): 0 is grey, 0.5 changes nothing, 1 is the most. Keras draws from -f to f "
            f"for one number f, and what is negative is grey; received {saturation.factor[1]}."
        )


def draw_seeds_from(seeds: keras.random.SeedGenerator, layer: keras.layers.Layer) -> None:
    """Makes an image layer draw with seeds, on every backend, whenever there are any."""
    own = layer._get_seed_generator
    layer._get_seed_generator = lambda backend=None: seeds if seeds.are_set() else own(backend)


def layers_within(model: keras.Model) -> Iterator[keras.layers.Layer]:
    """All layers of a model, including those inside other layers."""
    return model._flatten_layers(include_self=False)


@contextlib.contextmanager
def holding(model: keras.Model, variables: list[keras.Variable]) -> Iterator[None]:
    """A built model whose steps see variables that it does not save, as those of random seeds."""
    seeds = model._seed_generators
    known = {id(seed.state) for seed in seeds}
    seeds += [types.SimpleNamespace(state=v) for v in variables if id(v) not in known]
    try:
        yield
    finally:
        held = {id(variable) for variable in variables}
        seeds[:] = [seed for seed in seeds if id(seed.state) not in held]


def weighted_layers(model: keras.Model) -> list[tuple[str, keras.layers.Layer]]:
    """The layers of a model with weights of their own, and the paths that these begin with."""
    layers = [
        layer
        for layer in layers_within(model)
        if layer._trainable_variables or layer._non_trainable_variables
    ]
    return [(layer.variables[0].path.rpartition("/")[0], layer) for layer in layers]


def first_output(outputs: Any) -> Any:
    """The embeddings among an embedder's outputs: the only output, or the first of several."""
    if isinstance(outputs, dict):
        outputs = list(outputs.values())
    return outputs[0] if isinstance(outputs, (tuple, list)) else outputs


def is_of_lora(variable: keras.Variable) -> bool:
    """Whether a variable is one of the matrices of `enable_lora`."""
    return variable.name.startswith("lora_")


def copies(variables: Iterable[keras.Variable]) -> list[Any]:
    """The values of variables as tensors, which no later assignment changes."""
    return [keras.ops.copy(keras.ops.convert_to_tensor(variable)) for variable in variables]


def state_of(model: keras.Model) -> list[keras.Variable]:
    """The variables that a call in training mode may assign, such as statistics and seeds."""
    layers = [model, *layers_within(model)]
    frozen = {id(variable) for layer in layers for variable in layer._trainable_variables}
    return [variable for variable in model.non_trainable_variables if id(variable) not in frozen]


@keras.saving.register_keras_serializable("gsp_tf")
class PatchTokens(keras.layers.Layer):
    """The last n tokens of each image: those of its patches, after class and register tokens."""

    # Their number is known, whatever the layer before it says about its own.

    def __init__(self, num_patches, **kwargs):
        super().__init__(**kwargs)
        self.num_patches = num_patches

    def call(self, tokens):
        return tokens[:, -self.num_patches :]

    def compute_output_shape(self, input_shape):
        return (input_shape[0], self.num_patches, input_shape[-1])

    def get_config(self):
        return {**super().get_config(), "num_patches": self.num_patches}


@keras.saving.register_keras_serializable("gsp_tf")
class TrainedPositions(keras.Model):
    """A DINOv2 network of keras-hub with one grid, which saves the positions that it trained."""

    # Its layer trains an interpolation of the positions that it saves. It goes back from one to the
    # other only if the sum of the changes is negative.

    def save_own_variables(self, store):
        for layer in layers_within(self):
            if hasattr(layer, "interpolated_position_embeddings"):
                layer.position_embeddings.assign(layer.interpolated_position_embeddings)
        super().save_own_variables(store)
