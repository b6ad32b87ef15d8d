"""Which network fits photographs, and from which weights it starts."""

from gsp_tf import backbones

_SMALLEST_MAP = 4
_OF_PRETRAINED = 224
_SIDES = (32, 48, 64, 96, 128, 160, 192, 224, 256)
_FROM_SCRATCH = "conv4"
_PRETRAINED = (  # the first of these with weights on this machine is taken
    "resnet50",
    "convnext_tiny",
    "densenet121",
    "resnet50v2",
    "inception_v3",
    "mobilenet_v2",
    "resnet101",
    "resnet152",
    "efficientnet_lite0",
)


def frozen_side(network: str, preset: str | None) -> int:
    """Side of the images of a pretrained network: 224, or that of a preset that needs more."""
    is_preset = network == "hub" and preset
    return backbones.preset_side(preset, _OF_PRETRAINED) if is_preset else _OF_PRETRAINED


def network_and_weights(name, weights, side, preset):
    """Backbone, weights and image side for photographs with this median shorter side."""
    if name == "hub":
        return name, weights or backbones.pretrained(name)[0], frozen_side(name, preset)
    if weights is not None:
        name = name or _PRETRAINED[0]
        return name, weights, _side(name, _OF_PRETRAINED)
    names = _PRETRAINED if name is None else (name,)
    for network in names:
        source = backbones.weights_source(network, _OF_PRETRAINED)
        if source is not None and source.is_local:
            return network, backbones.pretrained(network)[0], _side(network, _OF_PRETRAINED)
    network = name or _FROM_SCRATCH
    small = 32 if side < 48 else 48 if side < 96 else 64
    return network, None, _side(network, small)


def _side(network, wanted):
    """The smallest accepted side, at least `wanted`, with a large enough last map."""
    for side in _SIDES:
        if side < wanted:
            continue
        try:
            shape = backbones.create(network, (side, side, 3)).output_shape
        except ValueError:  # the network does not accept this side
            continue
        if len(shape) != 4 or min(shape[1:3]) >= _SMALLEST_MAP:
            return side
    return wanted


def why_random(backbone, side):
    """That a network starts from random weights, and which weights it could start from."""
    if backbone.name == _FROM_SCRATCH:
        return "from random weights: no ImageNet weights in the cache of Keras or from pip"
    source = backbones.weights_source(backbone.name, side, backbone.preset)
    if source is None:
        return "from random weights: no pretrained ones come with it"
    own = backbones.pretrained(backbone.name)[0]
    where = "are on this machine" if source.is_local else f"are not on this machine: {source.text}"
    return f"from random weights; --backbone.weights {own} takes its own, which {where}"


def is_closed(network, preset):
    """Whether a network has batch normalisation that cannot be frozen."""
    is_preset = network == "hub" and preset is not None
    return is_preset and not backbones.can_freeze_batch_normalization(preset)
