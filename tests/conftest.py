import contextlib
import ctypes
import errno
import functools
import gc
import importlib
import io
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

# Keras and this library are imported within fixtures: the process that only hands out the tests
# does without them.

# Every run has the same cases; `--hypothesis-profile explore --hypothesis-seed N` tries others.
# A slow machine does not fail a test.
UNHURRIED = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("repeatable", derandomize=True, **UNHURRIED)
settings.register_profile("explore", print_blob=True, **UNHURRIED)
settings.load_profile("repeatable")

EXPERIMENTS = Path(__file__).parents[1] / "experiments"

# JAX takes this when it is imported. Finite differences need float64.
os.environ.setdefault("JAX_ENABLE_X64", "1")

if os.environ.get("KERAS_BACKEND") == "jax":
    # Most of the time is that of compilers, for operations on a few numbers that run once.
    os.environ.setdefault("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")
    os.environ.setdefault(
        "XLA_FLAGS", "--xla_cpu_use_fusion_emitters=false --xla_cpu_parallel_codegen_split_count=1"
    )

# As in commands. JAX would set a lower level, and TensorFlow imports JAX where it is installed.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

# XLA rewrites graphs as for users. LLVM, whose optimizations take most of the time, adds none.
os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=0")


def pytest_collection_modifyitems(config, items):
    """Leave out the tests of TensorFlow alone where Keras runs on another backend."""
    marked = [item for item in items if item.get_closest_marker("tensorflow")]
    if marked and _backend() != "tensorflow":
        config.hook.pytest_deselected(items=marked)
        items[:] = [item for item in items if item not in marked]


def pytest_collection_finish():
    """Exclude the objects that imports created from garbage collection, which then runs rarely."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(7000)


@pytest.fixture(autouse=True)
def default_keras_state():
    """Seed every test, and restore Keras' global settings after it."""
    import keras

    keras.utils.set_random_seed(0)
    yield
    keras.config.set_dtype_policy("float32")
    keras.config.set_image_data_format("channels_last")


@pytest.fixture(scope="module", autouse=True)
def free_memory_is_given_back():
    """To the system: malloc would keep what compilers and large batches have used."""
    yield
    gc.collect()
    with contextlib.suppress(AttributeError):  # glibc alone has it
        ctypes.CDLL(None).malloc_trim(0)


@pytest.fixture(scope="session", autouse=True)
def kernels_are_kept():
    """With each seed, TensorFlow would forget the kernels of its operations, to be made again."""
    with pytest.MonkeyPatch.context() as patch:
        if _backend() == "tensorflow":
            from tensorflow.python import pywrap_tfe

            # Forgetting resets random kernels with a state of their own, which nothing here uses.
            patch.setattr(pywrap_tfe, "TFE_ContextClearCaches", lambda handle: None)
        yield


def _backend():
    import keras

    return keras.backend.backend()


@pytest.fixture(scope="session", autouse=True)
def tensors_of_torch_are_read():
    """NumPy reads tensors of PyTorch with a gradient, and those of bfloat16, like all others."""
    with pytest.MonkeyPatch.context() as patch:
        if _backend() == "torch":
            import torch

            def array(tensor, dtype=None, copy=None):
                tensor = tensor.float() if tensor.dtype == torch.bfloat16 else tensor
                return np.array(tensor.detach().numpy(), dtype, copy=copy)

            patch.setattr(torch.Tensor, "__array__", array)
        yield


@pytest.fixture(scope="session", autouse=True)
def coarse_maps():
    """The maps of reports take few iterations of t-SNE; the tests of t-SNE take all of them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("gsp_tf.visual.plane._ITERATIONS", 250)
        yield


@pytest.fixture
def without_tracing():
    """For a model of few steps, whose graph costs more than it saves."""
    from digit_runs import eagerly

    with eagerly():
        yield


@pytest.fixture
def without_pages(monkeypatch):
    """Runs write no pages of their results."""
    monkeypatch.setattr("gsp_tf.runs.Run.report", lambda self: "report.html")


@pytest.fixture
def study(monkeypatch):
    """Function that imports a study, or what studies share, by its name."""
    folders = EXPERIMENTS / "studies", EXPERIMENTS
    for folder in folders:
        monkeypatch.syspath_prepend(folder)
    yield importlib.import_module
    for folder in folders:
        for path in folder.glob("*.py"):
            sys.modules.pop(path.stem, None)


@pytest.fixture
def published(monkeypatch):
    """Function that makes a loader expect the counts of a miniature."""

    def publish(load, counts):
        monkeypatch.setitem(load.__kwdefaults__, "counts", counts)

    return publish


@pytest.fixture
def locked_folder(monkeypatch):
    """Make folders called `locked` unreadable, even for root."""
    scan = os.scandir

    def scandir(path):
        if os.path.basename(path) == "locked":
            raise PermissionError(errno.EACCES, "Permission denied", path)
        return scan(path)

    monkeypatch.setattr(os, "scandir", scandir)


HOLD = """
import sys
from gsp_tf._files import locked

with locked(sys.argv[1]):
    print("locked", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def locked_elsewhere():
    """Context manager that yields another process, which holds the lock of a folder."""

    @contextlib.contextmanager
    def hold(folder):
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        with subprocess.Popen([sys.executable, "-c", HOLD, folder], **pipes) as process:
            assert process.stdout.readline() == b"locked\n"
            yield process

    return hold


@pytest.fixture(scope="session")
def oracle():
    """Function that gives the arrays of a file of `tests/oracles`, which it reads once."""

    @functools.cache
    def load(name):
        return dict(np.load(Path(__file__).parent / f"oracles/{name}.npz"))

    return lambda name: dict(load(name))


@pytest.fixture(scope="session")
def digits(tmp_path_factory):
    """Scikit-learn's handwritten digits as a folder of PNG files, 20 per class."""
    from digit_runs import write_digits

    return write_digits(tmp_path_factory.mktemp("handwritten digits"))


@pytest.fixture(scope="session")
def write_recipe(tmp_path_factory, digits):
    """Function that writes a recipe on the digits with some sections replaced."""
    from digit_runs import recipe_of_digits

    def write(sections=""):
        path = tmp_path_factory.mktemp("recipes") / "recipe.yaml"
        path.write_text(recipe_of_digits(digits, sections), encoding="utf-8")
        return path

    return write


GSP = """
pooling: {name: gsp, num_prototypes: 4}
zero_shot: {weight: 0.1, embedding_dim: 8}
training: {epochs: 2, steps_per_epoch: 8, adapt_batches: 1, health_every: 4}
evaluation: {clustering: true}
"""


@pytest.fixture(scope="session")
def trained(write_recipe, tmp_path_factory):
    """A finished run with GSP to read or copy: `path`, `recipe` file and printed text."""
    from digit_runs import run_command

    path, recipe = tmp_path_factory.mktemp("runs") / "run", write_recipe(GSP)
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        assert run_command("train", recipe, "--run", path, "--seed", "3") == 0
    return SimpleNamespace(path=path, recipe=recipe, printed=printed.getvalue())
