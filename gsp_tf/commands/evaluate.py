"""`gsp-tf evaluate`: evaluate a run again, or re-rank its test images."""

from pathlib import Path

from gsp_tf._numbers import Count, Size
from gsp_tf.commands._recipes import require_run
from gsp_tf.runs import is_run

AT = (1, 5, 10)
TOKENS = 16


def command(
    run: str,
    *,
    rerank: list[str] = (),
    tokens: Size | None = None,
    at: list[Count] = (),
    out: str | None = None,
):
    """Evaluate a run again, and write its report.

    With --rerank, this re-ranks the test images of the last evaluation instead, which does not
    change. rank and verify also take embeddings that are not of a run.

    Args:
        run: Run folder.
        rerank: Ways to re-rank: k_reciprocal, query_expansion, database_augmentation, whitening,
            transport, or all.
        tokens: Local features of an image that transport compares; null is 16.
        at: Values of K of the metrics of --rerank; without any, 1, 5 and 10.
        out: JSON file for the metrics of --rerank; null is reranking.json in the run.
    """
    if Path(run).exists() and not is_run(run):
        raise ValueError(
            f"{run} is not a run folder; gsp-tf rank and gsp-tf verify take other embeddings."
        )
    require_run(run)
    check_tokens(tokens, rerank)
    if rerank:
        rerank_test_images(run, rerank, tokens, at, out)
        return
    if at or out:
        raise ValueError(
            "--at and --out are for --rerank; gsp-tf rank RUN prints other ranking metrics."
        )
    from gsp_tf.runs import open_run

    opened = open_run(run)
    opened.evaluate()
    opened.show()


def check_tokens(tokens, rerank):
    """Refuse a number of local features without transport, which alone compares them."""
    if tokens is not None and not {"transport", "all"} & set(rerank):
        raise ValueError("--tokens is for --rerank transport; give that too.")


def rerank_test_images(run, methods, tokens, at, out, **options):
    """Print and write the metrics of ways to re-rank the test images of a run."""
    from gsp_tf._files import locked
    from gsp_tf.commands._rankings import reranked, write_metrics
    from gsp_tf.evaluation import RERANKINGS
    from gsp_tf.runs import open_run, rerank_run

    methods, at = RERANKINGS if "all" in methods else methods, sorted(set(at)) or AT
    record = reranked(rerank_run(open_run(run), methods, tokens or TOKENS, at, **options))
    with locked(run):
        write_metrics(record, out or Path(run) / "reranking.json")
