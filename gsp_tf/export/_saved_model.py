"""SavedModel export, for serving without this library.

The default signature `image_bytes` takes the bytes of JPEG and PNG files, a string tensor `(B,)`,
and prepares the images as evaluation does. The signature `images` takes prepared images, float32
`(B, S, S, channels)` with pixels in [0, 255].
"""

import tensorflow as tf

from gsp_tf.data import central_window, resize_window
from gsp_tf.export._decoding import decode_window


def write_saved_model(served, recipe, folder):
    """Writes a SavedModel with one signature for encoded images and one for pixels."""
    shape = served.embedder.input_shape
    prepare = _preparation(shape[1], shape[3], recipe.data.resize)
    images = tf.function(
        lambda images: served(images),
        input_signature=[tf.TensorSpec(shape, name="images")],
        autograph=False,
    )
    image_bytes = tf.function(
        lambda image_bytes: images(prepare(image_bytes)),
        input_signature=[tf.TensorSpec((None,), tf.string, name="image_bytes")],
        autograph=False,
    )
    module = tf.Module()
    module.weights = [variable.value for variable in served.variables]
    signatures = {
        "serving_default": image_bytes,
        "image_bytes": image_bytes,
        "images": images,
    }
    tf.saved_model.save(module, str(folder), signatures)


def read_saved_model(folder):
    """The signature `images` of a SavedModel as a function from images to a dict of outputs."""
    signature = tf.saved_model.load(str(folder)).signatures["images"]
    return lambda images: signature(images=tf.constant(images))


def _preparation(size, channels, resize):
    """A function from files `(B,)` to images `(B, S, S, channels)`, as in `evaluation_dataset`."""

    def prepare_one(numbered):
        number, contents = numbered
        name = tf.strings.format("Image {} of the batch", number)
        window = decode_window(
            contents, lambda shape: central_window(shape, size, resize), size, channels, name
        )
        return resize_window(window, size, channels)

    def prepare(image_bytes):
        return tf.map_fn(
            prepare_one,
            (tf.range(tf.size(image_bytes)), image_bytes),
            fn_output_signature=tf.TensorSpec((size, size, channels)),
        )

    return prepare
