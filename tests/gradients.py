"""Values and gradients on every backend of Keras, and the differences that hold them."""

import keras
import numpy as np
from keras import ops
from keras.src.backend.common.stateless_scope import in_stateless_scope

BACKEND = keras.backend.backend()
EAGERLY = BACKEND != "jax"  # where few steps are faster as they are than compiled
FEW_STEPS = {"run_eagerly": EAGERLY, "jit_compile": BACKEND == "jax"}
"""The arguments of `compile` for a training of few steps."""


def examples(number):
    """Examples for a test of Hypothesis: fewer on JAX, which compiles for every shape."""
    return number if BACKEND != "jax" else number // 6


def compiled(function, jit_compile=True, states=()):
    """A function as a graph of TensorFlow or, with `jit_compile`, by XLA; eager if that is `None`.

    JAX compiles it in both cases, and PyTorch runs it as it is. The function may assign the
    variables of `states`.
    """
    if jit_compile is not None and BACKEND == "tensorflow":
        import tensorflow as tf

        return tf.function(function, jit_compile=jit_compile, autograph=False)
    if jit_compile is not None and BACKEND == "jax":
        return _compiled_by_jax(function, states)
    return function


def _compiled_by_jax(function, states):
    import jax

    @jax.jit
    def run(values, *arguments):
        with keras.StatelessScope(zip(states, values, strict=True)) as scope:
            outputs = function(*arguments)
        return outputs, [scope.get_current_value(state) for state in states]

    def call(*arguments):
        outputs, assigned = run([state.value for state in states], *arguments)
        for state, value in zip(states, assigned, strict=True):
            state.assign(value)
        return outputs

    return call if states else jax.jit(function)


def at_once(function):
    """A function that JAX compiles as a whole, sooner than each operation; others run it as it is.

    Nothing is kept of what it assigns or raises, or warns of, for the values that it gets.
    """
    return compiled(function) if BACKEND == "jax" else function


def gradients(function, *points, weights=(), states=(), upstream=None):
    """Outputs of a function, and a list of its gradients of points and weights, as tensors.

    Args:
        function: from tensors to one output or a tuple of them.
        points: floating arrays or tensors.
        weights: variables that the function reads.
        states: variables that the function assigns.
        upstream: gradient of the result with respect to each output, else ones.

    """
    points = [ops.convert_to_tensor(point) for point in points]
    if BACKEND == "tensorflow":
        return _by_tensorflow(function, points, weights, upstream)
    if BACKEND == "jax":
        return _by_jax(function, points, weights, states, upstream)
    return _by_torch(function, points, weights, upstream)


def _by_tensorflow(function, points, weights, upstream):
    import tensorflow as tf

    with tf.GradientTape() as tape:
        tape.watch(points)
        outputs = function(*points)
    sources = [*points, *(weight.value for weight in weights)]
    found = tape.gradient(outputs, sources, output_gradients=upstream, unconnected_gradients="zero")
    return outputs, [tf.convert_to_tensor(gradient) for gradient in found]  # not sparse ones


def _by_jax(function, points, weights, states, upstream):
    import jax

    def run(points, values):
        given = [*zip(weights, values, strict=True), *((state, state.value) for state in states)]
        with keras.StatelessScope(given) as scope:
            outputs = function(*points)
        return outputs, [scope.get_current_value(state) for state in states]

    values = [weight.value for weight in weights]
    outputs, pull_back, assigned = jax.vjp(run, points, values, has_aux=True)
    for state, value in zip(states, assigned, strict=True):
        # Within a compiled function only a scope may assign.
        if in_stateless_scope() or not isinstance(value, jax.core.Tracer):
            state.assign(value)
    given = keras.tree.map_structure(ops.ones_like, outputs) if upstream is None else upstream
    as_given = keras.tree.map_structure(lambda y, g: ops.cast(g, y.dtype), outputs, given)
    return outputs, sum(pull_back(as_given), start=[])


def _by_torch(function, points, weights, upstream):
    import torch

    points = [point.detach().requires_grad_() for point in points]
    outputs = function(*points)
    flat = keras.tree.flatten(outputs)
    given = map(ops.ones_like, flat) if upstream is None else keras.tree.flatten(upstream)
    pairs = [(y, ops.cast(g, y.dtype)) for y, g in zip(flat, given, strict=True) if y.requires_grad]
    sources = [*points, *(weight.value for weight in weights)]
    found = [None] * len(sources)
    if pairs:
        followed, given = zip(*pairs, strict=True)
        found = torch.autograd.grad(followed, sources, given, allow_unused=True)
    found = [ops.zeros_like(x) if g is None else g for x, g in zip(sources, found, strict=True)]
    return keras.tree.map_structure(lambda y: y.detach(), outputs), found


def differentiated(function, *arguments, upstream=None, jit_compile=None):
    """What `gradients` gives, as arrays; `jit_compile` is that of `compiled`."""

    def run(*tensors):
        return gradients(function, *tensors, upstream=upstream)

    tensors = [ops.convert_to_tensor(argument) for argument in arguments]
    run = at_once(run) if jit_compile is None else compiled(run, jit_compile)
    found = run(*tensors)
    return keras.tree.map_structure(ops.convert_to_numpy, found)


def value_and_gradient(loss, labels, embeddings):
    """Value of a loss, and its gradient of the embeddings, as tensors."""
    return _at_once(loss, labels, ops.convert_to_tensor(embeddings))[:2]


def value_and_gradients(loss, labels, embeddings, jit_compile=None, **arguments):
    """Numbers: value of a loss, its gradient of the embeddings, and those of its own weights."""
    embeddings = ops.convert_to_tensor(embeddings)
    value, *found = _at_once(loss, labels, embeddings, jit_compile or None, **arguments)
    return float(value), *(np.asarray(ops.convert_to_numpy(g), "float64") for g in found)


def _at_once(loss, labels, embeddings, jit_compile=None, **arguments):
    """What `recorded` gives; JAX would compile one operation after the other."""
    _build(loss, embeddings)

    def run(embeddings):
        return recorded(loss, labels, embeddings, **arguments)

    jit_compile = True if BACKEND == "jax" else jit_compile
    return compiled(run, jit_compile, getattr(loss, "variables", ()))(embeddings)


def value_of(loss, labels, embeddings, **arguments):
    """Value of a loss, a number."""

    def run(labels, embeddings):
        return loss(labels, embeddings, **arguments)

    tensors = [ops.convert_to_tensor(x) for x in (labels, embeddings)]
    _build(loss, tensors[1])
    run = compiled(run, None if EAGERLY else True, getattr(loss, "variables", ()))
    return float(run(*tensors))


def recorded(loss, labels, embeddings, **arguments):
    """Value of a loss, and its gradients of the embeddings and of its own weights, as tensors."""
    _build(loss, embeddings)
    value, found = gradients(
        lambda embeddings: loss(labels, embeddings, **arguments),
        embeddings,
        weights=getattr(loss, "trainable_weights", ()),
        states=getattr(loss, "non_trainable_variables", ()),
    )
    return value, *found


def _build(loss, embeddings):
    if not getattr(loss, "built", True):
        loss.build((None,), tuple(embeddings.shape))


def finite_differences(function, *points, step=1e-6):
    """Gradients of a function of arrays, from two of its values for each entry."""
    points = [np.array(point, "float64") for point in points]
    gradients = [np.empty_like(point) for point in points]
    for point, gradient in zip(points, gradients, strict=True):
        for index in np.ndindex(*point.shape):
            value = point[index]
            point[index] = value + step
            above = float(function(*points))
            point[index] = value - step
            gradient[index] = (above - float(function(*points))) / (2 * step)
            point[index] = value
    return gradients


def assert_equals_differences(gradients, function, *points, rtol=1e-5, atol=1e-7):
    """Hold gradients of each array against finite differences of a function of the arrays."""
    expected = finite_differences(function, *points)
    for gradient, numeric in zip(gradients, expected, strict=True):
        np.testing.assert_allclose(gradient, numeric, rtol=rtol, atol=atol)
