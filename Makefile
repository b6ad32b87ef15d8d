# `make demo` trains and compares GAP and GSP; `make test` runs all tests. Both set up .venv first.
PYTHON ?= python3
VENV := .venv
INSTALLED := $(VENV)/.installed

.PHONY: demo test clean

demo: $(INSTALLED)
	$(VENV)/bin/gsp-tf demo

test: $(INSTALLED)
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/python -m pytest -n 2

$(INSTALLED): requirements.txt setup.cfg pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10) and "Python 3.10 or newer is needed, found " + sys.version)'
	$(PYTHON) -m venv $(VENV)
	$(VENV)/bin/python -m pip install --upgrade pip
	$(VENV)/bin/python -m pip install -r requirements.txt
	$(VENV)/bin/python -m pip install --no-deps -e .
	touch $@

clean:
	rm -rf $(VENV)
