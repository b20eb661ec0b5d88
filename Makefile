.DEFAULT_GOAL := help
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
DEMO := demo

.PHONY: help install dev demo test lint types pytest docs chromium postgresql axe browser benchmarks clean

help:  ## List the targets
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  make %-11s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit("assent needs Python 3.11 or newer, found %d.%d; set PYTHON=..." % sys.version_info[:2] if sys.version_info < (3, 11) else 0)'
	@$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: pyproject.toml | $(BIN)/python
	@echo "Installing assent into $(VENV) (a minute or two) ..."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[service]'
	@touch $@

$(VENV)/.installed-dev: pyproject.toml | $(BIN)/python
	@echo "Installing assent with its test tools into $(VENV) (a minute or two) ..."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@ $(VENV)/.installed

install: $(VENV)/.installed  ## Create .venv with the assent command in it
	@echo "Ready: $(BIN)/assent --help"

dev: $(VENV)/.installed-dev  ## Create .venv with the tools that tests and docs need

demo: $(VENV)/.installed  ## Run the whole way on simulated data; says where the report is
	@$(BIN)/assent demo --out $(DEMO) --replace

test: lint  ## Lint, type-check and test
	@$(MAKE) --no-print-directory --jobs=2 types pytest

pytest: dev  ## Test
	@OMP_NUM_THREADS=1 $(BIN)/python -m pytest

lint: dev  ## Lint and check the format (ruff)
	@$(BIN)/ruff check . && $(BIN)/ruff format --check .

types: dev  ## Check types (mypy, strict)
	@$(BIN)/mypy

docs: dev  ## Build the pages of docs/ as a site; says where it is
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet
	@echo "Ready: site/index.html"

chromium:  ## Install Chromium (Debian's package, as root), unless there is a browser
	@command -v chromium || command -v chromium-browser || command -v google-chrome || \
		(apt-get update --quiet && apt-get install --yes --quiet chromium)

postgresql:  ## Install PostgreSQL (Debian's package, as root), unless it is there
	@command -v initdb || ls /usr/lib/postgresql/*/bin/initdb || \
		(apt-get update --quiet && apt-get install --yes --quiet postgresql)

axe:  ## Fetch axe-core, which tests the accessibility of pages, into .axe (with npm; no part of assent)
	@ls .axe/node_modules/axe-core/axe.min.js 2>/dev/null || \
		npm install --prefix .axe --no-save --no-audit --no-fund --ignore-scripts axe-core@4.14.1

browser: dev chromium axe  ## Test the reproduction's page and the service's pages in a browser
	@OMP_NUM_THREADS=1 $(BIN)/python -m pytest tests/reproduce/test_page.py tests/service/test_browser.py

benchmarks: $(VENV)/.installed  ## Print every figure that assent claims (long; QUICK=1 tries the scripts; some need ASSENT_DATA)
	@for file in benchmarks/bench_*.py; do echo "== $$file"; $(BIN)/python $$file $(if $(QUICK),--quick) || exit 1; done

clean:  ## Delete what the other targets made
	rm -rf $(VENV) $(DEMO) .axe site build .mypy_cache .ruff_cache .pytest_cache .hypothesis src/assent.egg-info
