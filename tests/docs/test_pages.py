"""Every code block of the README and of the pages of docs/ runs, or is understood.

Before a block that needs something of the reader's there is one within an HTML comment, which
readers do not see and which runs like the others: `monkeypatch` is there, and `own_model.py`.
"""

import functools
import os
import re
import shlex
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
OTHER_PROGRAMS = ("curl", "docker", "gsp-tf", "pip", "tensorflow_model_server")
OF_THE_SHELL = ("done", "export", "for", "until")


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


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_block_is_in_a_language_that_is_tested(page):
    known = {"python", "sh", "yaml", "text"}
    assert {language for _, language, _ in blocks(page)} <= known
    assert page.read_text("utf-8").count("```") == 2 * len(blocks(page))


@pages("python")
def test_python_blocks_run(page, tmp_path, monkeypatch, without_tracing):
    fit = keras.Model.fit

    @functools.wraps(fit)
    def short_fit(self, *args, **options):
        return fit(self, *args, **options | {"epochs": 1, "steps_per_epoch": 1})

    monkeypatch.setattr(keras.Model, "fit", short_fit)
    monkeypatch.chdir(tmp_path)
    namespace = {"monkeypatch": monkeypatch}
    for line, code in blocks(page, "python"):
        exec(compile("\n" * line + code, str(page), "exec"), namespace)
    plt.close("all")


def test_a_saved_model_is_used_in_a_new_process(tmp_path, monkeypatch):
    *_, (_, prepared), (_, code) = blocks(ROOT / "README.md", "python")
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


def commands_of(code):
    """The words of each command of a shell, in which 1 stands for every variable."""
    for line in code.replace("\\\n", " ").splitlines():
        words = shlex.split(re.sub(r"\$\w+", "1", line), comments=True)
        words = [word for word in words if not re.match("[A-Z_]+=", word)]
        if words:
            yield words


@pages("sh")
def test_commands_are_understood(page, tmp_path, monkeypatch):
    accepted = []
    is_folder = os.path.isdir
    monkeypatch.setattr(os.path, "isdir", lambda path: path in OWN_FOLDERS or is_folder(path))
    for name, function in COMMANDS.items():

        @functools.wraps(function)
        def accept(**options):
            accepted.append(options)

        monkeypatch.setitem(COMMANDS, name, accept)
    makefile = (ROOT / "Makefile").read_text("utf-8")
    (tmp_path / "experiments").symlink_to(ROOT / "experiments")
    (tmp_path / "recipe.yaml").write_text("name: mine\n")
    (tmp_path / "train.py").touch()
    for line, code in blocks(page, "sh"):
        monkeypatch.chdir(tmp_path)
        for program, *arguments in commands_of(code):
            context = f"{page}, line {line}: {program} {shlex.join(arguments)}"
            if program == "gsp-tf" and not {"--help", "--help-all"} & set(arguments):
                accepted.clear()
                run_command(*arguments)
                assert accepted, context
            elif program == "make":
                assert re.search(f"^{arguments[0]}:", makefile, re.M), context
            elif program == "python":
                assert Path(arguments[0]).exists(), context
            elif program == "cd":
                monkeypatch.chdir(arguments[0])
            else:
                assert program in (*OTHER_PROGRAMS, *OF_THE_SHELL), context
