"""The loaders of published sets, on miniatures in the official layouts."""

import shutil
import tarfile
import zipfile

import numpy as np
import pytest
from miniatures import (
    BIRDS,
    CAR_FIELDS,
    CARS,
    CLOTHES,
    DIGITS,
    HUNDRED,
    PRODUCTS,
    TEN,
    write_car_annotations,
    write_cars196,
    write_cub200,
    write_in_shop,
)

from gsp_tf import data

ITEMS = ["id_00000006", "id_00000002", "id_00000004"]
KINDS = ["toaster", "bicycle", "toaster"]


@pytest.mark.parametrize(
    ("miniature", "part", "names", "groups", "pixel"),
    [
        (BIRDS, "test", [f"0{i}.Bird_{i}" for i in (11, 12, 13)], [""] * 3, 21),
        (CARS, "test", [f"Car {i} Coupé" for i in (11, 12, 13)], [""] * 3, 21),
        (PRODUCTS, "test", ["toaster/11", "bicycle/12", "toaster/13"], KINDS, 22),
        (CLOTHES, "query", ITEMS, ["MEN/Denim"] * 3, 23),
        (CLOTHES, "gallery", ITEMS, ["MEN/Denim"] * 3, 22),
    ],
)
def test_names_groups_labels_and_pixels(tmp_path, miniature, part, names, groups, pixel):
    miniature.write(tmp_path)
    sets = miniature.load(tmp_path, counts=miniature.counts)
    assert list(sets) == list(miniature.counts)
    images = sets[part]
    assert (images.class_names, images.groups) == (tuple(names), tuple(groups))
    assert images.labels.tolist() == np.repeat([0, 1, 2], len(images) // 3).tolist()
    np.testing.assert_array_equal(sets["train"].labels, np.repeat(np.arange(10), 2))
    image = images.image(1)
    assert image.shape == (6, 8, 3) and abs(int(image.mean()) - pixel * 5) <= 2
    grey = miniature.load(tmp_path, channels=1, counts=miniature.counts)[part]
    assert grey.image(1).shape == (6, 8, 1)


def test_birds_are_in_the_order_of_their_numbers(tmp_path):
    write_cub200(tmp_path)
    path = tmp_path / "CUB_200_2011" / "classes.txt"
    path.write_text("\n".join(reversed(path.read_text().splitlines())))
    images = data.load_cub200(tmp_path, counts=BIRDS.counts)["train"]
    assert images.class_names[::9] == ("001.Bird_1", "010.Bird_10")


def test_clothes_in_the_other_official_folder(tmp_path):
    write_in_shop(tmp_path, images=".")
    sets = data.load_in_shop(tmp_path, counts=CLOTHES.counts)
    assert sets["train"].class_names[:2] == ("id_00000001", "id_00000003")
    assert sets["train"].groups == ("WOMEN/Dresses",) * 10


def test_the_published_counts_are_expected(tmp_path):
    CLOTHES.write(tmp_path)
    expected = "gallery: 3 classes and 6 images, expected 3,985 classes and 12,612 images"
    with pytest.raises(ValueError, match=expected):
        CLOTHES.load(tmp_path)


def test_a_missing_file(tmp_path):
    for miniature, name in (
        (BIRDS, "CUB_200_2011/image_class_labels.txt"),
        (TEN, "cifar-10-batches-bin/data_batch_3.bin"),
    ):
        miniature.write(tmp_path)
        (tmp_path / name).unlink()
        with pytest.raises(FileNotFoundError, match=f"{name} does not exist"):
            miniature.load(tmp_path, counts=miniature.counts)


IMAGES, LABELS = (f"CUB_200_2011/{name}.txt" for name in ("images", "image_class_labels"))
TRAIN, TEST = (f"Stanford_Online_Products/Ebay_{split}.txt" for split in ("train", "test"))
LIST = "Eval/list_eval_partition.txt"


@pytest.mark.parametrize(
    ("miniature", "name", "old", "new", "message"),
    [
        (BIRDS, IMAGES, "2 001.", "two 001.", "s.txt, line 2: .*'image_id imag"),
        (BIRDS, LABELS, "26 13", "26 14", "test: 3 .* 5 images, exp"),
        (PRODUCTS, TRAIN, "3 2 1 b", "3 b", "n.txt, line 4: .*received '3 b"),
        (CLOTHES, LIST, "29\n", "30\n", "lists 29 images, but its first line says '30'"),
        (CLOTHES, LIST, "01 train", "01 val", "not train, query or gallery:\n.* id_00000001 val"),
        (PRODUCTS, TEST, "24 12 1", "24 2 1", "same classes:\n  bicycle/2\n"),
    ],
)
def test_broken_lists(tmp_path, miniature, name, old, new, message):
    miniature.write(tmp_path)
    text = (tmp_path / name).read_text()
    assert old in text
    (tmp_path / name).write_text(text.replace(old, new, 1))
    counts = miniature.counts | ({"test": (4, 9)} if name == TEST else {})
    with pytest.raises(ValueError, match=message):
        miniature.load(tmp_path, counts=counts)


@pytest.mark.parametrize(
    ("labels", "fields", "kept", "message"),
    [
        ([*np.repeat(np.arange(1, 14), 2)[:-1], 14], CAR_FIELDS, None, "test: 3 .* 5 images"),
        ([1] * 26, CAR_FIELDS[:5], None, r"annos\.mat is broken.*relative_im_path and class"),
        ([1] * 26, CAR_FIELDS, 1000, r"cars_annos\.mat is broken"),
    ],
)
def test_broken_annotations_of_cars(tmp_path, labels, fields, kept, message):
    write_cars196(tmp_path)
    write_car_annotations(tmp_path, labels, fields=fields)
    path = tmp_path / "cars_annos.mat"
    path.write_bytes(path.read_bytes()[:kept])
    with pytest.raises(ValueError, match=message):
        data.load_cars196(tmp_path, counts=CARS.counts)


@pytest.mark.parametrize(
    ("miniature", "name"),
    [
        (BIRDS, "CUB_200_2011/images/011.Bird_11/Bird_11_0002_2.jpg"),
        (CARS, "car_ims/000022.jpg"),
        (PRODUCTS, "Stanford_Online_Products/toaster_final/111085122811_1.JPG"),
        (CLOTHES, "Img/img/MEN/Denim/id_00000006/02_1_gallery.jpg"),
    ],
)
def test_missing_and_broken_images_are_named_before_training(tmp_path, miniature, name):
    miniature.write(tmp_path)
    part = list(miniature.counts)[-1]
    whole = miniature.load(tmp_path, counts=miniature.counts)[part]
    path = tmp_path / name
    path.write_bytes(bytes(50))
    with pytest.raises(ValueError, match=rf"1 of \d+ files cannot(.|\n)*{path.name}: not an image"):
        miniature.load(tmp_path, counts=miniature.counts)
    with pytest.warns(UserWarning, match=r"1 of \d+ files"):
        images = miniature.load(tmp_path, skip_unreadable=True, counts=miniature.counts)[part]
    assert images.labels.tolist() == np.delete(whole.labels, 1).tolist()
    assert images.class_names == whole.class_names
    path.unlink()
    with pytest.raises(FileNotFoundError, match=rf"1 of the .* are missing:\n.*{path.name}"):
        miniature.load(tmp_path, skip_unreadable=True, counts=miniature.counts)


@pytest.mark.parametrize("miniature", [BIRDS, CARS, PRODUCTS, TEN, HUNDRED, DIGITS])
def test_download(tmp_path, monkeypatch, miniature):
    official, module, name = tmp_path / "official", *miniature.source
    official.mkdir()
    miniature.write(official)
    remotes = tuple(serve(official, remote) for remote in getattr(module, name).remotes)
    monkeypatch.setattr(module, name, getattr(module, name)._replace(remotes=remotes))
    if len(remotes) > 1:  # one of them is there already
        (tmp_path / "new").mkdir()
        shutil.copy(official / remotes[-1].name, tmp_path / "new")
    miniature.load(tmp_path / "new", download=True, counts=miniature.counts)
    left = sorted(path.name for path in (tmp_path / "new").iterdir())
    assert left == sorted({n for remote in remotes for n in (remote.name, remote.target)})


def serve(official, remote):
    """Publishes a file, or an archive of a folder and more, at an address without a checksum."""
    path = official / remote.name
    if remote.name.endswith(".zip"):
        with zipfile.ZipFile(path, "w") as archive:
            for file in (official / remote.folder).rglob("*.*"):
                archive.write(file, file.relative_to(official))
            archive.writestr("__MACOSX/notes.txt", "left out")
    elif remote.folder:
        with tarfile.open(path, "w:gz") as archive:
            archive.add(official / remote.folder, remote.folder)
            archive.add(__file__, "attributes.txt")
    return remote._replace(url=path.as_uri(), md5=None)
