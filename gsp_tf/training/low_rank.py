"""Low-rank adaptation (LoRA) of a network, and saving it without the added matrices."""

import contextlib
import re
from collections.abc import Iterator, Sequence

import keras
from keras import ops

from gsp_tf._arguments import check_patterns, check_positive, check_sizes, idle_patterns
from gsp_tf._keras import layers_within, weighted_layers


def add_lora(
    model: keras.Model, rank: int, alpha: float | None = None, layers: Sequence[str] = ()
) -> list[str]:
    """Freeze a network, and let low-rank matrices train in place of its kernels.

    A kernel W becomes `W + alpha / rank * A B`, where only A and B train; B is zero at first, so
    that the network starts unchanged (Hu et al., "LoRA: Low-Rank Adaptation of Large Language
    Models", ICLR 2022, section 4.1). Biases and normalisation keep their values too, and batch
    normalisation is in inference mode. This is `enable_lora` of Keras for many layers at once.

    Args:
        model: built model, such as the backbone of an embedder. It is changed in place.
        rank: r, columns of A and rows of B.
        alpha: strength of the change; `None` means r.
        layers: regular expressions that `re.search` looks for in the paths of layers; none adapts
            all that can be. `Dense`, `EinsumDense`, `Embedding` and convolutions can; depthwise
            convolutions cannot.

    Returns:
        The paths of the adapted layers.

    Raises:
        ValueError: if a pattern matches no layer that can be adapted, or there is no such layer.

    Example:
        >>> import keras
        >>> hidden, last = keras.layers.Dense(8, name="hidden"), keras.layers.Dense(2, name="last")
        >>> inputs = keras.Input((4,))
        >>> model = keras.Model(inputs, last(hidden(inputs)))
        >>> add_lora(model, rank=2, layers=["hidden"])
        ['hidden']
        >>> [variable.path for variable in model.trainable_variables]
        ['hidden/lora_kernel_a', 'hidden/lora_kernel_b']
    """
    check_patterns(layers)
    check_sizes(rank=rank)
    if alpha is not None:
        check_positive(alpha=alpha)
    weighted = weighted_layers(model)
    able = [(path, layer) for path, layer in weighted if _is_able(layer)]
    chosen = [
        (path, layer)
        for path, layer in able
        if not layers or any(re.search(pattern, path) for pattern in layers)
    ]
    idle = idle_patterns(layers, (path for path, _ in able))
    if idle or not chosen:
        what = f"The patterns {idle} match none of" if idle else "There are none among"
        raise ValueError(
            f"{what} the layers of {model.name} that train and take low-rank matrices: "
            f"{[path for path, _ in able]}."
        )
    for _, layer in weighted:
        layer.trainable = False
    for _, layer in chosen:
        layer.trainable = True
        layer.enable_lora(rank, lora_alpha=alpha)
        if getattr(layer, "bias", None) is not None:
            layer.bias.trainable = False
    return [path for path, _ in chosen]


@contextlib.contextmanager
def merged_lora(model: keras.Model) -> Iterator[None]:
    """Add the matrices of `add_lora` to the kernels while the block saves or exports the model.

    A saved model then has plain layers, whose kernels are `W + alpha / rank * A B`. Loading it
    needs no more than loading the network that `add_lora` was given. It is not compiled, because
    the optimizer knows the matrices alone. After the block, training continues as before. A model
    without such matrices is left as it is. In layers that `model.quantize` made int8 or int4,
    before or after `add_lora`, the sum is quantized again.

    Args:
        model: a model with adapted layers at any depth.

    Raises:
        ValueError: if an adapted layer was quantized with "gptq" or "awq".

    Example:
        >>> import keras
        >>> from tempfile import TemporaryDirectory
        >>> inputs, dense = keras.Input((4,)), keras.layers.Dense(2, name="dense")
        >>> model = keras.Model(inputs, dense(inputs))
        >>> _ = add_lora(model, rank=1)
        >>> with TemporaryDirectory() as folder, merged_lora(model):
        ...     model.save(f"{folder}/model.keras")
        ...     loaded = keras.models.load_model(f"{folder}/model.keras")
        >>> [variable.path for variable in loaded.variables], dense.lora_rank
        (['dense/kernel', 'dense/bias'], 1)
    """
    with contextlib.ExitStack() as stack:
        adapted = [layer for layer in layers_within(model) if getattr(layer, "lora_enabled", False)]
        for layer in adapted:
            stack.enter_context(_merged(layer))
        if adapted:
            # A loaded model would give the moments of the matrices to its kernels, and fail.
            model.get_compile_config = lambda: None
            stack.callback(delattr, model, "get_compile_config")
        yield


@contextlib.contextmanager
def _merged(layer):
    """A layer whose kernel is the sum, and which says that it has no low-rank matrices."""
    rank, mode = layer.lora_rank, getattr(layer, "quantization_mode", None)
    if mode in ("gptq", "awq"):
        raise ValueError(
            f"The low-rank matrices of {layer.path} cannot be added to a kernel that was quantized "
            f"with {mode!r}. Save with merged_lora first, and quantize the loaded model."
        )
    before = [(variable, ops.convert_to_numpy(variable)) for variable in layer.variables]
    try:
        if mode in ("int8", "int4"):
            # Keras saves the sum, quantized, and sets the matrices to zero when it loads that.
            store = {}
            layer.save_own_variables(store)
            layer.load_own_variables(store)
        else:
            name = "embeddings" if isinstance(layer, keras.layers.Embedding) else "kernel"
            a, b = (ops.convert_to_tensor(getattr(layer, f"lora_{name}_{x}")) for x in "ab")
            layer.lora_enabled = False
            kernel = getattr(layer, name)  # the variable, in its own precision
            kernel.assign_add(ops.cast(layer.lora_alpha / rank * ops.matmul(a, b), kernel.dtype))
        layer.lora_enabled, layer.lora_rank = False, None
        yield
    finally:
        for variable, value in before:
            variable.assign(value)
        layer.lora_enabled, layer.lora_rank = True, rank


def _is_able(layer):
    """Whether a layer trains and takes low-rank matrices, as the networks of keras-hub do too."""
    is_layer = hasattr(layer, "enable_lora") and not isinstance(layer, keras.Model)
    return is_layer and layer.trainable
