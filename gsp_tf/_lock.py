"""One process at a time writes a folder."""

import contextlib
from pathlib import Path

from filelock import FileLock, Timeout

from gsp_tf._files import LOCK_NAME, remove_partial


@contextlib.contextmanager
def locked(folder):
    """Keep other processes and threads from writing a folder until the block ends.

    The lock is one of the operating system on the file `.lock` in the folder: it ends with the
    process, however that ends; the file stays. Who has a folder may lock it again. Nobody is kept
    from reading. What a killed process was writing in the folder is removed. A folder that is made
    for this and holds nothing after an error is removed.

    Args:
        folder: the folder; made if it is not there.

    Returns:
        context manager.

    Raises:
        BlockingIOError: if another process or thread has locked the folder.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder, locked(f"{folder}/run"):
        ...     [file.name for file in Path(folder, "run").iterdir()]
        ['.lock']
    """
    folder = Path(folder)
    made = [path for path in (folder, *folder.parents) if not path.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    lock = FileLock(folder.resolve() / LOCK_NAME, is_singleton=True)
    try:
        lock.acquire(blocking=False)
    except Timeout as error:
        raise BlockingIOError(
            f"Another process is writing {folder}. Wait until it has ended, or choose another "
            "folder."
        ) from error
    try:
        remove_partial(folder)
        yield
    except BaseException:
        if made and folder.is_dir() and [path.name for path in folder.iterdir()] == [LOCK_NAME]:
            (folder / LOCK_NAME).unlink()
            with contextlib.suppress(OSError):  # another process has made something in it
                for path in made:
                    path.rmdir()
        raise
    finally:
        lock.release()
