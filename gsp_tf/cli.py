"""The command line, `gsp-tf`."""

import argparse
import os
import signal
import sys
import warnings

from jsonargparse import ArgumentParser

from gsp_tf.recipe import add_recipe_arguments, parsed_recipe


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
    if arguments[:1] == ["train"] and len(arguments) > 1 and not arguments[1].startswith("-"):
        arguments.insert(1, "--config")
    parser, commands = _parser()
    try:
        options = parser.parse_args(arguments)
    except (argparse.ArgumentError, UnicodeDecodeError) as error:
        _refuse(error)
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    stops = [signal.SIGTERM, *([signal.SIGHUP] if hasattr(signal, "SIGHUP") else [])]
    handlers = {stop: signal.signal(stop, signal.default_int_handler) for stop in stops}
    command = options.subcommand
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            warnings.showwarning = _note
            code = _COMMANDS[command](options[command], commands[command])
    except (ValueError, OSError) as error:
        _refuse(error)
    except KeyboardInterrupt:
        print("gsp-tf: interrupted", file=sys.stderr)
        code = 130
    except Exception as error:
        if not _is_from_tensorflow(error):
            raise
        _refuse(_reason(error))
    finally:
        for stop, handler in handlers.items():
            signal.signal(stop, handler)
    sys.exit(code)


def _reason(error):
    """The line of a TensorFlow error that says what happened: that of the exception behind it."""
    lines = [line.strip() for line in error.message.splitlines() if line.strip()]
    causes = [line for line in lines if "Error: " in line]
    return (causes or lines)[0]


def _is_from_tensorflow(error):
    tensorflow = sys.modules.get("tensorflow")
    return tensorflow is not None and isinstance(error, tensorflow.errors.OpError)


def _note(message, *_, **__):
    print(f"note: {message}", file=sys.stderr)


def _refuse(error):
    print(f"gsp-tf: error: {error}", file=sys.stderr)
    sys.exit(1)


def _parser():
    """The parser, and those of the commands by name."""
    parser = ArgumentParser(
        prog="gsp-tf",
        description="Deep metric learning: train, evaluate and compare image embeddings.",
        exit_on_error=False,
    )
    train = ArgumentParser(
        description="Train as a recipe says and evaluate on unseen classes. "
        "Usage: gsp-tf train RECIPE [--FIELD VALUE ...]; a field on the command line wins over "
        "the recipe, and the recipe over the defaults shown here.",
        exit_on_error=False,
    )
    add_recipe_arguments(train)
    train.add_argument(
        "--skip-unreadable",
        action="store_true",
        help="Go on without image files that cannot be read; the same as data.skip_unreadable.",
    )
    train.add_argument(
        "--run", type=str | None, help="Run folder to create; null is runs/NAME-SEED."
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
    commands = {"train": train, "evaluate": evaluate, "demo": demo}
    subcommands = parser.add_subcommands(required=True)
    subcommands.add_subcommand("train", train, help="Train as a recipe says.")
    subcommands.add_subcommand("evaluate", evaluate, help="Evaluate a run again.")
    subcommands.add_subcommand("demo", demo, help="Compare GAP and GSP in a few minutes.")
    return parser, commands


def _train(options, parser):
    recipe = parsed_recipe(parser, options)
    recipe.data.skip_unreadable |= options.skip_unreadable
    from gsp_tf.experiment import RunFolder, load_splits, report_runs, train_recipe
    from gsp_tf.experiment.table import print_results

    folder = RunFolder(options.run or f"runs/{recipe.name}-{recipe.seed}")
    folder.refuse_existing()
    splits = load_splits(recipe.data)
    train_recipe(recipe, folder.path, splits)
    print_results([folder.path])
    report_runs([folder.path], folder.report_path, recipe.name, splits)
    print(f"Report: {folder.report_path}")
    return _exit_code([folder])


def _evaluate(options, parser):
    from gsp_tf.experiment import RunFolder, evaluate_run, load_splits, report_runs
    from gsp_tf.experiment.table import print_results

    folder = RunFolder.open(options.run)
    recipe = folder.recipe()
    splits = load_splits(recipe.data)
    evaluate_run(folder.path, splits)
    print_results([folder.path])
    report_runs([folder.path], folder.report_path, recipe.name, splits)
    print(f"Report: {folder.report_path}")
    return 0


def _demo(options, parser):
    from gsp_tf.experiment import RunFolder
    from gsp_tf.experiment.demo import run_demo
    from gsp_tf.experiment.table import print_results

    report, paths = run_demo(options.runs, options.epochs)
    print_results(paths)
    print(f"Report: {report}")
    return _exit_code([RunFolder(path) for path in paths])


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


_COMMANDS = {"train": _train, "evaluate": _evaluate, "demo": _demo}


if __name__ == "__main__":
    main()
