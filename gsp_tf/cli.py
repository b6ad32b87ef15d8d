"""The command line, `gsp-tf`."""

import contextlib
import functools
import gc
import os
import shutil
import signal
import sys
import tempfile
import threading

from gsp_tf._lazy import Loading

# Everything else is imported in functions, where signals are already handled.

_LEVEL = "TF_CPP_MIN_LOG_LEVEL"
_SIGNALS = [
    getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)
]


def main(arguments=None):
    """Run a command of `gsp-tf` with `arguments`, or those of the process, and exit."""
    # The exit code is 0, 1 (error), or 128 + the number of the signal that interrupted the command:
    # 130 after Ctrl-C, 143 after SIGTERM, 129 after SIGHUP.
    with _Interruption(for_good=arguments is None) as interruption:
        _quiet_tensorflow(interruption)
        _shorten_imports()
        code = _run(list(sys.argv[1:] if arguments is None else arguments), interruption)
    sys.exit(code)


def _run(arguments, interruption):
    """Run a command and return its exit code."""
    import warnings
    from argparse import ArgumentError

    from gsp_tf._console import command_line
    from gsp_tf._numbers import checked
    from gsp_tf._refusals import readable
    from gsp_tf.commands import COMMANDS

    # An empty path is the working folder: a variable of the shell that is not set would name it.
    if any(not word or word.startswith("--") and word.endswith("=") for word in arguments):
        return _refuse(f"Words must not be empty, received {command_line(*arguments)}.")
    typed = next((argument for argument in arguments if argument in COMMANDS), None)
    parser, of_command = _parsers(typed)
    try:
        options = parser.parse_args(arguments, defaults=False)
    except (ArgumentError, UnicodeDecodeError) as error:
        is_first = arguments[:1] == [typed]  # an option before it is not one of the command
        return _refuse(readable(str(error), of_command if is_first else parser, is_typed=True))
    name = options.subcommand
    try:
        with _Raising(interruption), warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            warnings.showwarning = _note
            code = COMMANDS[name](**checked(options[name].as_dict())) or 0
            sys.stdout.flush()
    except KeyboardInterrupt:
        interruption.write("gsp-tf: interrupted")
        return interruption.code
    except Exception as error:
        if interruption.received:  # interrupted code can raise anything
            interruption.write(f"gsp-tf: interrupted ({type(error).__name__}: {error})")
            return interruption.code
        if _is_from_tensorflow(error):
            from gsp_tf._files import reason

            return _refuse(reason(error))
        if not isinstance(error, (ValueError, OSError, ImportError)):
            raise
        is_of_system = isinstance(error, OSError) and error.strerror and error.filename
        return _refuse(f"{error.filename}: {error.strerror}" if is_of_system else error)
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
def _parsers(typed):
    """The main parser, and that of the command that was typed, if there is one.

    Of the other commands only the names and summaries are needed, and their parsers stay empty.
    """
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
        required=True,
        prog="gsp-tf",
        metavar="",
        title="commands",
        description="COMMAND --help says more.",
    )
    of_command = command_parser(typed, COMMANDS[typed]) if typed else None
    for name, function in COMMANDS.items():
        of_name = of_command if name == typed else ArgumentParser()
        subcommands.add_subcommand(name, of_name, help=function.__doc__.splitlines()[0])
    return parser, of_command


class _Interruption:
    """Ends a command on SIGINT, SIGTERM or SIGHUP, with one line and no traceback."""

    # Within `_Raising`, where the command has work to complete or files to remove, a signal raises
    # KeyboardInterrupt. Elsewhere, during imports and shutdown, it ends the process at once with
    # 128 + its number. Signals that the process was started to ignore, for example by `nohup`, stay
    # ignored. With `for_good`, signals are handled after the block too, because the process ends
    # with it.

    def __init__(self, for_good=False):
        self.received, self.stderr = None, 2
        self._raises, self._for_good = False, for_good

    def __enter__(self):
        self._hook, sys.unraisablehook = sys.unraisablehook, self._unraisable
        self._handlers = {
            number: signal.signal(number, self._handle)
            for number in _SIGNALS
            if signal.getsignal(number) != signal.SIG_IGN
        }
        return self

    def __exit__(self, *_):
        if not self._for_good:
            sys.unraisablehook = self._hook
            for number, handler in self._handlers.items():
                signal.signal(number, handler)

    @property
    def code(self):
        """The exit code of an interrupted command: 130 without a signal."""
        return 128 + (self.received or signal.SIGINT)

    def write(self, line):
        """Writes a line to stderr, if it is still open."""
        with contextlib.suppress(OSError):
            os.write(self.stderr, f"{line}\n".encode(errors="replace"))

    def _handle(self, number, _):
        self.received = self.received or number
        if self._raises:
            raise KeyboardInterrupt
        self.write("gsp-tf: interrupted")
        os._exit(self.code)

    def _unraisable(self, unraisable):
        """Sends a signal again if it came where no exception can be raised."""
        if self.received and issubclass(unraisable.exc_type, KeyboardInterrupt):
            threading.Timer(0.1, os.kill, (os.getpid(), self.received)).start()
        else:
            self._hook(unraisable)


class _Raising:
    """A block in which signals raise `KeyboardInterrupt`, or exit at once if not `raises`."""

    # No signal can come halfway through entry or exit.

    def __init__(self, interruption, raises=True):
        self._interruption, self._raises = interruption, raises

    def __enter__(self):
        self._before, self._interruption._raises = self._interruption._raises, self._raises

    def __exit__(self, *_):
        self._interruption._raises = self._before


def _quiet_tensorflow(interruption):
    """Imports TensorFlow without its log, unless it is imported already or its log is wanted."""
    # TensorFlow writes its first lines before it reads `TF_CPP_MIN_LOG_LEVEL`. So stderr is
    # captured during the import, and shown if the import fails. A signal during the import ends the
    # process at once and writes its line to the real stderr.

    def load(execute, module):
        with _Raising(interruption, False), _kept_stderr(interruption):
            execute(module)

    if os.environ.setdefault(_LEVEL, "3") != "0" and "tensorflow" not in sys.modules:
        Loading("tensorflow", load)


def _shorten_imports():
    """Imports TensorFlow and Keras without packages that no command uses through them."""
    # They import these where they are installed: half of the time of their own import. A command
    # imports later what it uses itself. Python would also search all that the import makes for
    # garbage, during the import and after it, which takes a second.
    for_keras = "IPython", "matplotlib", "pandas", "sklearn"
    unused = {"tensorflow": for_keras, "keras": for_keras}
    for_jax = "tensorflow.lite.python.util", "keras.src.callbacks.orbax_checkpoint"
    unused |= dict.fromkeys(for_jax, ("jax",))

    def load(packages, execute, module):
        hidden = [name for name in packages if name not in sys.modules]
        sys.modules.update(dict.fromkeys(hidden))
        is_outer = gc.isenabled()
        gc.disable()
        try:
            execute(module)
        finally:
            for name in hidden:
                del sys.modules[name]
            if is_outer:
                gc.freeze()
                gc.enable()

    for name, packages in unused.items():
        if name not in sys.modules:
            Loading(name, functools.partial(load, packages))


@contextlib.contextmanager
def _kept_stderr(interruption):
    with tempfile.TemporaryFile() as kept:
        sys.stderr.flush()
        stderr = os.dup(2)
        interruption.stderr = stderr
        os.dup2(kept.fileno(), 2)
        failed = True
        try:
            yield
            failed = False
        finally:
            os.dup2(stderr, 2)
            interruption.stderr = 2
            os.close(stderr)
            if failed:
                kept.seek(0)
                shutil.copyfileobj(kept, sys.stderr.buffer)


if __name__ == "__main__":
    main()
