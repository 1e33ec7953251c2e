PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.DEFAULT_GOAL := help
.PHONY: help demo test test-tables test-slow lint docs bench bench-full clean

help: ## list the commands
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/'

$(STAMP): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip "setuptools>=77"
	$(BIN)/python -m pip install --quiet --quiet --no-build-isolation --editable ".[dev]"
	@touch $@

demo: $(STAMP) ## set up, then run the main job on bundled real data
	$(BIN)/scopefe execute quickstart

test: $(STAMP) lint ## lint, types, layers and the tests (minutes)
	$(BIN)/python -m pytest -m "not slow"

test-tables: $(STAMP) ## the tests that read real tables, from the folder SCOPEFE_DATA
	@test -d "$$SCOPEFE_DATA" || { echo "set SCOPEFE_DATA to the folder of tables" >&2; exit 2; }
	$(BIN)/python -m pytest -m "tables and not slow"

test-slow: $(STAMP) ## the long checks: against the openfe package, on noise, of the tables in SCOPEFE_DATA
	$(BIN)/python -m pytest -m slow

lint: $(STAMP) ## ruff, mypy strict, import layers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	@rm -rf build
	@$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --target build/lint .
	cd build/lint && ../../$(BIN)/mypy --config-file ../../pyproject.toml --package scopefe
	cd build/lint && ../../$(BIN)/lint-imports --config ../../pyproject.toml

docs: $(STAMP) ## the documentation as a site, in build/site
	$(BIN)/python -m mkdocs build --strict

bench: $(STAMP) ## measure against the openfe package, side by side (minutes)
	$(BIN)/python -m benchmarks --output runs/bench

bench-full: $(STAMP) ## the same on large tables (hours), and the page docs/performance.md made of it
	$(BIN)/python -m benchmarks --full
	$(BIN)/python -m benchmarks --report

clean: ## remove what was built
	rm -rf $(VENV) build *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
