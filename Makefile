# Everything runs in .venv, made on first use: only Python 3.11+, pip and make are needed.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
CONSTRAINTS := constraints.txt
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
# PySpark is large and of no use without Java: its tests say so and are skipped where there is none.
SPARK := $(if $(shell command -v java),$(shell printf ',spark'))

PEERS := .venv-peers

# The bounds that pyproject.toml declares are run: the lowest of each on the lowest Python, the newest of all on a new one.
LOWEST := .venv-lowest
LOWEST_PYTHON ?= 3.11
NEWEST := .venv-newest
NEWEST_PYTHON ?= 3.13
# uv comes by pip, asks the index that pip asks, and finds every Python that pyenv has.
TOOLS := .venv-tools
INDEX = $(or $(PIP_INDEX_URL),$(shell $(PYTHON) -m pip config get global.index-url 2>/dev/null))
PYENVS = $(shell pyenv versions --bare 2>/dev/null | paste -sd: -)
UV = $(if $(INDEX),UV_DEFAULT_INDEX=$(INDEX)) $(if $(PYENVS),PYENV_VERSION=$(PYENVS)) $(TOOLS)/bin/uv --quiet
# Two processes on two cores: threads of the linear algebra would only wait for each other.
export OMP_NUM_THREADS ?= 1
export OPENBLAS_NUM_THREADS ?= 1
SUITE := -m pytest -n 2 --dist worksteal
FAST := $(SUITE) -m 'not slow'

.PHONY: demo test test-all test-lowest test-newest check docs site format faults faults-page verdicts-page experiments bench peers clean

demo: $(VENV)/.core ## the main job on real data: rodents of the Portal project
	$(BIN)/fieldcal demo

test: $(VENV)/.dev ## the fast tests, doctests included: minutes
	$(BIN)/python $(FAST)

test-all: $(VENV)/.dev ## all tests: every engine, Spark, PostgreSQL, a browser, simulations, the pages of the site
	$(BIN)/python $(SUITE)

# What old libraries do to each other is no fault of ours: they use what a newer one beneath them has deprecated, and PySpark
# below 4.2 leaves its sockets to the garbage collector.
test-lowest: $(LOWEST)/.made ## the fast tests with the lowest versions that pyproject.toml allows
	FIELDCAL_VERSIONS=lowest $(LOWEST)/bin/python $(FAST) -W ignore::DeprecationWarning -W 'ignore:unclosed <socket:ResourceWarning'

test-newest: $(NEWEST)/.made ## the fast tests with the newest versions there are, without constraints
	$(UV) pip install --python $(NEWEST) --upgrade -e '.[test$(SPARK)]'
	$(NEWEST)/bin/python $(FAST)

check: $(VENV)/.dev ## lint, format, types, and an audit of what we depend on
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python tools/audit.py

# The tests run every block and make the pictures; then the site is built from the pages.
docs: $(VENV)/.dev ## the site of the documentation: runs every block of it, makes its pictures, builds build/site
	FIELDCAL_PICTURES=$(CURDIR)/docs/pictures $(BIN)/python -m pytest -q -n 2 tests/docs/test_pages.py
	$(MAKE) site

site: $(VENV)/.dev ## build/site alone, from the pages and pictures that are there
	$(BIN)/python tools/site.py

faults: $(VENV)/.dev ## every row of the list of faults, fuzzers; writes docs/reference/faults.md (half an hour)
	$(BIN)/python tools/faults.py

faults-page: $(VENV)/.dev ## only write docs/reference/faults.md anew, from the rows and the tests that hold them
	$(BIN)/python tools/faults.py --page

verdicts-page: $(VENV)/.dev ## write the lists of findings in docs/explanation/verdicts.md anew
	$(BIN)/python tools/verdicts.py

format: $(VENV)/.dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

experiments: $(VENV)/.dev ## the paper's figures and tables (QUICK=1: only to see that they run)
	$(BIN)/python experiments/run.py $(if $(QUICK),--quick)

peers: $(PEERS)/.made ## beside QuaPy, mlquantify, quantificationlib and scikit-learn (half an hour)
	$(PEERS)/bin/python benchmarks/peers/run.py --write docs/evidence/peers.md

bench: $(VENV)/.bench ## speed and accuracy beside the peers (a quarter of an hour)
	$(BIN)/python benchmarks/speed.py --json build/speed.json --write docs/evidence/benchmarks.md
	$(BIN)/python benchmarks/quantification.py
	$(BIN)/python benchmarks/many_groups.py
	$(BIN)/python benchmarks/coverage.py --quapy
	$(BIN)/python benchmarks/tables.py
	$(BIN)/python benchmarks/big_file.py
	$(BIN)/python benchmarks/soak.py
	$(BIN)/python benchmarks/report.py
	$(BIN)/python benchmarks/regression.py

clean:
	rm -rf $(VENV) $(PEERS) $(LOWEST) $(NEWEST) $(TOOLS) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/.made:
	$(PYTHON) -m venv $(VENV)
	touch $@

$(VENV)/.core: $(VENV)/.made pyproject.toml $(CONSTRAINTS)
	$(PIP) install -c $(CONSTRAINTS) -e '.[cli,report]'
	touch $@

$(VENV)/.dev: $(VENV)/.core
	$(PIP) install -c $(CONSTRAINTS) -e '.[dev$(SPARK)]'
	touch $@

$(VENV)/.bench: $(VENV)/.dev
	$(PIP) install -c $(CONSTRAINTS) -e '.[dev,bench$(SPARK)]'
	touch $@

$(TOOLS)/.made:
	$(PYTHON) -m venv $(TOOLS)
	$(TOOLS)/bin/python -m pip --disable-pip-version-check --quiet install uv
	touch $@

$(LOWEST)/.made: $(TOOLS)/.made pyproject.toml
	$(UV) venv --clear --python $(LOWEST_PYTHON) $(LOWEST)
	$(UV) pip install --python $(LOWEST) --resolution lowest-direct -e '.[test$(SPARK)]'
	touch $@

$(NEWEST)/.made: $(TOOLS)/.made
	$(UV) venv --clear --python $(NEWEST_PYTHON) $(NEWEST)
	touch $@

$(PEERS)/.made: benchmarks/peers/requirements.txt pyproject.toml
	$(PYTHON) -m venv $(PEERS)
	$(PEERS)/bin/python -m pip --disable-pip-version-check --quiet install -r benchmarks/peers/requirements.txt -e .
	touch $@
