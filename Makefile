# Each command makes its own virtual environment and installs what it needs.
# Another Python has an environment of its own: make test PYTHON=python3.13
PYTHON ?= python3
VENV := .venv$(if $(filter-out python3,$(PYTHON)),-$(notdir $(PYTHON)))
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
LOWEST := .venv-lowest
# The tests of one part of the library, such as PART=run or PART=models
PART ?=
# More for pytest, such as ARGS='-k parquet'
ARGS ?=

.PHONY: demo test browser test-slow test-long test-bambi test-dependencies test-lowest torture verdicts mutate lint bench bench-models bench-topics \
	docs test-site studio check-studio dist smoke sbom review clean help

help:  ## show this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/'

$(INSTALLED): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade pip
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	touch $@

demo: $(INSTALLED)  ## logistic regression on a million rows, with a report to open
	$(BIN)/fokker demo --out fokker-demo

test: lint browser  ## formatting, lint, types and the tests
	$(BIN)/python -m pytest $(if $(PART),tests/$(PART)) $(ARGS)

browser: $(INSTALLED)  ## Chromium for the tests of pages, where the system has none; says so where it cannot be installed
	@$(BIN)/python tests/chromium.py

test-slow: $(INSTALLED) browser  ## the tests that take more than about a second
	$(BIN)/python -m pytest -m 'slow and not long' $(ARGS)

test-long: $(INSTALLED)  ## the tests that repeat at length what others show
	$(BIN)/python -m pytest -m long $(ARGS)

test-dependencies: $(INSTALLED)  ## the tests that touch what other libraries may change; PYTHON=python3.13 for the newest
	$(BIN)/python -m pytest -m 'dependencies and not long' $(ARGS)

.venv-bambi/.installed: pyproject.toml
	$(PYTHON) -m venv .venv-bambi
	.venv-bambi/bin/python -m pip install --quiet --disable-pip-version-check --upgrade pip
	.venv-bambi/bin/python -m pip install --quiet --disable-pip-version-check --editable '.[bambi,dev]'
	touch $@

# Bambi needs an older Matplotlib than the others get.
test-bambi: .venv-bambi/.installed  ## models of Bambi, in an environment of their own
	.venv-bambi/bin/python -c 'import bambi'
	.venv-bambi/bin/python -m pytest -n 0 tests/targets/test_bambi.py

$(LOWEST)/.installed: pyproject.toml
	$(PYTHON) -m venv $(LOWEST)
	$(LOWEST)/bin/python -m pip install --quiet --disable-pip-version-check --upgrade pip uv
	VIRTUAL_ENV=$(LOWEST) $(LOWEST)/bin/uv pip install --quiet --resolution lowest-direct --editable '.[dev]'
	touch $@

# Old releases use old names of each other, and warn of it.
test-lowest: $(LOWEST)/.installed  ## the tests with the lowest versions that pyproject.toml allows
	$(LOWEST)/bin/python -m pytest -W ignore::DeprecationWarning -W ignore::PendingDeprecationWarning \
		-W ignore::FutureWarning $(ARGS)

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
	OPENBLAS_NUM_THREADS=1 $(BIN)/python benchmarks/nuts.py
	$(BIN)/python benchmarks/topics.py
	$(BIN)/python benchmarks/first_result.py
	$(BIN)/python benchmarks/studio_page.py

bench-topics: $(INSTALLED)  ## topics against tomotopy on NIPS and AP (FOKKER_DATA), as docs/lda.md has them
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[bench]'
	$(BIN)/python benchmarks/topic_peers.py --write docs/lda.md

bench-models: $(INSTALLED)  ## error and calibration of networks and ratings, against what others use
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[bench,optax]'
	$(BIN)/python benchmarks/models.py --write docs/networks.md
	OPENBLAS_NUM_THREADS=1 $(BIN)/python benchmarks/ratings.py --write docs/factorisation.md

$(VENV)/.docs: $(INSTALLED)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[docs]'
	touch $@

docs: $(VENV)/.docs  ## the site, to open from docs/_build/html/index.html without a network; warnings are errors
	$(BIN)/python -m sphinx --fail-on-warning --keep-going --quiet -b html docs docs/_build/html

test-site: $(INSTALLED) browser  ## the site that `make docs` built, in Chromium
	$(BIN)/python -m pytest -m site

studio/node_modules/.installed: studio/package.json studio/package-lock.json
	cd studio && npm ci --no-audit --no-fund --loglevel=error >/dev/null
	touch $@

studio: studio/node_modules/.installed  ## build the page of `fokker studio` from studio/ (needs Node)
	cd studio && npm run --silent types && npm run --silent build

check-studio: studio/node_modules/.installed  ## whether the built page is that of studio/ (needs Node)
	rm -rf build/studio
	cd studio && npm run --silent types && npm run --silent build ../build/studio
	@diff -rq build/studio/studio src/fokker/studio/page && diff -rq build/studio/report src/fokker/report/assets \
		|| { echo 'The built page is not that of studio/: run `make studio`, and commit what it writes.'; exit 1; }

# Tools of a release, which the library itself does not need.
.venv-dist/.installed:
	$(PYTHON) -m venv .venv-dist
	.venv-dist/bin/python -m pip install --quiet --disable-pip-version-check --upgrade pip build cyclonedx-bom
	touch $@

# Times in the archives are those of the last commit, so that anybody gets the same bytes from it.
dist: export SOURCE_DATE_EPOCH := $(shell git log -1 --format=%ct 2>/dev/null || echo 315532800)
dist: .venv-dist/.installed  ## wheel and sdist, built twice to the same bytes
	rm -rf dist build/again
	.venv-dist/bin/python -m build --outdir dist
	.venv-dist/bin/python -m build --outdir build/again
	cd dist && sha256sum fokker-* > SHA256SUMS && cat SHA256SUMS
	cd build/again && sha256sum --check --quiet ../../dist/SHA256SUMS

smoke: dist  ## the wheel in a clean environment: commands, a run, the programs of the first page, the studio
	rm -rf .venv-smoke
	$(PYTHON) -m venv .venv-smoke
	.venv-smoke/bin/python -m pip install --quiet --disable-pip-version-check "$$(ls dist/*.whl)[studio]"
	cd dist && ../.venv-smoke/bin/python -I ../tests/smoke.py

sbom: smoke  ## what the wheel is installed with, as CycloneDX: dist/fokker.cdx.json
	.venv-dist/bin/cyclonedx-py environment --output-reproducible --output-file dist/fokker.cdx.json .venv-smoke/bin/python

review: .venv-dist/.installed  ## the checklist of Scientific Python for repositories
	.venv-dist/bin/python -m pip install --quiet --disable-pip-version-check 'sp-repo-review[cli]'
	.venv-dist/bin/repo-review .

clean:  ## remove the virtual environment and caches
	rm -rf .venv .venv-* .mypy_cache .pytest_cache .ruff_cache
