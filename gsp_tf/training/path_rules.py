"""Optimizers that treat each variable as its path says."""

import functools
import re

import keras


class PathRules(keras.optimizers.Optimizer):
    """What `with_path_rules` adds to the class of an optimizer.

    The saved form holds the optimizer without the rules beside them, so it loads wherever that
    optimizer does.
    """

    learning_rate_multipliers = {}
    weight_decay_exclusions = ()
    _rate_factor = 1.0

    def build(self, variables):
        if not self.built:
            multipliers, exclusions = self.learning_rate_multipliers, self.weight_decay_exclusions
            idle = idle_patterns([*multipliers, *exclusions], variables)
            if idle:
                raise ValueError(
                    f"The patterns {idle} match none of the trainable variables "
                    f"{[_path(variable) for variable in variables]}."
                )
            self._factors = tuple(
                multipliers.get(_first_match(multipliers, variable), 1.0) for variable in variables
            )
            if exclusions:
                # By variable: the names that Keras would search end in ":0" with TensorFlow.
                self.exclude_from_weight_decay(
                    var_list=[v for v in variables if _first_match(exclusions, v) is not None]
                )
        super().build(variables)

    def update_step(self, gradient, variable, learning_rate):
        factor = self._factors[self._get_variable_index(variable)]
        if factor:
            super().update_step(gradient, variable, learning_rate * factor)

    def _apply_weight_decay(self, variables):
        for variable in variables:
            self._rate_factor = self._factors[self._get_variable_index(variable)]
            super()._apply_weight_decay([variable])
        self._rate_factor = 1.0

    @property
    def learning_rate(self):
        # Keras' weight decay reads the rate here, whereas `update_step` is given it.
        rate = super().learning_rate
        return rate if self._rate_factor == 1.0 else rate * self._rate_factor

    @learning_rate.setter
    def learning_rate(self, value):
        super(PathRules, type(self)).learning_rate.fset(self, value)

    def get_config(self):
        plain_class = type(self).__bases__[1]
        return {
            "optimizer": keras.saving.serialize_keras_object(
                plain_class.from_config(super().get_config())
            ),
            "learning_rate_multipliers": dict(self.learning_rate_multipliers),
            "weight_decay_exclusions": list(self.weight_decay_exclusions),
        }

    @classmethod
    def from_config(cls, config, custom_objects=None):
        config = dict(config)
        optimizer = keras.saving.deserialize_keras_object(config.pop("optimizer"), custom_objects)
        return with_path_rules(optimizer, **config)


# Every subclass bears this one name in saved files: `from_config` is the same for all.
_register = keras.saving.register_keras_serializable("gsp_tf", "PathRules")
_register(PathRules)


@functools.cache
def _with_rules(optimizer_class):
    name = f"{optimizer_class.__name__}WithPathRules"
    return _register(type(name, (PathRules, optimizer_class), {}))


def with_path_rules(optimizer, **rules):
    """Give an optimizer rules that hold for variables of certain paths.

    Args:
        optimizer: Keras optimizer that has not been built, or its name. It becomes an instance of a
            subclass of its class; a `LossScaleOptimizer` passes the rules on to the one within.
        rules: `learning_rate_multipliers`, dict from pattern to factor, and
            `weight_decay_exclusions`, patterns; each replaces what the optimizer had of it.

    Returns:
        the optimizer.

    Raises:
        ValueError: if a pattern is no regular expression, or the optimizer has been built or leaves
            its steps to others; when it is built, if a pattern matches no variable.

    Example:
        >>> optimizer = with_path_rules("adam", weight_decay_exclusions=["bias"])
        >>> type(optimizer).__name__
        'AdamWithPathRules'
    """
    for pattern in [pattern for patterns in rules.values() for pattern in patterns]:
        check_pattern(pattern)
    optimizer = keras.optimizers.get(optimizer)
    if isinstance(optimizer, keras.optimizers.LossScaleOptimizer):
        with_path_rules(optimizer.inner_optimizer, **rules)
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
    if not isinstance(optimizer, PathRules):
        optimizer.__class__ = _with_rules(type(optimizer))
    for name, rule in rules.items():
        setattr(optimizer, name, rule)
    return optimizer


def check_pattern(pattern):
    """Raise `ValueError` unless a pattern is a regular expression.

    Args:
        pattern: str.

    Example:
        >>> check_pattern("gamma|beta")
        >>> check_pattern("*")
        Traceback (most recent call last):
            ...
        ValueError: A pattern must be a regular expression, received '*': nothing to repeat ...
    """
    try:
        re.compile(pattern)
    except (re.error, TypeError) as error:
        raise ValueError(
            f"A pattern must be a regular expression, received {pattern!r}: {error}."
        ) from error


def idle_patterns(patterns, variables):
    """The patterns that match the path of no variable.

    Args:
        patterns: iterable of str.
        variables: list of Keras variables.

    Returns:
        list of str.

    Example:
        >>> dense = keras.layers.Dense(2)
        >>> dense.build((None, 3))
        >>> idle_patterns(["kernel", "proxies"], dense.variables)
        ['proxies']
    """
    return [
        pattern
        for pattern in patterns
        if not any(re.search(pattern, _path(variable)) for variable in variables)
    ]


def _first_match(patterns, variable):
    return next((p for p in patterns if re.search(p, _path(variable))), None)


def _path(variable):
    """The path of a Keras variable, the name of a `tf.Variable`."""
    return getattr(variable, "path", variable.name)
