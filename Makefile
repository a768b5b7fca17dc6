# Each target makes its own environment with constraints.txt; a second run installs nothing.
PYTHON ?= python3
BIN := .venv/bin
LABEL ?= now
PYTEST := RUE_PROGRESS=0 OMP_NUM_THREADS=1 $(BIN)/pytest -q -n 2 --dist loadfile
PIP := -m pip install --quiet --disable-pip-version-check -c constraints.txt

.PHONY: help demo paper test test-docs test-report test-paper test-training test-jobs test-engines test-slow mutants browser check docs bench bench-models bench-scale bench-rows bench-engines bench-practice package format clean

help:  ## show this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

demo: .venv/core  ## train the paper's network on diabetes patients and audit its predictions
	$(BIN)/rue demo

paper: .venv/paper  ## reproduce the paper and what lies beyond, in hours on two cores; goes on where it stopped
	$(BIN)/rue paper all

test: .venv/dev  ## unit tests and laws, three to four minutes on two cores
	$(PYTEST) -m 'not slow and not docs and not report and not paper and not training and not engines'

test-docs: .venv/dev  ## examples, what README and documentation say, the demo
	$(PYTEST) -m 'docs and not slow' tests

test-report: .venv/dev browser  ## the report, in a browser where there is one
	$(PYTEST) -m 'report and not slow' tests

test-paper: .venv/dev  ## the paper's experiments and the benchmarks, on small data
	$(PYTEST) -m 'paper and not slow' tests

test-training: .venv/dev  ## what trains models again, and models of other libraries
	$(PYTEST) -m 'training and not slow' tests

test-jobs: .venv/dev browser  ## the four jobs above at once
	$(PYTEST) -m '(docs or report or paper or training) and not slow' tests

test-engines: .venv-engines/ready  ## fits and stored audits in Spark, Ray, Dask, Polars and DuckDB themselves; installs Java where it can
	@sh tests/engines/install_java.sh
	RUE_PROGRESS=0 OMP_NUM_THREADS=1 .venv-engines/bin/pytest -q -m engines tests/engines

test-slow: .venv/dev  ## statistical validity and the deliberate breaks, in hours
	$(PYTEST) -m slow

mutants: .venv/dev  ## small errors put into the core rooms at random: do tests notice? In hours; goes on where it stopped
	$(BIN)/python tests/mutants.py
	$(BIN)/python tests/mutants.py --page

browser:  ## have a Chromium for the tests of the report, where it can be installed
	@sh tests/install_chromium.sh || true

check: .venv/dev  ## format, lint, types, documentation, packages
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	$(MAKE) --no-print-directory package

docs: .venv/dev  ## build the documentation site into site/
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict
	@echo "open site/index.html"

bench: .venv-bench/ready  ## time and memory of the calibrated audit, and against laplace-torch, literal loops and real refits
	OMP_NUM_THREADS=2 .venv-bench/bin/python benchmarks/calibrated.py
	OMP_NUM_THREADS=2 .venv-bench/bin/python benchmarks/run.py

bench-models: .venv/dev  ## audits of many outputs, large tree ensembles and every estimator, against exact answers and refits
	OMP_NUM_THREADS=2 $(BIN)/python benchmarks/many_outputs.py
	OMP_NUM_THREADS=2 $(BIN)/python benchmarks/trees.py --threads 2
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/estimators.py
	OMP_NUM_THREADS=2 $(BIN)/python benchmarks/storage.py
	$(BIN)/python benchmarks/command_line.py
	$(BIN)/python benchmarks/tables.py

bench-scale: .venv/dev  ## large networks: what sketches keep, and what they cost in epochs (on a GPU where there is one)
	OMP_NUM_THREADS=2 $(BIN)/python benchmarks/fidelity.py
	OMP_NUM_THREADS=2 $(BIN)/python benchmarks/planned.py
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/growth.py
	OMP_NUM_THREADS=2 $(BIN)/python benchmarks/fewer_rows.py
	OMP_NUM_THREADS=2 $(BIN)/python benchmarks/iterations.py
	$(BIN)/python benchmarks/scale.py small
	$(BIN)/python benchmarks/tables.py

bench-rows: .venv/dev  ## many rows: growth to a million of them, boosted trees, two processes, latency; on an idle machine
	OMP_NUM_THREADS=2 $(BIN)/python benchmarks/rows.py growth
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/rows.py trees
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/rows.py sample
	$(BIN)/python benchmarks/rows.py workers
	$(BIN)/python benchmarks/rows.py plot
	OMP_NUM_THREADS=2 $(BIN)/python benchmarks/latency.py
	$(BIN)/python benchmarks/tables.py

bench-engines: .venv-engines/ready .venv/dev  ## rows a second of stored audits in Spark, Ray, Dask, Polars and DuckDB
	@sh tests/engines/install_java.sh
	.venv-engines/bin/python benchmarks/engines.py
	$(BIN)/python benchmarks/tables.py

# Halves, kinds, recipes and tables can be run apart: `python benchmarks/practice.py --help`.
bench-practice: .venv-bench/ready  ## audits of models as people train them, against refits; a day on two cores, goes on where it stopped
	OMP_NUM_THREADS=1 .venv-bench/bin/python benchmarks/practice.py prepare
	OMP_NUM_THREADS=1 .venv-bench/bin/python benchmarks/practice.py run --jobs 2 --label $(LABEL)
	.venv-bench/bin/python benchmarks/practice.py table --label $(LABEL)
	OMP_NUM_THREADS=1 .venv-bench/bin/python benchmarks/recipes.py run --label $(LABEL)
	OMP_NUM_THREADS=1 .venv-bench/bin/python benchmarks/refits.py run --label $(LABEL)
	OMP_NUM_THREADS=1 .venv-bench/bin/python benchmarks/simulations.py run --jobs 2

package: .venv/dev  ## build wheel and sdist and run each in an empty environment
	$(BIN)/python tests/packaging_smoke.py

format: .venv/dev  ## format and fix what can be fixed
	$(BIN)/ruff check --fix-only --quiet .
	$(BIN)/ruff format --quiet .

.venv/core: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "rue needs Python 3.11 or newer: make PYTHON=python3.11 ...")'
	@echo "Installing into .venv (once; torch is large) ..."
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@$(BIN)/python $(PIP) -e .
	@touch $@

.venv/paper: .venv/core paper/pyproject.toml
	@echo "Installing what fetches and reads the paper's data ..."
	@$(BIN)/python $(PIP) -e '.[paper]' -e paper
	@touch $@

.venv/dev: .venv/core paper/pyproject.toml
	@echo "Installing what tests, checks and documentation need ..."
	@$(BIN)/python $(PIP) -e '.[dev]' -e paper
	@touch $@

# laplace-torch pulls a torchvision that does not match a CPU build of torch and is not needed: it goes again.
.venv-bench/ready: pyproject.toml constraints.txt
	@test -x .venv-bench/bin/python || $(PYTHON) -m venv .venv-bench
	@.venv-bench/bin/python $(PIP) -e '.[bench]'
	@.venv-bench/bin/python -m pip uninstall --quiet --yes torchvision
	@touch $@

.venv-engines/ready: pyproject.toml constraints.txt
	@test -x .venv-engines/bin/python || $(PYTHON) -m venv .venv-engines
	@.venv-engines/bin/python $(PIP) -e '.[engines]'
	@touch $@

clean:  ## remove what was built, keep the environments
	rm -rf site dist build .mypy_cache .ruff_cache .pytest_cache .hypothesis
