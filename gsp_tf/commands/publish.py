"""`gsp-tf publish`: the model of a run as a folder to publish, or on Hugging Face."""

from gsp_tf.commands._recipes import require_run
from gsp_tf.commands._results import show_untrained


def command(run: str, *, out: str | None = None, license: str | None = None):
    """Write the model of a run to a folder to publish, or upload it to Hugging Face.

    The folder holds the best model, its recipe and results, checksums, and a model card
    (README.md). gsp_tf.from_pretrained loads it, and embed, index and search take it as a run.
    Nothing is sent anywhere unless --out is an address on Hugging Face.

    Args:
        run: Run folder.
        out: Folder to create, or hf://USER/NAME, a repository on Hugging Face to create or to
            update; null is the folder pretrained in the run. The last part is the name of the
            model in the card.
        license: Licence of the model, an identifier of Hugging Face such as apache-2.0.
    """
    require_run(run)

    from gsp_tf.export import save_pretrained

    place = save_pretrained(run, out or f"{run}/pretrained", license)
    show_untrained(run)
    if isinstance(place, str):
        print(f"Uploaded: {place}")
        return
    print(f"Ready to publish: {place}")
    print(f"Upload it to Hugging Face: hf upload USER/{place.name} {place}")
