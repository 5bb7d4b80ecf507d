# Each command makes its own virtual environment and installs what it needs.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed

.PHONY: demo test test-long torture verdicts mutate lint bench clean help

help:  ## show this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/'

$(INSTALLED): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade pip
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	touch $@

demo: $(INSTALLED)  ## logistic regression on a million rows, with a report to open
	$(BIN)/fokker demo --out fokker-demo

test: lint  ## formatting, lint, types and the tests
	$(BIN)/python -m pytest

test-long: lint  ## those tests too that repeat at length what others show
	$(BIN)/python -m pytest -m long

torture: $(INSTALLED)  ## kill runs 200 times and damage 2,000 files: what goes on has the same bits
	$(BIN)/python tests/torture.py --kills 200

verdicts: $(INSTALLED)  ## the checker on the whole table of right and wrong samplers
	$(BIN)/python tests/verdicts.py

mutate: $(INSTALLED)  ## whether the tests notice mistakes made on purpose; ONLY=pattern for some of them
	$(BIN)/python tests/mutate.py --jobs 2 $(if $(ONLY),--only '$(ONLY)')

lint: $(INSTALLED)  ## formatting, lint and types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

bench: $(INSTALLED)  ## speed and memory, as ratios against hand-written code
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[bench]'
	$(BIN)/python benchmarks/recipe.py
	$(BIN)/python benchmarks/driver.py
	$(BIN)/python benchmarks/minibatch.py
	$(BIN)/python benchmarks/scaling.py
	$(BIN)/python benchmarks/nuts.py
	$(BIN)/python benchmarks/topics.py

clean:  ## remove the virtual environment and caches
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache
