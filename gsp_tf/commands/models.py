"""Networks and models in use: list, convert, embed with, export and publish them."""

import os
import shlex
import sys
from typing import Literal, get_args

from gsp_tf import runs
from gsp_tf._console import counted
from gsp_tf._names import Convertible
from gsp_tf._numbers import Count, Size, SizeOrZero
from gsp_tf.runs import RunFolder, require_run, run_folder


def backbones(names: list[str] = ()):
    """List the networks and where their weights come from.

    A star marks weights that are on this machine, so that no internet is needed for them.

    Args:
        names: networks, to see where their weights are or belong; hub lists the presets of
            keras-hub.
    """
    from gsp_tf import backbones

    if not names:
        for family, members in backbones.families().items():
            print(f"{family}: {', '.join(map(_marked, members))}")
        print("\ngsp-tf backbones NAME tells more about a network, and hub lists its presets.")
    for name in names:
        if name != "hub":
            print(f"{_marked(name)}: {_weights(name)}")
            continue
        for kind, presets in backbones.image_presets().items():
            print(f"{kind}: {', '.join(_marked('hub', preset) for preset in presets)}")
        print("\nTake one with backbone: {name: hub, preset: NAME, weights: pretrained}.")


def _marked(name, preset=None):
    from gsp_tf import backbones

    source = backbones.weights_source(name, preset=preset)
    return (preset or name) + ("*" if source and source.is_local else "")


def _weights(name):
    from gsp_tf import backbones

    source = backbones.weights_source(name)
    if source is not None:
        return f"{', '.join(backbones.pretrained(name))} {source.text}"
    if name in get_args(Convertible):
        return "a .weights.h5 file, which gsp-tf convert-weights makes from PyTorch's"
    return "a .weights.h5 file"


def convert_weights(state_dict: str, *, architecture: Convertible, out: str):
    """Convert PyTorch weights of a backbone to Keras weights.

    backbone.weights takes the result. Nothing in the file is run.

    Args:
        state_dict: A .safetensors file, or a .pth file of any PyTorch, with bn_inception of the
            package pretrainedmodels, googlenet of torchvision, or a network of the package
            efficientnet-lite-pytorch.
        architecture: The network that the weights belong to.
        out: File to write; its name ends in .weights.h5.
    """
    from gsp_tf.backbones import convert_weights

    conversion = convert_weights(state_dict, architecture, out)
    print(f"{conversion.path}: {conversion.num_tensors} tensors of {architecture}")
    if conversion.left_out:
        shown = ", ".join(key for key in conversion.left_out if "num_batches" not in key)
        print(f"Left out, because the backbone lacks them: {shown or 'counters of batches'}")


def embed(
    run: str,
    images: list[str],
    *,
    out: str | None = None,
    shard_size: Count = 4096,
    tokens: SizeOrZero = 0,
):
    """Embed images with the model of a run.

    The best model embeds the images, which are prepared as in evaluate. The embeddings are written
    as Parquet. If the command is stopped, run it again to continue.

    Args:
        run: Run folder, or a pretrained network as it is, such as efficientnet_lite0 or
            hub:dinov2_small.
        images: Image files, folders (searched at any depth; the first subfolder is the label) and
            .csv files with the columns path and label.
        out: Folder to write; null is the folder embeddings in the run.
        shard_size: Images per file. After a stop an unfinished file is embedded again, and later
            files have as many images as before.
        tokens: Local features to keep of each image, 16 to 32, so that search can compare them with
            --rerank transport. 0 keeps none.
    """
    run = run_folder(run)
    from gsp_tf.search import embed_images

    _show_embeddings(embed_images(run, images, out, shard_size, tokens))


def embed_collection(
    run: str,
    source: str,
    *,
    out: str | None = None,
    workers: Size | None = None,
    cpus_per_worker: Size = 1,
    shard_size: Count = 4096,
):
    """Embed a large collection with many workers.

    Parquet files list or contain the images. The workers run on one machine or on a Ray cluster.
    Work that a killed worker did not write is done again. If the command is stopped, run it again
    to continue. Needs the extra ray.

    Args:
        run: Run folder, or a pretrained network as it is, such as efficientnet_lite0 or
            hub:dinov2_small.
        source: Parquet file or folder of them, with a column path (image files) or bytes (their
            contents), and a column label if it is known.
        out: Folder to write; null is the folder embeddings in the run.
        workers: Number of processes; null uses as many as there are cores for.
        cpus_per_worker: Cores and threads per worker.
        shard_size: Images per file; an unfinished file is embedded again after a worker is killed.
    """
    run = run_folder(run)
    from gsp_tf.search import embed_collection

    _show_embeddings(embed_collection(run, source, out, workers, cpus_per_worker, shard_size))


def export(
    run: str,
    *,
    format: Literal["saved_model", "onnx", "litert", "keras"],
    out: str | None = None,
    attributes: bool = False,
    pooling_weights: bool = False,
):
    """Export the model of a run for serving.

    Writes the best model and metadata.json to a folder, for other programs. Then loads the export
    and compares it with the model.

    Args:
        run: Run folder, or a pretrained network as it is, such as efficientnet_lite0 or
            hub:dinov2_small.
        format: saved_model needs no gsp_tf and also serves image files; onnx needs no TensorFlow;
            litert runs in the plain interpreter of LiteRT; keras holds the layers themselves and
            needs gsp_tf. TensorFlow writes all but the last, whatever KERAS_BACKEND is.
        out: Folder to create; null is the name of the format, in the run.
        attributes: Also output the attributes of gsp.
        pooling_weights: Also output the weights of places, if the pooling has them.
    """
    run = run_folder(run)
    if format != "keras" and "keras" not in sys.modules:
        os.environ["KERAS_BACKEND"] = "tensorflow"  # loads the models of every backend

    from gsp_tf.export import export_run

    print(f"Exported: {export_run(run, format, out, attributes, pooling_weights)}")
    _show_untrained(run)


def publish(run: str, *, out: str | None = None, license: str | None = None):
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
    _show_untrained(run)
    if isinstance(place, str):
        print(f"Uploaded: {place}")
        return
    print(f"Ready to publish: {place}")
    upload = shlex.join(["hf", "upload", f"USER/{place.name}", str(place)])
    print(f"Upload it to Hugging Face: {upload}")


def _show_untrained(run):
    """Print that the model of a run folder is the untrained one, if it is."""
    note = runs.untrained_note(RunFolder(run).metrics())
    if note is not None:
        print(f"{run}: {note}")


def _show_embeddings(folder):
    """Print what a complete `EmbeddingsFolder` holds."""
    metadata = folder.metadata()
    images = counted(metadata.outcome.embedded, "image")
    print(f"{folder.path}: {images} of dimension {metadata.dim}")
