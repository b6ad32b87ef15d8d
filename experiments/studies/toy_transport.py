"""Partial transport of a small map of colours, with and without smoothing (GSP, Fig. 2).

Half of the 100 pixels are red or blue, as the two prototypes are; μ = 0.2 is less than their share.
Compared are the weights of the linear programme, which is (P1) of the paper, and of the smoothed
problem (P2) for several ε, over draws of the colours' noise.
"""

import numpy as np
from scipy.optimize import linprog

from gsp_tf.ops import lipschitz_normalize, pairwise_distances, partial_transport
from gsp_tf.visual import HIT, INK, transparent_figure

MAP = ["r" * 5 + "g" * 5] * 5 + ["g" * 5 + "b" * 5] * 5
COLORS = {"r": (1, 0, 0), "g": (0, 1, 0), "b": (0, 0, 1)}
PROTOTYPES = np.array([COLORS["r"], COLORS["b"]], float)
OBJECTS = np.isin([list(line) for line in MAP], ["r", "b"])
NOISE, TRANSPORT_RATIO = 0.05, 0.2
SMOOTHINGS = (0.5, 5.0, 20.0, 100.0)


def color_map(seed):
    """The map `(10, 10, 3)` in [0, 1], with normal noise: every pixel has a cost of its own."""
    colors = np.array([[COLORS[letter] for letter in line] for line in MAP])
    noise = np.random.default_rng(seed).normal(scale=NOISE, size=colors.shape)
    return np.clip(colors + noise, 0, 1)


def costs(colors):
    """c_ij of GSP, `(2, 100)`: distances of the pixels from the prototypes, in the unit ball."""
    pixels = lipschitz_normalize(colors.reshape(-1, 3))
    return pairwise_distances(lipschitz_normalize(PROTOTYPES), pixels).numpy()


def linear_programme(cost, transport_ratio):
    """Plan `(m, n)` of least Σ c_ij π_ij with Σ_ij π_ij = μ, Σ_i π_ij <= 1/n and π >= 0."""
    m, n = cost.shape
    constraints = dict(A_ub=np.tile(np.eye(n), m), b_ub=np.full(n, 1 / n))
    whole = dict(A_eq=np.ones((1, m * n)), b_eq=[transport_ratio])
    return linprog(cost.ravel(), **constraints, **whole).x.reshape(m, n)


def plans(cost):
    """Plans `(2, 100)` of the linear programme and of every ε, by their names."""
    solved = {"linear programme": linear_programme(cost, TRANSPORT_RATIO)}
    for smoothing in SMOOTHINGS:
        _, plan = partial_transport(cost, TRANSPORT_RATIO, smoothing)
        solved[f"ε = {smoothing:g}"] = plan.numpy()
    return solved


def kept(weights):
    """Which red and blue pixels a solution keeps, bool `(50,)`.

    A pixel is kept if it weighs more than every pixel of the background, and more than half of the
    1/n that average pooling gives to each.
    """
    objects = OBJECTS.ravel()
    return weights[objects] > max(weights[~objects].max(), 0.5 / weights.size)


def measures(plan, cost, best_cost):
    """Numbers of one plan; `best_cost` is Σ c_ij π_ij of the linear programme."""
    weights, objects = plan.sum(axis=0) / TRANSPORT_RATIO, OBJECTS.ravel()
    transport_cost = (cost * plan).sum()
    return {
        "share of red and blue pixels kept": kept(weights).mean(),
        "share of weight on red and blue": weights[objects].sum(),
        "n × least weight of red and blue": weights.size * weights[objects].min(),
        "n × largest weight of background": weights.size * weights[~objects].max(),
        "Σ c π": transport_cost,
        "Σ c π above the linear programme": transport_cost - best_cost,
    }


def study(seeds: tuple[int, ...] = tuple(range(20))):
    """Seeds are those of the colours' noise; the picture is of the first."""
    rows = []
    for seed in seeds:
        cost = costs(color_map(seed))
        solved = plans(cost)
        best_cost = (cost * solved["linear programme"]).sum()
        for name, plan in solved.items():
            rows += [(name, seed, *item) for item in measures(plan, cost, best_cost).items()]
    colors = color_map(seeds[0])
    return rows, {"toy_transport": _picture(colors, plans(costs(colors)))}


def _picture(colors, solved):
    """The map and the weights of every plan, with the objects' outline."""
    figure = transparent_figure(6.2, 4.8)
    figure.set_layout_engine("constrained")
    first, *others = figure.subplots(2, 3).flat
    first.imshow(colors)
    first.set_title("map", color=INK, fontsize=10)
    first.set_xlabel(f"{OBJECTS.sum()} red and blue,\nμ n = {TRANSPORT_RATIO * OBJECTS.size:g}")
    for axes, (name, plan) in zip(others, solved.items(), strict=True):
        weights = plan.sum(axis=0) / TRANSPORT_RATIO
        share = weights[OBJECTS.ravel()].sum()
        shown = weights.size * weights.reshape(OBJECTS.shape)
        image = axes.imshow(shown, cmap="Greys", vmin=0, vmax=1 / TRANSPORT_RATIO)
        axes.set_title(name, color=INK, fontsize=10)
        axes.set_xlabel(f"keeps {kept(weights).sum()},\n{share:.0%} of the weight on them")
    for axes in (first, *others):
        rows, columns = np.nonzero(OBJECTS[:, 1:] != OBJECTS[:, :-1])
        axes.vlines(columns + 0.5, rows - 0.5, rows + 0.5, HIT, linewidth=1.2)
        rows, columns = np.nonzero(OBJECTS[1:] != OBJECTS[:-1])
        axes.hlines(rows + 0.5, columns - 0.5, columns + 0.5, HIT, linewidth=1.2)
        axes.set(xticks=[], yticks=[])
        axes.xaxis.label.set(color=INK, fontsize=8)
    bar = figure.colorbar(image, ax=[first, *others], fraction=0.03, pad=0.02)
    bar.set_label("n × weight", color=INK, fontsize=8)
    bar.ax.tick_params(colors=INK, labelsize=8)
    return figure
