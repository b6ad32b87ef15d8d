"""The training history as a CSV file."""

import csv
import io
from pathlib import Path

import keras

from gsp_tf._files import replace_text


class HistoryFile(keras.callbacks.Callback):
    """Adds a row with the logs of each epoch to a CSV file, which is replaced in one step.

    The first row that is written has the names: `epoch` and those of the logs, sorted. Logs that
    come later are left out.

    Args:
        path: file to write, or to continue with.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder:
        ...     history = HistoryFile(f"{folder}/history.csv")
        ...     history.on_epoch_end(0, {"loss": 0.5})
        ...     history.path.read_text().splitlines()
        ['epoch,loss', '0,0.5']
    """

    def __init__(self, path):
        super().__init__()
        self.path = Path(path)

    def on_epoch_end(self, epoch, logs=None):
        text = self.path.read_text(encoding="utf-8") if self.path.exists() else ""
        names = next(csv.reader([text.split("\n")[0]]), None) or ["epoch", *sorted(logs)]
        row = io.StringIO()
        writer = csv.DictWriter(row, names, extrasaction="ignore", lineterminator="\n")
        if not text:
            writer.writeheader()
        writer.writerow({"epoch": epoch, **logs})
        replace_text(self.path, text + row.getvalue())
