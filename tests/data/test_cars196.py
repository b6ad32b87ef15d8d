import numpy as np
import pytest
from miniatures import CAR_FIELDS, write_car_annotations, write_cars196

from gsp_tf.data import load_cars196

COUNTS = {"train": (10, 20), "test": (3, 6)}


@pytest.fixture
def cars(tmp_path):
    """Thirteen models with two images each."""
    write_cars196(tmp_path)
    return tmp_path


def test_halves_labels_and_pixels(cars):
    sets = load_cars196(cars, counts=COUNTS)
    assert list(sets) == ["train", "test"]
    assert len(sets["train"].class_names) == 10
    assert sets["test"].class_names == ("Car 11 Coupé", "Car 12 Coupé", "Car 13 Coupé")
    assert sets["test"].labels.tolist() == [0, 0, 1, 1, 2, 2]
    assert abs(int(sets["test"].image(0).mean()) - 20 * 5) <= 2


def test_protocols(cars, published, check_protocols):
    published(load_cars196, COUNTS)
    check_protocols("cars196", cars)


def test_the_published_counts_are_expected(cars):
    with pytest.raises(
        ValueError, match="train: 13 classes and 26 images, expected 98 classes and 8,054 images"
    ):
        load_cars196(cars)


def test_nothing_there(tmp_path):
    message = r"car_ims does not exist.*cars_annos\.mat.*gone since 2023.*d5c8f0aa497503f3"
    with pytest.raises(FileNotFoundError, match=message):
        load_cars196(tmp_path)


def test_missing_annotations(cars):
    (cars / "cars_annos.mat").unlink()
    with pytest.raises(FileNotFoundError, match=r"cars_annos\.mat does not exist"):
        load_cars196(cars, counts=COUNTS)


def test_missing_images_are_listed(cars):
    (cars / "car_ims/000003.jpg").unlink()
    with pytest.raises(FileNotFoundError, match=r"1 of the 26 images.*\n.*000003\.jpg"):
        load_cars196(cars, counts=COUNTS)


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (np.repeat(np.arange(1, 14), 2)[:-1], "test: 3 classes and 5 images, expected 3"),
        ([*np.repeat(np.arange(1, 14), 2)[:-1], 14], "test: 3 classes and 5 images, expected 3"),
    ],
)
def test_counts(cars, labels, message):
    write_car_annotations(cars, labels)
    with pytest.raises(ValueError, match=message):
        load_cars196(cars, counts=COUNTS)


def test_annotations_without_classes(cars):
    """As those of cars_test_annos.mat."""
    write_car_annotations(cars, [1] * 26, fields=CAR_FIELDS[:5])
    with pytest.raises(ValueError, match=r"cars_annos\.mat is broken.*relative_im_path and class"):
        load_cars196(cars, counts=COUNTS)


def test_truncated_annotations(cars):
    path = cars / "cars_annos.mat"
    path.write_bytes(path.read_bytes()[:1000])
    with pytest.raises(ValueError, match=r"cars_annos\.mat is broken"):
        load_cars196(cars, counts=COUNTS)


def test_an_archive_of_another_checksum_is_refused(cars):
    (cars / "car_ims").rename(cars / "elsewhere")
    (cars / "car_ims.tgz").write_bytes(b"other")
    with pytest.raises(ValueError, match=r"car_ims\.tgz is not the official file"):
        load_cars196(cars, download=True, counts=COUNTS)
