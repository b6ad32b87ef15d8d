"""Tests the command line as a process: quick answers, quiet TensorFlow, signals."""

import os
import signal
import subprocess
import sys

import numpy as np
import pytest
from digit_runs import run_command
from embedded import random_embeddings, save_digits, write_embeddings

from gsp_tf import __version__
from gsp_tf.recipe import Recipe
from gsp_tf.runs import RunFolder

LIGHT = """
import sys
from gsp_tf.cli import main
for arguments in {commands}:
    try:
        main(arguments)
    except SystemExit as end:
        print("code", end.code)
print("heavy", sorted({{"tensorflow", "keras", "sklearn"}} & set(sys.modules)))
"""


def start(code, **options):
    """A process that runs Python code, with its output as text."""
    command = [sys.executable, *(["-c", code] if isinstance(code, str) else code)]
    environment = {"PATH": "", "PYTHONPATH": ":".join(filter(None, sys.path))}
    environment["HOME"] = os.path.expanduser("~")
    options["env"] = environment | options.get("env", {})
    options.setdefault("preexec_fn", heed_signals)
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options
    )


def heed_signals():
    """Stop ignoring signals, as processes in the background may do."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


def output(process):
    """The output `(stdout, stderr)` of a process after it has ended."""
    return process.communicate(timeout=600)


def run_lightly(*commands):
    """Exit codes and output of commands that must not import TensorFlow."""
    out, err = output(start(LIGHT.format(commands=[[str(a) for a in c] for c in commands])))
    assert out.splitlines()[-1] == "heavy []", out + err
    return [int(line[5:]) for line in out.splitlines() if line.startswith("code ")], out, err


def test_answers_without_tensorflow():
    commands = [
        ["--version"],
        ["--help"],
        *([name, "--help"] for name in ("train", "check", "embed", "search", "export")),
        ["train", "--help-all"],
        [],
        ["trian"],
        ["train", "--trainin.epochs", "3"],
        ["train", "--training.epoch", "3"],
        ["adapt", "photos", "--los.name", "triplet"],
        ["--versoin", "train"],
        ["--run=runs/mine", "train"],
        ["train", "--training.epochs", "many"],
        ["export", "runs/mine"],
        ["search", "no/such/run", "photo.jpg"],
        ["train", "--resume", "no/such/run"],
        ["report", "no/such/run"],
        ["train", ""],
        ["rank", "embeddings", "--out="],
    ]
    codes, out, err = run_lightly(*commands)
    assert codes == [0] * 8 + [1] * 14
    assert f"gsp-tf {__version__}" in out
    for line in (
        "A command is missing; gsp-tf --help lists them.",
        "'trian' is not a command; did you mean train? The commands are train, adapt,",
        "--trainin.epochs is not an option; did you mean --training.epochs?",
        "--training.epoch is not an option; did you mean --training.epochs?",
        "--los.name is not an option; did you mean --loss.name?",
        "--versoin is not an option; did you mean --version?",
        "--run is not an option.",
        "--training.epochs must be an integer from 0 to 2,147,483,647, received many.",
        "Missing: --format.",
        "Words must not be empty, received gsp-tf train ''.",
        "Words must not be empty, received gsp-tf rank embeddings --out=.",
    ):
        assert f"gsp-tf: error: {line}" in err
    assert err.count("no/such/run is not a run folder: it has no recipe.yaml") == 3
    assert len(err.splitlines()) == 15


def test_commands_on_runs_embeddings_and_files_work_without_tensorflow(tmp_path):
    for seed, status in ((0, "finished"), (1, "interrupted")):
        folder = RunFolder(tmp_path / f"runs/{seed}").start(Recipe("GSP", seed))
        test = {"precision_at_1": 0.5, "map_at_r": 0.25 + seed / 4}
        folder.update_metrics(status=status, test=test, test_classes="x")
    (tmp_path / "runs/demo").mkdir()
    (tmp_path / "runs/notes.txt").touch()
    photos = save_digits(tmp_path / "photos")
    names = sorted(map(str, photos.rglob("*.png")))
    labels = [name.split("/")[-2] for name in names]
    embeddings = random_embeddings(len(names))
    embedded = write_embeddings(tmp_path / "embedded", embeddings, names, labels)
    more = write_embeddings(tmp_path / "more", np.eye(8), [f"/more/{i}" for i in range(8)])
    index = tmp_path / "index"
    codes, out, err = run_lightly(
        ["report", *sorted((tmp_path / "runs").iterdir()), "--out", tmp_path / "tables"],
        ["index", embedded, "--out", index],
        ["search", index, embedded, "--k", 2],
        ["calibrate", embedded, "--false-match-rate", "0.1"],
        ["dedup", photos, "--out", tmp_path / "identical"],
        ["dedup", index, "--distance", "0.1", "--out", tmp_path / "near"],
        ["clean", embedded, "--out", tmp_path / "errors"],
        ["rank", embedded],
        ["verify", embedded, "0.1"],
        ["index", index, "--add", more, "--delete", names[0]],
        ["index", index, "--verify"],
    )
    assert codes == [0] * 11, err
    assert "| GSP | 50.00 ± 0.00† | 37.50 ± 17.68† |" in out
    assert f"† training was interrupted: {tmp_path}/runs/1" in out
    assert f"note: left out: {tmp_path}/runs/demo is not a run folder" in err
    assert f"note: left out: {tmp_path}/runs/notes.txt is not a run folder" in err


def test_help_is_short_and_help_all_is_not(capsys):
    assert run_command("train", "--help") == 0
    short = capsys.readouterr().out
    assert run_command("train", "--help-all") == 0
    whole = capsys.readouterr().out
    assert len(short.splitlines()) <= 35 and "--help-all" in short
    assert "--data.path" in short and "--ccp.pool_size" not in short
    assert "--ccp.pool_size" in whole and "images of each class that the proxies" in whole


IMPORT = ["convert-weights", "x.pth", "--architecture", "googlenet", "--out", "y.weights.h5"]
SIGNAL_AT_IMPORT = """
import os, sys
class Sender:
    def find_spec(self, name, *_):
        if name == {module!r}:
            os.kill(os.getpid(), {number:d})
sys.meta_path.insert(0, Sender())
sys.argv[1:] = {command}
from gsp_tf.cli import main
main()
"""
IMPORTS = """
import gc
import sys
from gsp_tf.cli import main
try:
    main({arguments})
finally:
    assert gc.isenabled() and gc.get_freeze_count() > 0
    print(sorted({{"IPython", "jax", "pandas", "sklearn", "tensorflow"}} & {{*sys.modules}}))
    import pandas, sklearn
    from matplotlib.figure import Figure
"""


def test_a_real_command_is_quiet_and_imports_what_it_uses(write_recipe):
    process = start(IMPORTS.format(arguments=["check", str(write_recipe())]))
    out, err = output(process)
    assert (process.returncode, err) == (0, ""), out
    assert out.splitlines()[-1] == "['tensorflow']"


@pytest.mark.parametrize(
    ("number", "module", "code"),
    [(signal.SIGTERM, "gsp_tf.commands", 143), (signal.SIGINT, "google.protobuf", 130)],
)
def test_a_signal_while_programs_are_imported(number, module, code):
    process = start(SIGNAL_AT_IMPORT.format(module=module, number=number, command=IMPORT))
    assert output(process) == ("", "gsp-tf: interrupted\n")
    assert process.returncode == code


PROLOGUE = """
import atexit, os, signal, sys, time
from gsp_tf.cli import main
from gsp_tf.commands import COMMANDS
def send(number):
    os.kill(os.getpid(), number)
def command(runs: list[str]):
    '''Report.

    Args:
        runs: Run folders.
    '''
    print("result")
"""
STOPS = {
    "in the command": ("    send(signal.SIGHUP)", 129, ""),
    "turned into another error": (
        "    try:\n        send(signal.SIGTERM)\n    except KeyboardInterrupt:\n"
        "        raise TypeError('from a train step')",
        143,
        " (TypeError: from a train step)",
    ),
    "where nothing can be raised": (
        "    class Lost:\n        def __del__(self):\n            send(signal.SIGINT)\n"
        "    Lost()\n    signal.pause()",
        130,
        "",
    ),
    "at the end": ("    atexit.register(send, signal.SIGTERM)\n    return 0", 143, ""),
}


def start_report(body, **options):
    """A process of the command `gsp-tf report a` that ends with the body."""
    ending = "COMMANDS['report'] = command\nsys.argv = ['gsp-tf', 'report', 'a']\nmain()"
    return start(f"{PROLOGUE}{body}\n{ending}", **options)


@pytest.mark.parametrize("where", STOPS)
def test_a_signal_ends_a_command_with_one_line(where):
    body, code, detail = STOPS[where]
    process = start_report(body)
    assert output(process) == ("result\n", f"gsp-tf: interrupted{detail}\n")
    assert process.returncode == code


def test_a_signal_that_is_ignored_from_the_start_stays_ignored():
    process = start_report(
        "    send(signal.SIGHUP)\n    return 0",
        preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN),
    )
    assert output(process) == ("result\n", "") and process.returncode == 0


FALSE_TENSORFLOW = """
import os
os.write(2, b"I0000 00:00 port.cc:153] oneDNN custom operations are on.\\n")
if os.environ.get("FAILS"):
    raise ImportError("TensorFlow is not for this processor")
"""


@pytest.mark.parametrize("level", [{}, {"TF_CPP_MIN_LOG_LEVEL": "0"}])
def test_the_log_of_tensorflow_is_kept_back_unless_its_import_fails(tmp_path, level):
    (tmp_path / "tensorflow.py").write_text(FALSE_TENSORFLOW)
    body = f"    sys.path.insert(0, {str(tmp_path)!r})\n    from importlib.util import find_spec\n"
    body += "    find_spec('tensorflow')  # as Keras does\n    import tensorflow"
    process = start_report(body, env=level | {"FAILS": "yes"})
    err = output(process)[1]
    assert err.startswith("I0000") and "not for this processor" in err and process.returncode == 1
    process = start_report(body, env=level)
    err = output(process)[1]
    assert process.returncode == 0 and err.startswith("I0000") == bool(level)
