"""Finding the files of a set that cannot be read as images."""

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from gsp_tf._console import bulleted, counted, show_progress
from gsp_tf.data.decode import UnreadableImageError, check_image


def find_unreadable(paths: Sequence[str | os.PathLike]) -> list[UnreadableImageError]:
    """Decodes every file in full and collects those that fail.

    Args:
        paths: The files.

    Returns:
        One error for each unreadable file, in the order of `paths`.

    Example:
        >>> [str(error) for error in find_unreadable(["missing.png"])]
        ['missing.png: there is no such file']
    """
    with ThreadPoolExecutor() as pool:
        outcomes = show_progress(pool.map(_failure, paths), "Checking images", len(paths))
        return [error for error in outcomes if error is not None]


def refusal(errors: Sequence[UnreadableImageError], num_files: int) -> str:
    """What an error says about the unreadable files of a set.

    Args:
        errors: One for each unreadable file.
        num_files: How many files were read.

    Returns:
        The text, which lists them.

    Example:
        >>> print(refusal([UnreadableImageError("cat.jpg", "the file is empty")], 8))
        1 of 8 files cannot be read as images; repair or remove them, or continue without them
        (skip_unreadable, --skip-unreadable):
          cat.jpg: the file is empty
    """
    return (
        f"{len(errors):,} of {counted(num_files, 'file')} cannot be read as images; repair or "
        f"remove them, or continue without them (skip_unreadable, --skip-unreadable):\n"
        f"{bulleted(errors)}"
    )


def _failure(path: str | os.PathLike) -> UnreadableImageError | None:
    try:
        check_image(path)
    except UnreadableImageError as error:
        return error
    return None
