"""`gsp-tf clean`: images whose labels are probably wrong."""

from typing import Literal

from gsp_tf._numbers import Count
from gsp_tf.commands.dedup import show_new
from gsp_tf.runs import run_folder

_MOST_NAMED = 10
_MANY = 0.2


def command(
    sources: list[str],
    *,
    run: str | None = None,
    k: Count = 10,
    metric: Literal["euclidean", "cosine"] | None = None,
    out: str = "label_errors",
    table: Literal["csv", "parquet"] = "csv",
):
    """Find images whose neighbours disagree with their label.

    Ranks them by the votes of their nearest neighbours, with a suggested label, as a table and a
    page with pictures. Never changes a label or an image.

    Args:
        sources: Labelled images or embeddings, as for dedup; the first subfolder of a folder is the
            label.
        run: Run folder of the model that embeds images, or a pretrained network, such as
            efficientnet_lite0.
        k: Number of neighbours that vote.
        metric: Distance; null is that of the source, or euclidean.
        out: Folder to write. It keeps the embeddings of image files.
        table: Format of the table.
    """
    run = run and run_folder(run)
    from gsp_tf._console import counted, printable
    from gsp_tf.search import find_label_errors

    found = find_label_errors(sources, out, run, k, metric, table)
    show_new(found)
    if found.num_unlabelled:
        print(f"{counted(found.num_unlabelled, 'image')} without a label left out.")
    if len(found.alone):
        print(f"{counted(len(found.alone), 'image')} not judged: each is alone in its class.")
    print(
        f"The neighbours of {len(found.ranked):,} of {counted(len(found.names), 'image')} disagree "
        "with the label."
    )
    if len(found.ranked) > _MANY * len(found.names):
        print(
            "These are so many that the model does not tell the classes apart well: trust only the "
            "highest scores, or take another model."
        )
    for row in found.ranked[:_MOST_NAMED]:
        label, suggested = (
            found.class_names[of[row]] for of in (found.labels, found.votes.suggested)
        )
        decision = printable(f"{found.names[row]}: {label}, or {suggested}?")
        print(f"  {found.votes.scores[row]:.2f}  {decision}")
    print(f"Table: {found.table}\nPage: {found.page}")
