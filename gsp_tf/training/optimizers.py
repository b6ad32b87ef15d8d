"""Learning rates and weight decay by patterns of variables' paths, and averages of weights."""

import contextlib
import functools
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from numbers import Real

import keras
from keras import ops

from gsp_tf._arguments import check_patterns, idle_patterns
from gsp_tf._keras import FactoredRates, averages_of, serialized_optimizer, steps_by_variable


def with_learning_rate_multipliers(
    optimizer: keras.optimizers.Optimizer | str, multipliers: Mapping[str, float]
) -> keras.optimizers.Optimizer:
    """Multiply the learning rate of an optimizer for variables with certain paths.

    A variable takes the factor of the first pattern that `re.search` finds in its path, or 1 if no
    pattern matches. Its step and its decoupled weight decay use the multiplied rate; schedules and
    callbacks still apply. Factor 0 leaves the variable and its optimizer state unchanged. Gradients
    are clipped before the factor applies.

    The factors are saved with the model, and a loaded model trains with them. A pattern should
    neither start with `^` nor contain a layer number: a loaded model may have shorter paths
    (`proxy_nca_loss/proxies` instead of `metric_learner/proxy_nca_loss/proxies`), and Keras numbers
    layers in the order of their creation. An optimizer of your own needs
    `keras.saving.register_keras_serializable`, as it does without multipliers.

    Args:
        optimizer: an optimizer that has not been built, or its name. It is changed in place: its
            class becomes a subclass of its class. A `LossScaleOptimizer` passes the multipliers to
            its inner optimizer.
        multipliers: factors, finite numbers of 0 or more, by regular expression. They replace
            earlier ones.

    Raises:
        ValueError: if the optimizer has been built or leaves its steps to others
            (`MultiOptimizer`). When the optimizer is built: if a pattern matches no trainable
            variable.

    Example:
        >>> import keras, numpy as np
        >>> from gsp_tf.losses import ProxyNCALoss
        >>> from gsp_tf.training import MetricLearner
        >>> embedder = keras.Sequential([keras.Input((4,)), keras.layers.Dense(2)])
        >>> learner = MetricLearner(embedder, ProxyNCALoss(num_classes=2))
        >>> optimizer = keras.optimizers.Adam(1e-5)
        >>> learner.compile(with_learning_rate_multipliers(optimizer, {"proxies": 100, "bias": 0}))
        >>> history = learner.fit(np.eye(4), np.arange(4) % 2, verbose=0)
        >>> embedder.layers[-1].bias.numpy().tolist()
        [0.0, 0.0]
    """
    for pattern, factor in multipliers.items():
        if not isinstance(factor, Real) or not 0 <= factor < math.inf:
            raise ValueError(
                "A learning-rate multiplier must be a finite number of 0 or more, received "
                f"{factor!r} for {pattern!r}."
            )
    factors = {pattern: float(factor) for pattern, factor in multipliers.items()}
    return _with_path_rules(optimizer, learning_rate_multipliers=factors)


def with_weight_decay_exclusions(
    optimizer: keras.optimizers.Optimizer | str, patterns: Iterable[str]
) -> keras.optimizers.Optimizer:
    """Exclude variables with certain paths from an optimizer's weight decay.

    Unlike the exclusions of Keras' `exclude_from_weight_decay`, these are saved with the model, and
    a loaded model trains with them.

    Args:
        optimizer: as in `with_learning_rate_multipliers`; also changed in place.
        patterns: regular expressions that `re.search` looks for in the paths of the trainable
            variables. They replace earlier ones.

    Example:
        >>> import keras, numpy as np
        >>> dense = keras.layers.Dense(2, bias_initializer="ones")
        >>> model = keras.Sequential([keras.Input((4,)), dense])
        >>> optimizer = keras.optimizers.SGD(0.1, weight_decay=0.5)
        >>> model.compile(with_weight_decay_exclusions(optimizer, ["bias$"]), loss="mse")
        >>> history = model.fit(np.zeros((2, 4)), np.ones((2, 2)), verbose=0)
        >>> dense.bias.numpy().tolist()
        [1.0, 1.0]
    """
    check_patterns(patterns)
    return _with_path_rules(optimizer, weight_decay_exclusions=list(patterns))


def layer_wise_multipliers(model: keras.Model, lowest: float) -> dict[str, float]:
    """Multipliers of the learning rate that rise from layer to layer, for fine-tuning.

    The n layers with trainable weights of their own are numbered from 0, in the order of the model.
    Layer i has the multiplier `lowest ** (1 - i / n)`. The first has `lowest`, and a layer above
    the last would have 1. This is layer-wise decay of the learning rate (Howard and Ruder,
    "Universal Language Model Fine-tuning for Text Classification", ACL 2018, section 3.2) with the
    ratio `lowest ** (1 / n)`.

    Args:
        model: the pretrained part of an embedder, built.
        lowest: multiplier of the first layer, above 0 and at most 1.

    Returns:
        dict from patterns to factors for `with_learning_rate_multipliers`.

    Example:
        >>> import keras
        >>> first, second = (keras.layers.Dense(2, name=name) for name in ("first", "second"))
        >>> inputs = keras.Input((3,))
        >>> layer_wise_multipliers(keras.Model(inputs, second(first(inputs))), lowest=0.25)
        {'(^|/)first/[^/]+$': 0.25, '(^|/)second/[^/]+$': 0.5}
    """
    if not 0 < lowest <= 1:
        raise ValueError(f"lowest must be above 0 and at most 1, received {lowest}.")
    paths = list(dict.fromkeys(_path(v).rpartition("/")[0] for v in model.trainable_variables))
    factors = {path: lowest ** (1 - i / len(paths)) for i, path in enumerate(paths)}
    # The first pattern that fits counts, and a long path may end like a short one.
    paths.sort(key=lambda path: -path.count("/"))
    return {f"(^|/){re.escape(path)}/[^/]+$": factors[path] for path in paths}


class _PathRules(FactoredRates):
    """The behaviour that `_with_path_rules` adds to the class of an optimizer."""

    learning_rate_multipliers = {}
    weight_decay_exclusions = ()

    def build(self, variables):
        if not self.built:
            multipliers, exclusions = self.learning_rate_multipliers, self.weight_decay_exclusions
            paths = [_path(variable) for variable in variables]
            idle = idle_patterns([*multipliers, *exclusions], paths)
            if idle:
                raise ValueError(
                    f"The patterns {idle} match none of the trainable variables {paths}."
                )
            self.set_factors(multipliers.get(_first_match(multipliers, v), 1.0) for v in variables)
            if exclusions:
                # Excludes by variable: with TensorFlow, the names that Keras searches end in ":0".
                self.exclude_from_weight_decay(
                    var_list=[v for v in variables if _first_match(exclusions, v) is not None]
                )
        super().build(variables)

    def get_config(self):
        # The optimizer is stored without the rules, so it loads as it would alone.
        plain_class = type(self).__bases__[1]
        return {
            "optimizer": serialized_optimizer(plain_class.from_config(super().get_config())),
            "learning_rate_multipliers": dict(self.learning_rate_multipliers),
            "weight_decay_exclusions": list(self.weight_decay_exclusions),
        }

    @classmethod
    def from_config(cls, config, custom_objects=None):
        config = dict(config)
        optimizer = keras.saving.deserialize_keras_object(config.pop("optimizer"), custom_objects)
        return _with_path_rules(optimizer, **config)


# Saved files use this one name for every subclass, because `from_config` is the same for all.
_register = keras.saving.register_keras_serializable("gsp_tf", "PathRules")
_register(_PathRules)


@functools.cache
def _class_with_rules(optimizer_class):
    name = f"{optimizer_class.__name__}WithPathRules"
    return _register(type(name, (_PathRules, optimizer_class), {}))


def _with_path_rules(optimizer, **rules):
    """The optimizer with the given attributes of `_PathRules`, which replace earlier ones."""
    check_patterns(pattern for patterns in rules.values() for pattern in patterns)
    optimizer = keras.optimizers.get(optimizer)
    if isinstance(optimizer, keras.optimizers.LossScaleOptimizer):
        _with_path_rules(optimizer.inner_optimizer, **rules)
        return optimizer
    if optimizer.built:
        raise ValueError(
            f"The optimizer {optimizer.name!r} has been built for its variables already; give it "
            "rules before it is built or used."
        )
    if type(optimizer).update_step is keras.optimizers.Optimizer.update_step:
        raise ValueError(
            f"{type(optimizer).__name__} leaves its steps to other optimizers; give the rules to "
            "those."
        )
    if not isinstance(optimizer, _PathRules):
        # Not a copy: an optimizer's config lacks its exclusions and rates that are functions.
        optimizer.__class__ = _class_with_rules(steps_by_variable(type(optimizer)))
    for name, rule in rules.items():
        setattr(optimizer, name, rule)
    return optimizer


def _first_match(patterns, variable):
    return next((p for p in patterns if re.search(p, _path(variable))), None)


def _path(variable):
    """The path of a Keras variable, the name of a `tf.Variable`."""
    return getattr(variable, "path", variable.name)


@contextlib.contextmanager
def averaged_weights(model: keras.Model) -> Iterator[None]:
    """Give a model the moving averages of its weights while the block evaluates or saves it.

    Keras keeps them with `use_ema=True` of the optimizer:
    `average <- momentum * average + (1 - momentum) * weight` after each step, from the weights
    after the first one (Polyak and Juditsky, "Acceleration of Stochastic Approximation by
    Averaging", 1992). After the block, the model has the weights of the last step to the bit. A
    model whose optimizer keeps no averages, or has taken no step, is left as it is.

    Args:
        model: compiled model.

    Example:
        >>> import keras, numpy as np
        >>> dense = keras.layers.Dense(1, use_bias=False, kernel_initializer="ones")
        >>> model = keras.Sequential([keras.Input((1,)), dense])
        >>> model.compile(keras.optimizers.SGD(0.5, use_ema=True, ema_momentum=0.5), "mae")
        >>> _ = model.train_on_batch(np.ones((1, 1)), np.full((1, 1), -9.0))
        >>> _ = model.train_on_batch(np.ones((1, 1)), np.full((1, 1), -9.0))
        >>> with averaged_weights(model):
        ...     dense.kernel.numpy()
        array([[0.25]], dtype=float32)
        >>> dense.kernel.numpy()
        array([[0.]], dtype=float32)
    """
    pairs = averages_of(model.optimizer)
    weights = [ops.convert_to_numpy(weight).copy() for weight, _ in pairs]
    try:
        for weight, average in pairs:
            weight.assign(ops.convert_to_numpy(average))
        yield
    finally:
        for (weight, _), value in zip(pairs, weights, strict=True):
            weight.assign(value)


def restart_averages(model: keras.Model) -> None:
    """Let the moving averages of a model begin again from its current weights."""
    for weight, average in averages_of(model.optimizer):
        average.assign(ops.convert_to_numpy(weight))
