import json
import re
import signal
import socket
from pathlib import Path

import keras
import numpy as np
import processes
import pytest
from own_model import write_folder

from gsp_tf.training import epoch_of

DOCS = Path(__file__).parents[2] / "docs/distributed.md"
STRATEGY = "tf.distribute.MultiWorkerMirroredStrategy()"
WORKER = """
import os
import sys

os.environ["TF_CONFIG"] = sys.argv[1]
"""
DEATH = """
def die(batch, logs):
    if batch == 1 and os.path.exists("die") and learner.optimizer.iterations == 8:
        os.kill(os.getpid(), 9)

callbacks = [keras.callbacks.LambdaCallback(on_train_batch_end=die)]
"""
SMALLER = {
    "steps, shared = 100": "steps, shared = 3",
    "classes_per_batch=16, images_per_class=4": "classes_per_batch=4, images_per_class=2",
    "epochs=10": "epochs=4",
    "capacity=1024": "capacity=20",
    "callbacks=[": "callbacks=[*callbacks, ",
}


@pytest.fixture
def folder(tmp_path):
    write_folder(tmp_path / "my_images", num_classes=12)
    (tmp_path / "shared").mkdir()
    return tmp_path


def program():
    """The last program of the docs, that for several machines, with less to do."""
    *_, code = re.findall(r"```python\n(.*?)```", DOCS.read_text("utf-8"), re.DOTALL)
    for old, new in SMALLER.items():
        assert code.count(old) == 1, old
        code = code.replace(old, new)
    assert code.count(STRATEGY) == 1
    return code


def run_workers(folder, mortal=None):
    """Exit codes of the two workers, of which the mortal one dies in its third epoch."""
    code = WORKER + program().replace("\nsteps,", f"{DEATH}\nsteps,")
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(2)]
    addresses = [f"127.0.0.1:{s.getsockname()[1]}" for s in sockets]
    for s in sockets:
        s.close()
    workers = []
    for index in range(2):
        place = folder / f"worker {index}"
        place.mkdir(exist_ok=True)
        for name in ("my_images", "shared"):
            if not (place / name).exists():
                (place / name).symlink_to(folder / name)
        (place / "die").unlink(missing_ok=True)
        if index == mortal:
            (place / "die").touch()
        task = {"type": "worker", "index": index}
        config = json.dumps({"cluster": {"worker": addresses}, "task": task})
        workers.append(processes.start(code, config, folder=place))
    for worker in workers:
        worker.join()
    return [worker.exitcode for worker in workers]


@pytest.mark.evidence  # three processes of TensorFlow, twice
def test_a_job_whose_worker_was_killed_ends_with_the_numbers_of_one_process(folder, monkeypatch):
    codes = run_workers(folder, mortal=1)
    assert codes[1] == -signal.SIGKILL and codes[0] not in (0, -signal.SIGKILL)
    assert epoch_of(folder / "shared/state.npz") == 2
    assert run_workers(folder) == [0, 0]
    resumed = np.load(folder / "shared/state.npz")
    best = keras.models.load_model(folder / "shared/best.keras")

    (folder / "alone/shared").mkdir(parents=True)
    (folder / "alone/my_images").symlink_to(folder / "my_images")
    monkeypatch.chdir(folder / "alone")
    names = {"callbacks": []}
    exec(program().replace(STRATEGY, "tf.distribute.get_strategy()"), names)
    alone = np.load("shared/state.npz")
    assert alone.files == resumed.files
    for name in alone.files[1:]:
        np.testing.assert_allclose(resumed[name], alone[name], rtol=1e-5, atol=1e-5, err_msg=name)
    expected = keras.models.load_model("shared/best.keras").variables
    for ours, theirs in zip(best.variables, expected, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-5, err_msg=ours.path)
