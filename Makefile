PYTHON ?= python3
VENV := .venv
READY := $(VENV)/.ready
BENCHMARKS = $(basename $(notdir $(shell grep -l '^if __name__ == "__main__"' benchmarks/*.py)))

# Tests start many processes: each would compile this package anew.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help
help: ## Print these targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: demo
demo: $(READY) ## Start everything in a temporary home, run the examples, show what came of them
	$(VENV)/bin/jobauto demo

.PHONY: test
test: $(READY) ## Run the tests; those for databases that do not answer are skipped
	$(VENV)/bin/pytest -n 2 --dist loadfile --no-loadscope-reorder

.PHONY: soak
soak: $(READY) ## Run the tests that take minutes
	$(VENV)/bin/pytest -m soak

.PHONY: check
check: $(READY) ## Check style, types and layers
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy
	$(VENV)/bin/lint-imports

.PHONY: publish
publish: $(READY) ## Write the published copies anew: api/openapi.json and schemas/
	$(VENV)/bin/python -m jobauto_prefect.facade.openapi > api/openapi.json
	cp jobauto_prefect/definitions/*.schema.json schemas/

.PHONY: bench
bench: $(READY) ## Measure what the README claims, one JSON line each
	@for name in $(BENCHMARKS); do $(VENV)/bin/python -m benchmarks.$$name --json || exit 1; done

.PHONY: clean
clean: ## Remove the virtual environment and all caches
	rm -rf $(VENV) build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache

$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or later is needed; name it: make PYTHON=python3.12")'
	$(PYTHON) -m venv $(VENV)
	$(VENV)/bin/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@
