# Everything runs in .venv, made on first use: only Python 3.11+, pip and make are needed.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
CONSTRAINTS := constraints.txt
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
# PySpark is large and of no use without Java: its tests say so and are skipped where there is none.
SPARK := $(if $(shell command -v java),$(shell printf ',spark'))

PEERS := .venv-peers

.PHONY: demo test check format experiments bench peers clean

demo: $(VENV)/.core ## the main job on real data: rodents of the Portal project
	$(BIN)/fieldcal demo

test: $(VENV)/.dev ## the whole test suite, doctests included
	$(BIN)/python -m pytest -n 2 --dist worksteal

check: $(VENV)/.dev ## lint, format and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(VENV)/.dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

experiments: $(VENV)/.dev ## the paper's figures and tables (QUICK=1: only to see that they run)
	$(BIN)/python experiments/run.py $(if $(QUICK),--quick)

peers: $(PEERS)/.made ## beside QuaPy, mlquantify, quantificationlib and scikit-learn (half an hour)
	$(PEERS)/bin/python benchmarks/peers/run.py --write docs/peers.md

bench: $(VENV)/.bench ## speed and accuracy beside the peers (a quarter of an hour)
	$(BIN)/python benchmarks/import_cost.py
	$(BIN)/python benchmarks/speed.py
	$(BIN)/python benchmarks/quantification.py
	$(BIN)/python benchmarks/many_groups.py
	$(BIN)/python benchmarks/coverage.py --quapy
	$(BIN)/python benchmarks/tables.py
	$(BIN)/python benchmarks/big_file.py
	$(BIN)/python benchmarks/report.py
	$(BIN)/python benchmarks/regression.py

clean:
	rm -rf $(VENV) $(PEERS) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
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

$(PEERS)/.made: benchmarks/peers/requirements.txt pyproject.toml
	$(PYTHON) -m venv $(PEERS)
	$(PEERS)/bin/python -m pip --disable-pip-version-check --quiet install -r benchmarks/peers/requirements.txt -e .
	touch $@
