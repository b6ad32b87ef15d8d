import numpy as np
import pytest
from miniatures import write_in_shop, write_in_shop_list

from gsp_tf.data import load_in_shop
from gsp_tf.recipe import DataRecipe

COUNTS = {"train": (10, 20), "query": (3, 3), "gallery": (3, 6)}


@pytest.fixture(params=["Img", "."])
def clothes(request, tmp_path):
    """Ten items to train, three to search."""
    write_in_shop(tmp_path, images=request.param)
    return tmp_path


def rows_of(folder):
    return (folder / "Eval/list_eval_partition.txt").read_text().splitlines()[2:]


def test_sets_labels_groups_and_pixels(clothes):
    sets = load_in_shop(clothes, counts=COUNTS)
    assert list(sets) == ["train", "query", "gallery"]
    assert sets["train"].class_names[:2] == ("id_00000001", "id_00000003")
    assert sets["train"].groups == ("WOMEN/Dresses",) * 10
    test = ("id_00000006", "id_00000002", "id_00000004")
    assert sets["query"].class_names == sets["gallery"].class_names == test
    assert sets["query"].groups == ("MEN/Denim",) * 3
    assert sets["query"].labels.tolist() == [0, 1, 2]
    np.testing.assert_array_equal(sets["gallery"].labels, np.repeat([0, 1, 2], 2))
    assert abs(int(sets["query"].image(1).mean()) - 23 * 5) <= 2


def test_protocols(clothes, published, check_protocols):
    published(load_in_shop, COUNTS)
    splits = check_protocols("in_shop", clothes)
    assert splits.gallery.class_names == splits.test.class_names
    assert splits.validation_gallery is splits.gallery


def test_the_published_counts_are_expected(clothes):
    message = "gallery: 3 classes and 6 images, expected 3,985 classes and 12,612 images"
    with pytest.raises(ValueError, match=message):
        load_in_shop(clothes)


def test_it_has_to_be_fetched_by_hand(tmp_path):
    message = r"list_eval_partition\.txt does not exist.*img\.zip.*by hand from .*InShopRetrieval"
    with pytest.raises(FileNotFoundError, match=message):
        load_in_shop(tmp_path)
    with pytest.raises(ValueError, match="data.download must be false with data.name=in_shop"):
        DataRecipe("in_shop", "clothes", download=True)


def test_missing_images_are_listed(clothes):
    next(clothes.rglob("id_00000002/02_1_gallery.jpg")).unlink()
    with pytest.raises(FileNotFoundError, match=r"1 of the 29 images.*\n.*02_1_gallery\.jpg"):
        load_in_shop(clothes, counts=COUNTS)


def test_a_list_that_was_cut_off(clothes):
    write_in_shop_list(clothes, rows_of(clothes)[:-1], announced=29)
    with pytest.raises(ValueError, match="lists 28 images, but its first line says '29'"):
        load_in_shop(clothes, counts=COUNTS)


def test_an_unknown_set(clothes):
    rows = rows_of(clothes)
    write_in_shop_list(clothes, [rows[0].replace("train", "val"), *rows[1:]])
    with pytest.raises(ValueError, match="not train, query or gallery:\n.* id_00000001 val"):
        load_in_shop(clothes, counts=COUNTS)


def test_a_broken_line(clothes):
    write_in_shop_list(clothes, [rows_of(clothes)[0], "img/1.jpg train"])
    with pytest.raises(ValueError, match="line 4: expected 'image_name item_id evaluation_status'"):
        load_in_shop(clothes, counts=COUNTS)


def test_the_list_of_another_benchmark(clothes):
    write_in_shop_list(clothes, rows_of(clothes), header="image_name evaluation_status")
    with pytest.raises(ValueError, match="line 2: expected 'image_name item_id evaluation_status'"):
        load_in_shop(clothes, counts=COUNTS)


def test_an_item_that_trains_and_tests(clothes):
    rows = rows_of(clothes)
    write_in_shop_list(clothes, [rows[0].replace("00000001 train", "00000006 train"), *rows[1:]])
    with pytest.raises(ValueError, match="same classes:\n  id_00000006\n"):
        load_in_shop(clothes, counts={**COUNTS, "train": (11, 20)})


def test_a_count_that_is_off(clothes):
    with pytest.raises(ValueError, match="query: 3 classes and 3 images, expected 3 classes and 4"):
        load_in_shop(clothes, counts={**COUNTS, "query": (3, 4)})
