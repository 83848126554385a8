# Every target sets up .venv by itself. All it needs is make, Python 3.11 or newer, and a package registry.
#
#   make demo     a worker is killed in the middle of an order, another one finishes it
#   make test     all tests                       PYTEST_ARGS="-k sleep -x" is handed on; WORKERS=3 at once
#   make soak     kill, stop and restart everything for a while     MINUTES=20 STORE=postgres (or pooled, sqlite) PROCESSES=3
#   make check    format, lint, types, layers, and whether the documentation's site can be built
#   make docs     the documentation's site, into build/docs/
#   make bench    the figures, into benchmarks/results/     BENCH_ARGS is handed on
#   make bench-peers   the same work on other engines, side by side     BENCH_ARGS is handed on
#   make format   put the code into the shape that make check asks for

NEW_ENOUGH := 'import sys; sys.exit(sys.version_info < (3, 11))'
PYTHON ?= $(shell for name in python3 python3.14 python3.13 python3.12 python3.11; do \
    $$name -c $(NEW_ENOUGH) 2>/dev/null && echo $$name && break; done)
PYTEST_ARGS ?=
# Three on two cores: some tests wait for a server or for processes of their own.
WORKERS ?= 3
BENCH_ARGS ?=
MINUTES ?= 1
STORE ?= postgres
PROCESSES ?= 3
BIN := .venv/bin
READY := .venv/.ready
SERVERS := .venv/.servers
SITE := .venv/.site

.DEFAULT_GOAL := help
.PHONY: help demo test soak check docs bench bench-peers format clean

help:
	@sed -n 's/^#   //p' Makefile

demo: $(READY)
	@$(BIN)/python examples/demo.py

test: $(READY) $(SERVERS)
	@# One seed for all workers, another one each time: they must find the same tests. A few red ones are looked at once more.
	export PYTHONHASHSEED=$${PYTHONHASHSEED:-$$(date +%N | cut -c1-6 | sed 's/^0*//')}; \
	    $(BIN)/python -m pytest -q -n $(WORKERS) $(PYTEST_ARGS) || \
	    { test $$? -eq 1 && $(if $(PYTEST_ARGS),false,$(BIN)/python -m tests.again); }

soak: $(READY) $(SERVERS)
	@$(BIN)/python -m tests.soak --minutes $(MINUTES) --store $(STORE) --workers $(PROCESSES)

check: $(READY)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo
	@$(MAKE) --no-print-directory docs

docs: $(SITE)
	@# A warning, such as one of a link that leads nowhere, is an error. The variable stops an advertisement.
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict
	@echo "the site is in build/docs: open build/docs/index.html; to search it: python3 -m http.server -d build/docs"

bench: $(READY)
	@mkdir -p benchmarks/results
	$(BIN)/python -m benchmarks $(BENCH_ARGS)

bench-peers: $(READY)
	$(BIN)/python -m benchmarks.peers $(BENCH_ARGS)

format: $(READY)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean:
	rm -rf .venv build .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# An environment that is half made, or whose Python has gone, is thrown away and made afresh.
$(READY): pyproject.toml
	@test -n "$(PYTHON)" && $(PYTHON) -c $(NEW_ENOUGH) || { \
	    echo "Holdfast needs Python 3.11 or newer. Name one: make PYTHON=/path/to/python ..." >&2; exit 1; }
	@echo "setting up .venv, which takes a minute or two the first time"
	@$(BIN)/python -m pip --version >/dev/null 2>&1 || $(PYTHON) -m venv --clear .venv || { rm -rf .venv; exit 1; }
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@

# What builds the site is installed when it is first asked for: `make test` does without.
$(SITE): $(READY)
	@echo "setting up what builds the documentation"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[docs]'
	@touch $@

# The servers that tests need and no wheel holds. Where one can't be had the tests that need it fail, and say what to do.
$(SERVERS): $(READY)
	-@$(BIN)/python -m tests.servers && touch $@
