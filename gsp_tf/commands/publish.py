"""`gsp-tf publish`: the model of a run as a folder to publish."""

from gsp_tf.commands._recipes import require_run


def command(run: str, *, out: str | None = None, license: str | None = None):
    """Write the model of a run to a folder to publish.

    The folder holds the best model, its recipe and results, checksums, and a model card
    (README.md). gsp_tf.from_pretrained loads it, and embed, index and search take it as a run.
    Nothing is sent anywhere.

    Args:
        run: Run folder.
        out: Folder to create; null is the folder pretrained in the run. Its name is that of the
            model in the card.
        license: Licence of the model, an identifier of Hugging Face such as apache-2.0.
    """
    require_run(run)
    from gsp_tf.serving import save_pretrained

    folder = save_pretrained(run, out or f"{run}/pretrained", license)
    print(f"Ready to publish: {folder}")
    print(f"Upload it to Hugging Face: hf upload USER/{folder.name} {folder}")
