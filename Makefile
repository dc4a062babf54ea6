# Two commands do everything on a fresh machine: `make demo` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
LAB := $(VENV)/.lab
READY := $(VENV)/.ready
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt

.PHONY: demo test test-all bench docs lint types format clean

$(LAB): pyproject.toml lab/pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(PIP) -e . -e lab
	touch $@

$(READY): $(LAB)
	$(PIP) -e ".[dev]" -e "lab[speech]"
	touch $@

demo: $(LAB)
	$(BIN)/ferero demo

test: $(READY)
	$(BIN)/python -m pytest -n 2

test-all: $(READY)
	$(BIN)/python -m pytest -n 2 -m ""

bench: $(READY)
	$(BIN)/ferero bench core

docs: $(READY)
	$(BIN)/sphinx-build -W --keep-going -b html docs build/docs

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(READY)
	$(BIN)/mypy

format: $(READY)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache dist
