"""Pages with the pictures of duplicates and of label errors."""

import numpy as np

from gsp_tf._console import counted
from gsp_tf.evaluation import ExactSearch
from gsp_tf.search.pages import image_tile
from gsp_tf.visual import GallerySection, Picture, write_gallery_page

_MOST_GROUPS = 200
_MOST_PICTURES = 24
_MOST_SHOWN = 200
_NEIGHBOURS = 4


def ordered_rows(found):
    """The rows of the images in groups, group by group, with the representative first."""
    rows = np.flatnonzero(found.groups >= 0)
    is_other = rows != found.representatives[rows]
    return rows[np.lexsort((found.names[rows], is_other, found.groups[rows]))]


def write_duplicates_page(found, sizes):
    """The page: groups that sets share first, then the largest."""
    members = {}
    for row in ordered_rows(found):
        members.setdefault(found.groups[row], []).append(row)
    shared = {group for pair in found.shared.values() for group in found.groups[pair[0]].tolist()}
    order = sorted(members, key=lambda group: (group not in shared, -len(members[group]), group))

    def pictures(rows):
        for row in rows[:_MOST_PICTURES]:
            kind = "identical" if found.is_identical[row] else "near"
            is_best = found.is_representative[row]
            of_set = None if found.sets is None else _short(found.sets[row])
            notes = [found.labels[row], of_set]
            notes += [f"{sizes[row, 0]} x {sizes[row, 1]}"] if sizes[row, 0] else []
            if not is_best and np.isfinite(found.distances[row]):
                notes.append(f"{found.distances[row]:.4f} away")
            yield Picture(
                str(found.names[row]),
                "representative" if is_best else kind,
                " · ".join(filter(None, notes)),
                is_best,
            )

    sections = (
        GallerySection(
            f"Group {group}: {len(members[group])} images"
            + (", in several sets" if group in shared else ""),
            f"The first {_MOST_PICTURES} are shown."
            if len(members[group]) > _MOST_PICTURES
            else "",
            pictures(members[group]),
        )
        for group in order[:_MOST_GROUPS]
    )
    of = f"The {_MOST_GROUPS} first of " if len(order) > _MOST_GROUPS else ""
    near = ""
    if found.distance is not None:
        near = f"Near duplicates are at most {found.distance:.4g} apart. "
    write_gallery_page(
        found.page,
        "Duplicates",
        f"{of}{counted(len(order), 'group')} among {len(found.names):,} images. {near}Groups that "
        "sets share come first, then the largest. The representative has most pixels.",
        sections,
        image_tile,
        min(len(order), _MOST_GROUPS),
    )


def write_labels_page(found, embeddings, metric):
    """The page: the clearest images, each beside its nearest neighbours."""
    votes, shown = found.votes, found.ranked[:_MOST_SHOWN]
    neighbours = np.empty((0, 0), int)
    if len(shown):
        count = min(_NEIGHBOURS, len(embeddings) - 1)
        neighbours, _ = ExactSearch(embeddings, metric)(embeddings[shown], count, shown)

    def pictures(row, others):
        yield Picture(str(found.names[row]), _label(found, row), "this image", True)
        for rank, other in enumerate(others, start=1):
            yield Picture(str(found.names[other]), _label(found, other), f"neighbour {rank}")

    sections = (
        GallerySection(
            f"{_label(found, row)}, or {found.class_names[votes.suggested[row]]}?",
            f"Score {votes.scores[row]:.2f}: the suggested label has "
            f"{100 * votes.suggested_shares[row]:.0f} % of the votes, the given one "
            f"{100 * votes.given_shares[row]:.0f} %.",
            pictures(row, others),
        )
        for row, others in zip(shown, neighbours, strict=True)
    )
    first = f"The {_MOST_SHOWN} clearest of " if len(found.ranked) > _MOST_SHOWN else ""
    write_gallery_page(
        found.page,
        "Label errors",
        f"{first}{len(found.ranked):,} images of {len(found.names):,} whose nearest neighbours "
        "have another label. Decide by the pictures: rare views of a class are among them too.",
        sections,
        image_tile,
        len(shown),
    )


def _short(name):
    """The last two parts of a path, to fit in a line; other names as they are."""
    return "/".join(str(name).split("/")[-2:])


def _label(found, row):
    return found.class_names[found.labels[row]]
