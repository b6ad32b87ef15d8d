# `make demo` trains and compares GAP and GSP; `make test` runs all tests, `make bench` all
# benchmarks, `make docs` builds the documentation in site/. All set up .venv first: `make demo`
# what the library needs, the others all that they try.
# `make test-torch` runs the tests of operations, layers, losses and trainings on PyTorch, and
# `make test-jax` on JAX.
# `make peers` installs what whole jobs are compared with, in .venv-peers.
# `make reference-pml` writes what pytorch-metric-learning computes, in .venv-pml, for the tests,
# `make reference-programs` what programs of papers compute, there too, and
# `make reference-similarity` what TensorFlow Similarity computes, in .venv-similarity.
# `make reference-signatures` lists the public classes of the libraries that people come from.
# `make package` builds the wheel and the sdist of the last commit in dist/, checks both, and uses the
# wheel alone, on each of PYTHONS. `make test-oldest` runs all tests with the oldest versions that pyproject.toml allows.
# `make check-addons` compares the losses with TensorFlow Addons', which runs in .venv-addons.
PYTHON ?= python3
VENV := .venv
INSTALLED := $(VENV)/.installed
COMPLETE := $(VENV)/.complete

PYTEST := -m pytest -n 2 --dist worksteal
GROUPS_OF_TESTS := "tests/losses tests/search" "tests/layers tests/ops tests/papers tests/training" \
	"tests/runs" "tests/backbones gsp_tf" \
	"tests $(addprefix --ignore=tests/,losses search layers ops papers training runs backbones)"
define all_groups
	failed=0; for folders in $(GROUPS_OF_TESTS); do $(1)/bin/python $(PYTEST) $$folders || failed=1; done; exit $$failed
endef
ON_EVERY_BACKEND := tests/ops tests/layers tests/losses \
	tests/training/test_fits_on_backends.py tests/training/test_health.py tests/training/test_chunks.py \
	tests/training/test_saved_learners.py \
	tests/test_backends.py::test_values_in_float64_are_those_of_tensorflow \
	"tests/docs/test_pages.py::test_python_blocks_run[README.md]" \
	"tests/docs/test_pages.py::test_python_blocks_run[docs/backends.md]"

ADDONS_PYTHON ?= $(shell for python in python3.11 python3.10 python3.9; do \
	$$python --version >/dev/null 2>&1 && echo $$python && exit; done; echo python3)
ADDONS := .venv-addons
PML := .venv-pml
SIMILARITY := .venv-similarity
PEERS := .venv-peers
PROGRAMS := yash0307/RecallatK_surrogate@ed052029d258555df2f94dd82d6f7df60ef7cc6f \
	mk-minchul/AdaFace@c60eaa786a42c03444f3df7096dbaf9d57ae010d \
	NUST-Machine-Intelligence-Laboratory/Anti-Collapse-Loss@ec1e0bcdecbe42a32c6e3453417e3bd62d09fe7d \
	tjddus9597/HIER-CVPR23@3986a744a1a54fd357e307d1cb3f2e81910b9ffc
PACKAGE := .venv-package
WHEEL := .venv-wheel
PYTHONS ?= $(PYTHON)
OLDEST := .venv-oldest
LIBRARIES := pytorch-metric-learning==2.9.0 tensorflow-similarity==0.17.1 tensorflow-addons==0.23.0

# TensorFlow keeps what it compiles until its process ends, so that groups of folders run one after the
# other. A worker has one core. Python keeps what it compiles, and pytest the tests that it rewrites.
test test-torch test-jax test-oldest: export OMP_NUM_THREADS ?= 1
test test-torch test-jax test-oldest: export TF_NUM_INTRAOP_THREADS ?= 1
test test-torch test-jax test-oldest: export PYTHONDONTWRITEBYTECODE =

.PHONY: demo test test-torch test-jax test-oldest bench peers docs package check-addons clean \
	reference-pml reference-programs reference-similarity reference-signatures

demo: $(INSTALLED)
	$(VENV)/bin/gsp-tf demo

test: $(COMPLETE)
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(call all_groups,$(VENV))

test-oldest: $(OLDEST)/.installed
	$(call all_groups,$(OLDEST))

test-torch test-jax: test-%: $(COMPLETE)
	KERAS_BACKEND=$* $(VENV)/bin/python $(PYTEST) $(ON_EVERY_BACKEND)

$(OLDEST)/.installed: pyproject.toml
	$(PYTHON) -m venv --clear $(OLDEST)
	$(OLDEST)/bin/python -m pip install uv
	VIRTUAL_ENV=$(OLDEST) $(OLDEST)/bin/uv pip install --resolution lowest-direct \
		-e ".[dev,docs,explore,heif,hub,onnx,pretrained,ray,tune]"
	touch $@

bench: $(COMPLETE) $(PEERS)/.installed
	$(VENV)/bin/gsp-tf bench

docs: export NO_MKDOCS_2_WARNING = 1
docs: $(COMPLETE)
	$(VENV)/bin/python -m mkdocs build --strict

package: $(PACKAGE)/.installed
	rm -rf dist build/committed
	mkdir -p build/committed
	git archive HEAD | tar --extract --directory build/committed
	$(PACKAGE)/bin/python -m build --outdir dist build/committed
	$(PACKAGE)/bin/python -m twine check --strict dist/*
	$(PACKAGE)/bin/python -m readme_renderer README.md -o /dev/null  # twine passes what fails here
	for python in $(PYTHONS); do tools/try_wheel.sh $$python dist/*.whl $(WHEEL) || exit 1; done

$(PACKAGE)/.installed: requirements-package.txt
	$(PYTHON) -m venv $(PACKAGE)
	$(PACKAGE)/bin/python -m pip install -r requirements-package.txt
	touch $@

check-addons: export TF_CPP_MIN_LOG_LEVEL = 3
check-addons: $(COMPLETE) $(ADDONS)/.installed
	$(ADDONS)/bin/python tools/addons/reference.py $(ADDONS)/reference.npz
	$(VENV)/bin/python tools/addons/compare.py $(ADDONS)/reference.npz

reference-pml: $(PML)/.installed
	$(PML)/bin/python tools/pml/reference.py tests/oracles/losses_field.npz
	$(PML)/bin/python tools/pml/miners.py tests/oracles/miners.npz
	$(PML)/bin/python tools/pml/arguments.py tests/oracles/loss_arguments.npz
	$(PML)/bin/python tools/pml/differences.py tests/oracles/differences.npz

reference-programs: $(PML)/.installed $(PML)/programs
	$(PML)/bin/python tools/pml/programs.py $(PML)/programs tests/oracles/losses_programs.npz

$(PML)/programs:
	rm -rf $@.part
	for program in $(PROGRAMS); do \
		folder=$@.part/$$(basename $${program%@*}); \
		git clone --quiet https://github.com/$${program%@*} $$folder && \
		git -C $$folder checkout --quiet $${program#*@} || exit 1; \
	done
	mv $@.part $@

reference-similarity: export TF_USE_LEGACY_KERAS = 1
reference-similarity: $(SIMILARITY)/.installed
	$(SIMILARITY)/bin/python tools/pml/similarity.py tests/oracles/losses_similarity.npz

reference-signatures: $(COMPLETE)
	rm -rf build/libraries
	$(VENV)/bin/python -m pip download --no-deps --only-binary :all: --python-version 3.11 \
		--platform manylinux2014_x86_64 --dest build/libraries $(LIBRARIES)
	for wheel in build/libraries/*.whl; do \
		library=$$(basename $${wheel%%-*}); \
		$(VENV)/bin/python -m zipfile -e $$wheel build/libraries && \
		$(VENV)/bin/python tools/migration/signatures.py build/libraries/$$library \
			>tools/migration/$$library.txt || exit 1; \
	done

$(SIMILARITY)/.installed:
	$(PYTHON) -m venv $(SIMILARITY)
	$(SIMILARITY)/bin/python -m pip install tensorflow_similarity==0.17.1 tf-keras
	touch $@

$(PML)/.installed: requirements-pml.txt
	$(PYTHON) -m venv $(PML)
	$(PML)/bin/python -m pip install --upgrade pip
	$(PML)/bin/python -m pip install -r requirements-pml.txt
	touch $@

$(PEERS)/.installed: requirements-peers.txt
	$(PYTHON) -m venv $(PEERS)
	$(PEERS)/bin/python -m pip install -r requirements-peers.txt
	touch $@

peers: $(PEERS)/.installed

$(INSTALLED): requirements.txt requirements-demo.txt pyproject.toml
	$(call install,requirements-demo.txt)
	touch $@

$(COMPLETE): requirements.txt requirements-test.txt pyproject.toml
	test ! -x $(VENV)/bin/python || $(VENV)/bin/python -m pip uninstall --yes tensorflow-cpu
	$(call install,requirements-test.txt)
	touch $(INSTALLED) $@

define install
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed, found " + sys.version)'
	$(PYTHON) -m venv $(VENV)
	$(VENV)/bin/python -m pip install --upgrade pip
	$(VENV)/bin/python -m pip install -r $(1)
	$(VENV)/bin/python -m pip install --no-deps -e .
endef

$(ADDONS)/.installed: requirements-addons.txt
	$(ADDONS_PYTHON) -c 'import sys; sys.exit(not (3, 9) <= sys.version_info < (3, 12) and "TensorFlow Addons needs Python 3.9 to 3.11, found " + sys.version.split()[0] + "; make check-addons ADDONS_PYTHON=... names another")'
	$(ADDONS_PYTHON) -m venv $(ADDONS)
	$(ADDONS)/bin/python -m pip install --upgrade pip
	$(ADDONS)/bin/python -m pip install -r requirements-addons.txt
	touch $@

clean:
	rm -rf $(VENV) $(ADDONS) $(PML) $(SIMILARITY) $(PEERS) $(PACKAGE) $(WHEEL) $(OLDEST) build dist site
