"""Writes the table of equations in docs/fidelity.md from the markers of the tests.

.venv/bin/python tools/fidelity.py

A marker names the paper, the number of the equation, the code that a test compares with it, and
what is different there, if anything: `@pytest.mark.equation("GSP", "4.1",
"layers.GeneralizedSumPooling")`. All are literal strings, which are read without running a test.
"""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs/fidelity.md"
BEGIN, END = "<!-- tools/fidelity.py writes from here -->\n", "<!-- to here -->\n"
PAPERS = {
    "GSP": "GSP (Gürbüz, Şener, Alatan, ICCV 2023)",
    "CRT": "CRT (Kan et al., NeurIPS 2022)",
    "A-grouping": "A-grouping (Xu et al.)",
    "multi-head": "Multi-head (global and local embeddings with second-order attention)",
    "thesis": "Thesis (Gürbüz, 2022)",
}


def equations():
    """The values of the markers with the path of the test file, by paper and number."""
    found = []
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        text = path.read_text("utf-8")
        for test in ast.parse(text).body if "mark.equation" in text else ():
            for call in map(ast.walk, getattr(test, "decorator_list", [])):
                found += [
                    _equation(*map(ast.literal_eval, node.args))
                    | {"file": path.relative_to(ROOT).as_posix(), "test": test.name}
                    for node in call
                    if isinstance(node, ast.Call)
                    and ast.unparse(node.func) == "pytest.mark.equation"
                ]
    return sorted(found, key=lambda e: (list(PAPERS).index(e["paper"]), _parts(e["number"])))


def _equation(paper, number, code, deviation=""):
    return {"paper": paper, "number": number, "code": f"gsp_tf.{code}", "deviation": deviation}


def tables():
    """One Markdown table per paper."""
    text, found = "", equations()
    for paper, title in PAPERS.items():
        rows = [e for e in found if e["paper"] == paper]
        if rows:
            text += f"\n### {title}\n\n| equation | code | test | deviation |\n"
            text += "| --- | --- | --- | --- |\n" + "".join(map(_row, rows))
    return text + "\n"


def page():
    """Text of docs/fidelity.md with the current tables."""
    before, rest = PAGE.read_text("utf-8").split(BEGIN)
    return before + BEGIN + tables() + END + rest.split(END)[1]


def _row(equation):
    test = f"[{equation['test']}](../{equation['file']})"
    deviation = equation["deviation"].replace("|", "\\|")
    return f"| {equation['number']} | `{equation['code']}` | {test} | {deviation} |\n"


def _parts(number):
    """Key that sorts 4.2 before 4.10, and numbers before names."""
    return [(not part.isdigit(), int(part) if part.isdigit() else 0, part)
            for part in re.findall(r"\d+|[^\W\d]+", number)]  # fmt: skip


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
