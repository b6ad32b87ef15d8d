import numpy as np
import pytest
from encoded_images import ORIENTATION, encoded
from PIL import Image

from gsp_tf.data import (
    EncodedImages,
    FileImages,
    decode_image,
    evaluation_dataset,
    read_image,
)


@pytest.fixture
def files(tmp_path):
    """A JPEG, one that is turned by EXIF, a PNG with transparency and a GIF."""
    noise = np.random.default_rng(0).integers(0, 256, (60, 44, 4), np.uint8)
    picture, turned = Image.fromarray(noise), Image.Exif()
    turned[ORIENTATION] = 6
    contents = {
        "a.jpg": encoded(picture.convert("RGB")),
        "b.jpg": encoded(picture.convert("RGB"), exif=turned),
        "c.png": encoded(picture, "PNG"),
        "d.gif": encoded(picture.convert("RGB"), "GIF"),
    }
    for name, content in contents.items():
        (tmp_path / name).write_bytes(content)
    return [tmp_path / name for name in contents]


@pytest.mark.parametrize("channels", [1, 3])
def test_are_the_images_of_the_files(files, channels):
    labels, names = [0, 0, 1, 1], ["x", "y"]
    from_files = FileImages(files, labels, names, channels=channels)
    contents = [path.read_bytes() for path in files]
    images = EncodedImages(contents, labels, names, channels=channels)
    for i, path in enumerate(files):
        np.testing.assert_array_equal(images.image(i), read_image(path, channels))
        np.testing.assert_array_equal(images.image(i), decode_image(contents[i], channels))
    [(expected, _)], [(batch, batch_labels)] = (
        evaluation_dataset(some, 16, batch_size=4) for some in (from_files, images)
    )
    np.testing.assert_array_equal(batch, expected)
    assert batch_labels.numpy().tolist() == labels


def test_subsets_keep_the_contents(files):
    images = EncodedImages([path.read_bytes() for path in files], [0, 1, 0, 1], ["x", "y"], "gh", 1)
    some = images.subset([1])
    assert some.contents == (files[1].read_bytes(), files[3].read_bytes())
    assert some.class_names == ("y",) and some.groups == ("h",) and some.channels == 1
