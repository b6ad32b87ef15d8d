"""Tables of the benchmarks, on the screen and in a Markdown file.

A benchmark is a file in this folder with a function `run(quick=False)` that returns a list of
`Table`. It ends with

    if __name__ == "__main__":
        main(run)
"""

import argparse
import datetime
import math
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import tensorflow as tf
from machine import machine
from rich import box, console, table

from gsp_tf._files import replace_text

HEADER = """# Results of the benchmarks

`make bench` writes this file, `gsp-tf bench NAME` the section of one benchmark. Ratios are those of
medians of at least 20 rounds after a warm-up, unless the table says how many; in each round all
sides take their turn. Peaks of memory are beyond what the process holds before, in a process of its
own. Targets stand beside what was measured.

"""
NO_GPU = "## GPU\n\nNone present: the GPU section was not run.\n"
QUICK = "A quick run, with small sizes and few rounds: its numbers say nothing.\n\n"


@dataclass(frozen=True)
class Ratio:
    """A measured ratio and its target.

    Args:
        value: positive number.
        at_most: upper target, or `None`.
        at_least: lower target, or `None`.
        unit: unit of the value if it is not a ratio.

    Raises:
        ValueError: if the value is not positive and finite.
    """

    value: float
    at_most: float | None = None
    at_least: float | None = None
    unit: str = ""

    def __post_init__(self):
        if not 0 < self.value < math.inf:
            raise ValueError(f"A ratio is positive and finite, received {self.value}.")

    def __str__(self):
        shown = f"{self.value:.3f}{self.unit}"
        for words, target, is_met in (
            ("at most", self.at_most, self.at_most is None or self.value <= self.at_most),
            ("at least", self.at_least, self.at_least is None or self.value >= self.at_least),
        ):
            if target is not None:
                shown += f" ({words} {target}{self.unit}: {'met' if is_met else 'not met'})"
        return shown


@dataclass(frozen=True)
class Table:
    """One table of results.

    Args:
        title: the measured quantity and its sizes.
        columns: headings, with units.
        rows: cells of each row: str, numbers (shown with three digits) and `Ratio`.
        note: text below the table.
    """

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence]
    note: str = ""

    def rich(self):
        """The table for `rich`."""
        shown = table.Table(title=self.title, caption=self.note or None, box=box.SIMPLE)
        for name, is_text in zip(self.columns, self._are_texts(), strict=True):
            shown.add_column(name, justify="left" if is_text else "right")
        for row in self.rows:
            shown.add_row(*map(_shown, row))
        return shown

    def markdown(self):
        """The table in Markdown, with its title as a level-3 heading."""
        rule = ["---" if is_text else "---:" for is_text in self._are_texts()]
        lines = [self.columns, rule, *(map(_shown, row) for row in self.rows)]
        cells = "".join(f"| {' | '.join(line)} |\n" for line in lines)
        return f"### {self.title}\n\n{cells}" + (f"\n{self.note}\n" if self.note else "")

    def _are_texts(self):
        columns = zip(*self.rows, strict=True)
        return [any(isinstance(cell, str) for cell in column) for column in columns]


def _shown(cell):
    if isinstance(cell, str | Ratio):
        return str(cell)
    if isinstance(cell, int) or cell == 0:
        return f"{cell:,}"
    return f"{cell:,.{max(0, 2 - math.floor(math.log10(abs(cell))))}f}"


def main(run):
    """Run a benchmark as a program: print its tables and, with --out, write them to a file."""
    parser = argparse.ArgumentParser(description=sys.modules[run.__module__].__doc__)
    parser.add_argument("--quick", action="store_true", help="small sizes and few rounds: a trial")
    parser.add_argument("--out", help="Markdown file whose section of this benchmark is replaced")
    options = parser.parse_args()
    tables = run(quick=options.quick)
    screen = console.Console(width=None if sys.stdout.isatty() else 140)
    for shown in tables:
        screen.print(shown.rich())
    if options.out:
        device = "GPU" if tf.config.list_physical_devices("GPU") else "CPU"
        text = f"{datetime.date.today()}; {machine()}.\n\n" + QUICK * options.quick
        text += "\n".join(shown.markdown() for shown in tables)
        write_section(options.out, f"{Path(sys.argv[0]).stem} ({device})", text)


def write_section(path, title, text):
    """Write one section of a results file; the other sections stay.

    Args:
        path: Markdown file; created if missing.
        title: title such as `losses (CPU)`; replaces a section with this title.
        text: Markdown below the title.
    """
    path = Path(path)
    old = path.read_text(encoding="utf-8") if path.exists() else ""
    # The split puts the level-2 headings at odd positions, with their sections between them.
    parts = re.split(r"^## (.+)\n", old, flags=re.MULTILINE)[1:]
    sections = {name: body.strip() for name, body in zip(parts[::2], parts[1::2], strict=True)}
    sections.pop("GPU", None)
    sections[title] = text.strip()
    in_order = sorted(sections.items(), key=lambda item: ("(GPU)" in item[0], item[0]))
    whole = HEADER + "\n".join(f"## {name}\n\n{body}\n" for name, body in in_order)
    if not any("(GPU)" in name for name in sections):
        whole += "\n" + NO_GPU
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_text(path, whole)
