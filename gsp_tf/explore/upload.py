"""A file that somebody dropped on the page."""

from pathlib import Path
from typing import NamedTuple

import gradio


class Uploaded(NamedTuple):
    """A file that somebody sent, not read yet.

    Args:
        path: where Gradio keeps it.
        name: what it was called, for messages.
    """

    path: str
    name: str


def uploaded_file(payload, folder):
    """The file in what the browser sends of an image component.

    A request can name any file of the machine: Gradio makes sure of the path only where the request
    says that it is one.

    Args:
        payload: dict of Gradio; `None` if nothing is chosen.
        folder: where Gradio keeps uploads.

    Returns:
        `Uploaded`, or `None`.

    Raises:
        gradio.Error: if the image was not uploaded as a file.

    Example:
        >>> uploaded_file({"path": "uploads/0af3/1.png", "orig_name": "a.png"}, "uploads").name
        'a.png'
    """
    if payload is None:
        return None
    path = Path(payload.get("path") or "").resolve()
    if not path.is_relative_to(Path(folder).resolve()):
        raise gradio.Error("An image has to be uploaded as a file.")
    return Uploaded(str(path), Path(payload.get("orig_name") or path).name)
