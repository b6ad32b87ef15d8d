"""Signals that end a command."""

import contextlib
import os
import signal
import sys
import threading

_SIGNALS = [
    getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)
]


class Interruption:
    """Ends a command that receives SIGINT, SIGTERM or SIGHUP, with one line and no traceback.

    Where the command has something to complete or to remove, within `raising`, a signal raises
    `KeyboardInterrupt`. Everywhere else, while programs are imported and while the process shuts
    down, it ends the process at once with 128 + the number of the signal. A signal that the process
    was started to ignore, as by `nohup`, is ignored.

    Args:
        for_good: whether to handle signals after the block too, because the process ends with it.

    Attributes:
        received: the first signal that was received, `None` before.
        stderr: file descriptor that the line is written to.

    Example:
        >>> with Interruption() as interruption, interruption.raising():
        ...     try:
        ...         signal.raise_signal(signal.SIGTERM)
        ...     except KeyboardInterrupt:
        ...         print(interruption.code)
        143
    """

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
        """The exit code of an interrupted command; 130 if it was not a signal."""
        return 128 + (self.received or signal.SIGINT)

    def raising(self, raises=True):
        """Block in which a signal raises `KeyboardInterrupt`, or in which none does."""
        return _Raising(self, raises)

    def write(self, line):
        """Write a line to stderr, if there still is one."""
        with contextlib.suppress(OSError):
            os.write(self.stderr, f"{line}\n".encode(errors="replace"))

    def _handle(self, number, _):
        self.received = self.received or number
        if self._raises:
            raise KeyboardInterrupt
        self.write("gsp-tf: interrupted")
        os._exit(self.code)

    def _unraisable(self, unraisable):
        """Repeat a signal that was lost, because it came where no exception can be raised."""
        if self.received and issubclass(unraisable.exc_type, KeyboardInterrupt):
            threading.Timer(0.1, os.kill, (os.getpid(), self.received)).start()
        else:
            self._hook(unraisable)


class _Raising:
    """The block of `Interruption.raising`, which a signal finds either entered or not."""

    def __init__(self, interruption, raises):
        self._interruption, self._raises = interruption, raises

    def __enter__(self):
        self._before, self._interruption._raises = self._interruption._raises, self._raises

    def __exit__(self, *_):
        self._interruption._raises = self._before
