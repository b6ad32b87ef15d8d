"""Writes values and gradients of the programs of four papers to an .npz file, in float64.

`make reference-programs` runs it in `.venv-pml`, on checkouts of the programs' repositories on
GitHub at the commits that the Makefile names. The programs expect a GPU; their calls of `cuda` do
nothing here.
"""

import importlib.util
import sys
import types
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import numpy as np
import torch

CLASSES, COLUMNS = 6, 5


def module(path):
    """A module from a file."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


def gradients_of(value, *points):
    value.backward()
    return [point.grad.numpy().copy() for point in points]


def tensor(array):
    return torch.tensor(array, requires_grad=True)


def recall_at_k(folder, arrays, embeddings):
    """Three classes of four samples, in order, as the program needs them; unit embeddings."""
    program = module(folder / "RecallatK_surrogate/src/losses.py")
    for key, ks, anneal, temperature in (
        ("recall_at_k", [1, 2, 4], 0.01, 1),
        ("soft", [2], 0.2, 3),
    ):
        loss = program.RecallatK(anneal, 12, 3, COLUMNS, ks, [temperature] * len(ks), 0)
        points = tensor(embeddings)
        unit = torch.nn.functional.normalize(points)
        value = sum(loss(unit, query) for query in range(12))
        arrays[f"{key}/value"] = value.item()
        (arrays[f"{key}/gradient"],) = gradients_of(value, points)


def ada_face(folder, arrays, labels, embeddings, proxies):
    """Two batches with a momentum of 0.9."""
    program = module(folder / "AdaFace/head.py")
    head = program.AdaFace(COLUMNS, CLASSES, t_alpha=0.9, s=16.0)
    head.kernel.data = torch.tensor(proxies.T.copy())
    for number, scale in enumerate((10.0, 30.0)):
        points = tensor(scale * embeddings)
        head.kernel.grad = None
        norms = torch.norm(points, 2, 1, True)
        logits = head(points / norms, norms, torch.tensor(labels))
        value = torch.nn.functional.cross_entropy(logits, torch.tensor(labels))
        arrays[f"ada_face_{number}/value"] = value.item()
        (arrays[f"ada_face_{number}/gradient"],) = gradients_of(value, points)
        arrays[f"ada_face_{number}/weights_gradient"] = head.kernel.grad.numpy().T.copy()


def anti_collapse(folder, arrays, labels, embeddings, proxies):
    """The coding rates of the proxies of a batch, of all proxies, and of the samples."""
    sys.modules["batchminer"] = types.ModuleType("batchminer")
    program = module(folder / "Anti-Collapse-Loss/criteria/antico.py")
    for kind in ("batch_proxy", "all_proxy", "pair"):
        options = SimpleNamespace(
            n_classes=CLASSES, antico_gam1=1, antico_gam2=1, antico_eps=0.5, antico_w=1,
            antico_type=kind, loss_ac_w_align=1, embed_dim=COLUMNS, lr=1, loss_oproxy_lrmulti=1,
        )  # fmt: skip
        criterion = program.Criterion(options)
        criterion.proxies.data = torch.tensor(proxies)
        points = tensor(embeddings)
        unit = torch.nn.functional.normalize(points)
        value, _ = criterion.antico(
            unit, torch.tensor(labels), criterion.proxies, kind, num_classes=CLASSES
        )
        value = torch.exp(value)
        arrays[f"{kind}/value"] = value.item()
        value.backward()
        source = points if kind == "pair" else criterion.proxies
        arrays[f"{kind}/gradient"] = source.grad.numpy().copy()


def hier(folder, arrays, embeddings, proxies):
    """Costs of given triplets with given Gumbel noise, and distances in the ball."""
    sys.path.insert(0, str(folder / "HIER-CVPR23/hier"))
    program = module(folder / "HIER-CVPR23/hier/losses.py")
    rng = np.random.default_rng(3)
    triplets = rng.integers(0, 12, (3, 40))
    noise = rng.gumbel(size=(2, 40, CLASSES))
    loss = program.HIERLoss(CLASSES, COLUMNS, mrg=0.1, tau=0.1, hyp_c=0.1, clip_r=2.3)
    ball = program.hypnn.ToPoincare(0.1, ball_dim=COLUMNS, riemannian=False, clip_r=2.3)
    points, nodes = tensor(embeddings), tensor(proxies)
    distances = program.dist_matrix(ball(points), ball(nodes), c=0.1)
    draws = iter(noise)

    def gumbel_softmax(logits, dim, hard):
        soft = torch.softmax(logits + torch.tensor(next(draws)), dim)
        one_hot = torch.zeros_like(soft).scatter_(dim, soft.argmax(dim, keepdim=True), 1.0)
        return one_hot - soft.detach() + soft

    with mock.patch.object(program.F, "gumbel_softmax", gumbel_softmax):
        value = loss.compute_gHHC(
            points, nodes, distances, tuple(map(torch.tensor, triplets)), None
        )
    arrays.update({"hier/triplets": triplets, "hier/noise": noise.astype("float32")})
    arrays["hier/distances"] = distances.detach().numpy()
    arrays["hier/value"] = value.item()
    arrays["hier/gradient"], arrays["hier/weights_gradient"] = gradients_of(value, points, nodes)


def main(folder, path):
    torch.set_default_dtype(torch.float64)
    torch.Tensor.cuda = lambda self: self
    folder, rng = Path(folder), np.random.default_rng(0)
    labels, in_order = rng.integers(0, CLASSES - 1, 12), np.repeat(np.arange(3), 4)
    embeddings = rng.normal(size=(12, COLUMNS)) + rng.normal(size=(3, COLUMNS))[in_order]
    proxies = rng.normal(size=(CLASSES, COLUMNS))
    arrays = {"labels": labels, "embeddings": embeddings, "proxies": proxies}
    recall_at_k(folder, arrays, embeddings)
    ada_face(folder, arrays, labels, embeddings, proxies)
    anti_collapse(folder, arrays, labels, embeddings, proxies)
    hier(folder, arrays, embeddings, proxies)
    np.savez_compressed(path, **arrays)


if __name__ == "__main__":
    main(*sys.argv[1:])
