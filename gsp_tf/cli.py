"""The command line, `gsp-tf`."""

import functools
import sys

from gsp_tf._interruption import Interruption

# Everything else is imported in functions, where signals are already handled.


def main(arguments=None):
    """Run a command of `gsp-tf` with `arguments`, or those of the process, and exit."""
    # The exit code is 0, 1 (error), or 128 + the number of the signal that interrupted the command:
    # 130 after Ctrl-C, 143 after SIGTERM, 129 after SIGHUP.
    with Interruption(for_good=arguments is None) as interruption:
        from gsp_tf._tensorflow_log import QuietTensorFlow

        QuietTensorFlow(interruption).install()
        code = _run(list(sys.argv[1:] if arguments is None else arguments), interruption)
    sys.exit(code)


def _run(arguments, interruption):
    """Run a command and return its exit code."""
    import warnings
    from argparse import ArgumentError

    from gsp_tf._numbers import checked
    from gsp_tf._refusals import readable
    from gsp_tf.commands import COMMANDS

    parser, parsers = _parser()
    try:
        options = parser.parse_args(arguments, defaults=False)
    except (ArgumentError, UnicodeDecodeError) as error:
        command = parsers.get(arguments[0], parser) if arguments else parser
        return _refuse(readable(str(error), command, is_typed=True))
    name = options.subcommand
    try:
        with interruption.raising(), warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            warnings.showwarning = _note
            code = COMMANDS[name].command(**checked(options[name].as_dict())) or 0
            sys.stdout.flush()
    except KeyboardInterrupt:
        interruption.write("gsp-tf: interrupted")
        return interruption.code
    except Exception as error:
        if interruption.received:  # interrupted code can raise anything
            interruption.write(f"gsp-tf: interrupted ({type(error).__name__}: {error})")
            return interruption.code
        if _is_from_tensorflow(error):
            from gsp_tf.runs import reason

            return _refuse(reason(error))
        if not isinstance(error, (ValueError, OSError, ImportError)):
            raise
        return _refuse(error)
    return interruption.code if code == 130 else code


def _is_from_tensorflow(error):
    tensorflow = sys.modules.get("tensorflow")
    return tensorflow is not None and isinstance(error, tensorflow.errors.OpError)


def _note(message, *_, **__):
    print(f"note: {message}", file=sys.stderr)


def _refuse(error):
    print(f"gsp-tf: error: {error}", file=sys.stderr)
    return 1


@functools.cache
def _parser():
    """The main parser, and the commands' parsers by name."""
    from jsonargparse import ArgumentParser

    from gsp_tf._version import __version__
    from gsp_tf.commands import COMMANDS
    from gsp_tf.commands._parsers import command_parser
    from gsp_tf.recipe import VALUES

    parser = ArgumentParser(
        prog="gsp-tf",
        usage="gsp-tf COMMAND ...",
        description="Deep metric learning: train, evaluate and compare image embeddings.",
        exit_on_error=False,
        allow_abbrev=False,
        parser_mode=VALUES,  # also for the commands
        version=__version__,
    )
    subcommands = parser.add_subcommands(
        required=True, metavar="", title="commands", description="COMMAND --help says more."
    )
    parsers = {name: command_parser(name, module.command) for name, module in COMMANDS.items()}
    for name, module in COMMANDS.items():
        summary = module.command.__doc__.splitlines()[0]
        subcommands.add_subcommand(name, parsers[name], help=summary)
    return parser, parsers


if __name__ == "__main__":
    main()
