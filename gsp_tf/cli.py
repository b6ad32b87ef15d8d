"""The command line, `gsp-tf`."""

import argparse
import itertools
import os
import runpy
import signal
import sys
import warnings
from pathlib import Path
from typing import Literal

from jsonargparse import ArgumentParser

from gsp_tf.recipe import (
    Recipe,
    add_recipe_arguments,
    config_options,
    located,
    parsed_recipe,
)
from gsp_tf.recipe_values import VALUES


def main(arguments=None):
    """Run a command of `gsp-tf`; ends the process with 0, 1 (refused) or 130 (interrupted).

    Args:
        arguments: list of str; `None` takes those of the process.

    Example:
        >>> main(["evaluate", "no/such/run"])
        Traceback (most recent call last):
            ...
        SystemExit: 1
    """
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    files = _recipe_files(arguments)
    arguments[1 : 1 + len(files)] = config_options(files)
    parser, commands = _parser(files)
    try:
        options = parser.parse_args(arguments)
    except (argparse.ArgumentError, UnicodeDecodeError) as error:
        _refuse(located(error, files))
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    stops = [signal.SIGTERM, *([signal.SIGHUP] if hasattr(signal, "SIGHUP") else [])]
    handlers = {stop: signal.signal(stop, signal.default_int_handler) for stop in stops}
    command = options.subcommand
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            warnings.showwarning = _note
            code = _COMMANDS[command](options[command], commands[command])
    except (ValueError, OSError, ImportError) as error:
        _refuse(error)
    except KeyboardInterrupt:
        print("gsp-tf: interrupted", file=sys.stderr)
        code = 130
    except Exception as error:
        if not _is_from_tensorflow(error):
            raise
        from gsp_tf.experiment.errors import reason

        _refuse(reason(error))
    finally:
        for stop, handler in handlers.items():
            signal.signal(stop, handler)
    sys.exit(code)


def _recipe_files(arguments):
    """The recipe files among the arguments: those before the first option."""
    if arguments[:1] not in (["train"], ["check"]):
        return []
    return list(itertools.takewhile(lambda text: not text.startswith("-"), arguments[1:]))


def _is_from_tensorflow(error):
    tensorflow = sys.modules.get("tensorflow")
    return tensorflow is not None and isinstance(error, tensorflow.errors.OpError)


def _note(message, *_, **__):
    print(f"note: {message}", file=sys.stderr)


def _refuse(error):
    print(f"gsp-tf: error: {error}", file=sys.stderr)
    sys.exit(1)


def _parser(files):
    """The parser, and those of the commands by name; `files` are the recipes they will read."""
    parser = ArgumentParser(
        prog="gsp-tf",
        description="Deep metric learning: train, evaluate and compare image embeddings.",
        exit_on_error=False,
        parser_mode=VALUES,  # of the commands too
    )
    train = _recipe_parser("train", "Train as a recipe says and evaluate on unseen classes.", files)
    check = _recipe_parser(
        "check",
        "Say what train with the same arguments would run, and all that it lacks: load the data, "
        "build the model, compute the loss of one batch. Writes and downloads nothing; exit code "
        "1 if something is missing.",
        files,
    )
    train.add_argument(
        "--resume", type=str | None, help="Run folder to go on with, by the recipe in it."
    )
    evaluate = ArgumentParser(
        description="Evaluate the best model of a run again and write its report.",
        exit_on_error=False,
    )
    evaluate.add_argument("run", type=str, help="Run folder.")
    demo = ArgumentParser(
        description="Train GAP and GSP on collages of letters and compare them on unseen letters.",
        exit_on_error=False,
    )
    demo.add_argument("--runs", type=str, default="runs", help="Folder for the demo's run folders.")
    demo.add_argument(
        "--epochs", type=int | None, help="Epochs of each run; null as in the recipe."
    )
    report = ArgumentParser(
        description="Compare runs in one table, methods by data sets, as Markdown, CSV and LaTeX. "
        "Runs of one name that differ in their seed become a mean and a standard deviation.",
        exit_on_error=False,
    )
    report.add_argument("runs", type=str, nargs="+", help="Run folders.")
    report.add_argument(
        "--out", type=str, default="tables", help="Folder for table.md, table.csv and table.tex."
    )
    convert = ArgumentParser(
        description="Turn a PyTorch state dict into Keras weights, for backbone.weights. "
        "Nothing in the file is run.",
        exit_on_error=False,
    )
    convert.add_argument(
        "state_dict",
        type=str,
        help="A .safetensors file, or a .pth file of PyTorch 1.6 or later, of bn_inception of the "
        "package pretrainedmodels or of googlenet of torchvision.",
    )
    convert.add_argument(
        "--architecture",
        type=Literal["bn_inception", "googlenet"],
        required=True,
        help="The network whose state dict it is.",
    )
    convert.add_argument(
        "--out", type=str, required=True, help="File to write; its name ends in .weights.h5."
    )
    export = ArgumentParser(
        description="Write the best model of a run for other programs: a folder with the model and "
        "metadata.json. What was written is loaded again and compared with the model.",
        exit_on_error=False,
    )
    export.add_argument("run", type=str, help="Run folder.")
    export.add_argument(
        "--format",
        type=Literal["saved_model", "onnx", "keras"],
        required=True,
        help="saved_model serves without gsp_tf, files of images too; onnx without TensorFlow; "
        "keras holds the layers themselves and needs gsp_tf.",
    )
    export.add_argument(
        "--out", type=str | None, help="Folder to make; null is the format's name in the run."
    )
    export.add_argument(
        "--attributes", action="store_true", help="Also give the attributes of gsp."
    )
    export.add_argument(
        "--pooling-weights",
        action="store_true",
        help="Also give the weights of places, of poolings that have them.",
    )
    bench = ArgumentParser(
        description="Measure speed and memory and write them to benchmarks/RESULTS.md, each "
        "benchmark in a process of its own; on the GPU too where there is one. Needs a source "
        "checkout.",
        exit_on_error=False,
    )
    bench.add_argument(
        "names", type=str, nargs="*", help="Files of benchmarks/ without .py; all if none is named."
    )
    bench.add_argument(
        "--quick",
        action="store_true",
        help="A trial with small sizes and few rounds, which writes nothing without --out.",
    )
    bench.add_argument(
        "--out", type=str | None, help="Markdown file; null is benchmarks/RESULTS.md."
    )
    embed = ArgumentParser(
        description="Embed images with the best model of a run, prepared as evaluate prepares "
        "them, and write the embeddings as Parquet. Stopped, the same command goes on.",
        exit_on_error=False,
    )
    embed.add_argument("run", type=str, help="Run folder.")
    embed.add_argument(
        "images",
        type=str,
        nargs="+",
        help="Image files, folders (searched at any depth; the first folder below is the label) "
        "and .csv files with the columns path and label.",
    )
    embed.add_argument(
        "--out", type=str | None, help="Folder to write; null is the folder embeddings in the run."
    )
    embed.add_argument(
        "--shard-size",
        type=int,
        default=4096,
        help="Images in a file, embedded again after a stop.",
    )
    embed_collection = ArgumentParser(
        description="Embed a large collection, which Parquet files list or hold, with many workers "
        "on one machine or a cluster of Ray. What a killed worker did not write is done again; "
        "stopped, the same command goes on. Needs gsp_tf[ray].",
        exit_on_error=False,
    )
    embed_collection.add_argument("run", type=str, help="Run folder.")
    embed_collection.add_argument(
        "source",
        type=str,
        help="Parquet file or folder of them, with a column path, of image files, or bytes, of "
        "their contents, and label if it is known.",
    )
    embed_collection.add_argument(
        "--out", type=str | None, help="Folder to write; null is the folder embeddings in the run."
    )
    embed_collection.add_argument(
        "--workers",
        type=int | None,
        help="Number of processes; null is as many as there are cores for.",
    )
    embed_collection.add_argument(
        "--cpus-per-worker", type=int, default=1, help="Cores and threads of each."
    )
    embed_collection.add_argument(
        "--shard-size",
        type=int,
        default=4096,
        help="Images in a file, embedded again after a worker is killed.",
    )
    index = ArgumentParser(
        description="Build a nearest-neighbour index of embeddings, change one or verify one.",
        exit_on_error=False,
    )
    index.add_argument(
        "folder", type=str, help="What embed wrote; with --add, --delete or --verify the index."
    )
    index.add_argument(
        "--out", type=str | None, help="Folder to write; null is the folder index in the run."
    )
    index.add_argument(
        "--kind",
        type=Literal["exact", "ivf_sq8", "ivf_pq"] | None,
        help="exact, or compressed; null is exact up to 100,000 images, ivf_sq8 up to 5,000,000, "
        "ivf_pq above.",
    )
    index.add_argument("--add", type=str | None, help="Add the images of this folder of embed.")
    index.add_argument(
        "--delete",
        type=str,
        nargs="+",
        default=[],
        help="Remove images by the paths of their files; before anything is added.",
    )
    index.add_argument(
        "--verify",
        action="store_true",
        help="Compare the files of the index with their checksums, and change nothing.",
    )
    search = ArgumentParser(
        description="Find the images of an index that are nearest to an image.",
        exit_on_error=False,
    )
    search.add_argument("run", type=str, help="Run folder.")
    search.add_argument("image", type=str, help="Image file.")
    search.add_argument(
        "--index", type=str | None, help="What index wrote; null is the folder index in the run."
    )
    search.add_argument("--k", type=int, default=10, help="Number of neighbours.")
    search.add_argument(
        "--html",
        type=str,
        nargs="?",
        const="",
        default=None,
        help="Write a page with their pictures: this file, or search.html in the run.",
    )
    search.add_argument(
        "--mapped",
        type=bool | None,
        help="Leave the vectors on disk; null does so if they are more than the memory there is.",
    )
    explore = ArgumentParser(
        description="Serve a page to explore the model of a run in the browser: neighbours, "
        "pooling weights and prototypes of an image, and the strongest patches of prototypes. "
        "Ctrl-C ends it.",
        exit_on_error=False,
    )
    explore.add_argument("run", type=str, help="Run folder.")
    explore.add_argument(
        "--index",
        type=str | None,
        help="What index wrote; null is the folder index in the run, or the run's test images if "
        "there is none.",
    )
    explore.add_argument(
        "--host",
        type=str,
        default="127.0.0.1",
        help="Address to listen on; all but loopback let others upload to the page.",
    )
    explore.add_argument(
        "--port", type=int | None, help="Port to listen on; null is 7860 or a free one."
    )
    explore.add_argument("--k", type=int, default=10, help="Number of neighbours.")
    explore.add_argument(
        "--max-upload-mb", type=float, default=10.0, help="Largest file that is taken, in MB."
    )
    commands = {
        "train": train,
        "check": check,
        "evaluate": evaluate,
        "report": report,
        "demo": demo,
        "convert-weights": convert,
        "export": export,
        "bench": bench,
        "embed": embed,
        "embed-collection": embed_collection,
        "index": index,
        "search": search,
        "explore": explore,
    }
    subcommands = parser.add_subcommands(required=True)
    subcommands.add_subcommand("train", train, help="Train as a recipe says.")
    subcommands.add_subcommand("check", check, help="Say what train would run and what it lacks.")
    subcommands.add_subcommand("evaluate", evaluate, help="Evaluate a run again.")
    subcommands.add_subcommand("report", report, help="Compare runs in one table.")
    subcommands.add_subcommand("demo", demo, help="Compare GAP and GSP in a few minutes.")
    subcommands.add_subcommand(
        "convert-weights", convert, help="Turn PyTorch weights of a backbone into Keras weights."
    )
    subcommands.add_subcommand("export", export, help="Write the model of a run to be served.")
    subcommands.add_subcommand("bench", bench, help="Measure speed and memory.")
    subcommands.add_subcommand("embed", embed, help="Embed images with the model of a run.")
    subcommands.add_subcommand(
        "embed-collection", embed_collection, help="Embed a large collection with many workers."
    )
    subcommands.add_subcommand("index", index, help="Build or change an index of embeddings.")
    subcommands.add_subcommand("search", search, help="Find the images nearest to an image.")
    subcommands.add_subcommand("explore", explore, help="Explore a model in the browser.")
    return parser, commands


def _recipe_parser(command, description, files):
    """The parser of a command that takes recipe files and all their fields."""
    parser = ArgumentParser(
        description=f"{description} Usage: gsp-tf {command} RECIPE ... [--FIELD VALUE ...]; of "
        "several recipe files later ones win field by field, a field on the command line wins over "
        "them, and they over the defaults shown here.",
        exit_on_error=False,
    )
    add_recipe_arguments(parser, files)
    parser.add_argument(
        "--skip-unreadable",
        action="store_true",
        help="Go on without image files that cannot be read; the same as data.skip_unreadable.",
    )
    parser.add_argument(
        "--deterministic",
        action="store_true",
        help="The same numbers each time; the same as training.deterministic.",
    )
    parser.add_argument(
        "--run",
        type=str | None,
        help="Run folder to create; null is runs/NAME-SEED, or with several recipe files "
        "runs/FIRST-NAME-SEED, whose NAME is that of the others, unless one of them says it.",
    )
    return parser


def _recipe(options, parser):
    """The recipe of a command's options, and the path of its run folder."""
    files = [str(file) for file in options.config or ()]
    try:
        recipe = parsed_recipe(parser, options)
    except ValueError as error:
        raise located(error, files) from error
    recipe.data.skip_unreadable |= options.skip_unreadable
    recipe.training.deterministic |= options.deterministic
    first = [Path(files[0]).stem] if len(files) > 1 else []
    return recipe, options.run or "runs/" + "-".join([*first, recipe.name, str(recipe.seed)])


def _train(options, parser):
    recipe, path = _recipe(options, parser)
    if options.resume is not None and (recipe != Recipe() or options.run is not None):
        raise ValueError("--resume takes the recipe of its run folder and no other option.")
    from gsp_tf import experiment
    from gsp_tf.lock import locked

    if options.resume is None:
        folder = experiment.RunFolder(path)
        folder.refuse_existing()
    else:
        folder = experiment.RunFolder(options.resume)
        folder.require(folder.recipe_path)
        recipe = folder.recipe()
    with locked(folder.path):
        if recipe.protocol.is_ensemble:
            splits = experiment.load_folds(recipe)
            train, resume = experiment.train_ensemble, experiment.resume_ensemble
        else:
            splits = experiment.load_splits(recipe)
            train, resume = experiment.train_recipe, experiment.resume_run
        if options.resume is None:
            train(recipe, folder.path, splits)
        else:
            resume(folder.path, splits)
        return _exit_code(_show(folder, recipe, splits))


def _check(options, parser):
    recipe, path = _recipe(options, parser)
    from gsp_tf.experiment import check_recipe

    check = check_recipe(recipe, path)
    print(check.text())
    return 1 if check.missing else 0


def _evaluate(options, parser):
    from gsp_tf import experiment

    folder = experiment.RunFolder(options.run)
    folder.require(folder.recipe_path)
    recipe = folder.recipe()
    if recipe.protocol.is_ensemble:
        splits = experiment.load_folds(recipe)
        experiment.evaluate_ensemble(folder.path, splits)
    else:
        splits = experiment.load_splits(recipe)
        experiment.evaluate_run(folder.path, splits)
    _show(folder, recipe, splits)
    return 0


def _show(folder, recipe, splits):
    """Print the results of a run and write its page; gives the folders of its models."""
    from gsp_tf.experiment import Comparison, model_folders, report_runs
    from gsp_tf.experiment.table import print_results

    if recipe.protocol.is_ensemble:
        if "ensemble" not in folder.metrics():
            return [folder]
        models = [model for repeats in model_folders(folder) for model in repeats]
        print_results([model.path for model in models])
        print(Comparison([folder.path]).markdown())
        shown = [repeats[0].path for repeats in model_folders(folder)]
        report_runs(shown, folder.report_path, recipe.name, splits[0])
    else:
        models = [folder]
        print_results([folder.path])
        report_runs([folder.path], folder.report_path, recipe.name, splits)
    print(f"Report: {folder.report_path}")
    return models


def _report(options, parser):
    from gsp_tf.experiment import Comparison

    comparison = Comparison(options.runs)
    print(comparison.markdown())
    for path in comparison.write(options.out):
        print(path)
    return 0


def _demo(options, parser):
    from gsp_tf.experiment import RunFolder
    from gsp_tf.experiment.demo import run_demo
    from gsp_tf.experiment.table import print_results

    report, paths = run_demo(options.runs, options.epochs)
    print_results(paths)
    print(f"Report: {report}")
    return _exit_code([RunFolder(path) for path in paths])


def _convert_weights(options, parser):
    from gsp_tf.backbones import convert_weights

    conversion = convert_weights(options.state_dict, options.architecture, options.out)
    print(f"{conversion.path}: {conversion.num_tensors} tensors of {options.architecture}")
    if conversion.left_out:
        shown = ", ".join(key for key in conversion.left_out if "num_batches" not in key)
        print(f"Left out, for the backbone does not have them: {shown or 'counters of batches'}")
    return 0


def _export(options, parser):
    from gsp_tf.serving import export_run

    out = export_run(
        options.run, options.format, options.out, options.attributes, options.pooling_weights
    )
    print(f"Exported: {out}")
    return 0


def _bench(options, parser):
    suite = Path(__file__).parents[1] / "benchmarks" / "suite.py"
    if not suite.exists():
        raise ValueError(
            f"bench runs from a source checkout, whose folder benchmarks is not there: {suite}"
        )
    failed = runpy.run_path(str(suite))["bench"](options.names, options.quick, options.out)
    if failed:
        raise ValueError(f"These benchmarks failed: {', '.join(failed)}.")
    return 0


def _embed(options, parser):
    from gsp_tf.serving import embed_images

    folder = embed_images(options.run, options.images, options.out, options.shard_size)
    return _show_embedded(folder)


def _embed_collection(options, parser):
    from gsp_tf.serving import embed_collection

    folder = embed_collection(
        options.run,
        options.source,
        options.out,
        options.workers,
        options.cpus_per_worker,
        options.shard_size,
    )
    return _show_embedded(folder)


def _show_embedded(folder):
    metadata = folder.metadata()
    print(
        f"{folder.path}: {metadata['images']['embedded']:,} images of dimension {metadata['dim']}"
    )
    return 0


def _index(options, parser):
    from gsp_tf.serving import Index, build_index, verify_index
    from gsp_tf.serving.table import print_index

    if options.verify:
        if options.add is not None or options.delete or options.out or options.kind:
            raise ValueError("--verify takes an index and no other option.")
        count = verify_index(options.folder)["count"]
        print(f"{options.folder}: {count:,} images; the files have their checksums")
        return 0
    if options.add is None and not options.delete:
        index = build_index(options.folder, options.out, options.kind)
    else:
        if options.out is not None or options.kind is not None:
            raise ValueError("--out and --kind are for building an index, not for changing one.")
        index = Index(options.folder)
        if options.delete:
            index.delete(options.delete)
        if options.add is not None:
            index.add(options.add)
    print_index(index)
    return 0


def _search(options, parser):
    from gsp_tf import serving
    from gsp_tf.serving.table import print_neighbours

    index = serving.open_index(options.run, options.index, options.mapped)
    neighbours = serving.search(options.run, options.image, index, options.k)
    print_neighbours(neighbours, options.image)
    if options.html is not None:
        page = options.html or Path(options.run) / "search.html"
        print(f"Page: {serving.write_neighbours(page, options.image, neighbours, index)}")
    return 0


def _explore(options, parser):
    from gsp_tf.explore import explore_run

    explore_run(
        options.run,
        options.index,
        options.host,
        options.port,
        options.k,
        options.max_upload_mb,
    )
    return 0


def _exit_code(folders):
    statuses = {folder.metrics()["status"] for folder in folders}
    if "diverged" in statuses:
        print(
            "gsp-tf: error: the loss was not finite; the run holds the best model until then. "
            "Try a smaller --training.learning_rate.",
            file=sys.stderr,
        )
        return 1
    return 130 if "interrupted" in statuses else 0


_COMMANDS = {
    "train": _train,
    "check": _check,
    "evaluate": _evaluate,
    "report": _report,
    "demo": _demo,
    "convert-weights": _convert_weights,
    "export": _export,
    "bench": _bench,
    "embed": _embed,
    "embed-collection": _embed_collection,
    "index": _index,
    "search": _search,
    "explore": _explore,
}


if __name__ == "__main__":
    main()
