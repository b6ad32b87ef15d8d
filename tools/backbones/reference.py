"""Writes the maps of BN-Inception and GoogLeNet in PyTorch, with random weights, to an .npz file.

The networks use only `torch.nn.functional`, in float64. They follow the tables of the papers and
the state dicts of the packages `pretrainedmodels` and `torchvision`, and do not depend on gsp_tf.
The tests compare gsp_tf's converted Keras models with the file, which takes no PyTorch. They also
evaluate other weights with PyTorch and compare whole maps.

    python tools/backbones/reference.py tests/backbones/reference.npz
"""

import sys

import numpy as np

SIZES = ((224, 224), (227, 227), (133, 195))
SEED = 7
STAGES = {
    "bn_inception": (
        "pool2_3x3_s2",
        *(f"inception_{name}_output" for name in ("3a", "3c", "4d", "4e", "5b")),
    ),
    "googlenet": ("maxpool2", *(f"inception{name}" for name in ("3a", "4a", "4e", "5a", "5b"))),
}

# Ioffe and Szegedy 2015, table 5: 1x1; 3x3 reduce, 3x3; double 3x3 reduce, double 3x3; pool + proj.
# The modules without 1x1 have stride 2 and pass their pooled input on.
BN_INCEPTION = """
3a   64   64  64   64  96  avg   32
3b   64   64  96   64  96  avg   64
3c    0  128 160   64  96  max    0
4a  224   64  96   96 128  avg  128
4b  192   96 128   96 128  avg  128
4c  160  128 160  128 160  avg  128
4d   96  128 192  160 192  avg  128
4e    0  128 192  192 256  max    0
5a  352  192 320  160 224  avg  128
5b  352  192 320  192 224  max  128
"""

# Szegedy et al. 2015, table 1: 1x1; 3x3 reduce, 3x3; 5x5 reduce, 5x5; pool proj.
GOOGLENET = """
3a   64   96 128   16  32   32
3b  128  128 192   32  96   64
4a  192   96 208   16  48   64
4b  160  112 224   24  64   64
4c  128  128 256   24  64   64
4d  112  144 288   32  64   64
4e  256  160 320   32 128  128
5a  256  160 320   32 128  128
5b  384  192 384   48 128  128
"""


def rows(table):
    """Rows of a table: a name, then other cells, as int if they are numbers."""
    for line in table.strip().splitlines():
        name, *values = line.split()
        yield name, *(int(value) if value.isdigit() else value for value in values)


def bn_inception_shapes():
    """Kernel shapes of BN-Inception by convolution name."""
    shapes = {
        "conv1_7x7_s2": (64, 3, 7, 7),
        "conv2_3x3_reduce": (64, 64, 1, 1),
        "conv2_3x3": (192, 64, 3, 3),
    }
    channels = 192
    for name, one, reduce, three, double_reduce, double, _, projection in rows(BN_INCEPTION):
        prefix = f"inception_{name}"
        if one:
            shapes[f"{prefix}_1x1"] = (one, channels, 1, 1)
        shapes[f"{prefix}_3x3_reduce"] = (reduce, channels, 1, 1)
        shapes[f"{prefix}_3x3"] = (three, reduce, 3, 3)
        shapes[f"{prefix}_double_3x3_reduce"] = (double_reduce, channels, 1, 1)
        shapes[f"{prefix}_double_3x3_1"] = (double, double_reduce, 3, 3)
        shapes[f"{prefix}_double_3x3_2"] = (double, double, 3, 3)
        if projection:
            shapes[f"{prefix}_pool_proj"] = (projection, channels, 1, 1)
        channels = one + three + double + (projection or channels)
    return shapes


def googlenet_shapes():
    """Kernel shapes of torchvision's GoogLeNet by block name."""
    shapes = {"conv1": (64, 3, 7, 7), "conv2": (64, 64, 1, 1), "conv3": (192, 64, 3, 3)}
    channels = 192
    for name, one, reduce, three, other_reduce, other, projection in rows(GOOGLENET):
        prefix = f"inception{name}"
        shapes[f"{prefix}.branch1"] = (one, channels, 1, 1)
        shapes[f"{prefix}.branch2.0"] = (reduce, channels, 1, 1)
        shapes[f"{prefix}.branch2.1"] = (three, reduce, 3, 3)
        shapes[f"{prefix}.branch3.0"] = (other_reduce, channels, 1, 1)
        shapes[f"{prefix}.branch3.1"] = (other, other_reduce, 3, 3)
        shapes[f"{prefix}.branch4.1"] = (projection, channels, 1, 1)
        channels = one + three + other + projection
    return shapes


def random_state(architecture, seed=SEED):
    """A state dict of random float32 weights that keep activations of order 1, by PyTorch's keys.

    Numpy's `RandomState` gives the same numbers everywhere.
    """
    random = np.random.RandomState(seed)

    def uniform(shape, low, high):
        return (low + (high - low) * random.random_sample(shape)).astype("float32")

    is_caffe = architecture == "bn_inception"
    state = {}
    for name, shape in (bn_inception_shapes() if is_caffe else googlenet_shapes()).items():
        convolution = name if is_caffe else f"{name}.conv"
        normalization = f"{name}_bn" if is_caffe else f"{name}.bn"
        limit = np.sqrt(4.5 / np.prod(shape[1:]))
        if name == "conv1_7x7_s2":
            limit /= 64  # its input is of that order
        state[f"{convolution}.weight"] = uniform(shape, -limit, limit)
        if is_caffe:
            state[f"{convolution}.bias"] = uniform(shape[0], -0.3, 0.3)
        state[f"{normalization}.weight"] = uniform(shape[0], 0.5, 1.5)
        state[f"{normalization}.bias"] = uniform(shape[0], -0.2, 0.2)
        state[f"{normalization}.running_mean"] = uniform(shape[0], -0.2, 0.2)
        state[f"{normalization}.running_var"] = uniform(shape[0], 0.5, 1.5)
    return state


def random_image(size, seed=SEED):
    """An RGB image `(H, W, 3)` of random float32 pixels in [0, 255]."""
    return (255 * np.random.RandomState(seed).random_sample((*size, 3))).astype("float32")


def sample(features):
    """A part of a map `(H, W, C)`, and the map's means over places and over channels."""
    step = max(1, features.shape[0] // 7)
    return {
        "values": features[::step, ::step, ::16],
        "mean_over_places": features.mean((0, 1)),
        "mean_over_channels": features.mean(2),
    }


def bn_inception(state, image):
    """Maps of BN-Inception after each module, by gsp_tf's layer names."""
    import torch.nn.functional as functional

    def convolve(x, name, stride=1):
        weight = state[f"{name}.weight"]
        x = functional.conv2d(
            x, weight, state[f"{name}.bias"], stride, padding=weight.shape[-1] // 2
        )
        return normalize(functional, state, x, f"{name}_bn", 1e-5)

    def halve(x):
        return functional.max_pool2d(x, 3, 2, ceil_mode=True)

    blue_green_red = image[:, [2, 1, 0]]
    x = blue_green_red - blue_green_red.new_tensor([104, 117, 128]).view(1, 3, 1, 1)
    x = halve(convolve(x, "conv1_7x7_s2", 2))
    yield "pool1_3x3_s2", x
    x = halve(convolve(convolve(x, "conv2_3x3_reduce"), "conv2_3x3"))
    yield "pool2_3x3_s2", x
    for name, one, _, _, _, _, pooling, projection in rows(BN_INCEPTION):
        prefix = f"inception_{name}"
        stride = 1 if one else 2
        three = convolve(convolve(x, f"{prefix}_3x3_reduce"), f"{prefix}_3x3", stride)
        double = convolve(convolve(x, f"{prefix}_double_3x3_reduce"), f"{prefix}_double_3x3_1")
        branches = [three, convolve(double, f"{prefix}_double_3x3_2", stride)]
        if one:
            branches.insert(0, convolve(x, f"{prefix}_1x1"))
        if pooling == "avg":
            pooled = functional.avg_pool2d(x, 3, 1, 1, ceil_mode=True, count_include_pad=True)
        elif projection:
            pooled = functional.max_pool2d(x, 3, 1, 1, ceil_mode=True)
        else:
            pooled = halve(x)
        branches.append(convolve(pooled, f"{prefix}_pool_proj") if projection else pooled)
        x = functional.relu(torch_concatenate(branches))
        yield f"{prefix}_output", x


def googlenet(state, image):
    """Maps of GoogLeNet after each module, by gsp_tf's layer names."""
    import torch.nn.functional as functional

    def convolve(x, name, stride=1):
        weight = state[f"{name}.conv.weight"]
        x = functional.conv2d(x, weight, None, stride, padding=weight.shape[-1] // 2)
        return normalize(functional, state, x, f"{name}.bn", 1e-3)

    def halve(x, size=3):
        return functional.max_pool2d(x, size, 2, ceil_mode=True)

    # torchvision normalises images; transform_input=True then changes their scale.
    mean = image.new_tensor([0.485, 0.456, 0.406]).view(1, 3, 1, 1)
    std = image.new_tensor([0.229, 0.224, 0.225]).view(1, 3, 1, 1)
    normalized = (image / 255 - mean) / std
    x = normalized * (std / 0.5) + (mean - 0.5) / 0.5
    x = halve(convolve(x, "conv1", 2))
    yield "maxpool1", x
    x = halve(convolve(convolve(x, "conv2"), "conv3"))
    yield "maxpool2", x
    for name, *_ in rows(GOOGLENET):
        if name in ("4a", "5a"):
            x = halve(x, 3 if name == "4a" else 2)
        prefix = f"inception{name}"
        pooled = functional.max_pool2d(x, 3, 1, 1, ceil_mode=True)
        x = torch_concatenate(
            [
                convolve(x, f"{prefix}.branch1"),
                convolve(convolve(x, f"{prefix}.branch2.0"), f"{prefix}.branch2.1"),
                convolve(convolve(x, f"{prefix}.branch3.0"), f"{prefix}.branch3.1"),
                convolve(pooled, f"{prefix}.branch4.1"),
            ]
        )
        yield prefix, x


def normalize(functional, state, x, name, epsilon):
    """Batch normalisation with the running statistics, and ReLU."""
    mean, variance = state[f"{name}.running_mean"], state[f"{name}.running_var"]
    weight, bias = state[f"{name}.weight"], state[f"{name}.bias"]
    x = functional.batch_norm(x, mean, variance, weight, bias, training=False, eps=epsilon)
    return functional.relu(x)


def torch_concatenate(branches):
    import torch

    return torch.cat(branches, 1)


def evaluate(architecture, image, seed=SEED):
    """Maps of a network with the weights of `random_state`, float64 `(H, W, C)` by stage.

    The architecture is "bn_inception" or "googlenet". The image is `(H, W, 3)` with RGB pixels in
    [0, 255].
    """
    import torch

    network = bn_inception if architecture == "bn_inception" else googlenet
    state = {
        key: torch.from_numpy(value).double()
        for key, value in random_state(architecture, seed).items()
    }
    images = torch.from_numpy(image.transpose(2, 0, 1)[None]).double()
    maps = dict(network(state, images))
    return {name: maps[name][0].permute(1, 2, 0).numpy() for name in STAGES[architecture]}


def main(path):
    arrays = {}
    for architecture in ("bn_inception", "googlenet"):
        for size in SIZES:
            for stage, features in evaluate(architecture, random_image(size)).items():
                height, width = size
                for name, value in sample(features).items():
                    key = f"{architecture}/{height}x{width}/{stage}/{name}"
                    arrays[key] = value.astype("float32")
    np.savez_compressed(path, **arrays)


if __name__ == "__main__":
    main(sys.argv[1])
