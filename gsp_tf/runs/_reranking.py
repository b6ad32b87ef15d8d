"""Re-rank the test images of a run, also by the local features that its model weighs most."""

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import keras
import numpy as np
from keras import ops

from gsp_tf._console import show_progress
from gsp_tf._endless import refuse_endless
from gsp_tf._typing import Tensor
from gsp_tf.evaluation import RERANKINGS, Reranked, TokenSets, reranking_metrics
from gsp_tf.runs._evaluation import kept_embeddings
from gsp_tf.runs.data import evaluation_batches
from gsp_tf.runs.ensemble import Ensemble
from gsp_tf.runs.model import features_model
from gsp_tf.training import inference

if TYPE_CHECKING:
    from gsp_tf.runs.run import Run


def has_local_features(embedder: keras.Model) -> bool:
    """Whether an embedder has what a `TokenModel` needs: weights of places and a linear map."""
    has_weights = hasattr(embedder.get_layer("pooling"), "pooling_weights")
    return has_weights and all(layer.name == "embedding" for layer in _after_pooling(embedder))


class TokenModel:
    """The part of an embedder that gives local features and their pooling weights.

    The pooled feature of gsp is the weighted sum of local features, `Σ_j w_j f_j` (eq. 4.1 of the
    GSP paper). The embedding is a linear map W of it, at length 1. The tokens `W f_j` therefore lie
    in the space of the embedding, and their weighted sum has its direction (without the class
    token, if the embedding has it too). A bias b, after features of length 1, adds
    `||Σ_j w_j f_j|| b` to each token. `k` is the number of tokens to keep of an image, `None` for
    all. `grid` is the height and width of the map of local features, `None` where they form no
    rectangle.
    """

    def __init__(self, embedder: keras.Model, k: int | None = 16):
        self._features, self._pooling = features_model(embedder)
        if not has_local_features(embedder):
            layers = self._pooling, *_after_pooling(embedder)
            raise ValueError(
                "Matching of local features needs a pooling with weights, such as gsp, and after "
                "it at most a linear map; the model has "
                f"{', '.join(f'{type(layer).__name__} ({layer.name})' for layer in layers)}."
            )
        if k is not None and k < 1:
            raise ValueError(f"k must be at least 1; received {k}.")
        shape = self._features.output_shape[1:-1]
        count = int(np.prod(shape))
        side = math.isqrt(count)
        self.grid = shape if len(shape) == 2 else (side, side) if side * side == count else None
        self.k = count if k is None else min(k, count)
        channels = self._features.output_shape[-1]
        maps = [layer.get_weights() for layer in _after_pooling(embedder)]
        self._kernel, *self._bias = maps[0] if maps else [None]
        self.dim = channels if self._kernel is None else self._kernel.shape[1]
        self._forward = inference(self._features)

    def __call__(self, images: Tensor) -> TokenSets:
        """The token sets of images `(B, S, S, channels)`, pixels in [0, 255]."""
        local = self._forward(images)
        weights = ops.convert_to_numpy(self._pooling.pooling_weights(local))
        local = ops.convert_to_numpy(local)
        local = local.reshape(len(local), -1, local.shape[-1])
        weights = weights.reshape(len(local), -1)
        if self._kernel is not None:
            pooled = np.einsum("bn,bnc->bc", weights, local)
            local = local @ self._kernel
            for bias in self._bias:
                local += np.linalg.norm(pooled, axis=1)[:, None, None] * bias
        return TokenSets.pack(local, weights, self.k)

    def embed(self, batches: Iterable) -> TokenSets:
        """The token sets of finite batches of images and labels."""
        refuse_endless(batches, "batches")
        return TokenSets.join([self(images) for images, _ in batches])

    def none(self) -> TokenSets:
        """The token set of an image that cannot be read."""
        empty = TokenSets.pack(np.zeros((1, self.k, self.dim)), np.zeros((1, self.k)), self.k)
        return empty._replace(places=np.zeros_like(empty.places))


def _after_pooling(embedder):
    """The layers with weights from the pooled features to the embeddings."""
    names = [layer.name for layer in embedder.layers]
    layers = embedder.layers[names.index("pooling") + 1 :]
    return [layer for layer in layers if layer.weights and layer.name != "class_embedding"]


def rerank_run(
    run: "Run | Ensemble",
    methods: Sequence[str] = RERANKINGS,
    tokens: int = 16,
    at: Sequence[int] = (1, 5, 10),
    **options: Any,
) -> dict[str, Reranked]:
    """Measure ways to re-rank the test images of a run, as `reranking_metrics` does.

    The embeddings are those of the last evaluation, and a run without them is evaluated. Only
    transport reads the images again, for as many local features of an image as `tokens`. The other
    arguments are those of `reranking_metrics`.
    """
    if isinstance(run, Ensemble):
        raise ValueError(
            "This run holds the models of several folds; name the run folder of one of them."
        )
    model = TokenModel(run.learner.embedder, tokens) if "transport" in methods else None
    if kept_embeddings(run) is None:
        run.evaluate()
    found = run.test_embeddings()
    sets = {}
    if model is not None:
        sets["query_tokens"] = _token_sets(run, model, run.splits.test, "test")
        if found.references is not None:
            sets["reference_tokens"] = _token_sets(run, model, run.splits.gallery, "gallery")
    searched = found.queries, found.query_labels, found.references, found.reference_labels
    return reranking_metrics(*searched, methods, at, **sets, **options)


def _token_sets(run, model, images, name):
    batches = evaluation_batches(run.recipe, images)
    description = f"Local features of the {name} images"
    return model.embed(show_progress(batches, description, len(batches)))
