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
    """Ends a command on SIGINT, SIGTERM or SIGHUP, with one line and no traceback."""

    # Within `raising`, where the command has work to complete or files to remove, a signal raises
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

    def raising(self, raises=True):
        """A block in which signals raise `KeyboardInterrupt`, or exit at once if not `raises`."""
        return _Raising(self, raises)

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
    """The block of `Interruption.raising`; no signal can come halfway through entry or exit."""

    def __init__(self, interruption, raises):
        self._interruption, self._raises = interruption, raises

    def __enter__(self):
        self._before, self._interruption._raises = self._interruption._raises, self._raises

    def __exit__(self, *_):
        self._interruption._raises = self._before
