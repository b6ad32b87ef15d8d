"""What differs between the backends of Keras."""

import functools
from collections.abc import Callable, Sequence

import keras
import numpy as np
from keras import ops

from gsp_tf._keras import keep_float64
from gsp_tf._typing import Tensor

keep_float64()


def custom_gradient(function: Callable) -> Callable:
    """Decorate `f(*tensors) -> outputs, gradient(*upstreams) -> gradients`, all of them tuples."""
    # keras.ops.custom_gradient passes on the gradients of several outputs in three forms.
    if keras.backend.backend() == "torch":
        return functools.partial(_torch_function(), function)
    if keras.backend.backend() == "jax":

        def with_gradient_of_one_tuple(*tensors):
            outputs, gradient = function(*tensors)
            return outputs, lambda upstreams: gradient(*upstreams)

        return ops.custom_gradient(with_gradient_of_one_tuple)
    return ops.custom_gradient(function)


@functools.cache
def _torch_function():
    import torch

    class Function(torch.autograd.Function):
        @staticmethod
        def forward(context, function, *tensors):
            outputs, context.gradient = function(*tensors)
            # The gradient may hold outputs; other tensors are returned, so that no cycle arises.
            return tuple(output.detach() for output in outputs)

        @staticmethod
        def backward(context, *upstreams):
            return None, *context.gradient(*upstreams)

    # torch.compile would take every call for a new function and compile it again.
    return torch.compiler.disable(Function.apply)


def concrete(tensor: Tensor) -> np.ndarray | None:
    """The value of a tensor, or `None` while a graph is traced."""
    try:
        return ops.convert_to_numpy(tensor)
    except (NotImplementedError, TypeError):
        return None


def is_traced(tensor: Tensor) -> bool:
    """Whether a graph that keeps the numbers of Python is being made of a tensor's function."""
    if keras.backend.backend() == "tensorflow":
        import tensorflow as tf

        return not tf.executing_eagerly()
    if keras.backend.backend() == "jax":
        import jax

        return isinstance(tensor, jax.core.Tracer)
    return False


def compiled(function: Callable) -> Callable:
    """A function of tensors and, last, a number that TensorFlow and JAX compile."""
    if keras.backend.backend() == "tensorflow":
        import tensorflow as tf

        return tf.function(function, autograph=False)
    if keras.backend.backend() == "jax":
        import jax

        return jax.jit(function, static_argnums=function.__code__.co_argcount - 1)
    return function


def jit_compile(wanted: bool) -> bool:
    """`jit_compile` of a model; without it, JAX would run every operation of a step by itself."""
    return wanted or keras.backend.backend() == "jax"


def make_deterministic() -> None:
    """Make operations give the same numbers each time; those of JAX do on a CPU."""
    if keras.backend.backend() == "tensorflow":
        import tensorflow as tf

        tf.config.experimental.enable_op_determinism()
    elif keras.backend.backend() == "torch":
        import torch

        torch.use_deterministic_algorithms(True)


def limit_threads(count: int) -> None:
    """Limit the threads of TensorFlow, which reads the images, and of PyTorch."""
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(count)
    tf.config.threading.set_inter_op_parallelism_threads(count)
    if keras.backend.backend() == "torch":
        import torch

        torch.set_num_threads(count)


def available(dtype: str) -> str:
    """A type of 64 bits, or its half where JAX has none."""
    if keras.backend.backend() == "jax":
        import jax

        return jax.dtypes.canonicalize_dtype(dtype).name
    return dtype


def with_gradients(function: Callable) -> Callable:
    """`g(weights, *inputs, upstream)`: what `f(weights, *inputs)` gives, and its gradients.

    They are those by a list of weights, 0 by one that the outputs do not depend on. A scalar needs
    no upstream gradient.
    """
    if keras.backend.backend() == "tensorflow":
        import tensorflow as tf

        def run(weights, *inputs, upstream=None):
            with tf.GradientTape() as tape:
                tape.watch(weights)
                outputs = function(weights, *inputs)
            return outputs, tape.gradient(outputs, weights, upstream, unconnected_gradients="zero")

        return run
    if keras.backend.backend() == "jax":
        import jax

        @jax.jit
        def run(weights, *inputs, upstream=None):
            outputs, pull_back = jax.vjp(lambda weights: function(weights, *inputs), weights)
            return outputs, pull_back(ops.ones_like(outputs) if upstream is None else upstream)[0]

        return run
    import torch

    def run(weights, *inputs, upstream=None):
        weights = [weight.detach().requires_grad_() for weight in weights]
        outputs = function(weights, *inputs)
        if not outputs.requires_grad:
            return outputs, [ops.zeros_like(weight) for weight in weights]
        found = torch.autograd.grad(outputs, weights, upstream, materialize_grads=True)
        return outputs.detach(), found

    return run


def segment_sum(data: Tensor, segments: Tensor, num_segments: int) -> Tensor:
    """Sums of the rows of each segment, in the type of the rows; Keras sums float32 on PyTorch."""
    if keras.backend.backend() == "torch":
        segments = segments.clamp(0, num_segments - 1)  # those of NaN are anywhere
        return data.new_zeros((num_segments, *data.shape[1:])).index_add(0, segments, data)
    return ops.segment_sum(data, segments, num_segments)


def argmax(x: Tensor) -> Tensor:
    """int32 index of the largest entry along the last axis, the first of equal ones."""
    if keras.backend.backend() == "tensorflow":
        import tensorflow as tf

        return tf.argmax(x, axis=-1, output_type="int32")  # Keras first looks for -0.0
    return ops.cast(ops.argmax(x, axis=-1), "int32")


def after(tensor: Tensor, compute: Callable[[], Tensor]) -> Tensor:
    """What `compute` gives, which a graph of TensorFlow starts only when it has the tensor."""
    if keras.backend.backend() == "tensorflow":
        import tensorflow as tf

        with tf.control_dependencies([tensor]):
            return compute()
    return compute()


def absolute(x: Tensor) -> Tensor:
    """Absolute values with a gradient of 0 at 0, which JAX gives 1."""
    return x * ops.sign(x) if keras.backend.backend() == "jax" else ops.abs(x)


def rounded(x: Tensor) -> Tensor:
    """A product, rounded before something is added to it, where JAX would round the sum alone."""
    if keras.backend.backend() != "jax":
        return x  # A score minus the largest one is at most 0, so large scores have a softmax.
    import jax.numpy as jnp

    # XLA sees that this could change -inf, and so computes it.
    return jnp.maximum(x, jnp.finfo(x.dtype).min)


def softplus(x: Tensor) -> Tensor:
    """`log(1 + exp(x))` in all digits of the type; the softplus of PyTorch drops some beyond 20."""
    return -ops.log_sigmoid(-x)


def checked(tensor: Tensor, rules: Sequence[tuple[Tensor, str, Tensor]]) -> Tensor:
    """The tensor, unless a rule `(is it met, message, value to show)` is known to be broken."""
    # TensorFlow raises the error when its graph runs. XLA and other graphs cannot raise errors.
    if not rules:
        return tensor
    all_met = concrete(ops.all(ops.stack([is_met for is_met, *_ in rules])))
    if all_met is None and keras.backend.backend() == "tensorflow":
        import tensorflow as tf

        asserts = [tf.debugging.Assert(is_met, [message, x]) for is_met, message, x in rules]
        with tf.control_dependencies(asserts):
            return tf.identity(tensor)
    if all_met is not None and not all_met:
        message, value = next((m, concrete(x)) for is_met, m, x in rules if not concrete(is_met))
        shown = f"{float(value):g}" if value.dtype.kind == "f" else value.tolist()
        raise ValueError(f"{message} {shown}.")
    return tensor


def assign_rows(variable: keras.Variable, indices: Tensor, rows: Tensor) -> None:
    """Set rows of a variable, in place where the backend can."""
    if keras.backend.backend() == "tensorflow":
        import tensorflow as tf

        # A copy of a large memory costs as much as a multiplication by it.
        variable.value.scatter_update(tf.IndexedSlices(rows, indices))
    elif keras.backend.backend() == "torch":
        variable.value.data[indices.long()] = ops.cast(rows, variable.dtype)
    else:
        variable.assign(ops.scatter_update(variable, indices[:, None], rows))


def rows_of(variable: keras.Variable, indices: Tensor) -> Tensor:
    """Rows of a variable, whose gradient on TensorFlow holds these rows alone."""
    if keras.backend.backend() == "tensorflow":
        import tensorflow as tf

        # A tensor of the variable would be a copy of it, once an optimizer has changed its rows.
        return tf.gather(variable.value, indices)
    return ops.take(variable, indices, axis=0)
