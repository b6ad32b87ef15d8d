"""TensorFlow's log."""

import contextlib
import importlib.util
import os
import shutil
import sys
import tempfile

_LEVEL = "TF_CPP_MIN_LOG_LEVEL"


class QuietTensorFlow:
    """A module finder that imports TensorFlow without its log, unless the log level is 0."""

    # TensorFlow writes its first lines before it reads `TF_CPP_MIN_LOG_LEVEL`. So stderr is
    # captured during the import, and shown if the import fails. A signal during the import ends the
    # process at once and writes its line to the real stderr.

    def __init__(self, interruption):
        self._interruption = interruption

    def install(self):
        """Silences TensorFlow, unless it is already imported or its log is wanted."""
        if os.environ.setdefault(_LEVEL, "3") != "0" and "tensorflow" not in sys.modules:
            sys.meta_path.insert(0, self)

    def find_spec(self, name, path=None, target=None):
        """TensorFlow's module spec with a quiet loader."""
        if name != "tensorflow":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        sys.meta_path.insert(0, self)  # Keras looks for TensorFlow before anything imports it
        if spec is not None:
            load = spec.loader.exec_module

            def load_quietly(module):
                with self._interruption.raising(False), self._kept_stderr():
                    load(module)

            spec.loader.exec_module = load_quietly
        return spec

    @contextlib.contextmanager
    def _kept_stderr(self):
        with tempfile.TemporaryFile() as kept:
            sys.stderr.flush()
            stderr = os.dup(2)
            self._interruption.stderr = stderr
            os.dup2(kept.fileno(), 2)
            failed = True
            try:
                yield
                failed = False
            finally:
                os.dup2(stderr, 2)
                self._interruption.stderr = 2
                os.close(stderr)
                if failed:
                    kept.seek(0)
                    shutil.copyfileobj(kept, sys.stderr.buffer)
