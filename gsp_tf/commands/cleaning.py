"""Duplicates and wrong labels: `dedup`, `clean`."""

from typing import Literal

from gsp_tf import search
from gsp_tf._console import bulleted, counted, printable
from gsp_tf._numbers import Count, NonNegative, Seed
from gsp_tf.recipe import load_recipe
from gsp_tf.runs import run_folder

_MOST_NAMED = 5


def dedup(
    sources: list[str],
    *,
    run: str | None = None,
    distance: NonNegative | None = None,
    thresholds: str | None = None,
    splits: str | None = None,
    out: str = "duplicates",
    table: Literal["csv", "parquet"] = "csv",
    seed: Seed = 0,
):
    """Find duplicates, and images that training and test share.

    Finds identical files, and near duplicates by their embeddings. Writes groups with a
    representative as a table and a page with pictures. Never changes, moves or deletes an image.
    Run it again after images were added: only new ones are embedded.

    Args:
        sources: Folders of images, image files, .csv files with the columns path and label, run
            folders, indexes, folders that embed wrote, Parquet files with the column embedding, and
            .npz files. With several sources, it also says which images they share.
        run: Run folder of the model that embeds images, or a pretrained network, such as
            efficientnet_lite0; without a model only identical files are found.
        distance: Distance up to which two images are near duplicates. By default it is measured on
            altered copies of the images.
        thresholds: File that calibrate wrote, whose distance of a match is taken.
        splits: Recipe that divides the images into training, validation and test.
        out: Folder to write. It keeps the embeddings of image files.
        table: Format of the table.
        seed: Seed of the samples.
    """
    run = run and run_folder(run)
    recipe = None if splits is None else load_recipe(splits)
    found = search.find_duplicates(sources, out, run, distance, thresholds, recipe, table, seed)
    _show_new(found)
    if found.distance is not None:
        print(f"Near duplicates are at most {found.distance:.4g} apart.")
    if found.measured is not None:
        shares = [f"{name} {100 * of:.0f} %" for name, of in found.measured.found.items()]
        print(
            f"Measured on {counted(found.measured.images, 'image')}: "
            f"{100 * found.measured.false_share:g} % of the images without a duplicate were as "
            f"near to another one, and it found these altered copies: {', '.join(shares)}."
        )
    if found.measured_in is not None:
        print(f"An earlier call measured this; remove {found.measured_in} to measure again.")
    in_groups = found.groups >= 0
    copies = in_groups & ~found.is_representative
    identical = int((copies & found.is_identical).sum())
    near = int(copies.sum()) - identical
    print(
        f"{counted(len(found.names), 'image')}: {counted(found.count, 'group')} of "
        f"{counted(int(in_groups.sum()), 'image')}, with {counted(identical, 'identical file')} "
        f"and {counted(near, 'near duplicate')} besides the representatives."
    )
    if found.num_mixed:
        print(f"{counted(found.num_mixed, 'group')} with images of different labels.")
    if found.recall < 1:
        print(f"The search found {100 * found.recall:.1f} % of the near pairs of 256 images.")
    _show_shared(found)
    print(f"Table: {found.table}\nPage: {found.page}")


def _show_new(found):
    """Print how many images were embedded, and which cannot be read."""
    if found.num_new is not None:
        print(f"Embedded {counted(found.num_new, 'new image')}.")
    if found.problems:
        reasons = [printable(f"{path}: {reason}") for path, reason in found.problems.items()]
        print(f"{counted(len(reasons), 'file')} cannot be read as images:\n{bulleted(reasons)}")


def _show_shared(found):
    """Print which images two sets share."""
    if found.sets is not None and not found.shared:
        print("The sets share no image.")
    for (one, other), (in_one, in_other) in found.shared.items():
        print(
            f"{printable(one)} and {printable(other)} share images: "
            f"{counted(len(in_one), 'image')} of {printable(one)} and {len(in_other):,} of "
            f"{printable(other)} are duplicates of each other, such as"
        )
        for row in in_one[:_MOST_NAMED]:
            same = in_other[found.groups[in_other] == found.groups[row]][0]
            print(f"  {printable(found.names[row])} and {printable(found.names[same])}")


_CLEAN_NAMED = 10
_MANY = 0.2


def clean(
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
    found = search.find_label_errors(sources, out, run, k, metric, table)
    _show_new(found)
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
    for row in found.ranked[:_CLEAN_NAMED]:
        label, suggested = (
            found.class_names[of[row]] for of in (found.labels, found.votes.suggested)
        )
        decision = printable(f"{found.names[row]}: {label}, or {suggested}?")
        print(f"  {found.votes.scores[row]:.2f}  {decision}")
    print(f"Table: {found.table}\nPage: {found.page}")
