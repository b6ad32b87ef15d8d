"""What differs between the backends of Keras."""

import functools
from collections.abc import Callable, Sequence

import keras
import numpy as np
from keras import ops

from gsp_tf._typing import Tensor


def custom_gradient(function: Callable) -> Callable:
    """Decorate `f(*tensors) -> outputs, gradient(*upstreams) -> gradients`, all of them tuples."""
    # keras.ops.custom_gradient passes on the gradients of several outputs in three forms.
    if keras.backend.backend() == "torch":
        return functools.partial(_torch_function(), function)
    if keras.backend.backend() == "jax":
        return ops.custom_gradient(_with_gradient_of_one_tuple(function))
    return ops.custom_gradient(function)


def _with_gradient_of_one_tuple(function):
    def wrapped(*tensors):
        outputs, gradient = function(*tensors)
        return outputs, lambda upstreams: gradient(*upstreams)

    return wrapped


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


def value_and_gradient(function: Callable, point: Tensor) -> tuple[Tensor, Tensor]:
    """The scalar value of a function of a tensor, and its gradient, as NumPy arrays."""
    if keras.backend.backend() == "tensorflow":
        import tensorflow as tf

        with tf.GradientTape() as tape:
            tape.watch(point)
            value = function(point)
        gradient = tape.gradient(value, point, unconnected_gradients="zero")
    elif keras.backend.backend() == "jax":
        import jax

        value, gradient = jax.jit(jax.value_and_grad(function))(point)
    else:
        point = point.detach().requires_grad_()
        value = function(point)
        value.backward(inputs=[point])
        gradient = ops.zeros_like(point) if point.grad is None else point.grad
    return ops.convert_to_numpy(value), ops.convert_to_numpy(gradient)


def matmul(x: Tensor, y: Tensor) -> Tensor:
    """Product of matrices of one type and that type, where Keras makes float32 of float64."""
    # https://github.com/keras-team/keras/issues/23704
    return x @ y if keras.backend.backend() == "torch" else ops.matmul(x, y)


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


def rematerialized_scan(
    function: Callable, weights: list[Tensor], state: list[Tensor], steps: Tensor
) -> tuple[list[Tensor], list]:
    """The last state and stacked outputs of `function(weights, state, step) -> state, outputs`."""
    # The gradient of the weights runs each step again; no step keeps its intermediate values.
    if keras.backend.backend() == "tensorflow":
        return _scan_of_tensorflow(function, weights, state, steps)
    if keras.backend.backend() == "jax":
        return _scan_of_jax(function, weights, state, steps)
    return ops.scan(keras.remat(lambda *step: function(weights, *step)), state, steps)


def _scan_of_jax(function, weights, state, steps):
    """`rematerialized_scan` on JAX."""
    # jax.checkpoint would lose what a custom gradient within the function has captured.
    import jax

    def run(weights):
        def body(state, step):
            after, outputs = function(weights, state, step)
            return after, (outputs, state)

        last, (outputs, kept) = jax.lax.scan(body, state, steps)
        return (last, outputs), (weights, kept)

    def gradient(residuals, upstreams):
        weights, kept = residuals

        def body(totals, values):
            step, state, upstream = values
            _, pull_back = jax.vjp(lambda weights: function(weights, state, step)[1], weights)
            return [x + y for x, y in zip(totals, *pull_back(upstream), strict=True)], None

        zeros = [ops.zeros_like(weight) for weight in weights]
        return (jax.lax.scan(body, zeros, (steps, kept, upstreams[1]))[0],)

    scan = jax.custom_vjp(lambda weights: run(weights)[0])
    scan.defvjp(run, gradient)
    return scan(weights)


def _scan_of_tensorflow(function, weights, state, steps):
    """`rematerialized_scan` on TensorFlow."""
    # The gradient of a loop of TensorFlow keeps every step's intermediate values, and a loop that
    # may run ten steps at once, its default, needs the memory of ten.
    import tensorflow as tf

    count, found = tf.shape(steps)[0], {}

    def array_of(first):
        array = tf.TensorArray(
            first.dtype, count, element_shape=first.shape, clear_after_read=False
        )
        return array.write(0, first)

    def loop_over_steps(body, values):
        return tf.while_loop(lambda step, *_: step < count, body, values, parallel_iterations=1)

    @tf.custom_gradient
    def outputs_of(*weights):
        def run(step, state):
            state, outputs = function(weights, state, steps[step])
            return state, keras.tree.flatten(outputs), outputs

        def body(step, state, kept, arrays):
            kept = [array.write(step, x) for array, x in zip(kept, state, strict=True)]
            state, outputs, _ = run(step, state)
            arrays = [array.write(step, x) for array, x in zip(arrays, outputs, strict=True)]
            return step + 1, state, kept, arrays

        second, flat, found["structure"] = run(0, state)  # tells how many outputs there are
        kept, arrays = ([array_of(x) for x in tensors] for tensors in (state, flat))
        loop = (tf.constant(1), second, kept, arrays)
        _, found["state"], kept, arrays = loop_over_steps(body, loop)

        def gradient(*upstreams):
            def body(step, totals):
                with tf.GradientTape(watch_accessed_variables=False) as tape:
                    local = [tf.identity(weight) for weight in weights]
                    tape.watch(local)
                    _, outputs = function(local, [array.read(step) for array in kept], steps[step])
                gradients = tape.gradient(
                    keras.tree.flatten(outputs),
                    local,
                    [upstream[step] for upstream in upstreams],
                    unconnected_gradients="zero",
                )
                return step + 1, [x + y for x, y in zip(totals, gradients, strict=True)]

            zeros = [tf.zeros_like(weight) for weight in weights]
            loop = (tf.constant(0), zeros)
            return loop_over_steps(body, loop)[1]

        return [array.stack() for array in arrays], gradient

    outputs = outputs_of(*weights)
    return found["state"], keras.tree.pack_sequence_as(found["structure"], outputs)
