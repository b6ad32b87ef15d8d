"""Print the results of commands."""

import sys

from gsp_tf._console import counted


def exit_code(runs):
    """The exit code of training: 1, with a message, if a run diverged, 130 if interrupted, or 0."""
    statuses = {run.status for run in runs}
    if "diverged" in statuses:
        print(
            "gsp-tf: error: the loss was not finite; the run holds the model that was best until "
            "then. Try a smaller --training.learning_rate.",
            file=sys.stderr,
        )
        return 1
    return 130 if "interrupted" in statuses else 0


def show_untrained(run):
    """Print that the model of a run folder is the untrained one, if it is."""
    from gsp_tf.runs import RunFolder, untrained_note

    note = untrained_note(RunFolder(run).metrics())
    if note is not None:
        print(f"{run}: {note}")


def show_embeddings(folder):
    """Print what a complete `EmbeddingsFolder` holds."""
    metadata = folder.metadata()
    images = counted(metadata.outcome.embedded, "image")
    print(f"{folder.path}: {images} of dimension {metadata.dim}")
