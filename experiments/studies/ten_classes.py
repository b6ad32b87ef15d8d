"""The first ten classes of CIFAR-100, where the papers have the ten of CIFAR-10."""

from gsp_tf.data import ArrayImages, load_cifar100

CLASSES = 10
TRAINING_SHARE = 5 / 6


def ten_classes(folder, counts=None):
    """Training and test images of ten classes, `ArrayImages` of the same classes.

    Args:
        folder: where the folder `cifar-100-binary` lies.
        counts: as `load_cifar100` takes them.
    """
    images = load_cifar100(folder, counts=counts).subset(range(CLASSES))
    trained = round(TRAINING_SHARE * len(images))
    return [
        ArrayImages(images.images[part], images.labels[part], images.class_names)
        for part in (slice(trained), slice(trained, None))
    ]
