"""Pictures of the studies on disk."""

from pathlib import Path

from gsp_tf.files import replacing


def save(figure, path, dpi=150):
    """Write a figure as PNG, whole or not at all.

    Args:
        figure: matplotlib Figure.
        path: file to write; its folder is made.
        dpi: pixels an inch.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as temporary:
        metadata = {"Software": None}
        figure.savefig(temporary, format="png", dpi=dpi, facecolor="white", metadata=metadata)
