"""Writes values and gradients of the programs of four papers to an .npz file, in float64.

`make reference-programs` runs it in `.venv-pml`, on checkouts of the programs' repositories on
GitHub at the commits that the Makefile names. The programs expect a GPU; their calls of `cuda` do
nothing here.

Left out is what the programs cannot compute or round off: RS@k of classes of one sample, which is
NaN; AdaFace of one sample or of zero vectors, likewise; RS@k of zero vectors, whose gradient is
1e12 times that of others; and HIER of samples at a proxy, where the gradient of a distance is one
of its rounding.
"""

import importlib.util
import sys
import types
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import numpy as np
import torch
from torch.nn.functional import cross_entropy, normalize

CLASSES, COLUMNS = 6, 5

# Key, batch, number of its classes in order, the k, temperatures of similarities and of ranks.
RECALL_AT_K = (
    ("recall_at_k", "plain", 3, [1, 2, 4], 0.01, 1),
    ("soft", "plain", 3, [2], 0.2, 3),
    ("recall_tied", "tied", 3, [1, 2, 4], 0.1, 0.5),
    ("recall_pairs", "tied", 6, [1, 3, 8], 0.05, 2),
    ("recall_one_class", "tied", 1, [1, 5], 0.1, 1),
    ("recall_equal", "equal", 3, [1, 2, 4], 0.01, 1),
)
# Key, batch, factors of the embeddings, one after the other, and arguments.
ADA_FACE = (
    ("ada_face", "plain", (10.0, 30.0), {"t_alpha": 0.9, "s": 16.0}),
    ("ada_face_sharp", "tied", (20.0, 70.0), {"m": 0.25, "h": 1.5, "s": 32.0, "t_alpha": 0.5}),
    ("ada_face_equal", "equal", (10.0,), {"m": 0.5, "s": 8.0, "t_alpha": 1.0}),
    ("ada_face_on_proxies", "on_proxies", (10.0,), {"h": 0.8, "s": 4.0, "t_alpha": 0.9}),
)
# Key, source, batch, gam1, gam2 and eps.
ANTI_COLLAPSE = (
    ("batch_proxy", "batch_proxy", "plain", 1, 1, 0.5),
    ("all_proxy", "all_proxy", "plain", 1, 1, 0.5),
    ("pair", "pair", "plain", 1, 1, 0.5),
    ("batch_proxy_tied", "batch_proxy", "tied", 2, 0.5, 0.2),
    ("all_proxy_tied", "all_proxy", "tied", 1, 0.3, 0.05),
    ("pair_tied", "pair", "tied", 3, 0.2, 1.5),
    ("batch_proxy_equal", "batch_proxy", "equal", 1, 1, 0.5),
    ("pair_equal", "pair", "equal", 1, 2, 0.5),
    ("pair_zeros", "pair", "zeros", 1, 1, 0.5),
)
# Key, batch, margin, tau, curvature and radius.
HIER = (
    ("hier", "plain", 0.1, 0.1, 0.1, 2.3),
    ("hier_curved", "plain", 0.4, 0.5, 0.5, 1.5),
    ("hier_flat", "plain", 0.2, 0.3, 0, 2.3),
    ("hier_tied", "tied", 0.1, 0.2, 0.1, 2.3),
    ("hier_equal", "equal", 0.3, 0.1, 0.3, 1.0),
    ("hier_zeros", "zeros", 0.1, 0.1, 0.1, 2.3),
)


def module(path):
    """A module from a file."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


def tensor(array):
    return torch.tensor(array, requires_grad=True)


def put(arrays, key, value, **points):
    """Stores a value and its gradients, each under its own name."""
    value.backward()
    arrays[f"{key}/value"] = value.item()
    arrays.update({f"{key}/{name}": point.grad.numpy().copy() for name, point in points.items()})


def recall_at_k(folder, arrays, batches):
    """Classes of equal size, in order, as the program needs them; unit embeddings."""
    program = module(folder / "RecallatK_surrogate/src/losses.py")
    for key, name, classes, ks, anneal, temperature in RECALL_AT_K:
        loss = program.RecallatK(anneal, 12, classes, COLUMNS, ks, [temperature] * len(ks), 0)
        points = tensor(batches[name]["embeddings"])
        unit = normalize(points)
        put(arrays, key, sum(loss(unit, query) for query in range(12)), gradient=points)


def ada_face(folder, arrays, batches):
    program = module(folder / "AdaFace/head.py")
    for key, name, factors, arguments in ADA_FACE:
        batch = batches[name]
        head, labels = program.AdaFace(COLUMNS, CLASSES, **arguments), torch.tensor(batch["labels"])
        for number, factor in enumerate(factors):
            points, weights = tensor(factor * batch["embeddings"]), tensor(batch["proxies"])
            del head.kernel
            head.kernel = weights.T
            norms = torch.norm(points, 2, 1, True)
            value = cross_entropy(head(points / norms, norms, labels), labels)
            put(arrays, f"{key}_{number}", value, gradient=points, weights_gradient=weights)


def anti_collapse(folder, arrays, batches):
    """The coding rates of the proxies of a batch, of all proxies, and of the samples."""
    sys.modules["batchminer"] = types.ModuleType("batchminer")
    program = module(folder / "Anti-Collapse-Loss/criteria/antico.py")
    for key, kind, name, inner, outer, epsilon in ANTI_COLLAPSE:
        batch = batches[name]
        options = SimpleNamespace(
            n_classes=CLASSES, antico_gam1=inner, antico_gam2=outer, antico_eps=epsilon, antico_w=1,
            antico_type=kind, loss_ac_w_align=1, embed_dim=COLUMNS, lr=1, loss_oproxy_lrmulti=1,
        )  # fmt: skip
        criterion = program.Criterion(options)
        points, weights = tensor(batch["embeddings"]), tensor(batch["proxies"])
        value, _ = criterion.antico(
            normalize(points), torch.tensor(batch["labels"]), weights, kind, num_classes=CLASSES
        )
        put(arrays, key, torch.exp(value), gradient=points if kind == "pair" else weights)


def hier(folder, arrays, batches):
    """Costs of given triplets with given Gumbel noise, and distances in the ball."""
    sys.path.insert(0, str(folder / "HIER-CVPR23/hier"))
    program = module(folder / "HIER-CVPR23/hier/losses.py")
    rng = np.random.default_rng(3)
    triplets = rng.integers(0, 12, (3, 40))
    noise = rng.gumbel(size=(2, 40, CLASSES))
    arrays.update({"hier/triplets": triplets, "hier/noise": noise.astype("float32")})
    for key, name, margin, tau, curvature, radius in HIER:
        loss = program.HIERLoss(CLASSES, COLUMNS, margin, tau, curvature, radius)
        points, nodes = tensor(batches[name]["embeddings"]), tensor(batches[name]["proxies"])
        # At curvature 0 its own map divides by 0; the samples are unit vectors there.
        ball = program.hypnn.ToPoincare(
            curvature, ball_dim=COLUMNS, riemannian=False, clip_r=radius
        )
        distances = loss.dist_f(*map(ball if curvature else normalize, (points, nodes)))
        draws = iter(noise)

        def gumbel_softmax(logits, dim, hard, draws=draws):
            soft = torch.softmax(logits + torch.tensor(next(draws)), dim)
            one_hot = torch.zeros_like(soft).scatter_(dim, soft.argmax(dim, keepdim=True), 1.0)
            return one_hot - soft.detach() + soft

        with mock.patch.object(program.F, "gumbel_softmax", gumbel_softmax):
            value = loss.compute_gHHC(
                points, nodes, distances, tuple(map(torch.tensor, triplets)), None
            )
        arrays[f"{key}/distances"] = distances.detach().numpy()
        put(arrays, key, value, gradient=points, weights_gradient=nodes)


def main(folder, path):
    torch.set_default_dtype(torch.float64)
    torch.Tensor.cuda = lambda self: self
    folder, rng = Path(folder), np.random.default_rng(0)
    labels, in_order = rng.integers(0, CLASSES - 1, 12), np.repeat(np.arange(3), 4)
    embeddings = rng.normal(size=(12, COLUMNS)) + rng.normal(size=(3, COLUMNS))[in_order]
    proxies = rng.normal(size=(CLASSES, COLUMNS))
    plain = {"labels": labels, "embeddings": embeddings, "proxies": proxies}
    tied = {key: array.copy() for key, array in plain.items()}
    tied["embeddings"][[1, 9]] = embeddings[[0, 8]]  # of one class, in order
    tied["embeddings"][4] = embeddings[0]  # of two classes
    tied["proxies"][1] = proxies[0]
    zeros = {key: array.copy() for key, array in plain.items()}
    zeros["embeddings"][[2, 5]] = 0.0
    batches = {
        "plain": plain,
        "tied": tied,
        "equal": plain | {"labels": 0 * labels, "embeddings": 0 * embeddings + embeddings[0]},
        "on_proxies": plain | {"embeddings": proxies[labels]},
        "zeros": zeros,
    }
    arrays = dict(plain)
    for name in list(batches)[1:]:
        arrays |= {f"{name}/{key}": array for key, array in batches[name].items()}
    for program in (recall_at_k, ada_face, anti_collapse, hier):
        program(folder, arrays, batches)
    np.savez_compressed(path, **arrays)


if __name__ == "__main__":
    main(*sys.argv[1:])
