import re
from pathlib import Path

README = Path(__file__).parent.parent / "README.md"


def test_the_examples_are_short():
    text = re.sub(r"<!--.*?-->", "", README.read_text("utf-8"), flags=re.DOTALL)
    for code in re.findall(r"```python\n(.*?)```", text, re.DOTALL):
        assert len(code.strip().splitlines()) <= 16
