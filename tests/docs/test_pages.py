"""Every code block of the README and of the pages of docs/ runs, or is understood.

Before a block that needs something of the reader's there is one within an HTML comment, which
readers do not see and which runs like the others: `monkeypatch` is there, and `own_model.py`.
"""

import functools
import os
import re
import shlex
import shutil
import subprocess
import textwrap
from pathlib import Path

import keras
import matplotlib.pyplot as plt
import processes
import pytest
from digit_runs import run_command

from gsp_tf.commands import COMMANDS
from gsp_tf.recipe import load_recipe

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "experiments/README.md", *sorted((ROOT / "docs").rglob("*.md"))]
FENCE = re.compile(r"^( *)```(.*)\n((?:.*\n)*?)\1```$", re.M)
OWN_FOLDERS = ("my_images", "other_images")
PROGRAMS = (
    "base64",
    "curl",
    "docker",
    "gsp-tf",
    "make",
    "pip",
    "python",
    "tensorflow_model_server",
)


def blocks(page, language=None):
    """Line and code of the blocks of a page in a language; all, with their language, for None."""
    text = page.read_text("utf-8")
    found = [
        (text.count("\n", 0, match.start()) + 1, match[2], textwrap.dedent(match[3]))
        for match in FENCE.finditer(text)
    ]
    return [(line, code) for line, name, code in found if name == language] if language else found


def pages(language):
    chosen = [page for page in PAGES if blocks(page, language)]
    return pytest.mark.parametrize("page", chosen, ids=lambda page: str(page.relative_to(ROOT)))


@pytest.fixture
def short_training(monkeypatch, without_tracing):
    """One epoch of one step, without tracing and compilation."""
    fit = keras.Model.fit

    @functools.wraps(fit)
    def short_fit(self, *args, **options):
        return fit(self, *args, **options | {"epochs": 1, "steps_per_epoch": 1})

    monkeypatch.setattr(keras.Model, "fit", short_fit)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_block_is_in_a_language_that_is_tested(page):
    known = {"python", "sh", "yaml", "text"}
    assert {language for _, language, _ in blocks(page)} <= known
    assert page.read_text("utf-8").count("```") == 2 * len(blocks(page))


def test_the_examples_of_the_readme_are_short():
    for _, code in blocks(ROOT / "README.md", "python"):
        assert len(code.strip().splitlines()) <= 16


@pages("python")
def test_python_blocks_run(page, tmp_path, monkeypatch, short_training):
    monkeypatch.chdir(tmp_path)
    namespace = {"monkeypatch": monkeypatch}
    for line, code in blocks(page, "python"):
        exec(compile("\n" * line + code, str(page), "exec"), namespace)
    plt.close("all")


@pytest.mark.parametrize("page", ["README.md", "docs/quickstart.md"])
def test_a_saved_model_is_used_in_a_new_process(page, tmp_path, monkeypatch):
    *_, (_, prepared), (_, code) = blocks(ROOT / page, "python")
    assert "write_run" in prepared and "keras.saving.load_model" in code
    monkeypatch.chdir(tmp_path)
    exec(prepared, {"keras": keras})
    process = processes.run(code, folder=tmp_path)
    assert process.returncode == 0, process.output
    (shape, product), *_ = re.findall(r"\((\d+),\) ([\d.-]+)", process.output)
    assert int(shape) == 8 and -1 <= float(product) <= 1.001


@pages("yaml")
def test_yaml_blocks_are_parts_of_recipes(page, tmp_path):
    for line, code in blocks(page, "yaml"):
        file = tmp_path / f"line {line}.yaml"
        file.write_text(code, "utf-8")
        load_recipe(file)


@pytest.fixture
def run_by_stand_ins(tmp_path):
    """Function that runs a block in a shell that only notes the commands, and gives them.

    In the place of each of `PROGRAMS`, and of the scripts of experiments/, another script writes
    down its folder and arguments. Nothing else is to be found, so that any other command is an
    error.
    """
    log = tmp_path / "commands"
    stand_in = f'#!/bin/bash\nprintf "%q " "$PWD" "${{0##*/}}" "$@" >> {log}\necho >> {log}\n'
    programs = tmp_path / "programs"
    programs.mkdir()
    for name in PROGRAMS:
        (programs / name).write_text(stand_in)
        (programs / name).chmod(0o755)
    copy = tmp_path / "checkout"
    (copy / ".venv/bin").mkdir(parents=True)
    for name in ("gsp-tf", "pip"):
        installed = copy / ".venv/bin" / name
        installed.write_text(stand_in)
        installed.chmod(0o755)
    left_out = shutil.ignore_patterns("results", "figures")
    shutil.copytree(ROOT / "experiments", copy / "experiments", ignore=left_out)
    for script in copy.rglob("*.sh"):
        script.write_text(stand_in)
    (copy / "recipe.yaml").write_text("name: mine\n")
    (copy / "train.py").touch()

    def run(code):
        log.write_text("")
        shell = ["/bin/bash", "-euc", code]
        subprocess.run(shell, cwd=copy, env={"PATH": str(programs)}, check=True)
        return [shlex.split(line) for line in log.read_text().splitlines()]

    return run


@pages("sh")
def test_commands_are_understood(page, run_by_stand_ins, monkeypatch):
    accepted = []
    is_folder = os.path.isdir
    monkeypatch.setattr(os.path, "isdir", lambda path: path in OWN_FOLDERS or is_folder(path))
    for name, function in COMMANDS.items():

        @functools.wraps(function)
        def accept(**options):
            accepted.append(options)

        monkeypatch.setitem(COMMANDS, name, accept)
    makefile = (ROOT / "Makefile").read_text("utf-8")
    for line, code in blocks(page, "sh"):
        for folder, program, *arguments in run_by_stand_ins(code):
            context = f"{page}, line {line}: {program} {shlex.join(arguments)}"
            if program == "gsp-tf" and not {"--help", "--help-all"} & set(arguments):
                monkeypatch.chdir(folder)
                accepted.clear()
                run_command(*arguments)
                assert accepted, context
            if program == "make":
                assert re.search(f"^{arguments[0]}:", makefile, re.M), context
            if program == "python" and not arguments[0].startswith("-"):
                assert os.path.exists(os.path.join(folder, arguments[0])), context
