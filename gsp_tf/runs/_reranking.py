"""Re-rank the test images of a run."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from numpy.typing import ArrayLike

from gsp_tf._console import show_progress
from gsp_tf.evaluation import RERANKINGS, PCAWhitening, Reranked, reranking_metrics
from gsp_tf.runs._evaluation import kept_embeddings
from gsp_tf.runs._tokens import TokenModel
from gsp_tf.runs.data import evaluation_batches
from gsp_tf.runs.ensemble import Ensemble

if TYPE_CHECKING:
    from gsp_tf.runs.run import Run


def rerank_run(
    run: "Run | Ensemble",
    methods: Sequence[str] = RERANKINGS,
    tokens: int = 16,
    at: Sequence[int] = (1, 5, 10),
    query_sources: ArrayLike | None = None,
    reference_sources: ArrayLike | None = None,
    whitening: PCAWhitening | None = None,
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
    sources = {"query_sources": query_sources, "reference_sources": reference_sources}
    others = {**sets, **sources, "whitening": whitening}
    return reranking_metrics(*searched, methods, at, **others)


def _token_sets(run, model, images, name):
    """Token sets of a set of images."""
    batches = evaluation_batches(run.recipe, images)
    description = f"Local features of the {name} images"
    return model.embed(show_progress(batches, description, len(batches)))
