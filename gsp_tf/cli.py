"""The command line, `gsp-tf`."""

import argparse
import itertools
import os
import signal
import sys
import warnings

from jsonargparse import ArgumentParser

from gsp_tf.commands import COMMANDS, TAKING_RECIPES
from gsp_tf.recipe import config_options, located
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
    folder = ["--folder", files.pop(0)] if files and os.path.isdir(files[0]) else []
    arguments[1 : 1 + len(folder[1:] + files)] = [*folder, *config_options(files)]
    parser, parsers = _parser(files)
    try:
        options = parser.parse_args(arguments)
    except (argparse.ArgumentError, UnicodeDecodeError) as error:
        _refuse(located(error, files))
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    stops = [signal.SIGTERM, *([signal.SIGHUP] if hasattr(signal, "SIGHUP") else [])]
    handlers = {stop: signal.signal(stop, signal.default_int_handler) for stop in stops}
    command = options.subcommand
    options[command].arguments = arguments[1:]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            warnings.showwarning = _note
            code = COMMANDS[command].run(options[command], parsers[command])
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
    if not TAKING_RECIPES.keys() & arguments[:1]:
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
    subcommands, parsers = parser.add_subcommands(required=True), {}
    for name, command in COMMANDS.items():
        takes = (files,) if name in TAKING_RECIPES else ()
        parsers[name] = command.parser(*takes)
        subcommands.add_subcommand(name, parsers[name], help=command.HELP)
    return parser, parsers


if __name__ == "__main__":
    main()
