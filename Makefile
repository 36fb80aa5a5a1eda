# AgentVM - `make serve` and `make test` do everything; the rest are their parts.
#
# Needs only Python 3.11+, make and the package registries. Everything lands in .venv and .cache.
# Stamp files under .venv remember what is done, so that the second run starts at once.

PYTHON ?= python3
WORKERS ?= auto
SEEDS ?= 1000
ARGS ?=

PIP := .venv/bin/python -m pip --disable-pip-version-check
# Errors only: a hundred lines about packages would hide those that matter.
INSTALL := $(PIP) install --quiet --quiet --require-hashes --only-binary :all:
CODE := $(wildcard src tests bench examples docs console/*.py)
COMPILE := uv pip compile --no-config --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
	--no-emit-find-links --no-annotate --custom-compile-command "make lock" $(ARGS) pyproject.toml

# Runs a command while holding a lock that dies with it, so that two makes do not build one .venv at the same time.
LOCKED := $(PYTHON) -c 'import fcntl, os, sys; lock = os.open(".make.lock", os.O_CREAT | os.O_RDWR, 0o644); \
	os.set_inheritable(lock, True); fcntl.flock(lock, fcntl.LOCK_EX); os.execvp(sys.argv[1], sys.argv[1:])'

.PHONY: help setup setup-test console serve test check fix coverage bench simulate lock clean python weights

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' Makefile

setup: python ## Create .venv with the locked packages and fetch the weights of the embedded model
	@$(LOCKED) $(MAKE) --silent --no-print-directory .venv/.serve .venv/.console weights

setup-test: setup
	@$(LOCKED) $(MAKE) --silent --no-print-directory .venv/.test .venv/.console-test

console: python ## Build the web console again
	@rm -f .venv/.console; $(LOCKED) $(MAKE) --silent --no-print-directory .venv/.serve .venv/.console

serve: setup ## Set up and run the server; options for it: make serve ARGS="--port 8080"
	@.venv/bin/python -m compileall -q src || true
	@exec .venv/bin/avm serve $(ARGS)

# The checks run beside the tests: mypy uses one core and the tests wait now and then. Their result is shown last. A few tests
# that fail beside others are run once more, alone, and named at the end: a machine may be busier than they can bear.
PYTEST ?= .venv/bin/python -m pytest
test: setup-test ## Set up, check and run every test
	@mkdir -p .cache; $(MAKE) --no-print-directory check > .cache/check.txt 2>&1 & checks=$$!; \
	$(PYTEST) -n $(WORKERS) --maxprocesses 8 --dist worksteal $(if $(ARGS),,--prepare) $(ARGS); tests=$$?; \
	wait $$checks; checked=$$?; cat .cache/check.txt; \
	if [ $$tests -eq 1 ] && [ -z "$(ARGS)" ] && [ -s .cache/failed.txt ]; then \
		sed 's/^/FAILED BESIDE OTHERS, NOW ALONE: /' .cache/failed.txt | tee .cache/alone.txt; \
		$(PYTEST) @.cache/failed.txt; tests=$$?; cat .cache/alone.txt; \
	fi; \
	[ $$checked -eq 0 ] && exit $$tests

check: setup-test ## Lint, format, types and import contracts
	.venv/bin/ruff check --quiet $(CODE)
	.venv/bin/ruff format --check --quiet $(CODE)
	.venv/bin/mypy $(CODE)
	.venv/bin/lint-imports --cache-dir .cache/import-linter
	@if [ -e .venv/.console-test ]; then .venv/bin/python console/build.py --check; \
	else echo "SKIPPED: the web console is not checked, because its packages could not be installed"; fi

fix: setup-test ## Let ruff repair and format the code
	.venv/bin/ruff check --fix $(CODE)
	.venv/bin/ruff format $(CODE)

coverage: setup-test ## Run every test and show the lines and branches they miss
	@.venv/bin/python -m pytest -n $(WORKERS) --maxprocesses 8 --cov=agentvm $(ARGS)

bench: setup ## Run every benchmark in its quick form and write docs/benchmarks.md
	.venv/bin/python -m bench.report $(ARGS)

simulate: setup-test ## Run the server under random faults on virtual time: make simulate SEEDS=1000 ARGS="--first 5000"
	@.venv/bin/python -m tests.simulation --seeds $(SEEDS) $(ARGS)

lock: setup ## Write requirements/*.txt anew from pyproject.toml; to take newer versions: make lock ARGS=--upgrade
	$(PIP) install --quiet --only-binary :all: --group lock
	.venv/bin/$(COMPILE) --group build --output-file requirements/serve.txt
	.venv/bin/$(COMPILE:pyproject.toml=) --group pyproject.toml:console --output-file requirements/console.txt
	.venv/bin/$(COMPILE) --extra otel --group build --constraint requirements/serve.txt --output-file requirements/otel.txt
	.venv/bin/$(COMPILE) --extra isolate --group build --constraint requirements/serve.txt --output-file requirements/isolate.txt
	.venv/bin/$(COMPILE) --extra documents --group build --constraint requirements/serve.txt --output-file requirements/documents.txt
	.venv/bin/$(COMPILE) --extra knowledge --group build --constraint requirements/serve.txt --output-file requirements/knowledge.txt
	.venv/bin/$(COMPILE) --extra postgres --group build --constraint requirements/serve.txt --output-file requirements/postgres.txt
	.venv/bin/$(COMPILE) --extra otel --extra isolate --extra postgres --extra documents --extra knowledge --group build --group test --group check --constraint requirements/otel.txt \
		--output-file requirements/test.txt

clean: ## Remove everything make has made
	rm -rf .venv .cache .hypothesis dist build .make.lock .coverage .coverage.* console/node_modules src/agentvm/server/_console clients/typescript/dist
	find $(CODE) -name __pycache__ -type d -prune -exec rm -rf {} +

# The parts of setup. Only the targets above run them, holding the lock.

python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "AgentVM needs Python 3.11 or newer. Name one: make PYTHON=/path/to/python3.12 ..." >&2; exit 1; }

.venv/bin/python:
	@echo "Creating .venv"
	@$(PYTHON) -m venv .venv || { rm -rf .venv; exit 1; }

# pip may be told not to compile, and PYTHONDONTWRITEBYTECODE may be set; start-up takes twice as long without byte-code.
.venv/.packages: requirements/serve.txt | .venv/bin/python
	@echo "Installing the packages into .venv; this takes a minute or two"
	@$(INSTALL) -r requirements/serve.txt
	@.venv/bin/python -m compileall -q -j 0 .venv/lib || true
	@touch $@

# Without isolation: hatchling comes from the locked packages, nothing is fetched.
.venv/.serve: .venv/.packages pyproject.toml
	@$(PIP) install --quiet --no-deps --no-build-isolation --no-index --editable .
	@touch $@

# The pages that `/` serves. Without Node from the registry the server runs all the same, and `/` says how to build them.
.venv/.console: requirements/console.txt console/package-lock.json console/index.html console/vite.config.ts \
		console/client.mjs \
		$(shell find console/src console/public clients/typescript/src -type f) | .venv/.packages
	@echo "Building the web console"
	@$(INSTALL) -r requirements/console.txt && .venv/bin/python console/build.py && touch $@ \
		|| echo "warning: the web console is not built; make console tries again" >&2

.venv/.console-test: .venv/.console | .venv/.test
	@.venv/bin/python console/build.py --checkers && touch $@ \
		|| echo "warning: the checkers of the web console are missing; the next make tries again" >&2

.venv/.test: requirements/test.txt .venv/.packages
	@echo "Installing the packages for tests and checks"
	@$(INSTALL) -r requirements/test.txt
	@touch $@

# Looked for each time: they lie outside, in the user's cache. Without them every other model still works, so that a failed
# download only warns. The download shows its progress.
weights: .venv/.serve
	@.venv/bin/avm model list | grep -q '(default)$$' || { \
		echo "Fetching the weights of the embedded model, about 100 MB"; \
		.venv/bin/avm model pull || echo "warning: no weights for the embedded model; the next make tries again" >&2; }
