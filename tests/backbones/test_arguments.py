"""What the functions of backbones refuse."""

import keras
import pytest

from gsp_tf import backbones

REFUSED = {
    # Sizes and channels of images.
    "create('conv4', (32, 32))": r"input_shape must be \(H, W, channels\), received",
    "create('conv4', (32, 32, None))": r"input_shape must be \(H, W, channels\), received",
    "create('conv4', (1, 1, 3))": r"^Backbone 'conv4' cannot take .*\(1, 1, 3\): .*\.$",
    "create('resnet50', (31, 64, 3))": "32 x 32 pixels or larger, received .*31",
    "create('inception_v3', (64, 64, 3))": "75 x 75 pixels or larger",
    "create('bn_inception', (6, 16, 3))": "7 x 7 pixels or larger, received .*6, 16",
    "create('googlenet', (6, 16, 3))": "15 x 15 pixels or larger, received .*6, 16",
    "create('googlenet', (32, 32, 4))": r"1 or 3 channels .* Received input_shape=\(32, 32, 4\)",
    "create('dinov2_small', (28, 42, 3))": "square images|height and width to be the same",
    "create('mit_b1', (32, 64, 3))": "square images|height and width to be the same",
    # Weights, maps, tokens and presets.
    "create('mit_b1', (32, 32, 3), 'imagenet')": 'must be None or "ade20k" or the path',
    "create('bn_inception', weights='imagenet')": "must be None or the path of a .weights.h5",
    "create('resnet50', weights='a.h5')": "must be None or \"imagenet\" or the path .* 'a.h5'",
    "create('mit_b1', intermediate=True)": "'mit_b1' has no intermediate map, .* bn_inception",
    "create('conv4', tokens='class')": "tokens=class is for the backbones .*; conv4 has no token",
    "create('hub')": "needs a preset, such as dinov2_small",
    "create('conv4', preset='dinov2_small')": "preset=dinov2_small is for the backbones hub; conv4",
    "create('hub', (28, 28, 3), preset='dinov2_smal')":
        "received 'dinov2_smal'; did you mean dinov2_small?",
    "create('hub', preset='gemma3_1b')": "gemma3_1b.* is a Gemma3.* no map or tokens",
    "convert_weights('a.pth', 'vgg', 'a.weights.h5')":
        "'vgg', known are bn_inception, googlenet, efficientnet",
    "freeze_layers(create('conv4'), ['stem'])":
        r"patterns \['stem'\] match none of the layers .*conv2d",
    "freeze_layers(create('conv4'), ['('])": r"regular expression, received '\('",
    "freeze_layers(create('conv4'), 'conv2d')": "a list of texts, received the text 'conv2d'",
    "register('conv4')": "A backbone named 'conv4' is registered already",
}  # fmt: skip


@pytest.mark.parametrize("call", REFUSED)
def test_refuses_arguments(call):
    with pytest.raises(ValueError, match=REFUSED[call]):
        eval(call, vars(backbones))


def test_the_channels_are_last(monkeypatch):
    monkeypatch.setattr(keras.config, "image_data_format", lambda: "channels_first")
    with pytest.raises(ValueError, match="channels last; received .* of channels_first"):
        backbones.create("conv4", (3, 32, 32))
