# `make demo` and `make test` work from a fresh clone with Python 3.11+, make and a C library.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
export PIP_DISABLE_PIP_VERSION_CHECK = 1

.PHONY: demo test lint types unit test-slow test-cluster fuzz docs bench clean

demo: $(VENV)/.installed
	$(BIN)/laminar demo demo

# Side by side: what checks the types uses one core only, and tests wait for each other now and then.
test: $(VENV)/.dev
	$(MAKE) --jobs 3 lint types unit

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports

types: $(VENV)/.dev
	$(BIN)/mypy

# Two workers at most: torch tests use one thread each. In the order of the folders: the long modules (e2e, multi) come first, so that
# both workers have short ones left at the end.
unit: $(VENV)/.dev
	$(BIN)/python -m pytest -n 2 --dist loadscope --no-loadscope-reorder -m "not slow and not cluster" --durations=20

test-slow: $(VENV)/.dev
	$(BIN)/python -m pytest -m slow

# Real clusters on this machine; Spark needs Java 17.
test-cluster: $(VENV)/.dev
	$(BIN)/pip install --quiet -e '.[ray,spark]'
	$(BIN)/python -m pytest -m cluster

# make fuzz NET=kernels MINUTES=30; goes on where the last run stopped. With SEED=s it begins there. See tests/nets.
fuzz: $(VENV)/.dev
	$(BIN)/python -m tests.nets.run $(NET) --minutes $(or $(MINUTES),5) $(if $(SEED),--seed $(SEED))

docs: $(VENV)/.dev
	$(BIN)/python -m tests.generate_docs

bench: $(VENV)/.dev
	for script in benchmarks/*.py; do $(BIN)/python $$script || exit 1; done

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: $(VENV)/bin/python pyproject.toml
	$(BIN)/pip install --quiet -e '.[report]'
	touch $@

$(VENV)/.dev: $(VENV)/bin/python pyproject.toml
	$(BIN)/pip install --quiet -e '.[dev]'
	touch $@

clean:
	rm -rf $(VENV) demo build dist .mypy_cache .ruff_cache .pytest_cache
