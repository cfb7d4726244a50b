PYTHON ?= python3
INSTALLED := .venv
VENV := .venv-dev
READY := $(VENV)/.ready
PACKAGE := pyproject.toml constraints.txt $(shell find jobauto_prefect deployments -type f ! -name '*.pyc')

# Tests start many processes: each would compile this package again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help
help: ## Print these targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: up
up: $(INSTALLED)/.ready ## Run everything on this machine, with the examples, until Ctrl-C
	$(INSTALLED)/bin/jobauto up --examples

.PHONY: demo
demo: $(INSTALLED)/.ready ## Start everything in a temporary home, run the examples, show what came of them
	$(INSTALLED)/bin/jobauto demo

.PHONY: test
test: $(READY) ## Run the tests, or those of T=tests/…; those for databases that do not answer are skipped
	$(VENV)/bin/pytest $(or $(T),-n 4 --dist loadfile --no-loadscope-reorder)

.PHONY: test-quick
test-quick: $(READY) ## Run the tests that need no server, in a minute
	$(VENV)/bin/pytest -n 4 --dist loadfile --no-loadscope-reorder tests/unit

.PHONY: soak
soak: $(READY) ## Run the tests that take minutes
	$(VENV)/bin/pytest -m soak

.PHONY: faults
faults: $(READY) ## Kill each part of an installation as on many machines; print how soon all is well
	$(VENV)/bin/pytest -m faults

OTHER := .venv-prefect
CONTRACT := tests/unit/facade/gateway tests/integration/facade/gateway tests/integration/engine tests/integration/workers

.PHONY: try-prefect
try-prefect: ## Run the tests of what Prefect has to do with another one, V=3.9.1, and the newest of all else
	rm -rf $(OTHER)
	$(PYTHON) -m venv $(OTHER)
	$(OTHER)/bin/pip install --quiet --editable '.[dev]' prefect==$(V)
	$(OTHER)/bin/pytest -n 4 --dist loadfile --no-loadscope-reorder $(CONTRACT)

LOWEST := .venv-lowest

.PHONY: try-lowest
try-lowest: $(VENV)/.release ## Run the tests that need no server with the oldest packages that pyproject.toml allows
	rm -rf $(LOWEST)
	$(VENV)/bin/uv venv --quiet --python $(PYTHON) $(LOWEST)
	$(VENV)/bin/uv pip install --quiet --python $(LOWEST) --resolution lowest-direct --editable '.[dev]'
	$(LOWEST)/bin/pytest -n 4 --dist loadfile --no-loadscope-reorder tests/unit

.PHONY: try-image
try-image: $(READY) ## Build the container image on a fresh Debian and try it, with podman; B='--volume …' is for its build
	$(VENV)/bin/python -m scripts.image $(B)

.PHONY: try-compose
try-compose: $(READY) ## Run deployments/compose.yaml with docker, and kill each of its parts; U=--no-build is for its start
	$(VENV)/bin/python -m scripts.compose $(U)

.PHONY: check
check: $(READY) ## Check style, types and layers
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy
	$(VENV)/bin/lint-imports

.PHONY: publish
publish: $(READY) ## Regenerate what is published: api/openapi.json, schemas/, and pages in docs/ made from code
	$(VENV)/bin/python -m jobauto_prefect.facade.openapi > api/openapi.json
	cp jobauto_prefect/definitions/schemas/*.schema.json schemas/
	$(VENV)/bin/python -m tests.conformance.table > tests/conformance/README.md.new
	mv tests/conformance/README.md.new tests/conformance/README.md
	$(VENV)/bin/python -m jobauto_prefect.facade.bounds > docs/bounds.md.new
	mv docs/bounds.md.new docs/bounds.md
	$(VENV)/bin/python -m scripts.key_pages
	$(VENV)/bin/python -m scripts.made_parts

.PHONY: docs
docs: $(VENV)/.docs ## Build the site of docs/ into build/site; a broken link or a page outside its menu is an error
	NO_MKDOCS_2_WARNING=1 $(VENV)/bin/mkdocs build --quiet

.PHONY: release
release: check docs $(VENV)/.release ## Build, check and try what is released, in dist; T=tests/… runs these tests before
	$(if $(T),$(VENV)/bin/pytest $(T))
	$(VENV)/bin/python -m scripts.release

.PHONY: pictures
pictures: $(READY) ## Take the pictures of the console for docs/images, with Chromium
	$(VENV)/bin/python -m scripts.pictures

.PHONY: bench
bench: $(READY) ## Measure what the README claims: benchmarks/results.json, docs/performance.md
	$(VENV)/bin/python -m benchmarks

.PHONY: clean
clean: ## Remove the virtual environments and all caches
	rm -rf $(INSTALLED) $(VENV) $(OTHER) $(LOWEST) build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache

# What is run and what is worked on are apart: a service that runs keeps its files.
$(INSTALLED)/.ready: $(PACKAGE)
	@$(CHECK_PYTHON)
	$(PYTHON) -m venv $(INSTALLED)
	$(INSTALLED)/bin/pip install --quiet --disable-pip-version-check -c constraints.txt .
	@touch $@

$(READY): pyproject.toml constraints.txt
	@$(CHECK_PYTHON)
	$(PYTHON) -m venv $(VENV)
	$(VENV)/bin/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@

$(VENV)/.docs: $(READY)
	$(VENV)/bin/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[docs]'
	@touch $@

$(VENV)/.release: $(READY)
	$(VENV)/bin/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[release]'
	@touch $@

define CHECK_PYTHON
$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or later is needed; name it: make PYTHON=python3.12")'
endef
