import numpy as np

from gsp_tf.visual import draw_matches

GREY = np.full((40, 40, 3), 128, np.uint8)


def test_lines_join_the_centres_of_matched_cells():
    plan = np.zeros((2, 3))
    plan[0, 2], plan[1, 0] = 0.3, 0.1  # cells 0 and 7, and cells 3 and 1
    picture = draw_matches(GREY, GREY, plan, [0, 3], [1, 2, 7], grid=(4, 2), pixels=160)
    assert picture.shape == (160, 160 + 20 + 160, 3)
    colored = (picture.max(-1).astype(int) - picture.min(-1)) > 20
    start, end = (20, 40), (140, 180 + 120)  # rows and columns of cell 0 and cell 7
    top = 80 - round(0.15 * 260), 170  # of an arc
    for y, x in (start, end, top):
        assert colored[y, x]
    assert colored[60, 120] and colored[20, 180 + 120]  # cells 3 and 1
    few = draw_matches(GREY, GREY, plan, [0, 3], [1, 2, 7], grid=(4, 2), lines=1, pixels=160)
    is_new = (few.max(-1).astype(int) - few.min(-1)) > 20
    assert is_new[start] and not is_new[60, 120]
    none = draw_matches(GREY, GREY, 0 * plan, [0, 3], [1, 2, 7], grid=(4, 2), pixels=160)
    assert np.ptp(none.astype(int), axis=-1).max() == 0  # no colours
