import numpy as np
import pytest
from PIL import Image
from scipy.optimize import brentq
from scipy.special import expit, logsumexp


@pytest.mark.parametrize("transport_ratio", [0.2, 0.25, 0.37])
def test_the_linear_programme_takes_the_cheapest_pixels(script, transport_ratio):
    cost = np.random.default_rng(0).uniform(size=(3, 14))
    plan = script.linear_programme(cost, transport_ratio)
    left, expected = transport_ratio, np.zeros_like(cost)
    for pixel in np.argsort(cost.min(axis=0)):
        expected[cost[:, pixel].argmin(), pixel] = min(left, 1 / 14)
        left -= expected[:, pixel].sum()
    np.testing.assert_allclose(plan, expected, atol=1e-12)


def test_a_pixel_is_kept_above_the_background_and_half_of_the_average(script):
    objects = script.OBJECTS.ravel()
    weights = np.where(objects, 0.016, 0.004)
    assert objects.sum() == 50 and script.kept(weights).all()
    pixels = np.flatnonzero(objects)
    weights[pixels[3]], weights[pixels[5]] = 0.0045, 0.0055
    assert np.flatnonzero(~script.kept(weights)).tolist() == [3]
    weights[np.flatnonzero(~objects)[7]] = 0.006
    assert np.flatnonzero(~script.kept(weights)).tolist() == [3, 5]
    weights[np.flatnonzero(~objects)[7]] = 0.03
    assert not script.kept(weights).any()


def test_numbers_and_picture_of_two_seeds(script, tmp_path, capsys):
    script.main(str(tmp_path / "results"), str(tmp_path / "figures"), seeds=(0, 1))
    values = script.records.read(tmp_path / "results" / "toy_transport.csv")
    assert list(values) == ["linear programme", "ε = 0.5", "ε = 5", "ε = 20", "ε = 100"]
    assert len(capsys.readouterr().out.splitlines()) == 7

    share, weight = "share of red and blue pixels kept", "share of weight on red and blue"
    assert values["linear programme"][share] == pytest.approx({0: 0.4, 1: 0.4}, abs=1e-5)
    assert values["ε = 5"][share] == values["ε = 20"][share] == {0: 1, 1: 1}
    for seed in (0, 1):
        above = [row["Σ c π above the linear programme"][seed] for row in values.values()]
        assert above[0] == 0 and above[1] > above[2] > above[3] > above[4] > 0

    colors = script.color_map(1).reshape(-1, 3)
    colors /= np.maximum(1, np.linalg.norm(colors, axis=1, keepdims=True))
    prototypes = np.array([[1, 0, 0], [0, 0, 1]])
    cost = np.linalg.norm(prototypes[:, None] - colors, axis=-1)
    log_s = logsumexp(-5 * cost, axis=0)
    taken = expit(brentq(lambda x: expit(x + log_s).sum() - 20, -50, 50) + log_s)
    on_objects = taken[script.OBJECTS.ravel()]
    assert values["ε = 5"][weight][1] == pytest.approx(on_objects.sum() / 20, rel=1e-4)
    least = values["ε = 5"]["n × least weight of red and blue"][1]
    assert least == pytest.approx(on_objects.min() * 5, rel=1e-4)

    with Image.open(tmp_path / "figures" / "toy_transport.png") as file:
        file.load()
        assert min(file.size) > 600
