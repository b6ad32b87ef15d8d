"""Finding the files of a set that cannot be read as images."""

import os
import warnings
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from gsp_tf.data.decode import UnreadableImageError, read_image
from gsp_tf.data.messages import bulleted
from gsp_tf.data.progress import show_progress


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


def check_readable(paths: Sequence[str], skip_unreadable: bool) -> set[str]:
    """Decodes every file and returns those that can be read.

    Args:
        paths: The files.
        skip_unreadable: Whether unreadable files are left out with a warning.

    Returns:
        The readable ones of `paths`.

    Raises:
        ValueError: If files are unreadable and `skip_unreadable` is false; it lists them.

    Example:
        >>> check_readable([], skip_unreadable=False)
        set()
    """
    errors = find_unreadable(paths)
    if errors and not skip_unreadable:
        raise refusal(errors, len(paths))
    if errors:
        warnings.warn(
            f"{len(errors)} of {len(paths)} files cannot be read as images and are left out:\n"
            f"{bulleted(errors)}",
            stacklevel=3,
        )
    return set(paths) - {error.path for error in errors}


def refusal(errors: Sequence[UnreadableImageError], num_files: int) -> ValueError:
    """The error about the unreadable files of a set, which lists them.

    Args:
        errors: One for each unreadable file.
        num_files: How many files were read.

    Returns:
        `ValueError`.

    Example:
        >>> print(refusal([UnreadableImageError("cat.jpg", "the file is empty")], 8))
        1 of 8 files cannot be read as images; repair or remove them, or go on without them
        (skip_unreadable, --skip-unreadable):
          cat.jpg: the file is empty
    """
    return ValueError(
        f"{len(errors)} of {num_files} files cannot be read as images; repair or remove "
        f"them, or go on without them (skip_unreadable, --skip-unreadable):\n{bulleted(errors)}"
    )


def _failure(path: str | os.PathLike) -> UnreadableImageError | None:
    try:
        read_image(path)
    except UnreadableImageError as error:
        return error
    return None
