"""Costs of many workers and of two devices, tried on one machine.

`.venv/bin/python benchmarks/cluster.py` embeds collections with the workers of a local cluster of
Ray that counts 8 cores, whatever the machine has. Most workers sleep for each image instead of
computing, so that the cores are not the limit: what is left is the engine. Then one worker is slow,
one is killed, and the driver is killed and started again. After each job, every image must be there
once. At the end, the same training takes its steps on one device and on two virtual ones.
"""

import contextlib
import functools
import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from gsp_tf.search import EmbeddingsFolder, RunModel, collection

HERE = Path(__file__).parent
NETWORK, TRAINED = "efficientnet_lite0", "resnet20"
CORES, FAULTY = 8, 4  # workers at most, and those of whom one fails
SHARD, SLEEP = 200, 0.01  # images of a shard, and seconds of sleep for an image
SLOWER = 4
BATCH, STEPS = 128, 12


def note(what):
    """Adds the time, the process and a word to the notes of a job."""
    with open(os.environ["NOTES"], "a") as file:
        file.write(f"{time.time()} {os.getpid()} {what}\n")


class Sleeping(RunModel):
    """A model that sleeps for each image; that of one worker may be slow, or kill its process."""

    def __init__(self, run, dim):
        super().__init__(run)
        self.width, self.shards, self.fault = dim, 0, os.environ["FAULT"]
        try:
            Path(os.environ["NOTES"]).with_name("faulty").touch(exist_ok=False)
        except FileExistsError:
            self.fault = ""

    def embed_images(self, images, description=None):
        seconds = len(images) * float(os.environ["SLEEP"])
        self.shards += 1
        if self.fault == "killed worker" and self.shards == 5:
            time.sleep(seconds / 2)
            note("kill")
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(seconds * (SLOWER if self.fault == "slow worker" else 1))
        vectors = np.random.default_rng(0).normal(size=(len(images), self.width))
        return vectors.astype(np.float32), [""] * len(images)


class Worker(collection._ShardEmbedder):
    """A worker that notes when it begins and ends a shard."""

    def __init__(self, run, *others):
        super().__init__(run, *others)
        if "SLEEP" in os.environ:
            self.embedder.model = Sleeping(run, self.metadata.dim)

    def _try(self, number):
        note("begin")
        problem = super()._try(number)
        note("end")
        return problem


def embed(folder, workers, shard_size):
    """The job, in a process of its own."""
    collection._ray_session = functools.partial(collection._ray_session, CORES)
    collection._ShardEmbedder = Worker
    run, source, out = (Path(folder, name) for name in (NETWORK, "collection", "embedded"))
    collection.embed_collection(run, source, out, workers, shard_size=shard_size)


def job(folder, paths, workers, shard_size, **settings):
    """Times at which a job began and ended, and its notes: times, processes and words."""
    for name in ("collection", "embedded"):
        shutil.rmtree(folder / name, ignore_errors=True)
    (folder / "faulty").unlink(missing_ok=True)
    (folder / "collection").mkdir()
    pq.write_table(pa.table({"path": paths}), folder / "collection/0.parquet", 10_000)
    notes = folder / "notes"
    notes.write_text("")
    environment = {**os.environ, "NOTES": str(notes), "PYTHONPATH": f"{HERE}:{HERE.parent}"}
    environment |= {name: str(value) for name, value in settings.items()}
    program = f"import cluster; cluster.embed({str(folder)!r}, {workers}, {shard_size})"
    began = time.time()
    with open(folder / "output", "w") as output:
        command = [sys.executable, "-c", program]
        options = {"stdout": output, "stderr": output, "env": environment}
        driver = subprocess.Popen(command, **options)
        if settings.get("FAULT") == "killed driver":
            while notes.read_text().count("end") < len(paths) / shard_size / 2:
                assert driver.poll() is None
                time.sleep(0.02)
            driver.kill()
            with notes.open("a") as file:
                file.write(f"{time.time()} {driver.pid} kill\n")
            driver.wait()
            driver = subprocess.Popen(command, **options)
        if driver.wait():
            raise SystemExit((folder / "output").read_text()[-3000:])
    ended = time.time()
    print(f"{workers} workers, {settings}: {ended - began:.1f} s", flush=True)
    shards = EmbeddingsFolder.open(folder / "embedded").shards()
    found = [path for shard in shards for path in shard["path"].to_pylist()]
    assert sorted(found) == sorted(paths), "not every image is there once"
    lines = [line.split() for line in notes.read_text().splitlines()]
    return began, ended, [(float(when), process, what) for when, process, what in lines]


def times(began, ended, notes):
    """Seconds until the first shard and until all workers have one, between the shards of a worker,
    of a shard, and after the last one."""
    by_worker = {}
    for when, worker, what in notes:
        by_worker.setdefault(worker, []).append((when, what))
    pauses, shards = [], []
    for events in by_worker.values():
        for (before, _), (after, what) in itertools.pairwise(events[2:]):  # the first loads a model
            (pauses if what == "begin" else shards).append(after - before)
    firsts = [events[0][0] - began for events in by_worker.values()]
    return min(firsts), max(firsts), np.mean(pauses), np.mean(shards), ended - notes[-1][0]


def names(count):
    """Paths of images that sleeping workers do not read."""
    return [f"/images/{number:07}.jpg" for number in range(count)]


def scaling(folder, photographs, shard, rounds):
    """What the engine adds, by the number of workers."""
    from results import Ratio, Table

    sleep = {"FAULT": "", "SLEEP": SLEEP}
    cases = [("sleep", n, shard, names(4 * rounds * n * shard), sleep) for n in (1, 2, 4, 8)]
    cases += [("nothing", n, 1, names(250 * rounds), sleep | {"SLEEP": 0}) for n in (1, 8)]
    cases += [(NETWORK, n, len(photographs) // 10, photographs, {}) for n in (1, 2)]
    rows, alone = [], {}
    for image, workers, size, paths, settings in cases:
        taken = [times(*job(folder, paths, workers, size, **settings)) for _ in range(rounds)]
        first, every, pause, of_shard, after = np.median(taken, axis=0)
        speed = size / (pause + of_shard)
        target = None if size == 1 or workers == 1 else 0.9
        ratio = Ratio(speed / alone.setdefault(image, speed), at_least=target)
        beyond = 1e3 * (of_shard - size * settings["SLEEP"]) if settings else ""
        shown = 1e3 * pause, beyond, workers * speed, ratio, first, every, after
        rows.append((image, workers, len(paths) // size, size, *shown))
    columns = "an image", "workers", "shards", "of images", "ms between shards"
    columns += "ms of a shard beyond sleep", "images/s", "efficiency"
    columns += "s until the first shard", "until every worker has one", "after the last"
    note = (
        f"Medians of {rounds} jobs. Workers of the first rows sleep {1e3 * SLEEP:.0f} ms for each "
        "image, the next do nothing; all read the list and write embeddings. Images/s are those of "
        "workers that have a shard; efficiency is their speed over that of one worker alone. "
        f"The start of Python, of Ray and of the driver's model are in the seconds. {load()}"
    )
    return Table("embed-collection on a cluster of one machine", columns, rows, note)


def faults(folder, shard, rounds):
    """What a slow worker, a killed worker and a killed driver cost."""
    from results import Table

    paths = names(4 * rounds * FAULTY * shard)
    slow_share = FAULTY / (FAULTY - 1 + 1 / SLOWER)
    rows, expected = [], 0
    for fault in ("none", "slow worker", "killed worker", "killed driver"):
        taken = []
        for _ in range(rounds):
            settings = {"FAULT": fault, "SLEEP": SLEEP}
            began, ended, notes = job(folder, paths, FAULTY, shard, **settings)
            firsts, killed = {}, [when for when, _, what in notes if what == "kill"]
            for when, worker, what in notes:
                if what == "begin":
                    firsts.setdefault(worker, when)
            begun = sum(what == "begin" for _, _, what in notes)
            again = sorted(firsts.values())[FAULTY] - killed[0] if killed else 0
            taken.append((ended - began, again, shard * begun - len(paths)))
        seconds, again, repeated = np.median(taken, axis=0)
        expected = expected or seconds
        slow = len(paths) * SLEEP / FAULTY * (slow_share - 1) * (fault == "slow worker")
        rows.append((fault, seconds, seconds - expected - slow, again or "", int(repeated)))
    columns = "fault", "s of the job", "longer by", "s until a new worker has a shard"
    note = (
        f"Medians of {rounds} jobs, {len(paths) // shard} shards of {shard} images that take "
        f"{shard * SLEEP:.0f} s each, {FAULTY} workers. One worker is {SLOWER} times slower, and "
        "its job is compared with one that shares the work without rest; one kills itself in the "
        "middle of its fifth shard; the driver is killed after half of the shards, and started "
        "again at once. Every image is there once."
    )
    return Table("Faults", [*columns, "images embedded again"], rows, note)


def train(devices, side):
    """Prints the losses, and the times of clock and processor, after each step of a training."""
    import keras

    from gsp_tf.recipe import load_recipe
    from gsp_tf.runs import build_learner

    class Steps(keras.callbacks.Callback):
        ends = []

        def on_train_batch_end(self, batch, logs=None):
            self.ends.append((float(logs["loss"]), time.perf_counter(), time.process_time()))

    options = {
        "backbone.name": TRAINED,
        "backbone.freeze_batch_normalization": "true",  # it would see the images of a device alone
        "embedding.dim": 128,
        "loss.name": "multi_similarity",
        "data.image_size": side,
        "training.optimizer": "sgd",  # Adam scales differences by rounding up
        "training.jit_compile": "false",
    }
    recipe = load_recipe([], [f"--{name}={value}" for name, value in options.items()])
    strategy = contextlib.nullcontext()
    if devices > 1 and keras.backend.backend() == "jax":
        devices = keras.distribution.list_devices()
        strategy = keras.distribution.DataParallel(devices=devices).scope()
    elif devices > 1:
        import tensorflow as tf

        cpu = tf.config.list_physical_devices("CPU")[0]
        parts = [tf.config.LogicalDeviceConfiguration()] * devices
        tf.config.set_logical_device_configuration(cpu, parts)
        strategy = tf.distribute.MirroredStrategy([f"CPU:{n}" for n in range(devices)]).scope()
    keras.utils.set_random_seed(0)
    images = np.random.default_rng(0).integers(0, 256, (STEPS * BATCH, side, side, 3), np.uint8)
    labels = np.arange(len(images)) // 4
    given = {"batch_size": BATCH, "shuffle": False, "verbose": 0, "callbacks": [Steps()]}
    with strategy:
        build_learner(recipe, len(images), 3).fit(images, labels, **given)
    print(json.dumps(Steps.ends))


def training(side, rounds):
    """Steps on one device and on two, which share the cores."""
    from measure import on_backend
    from results import Ratio, Table

    rows = []
    for backend in ("tensorflow", "jax"):
        taken = []
        for _ in range(rounds):
            sides = []
            for devices in (1, 2):
                flags = f"--xla_force_host_platform_device_count={devices}"
                program = f"import cluster; cluster.train({devices}, {side})"
                sides.append(on_backend(backend, program, XLA_FLAGS=flags))
            losses, clock, processor = np.moveaxis(sides, -1, 0)
            clock, processor = (np.diff(t)[:, 2:].mean(axis=1) for t in (clock, processor))
            differ = np.abs(losses[1] / losses[0] - 1).max()
            taken.append((*clock * 1e3, clock[1] / clock[0], processor[1] / processor[0], differ))
        one, two, ratio, work, differ = np.median(taken, axis=0)
        rows.append((backend, one, two, Ratio(ratio), Ratio(work), f"{differ:.0e}"))
    columns = "backend", "ms on one device", "on two", "times one", "processor, times one"
    note = (
        f"Medians of {rounds} pairs of processes, {STEPS} steps each. Two devices share the cores, "
        f"so 1 is the best. Losses are means over the steps so far. {load()}"
    )
    title = f"Training steps, {TRAINED} at {side} pixels, batch of {BATCH}"
    return Table(title, [*columns, "losses differ by"], rows, note)


def load():
    """What else the machine did."""
    return f"The load of the machine was {os.getloadavg()[2]:.1f} on {os.cpu_count()} cores."


def run(quick=False):
    from pipeline import photographs_in

    from gsp_tf.runs import pretrained_run

    shard, rounds = (20, 1) if quick else (SHARD, 2)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        pretrained_run(NETWORK, folder)
        _, photographs = photographs_in(folder, 200 if quick else 1000)
        photographs = list(map(str, photographs))
        tables = [scaling(folder, photographs, shard, rounds), faults(folder, shard, rounds)]
    return [*tables, training(16 if quick else 32, rounds)]


if __name__ == "__main__":
    from results import main  # imports TensorFlow, which a worker does without

    main(run)
