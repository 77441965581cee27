# Needs Python 3.11 or newer and nothing else. 'make help' lists what there is.

.PHONY: help up demo test check check-files check-types check-deployment docs openapi lock clean agents-latest
.DEFAULT_GOAL := help

python := .venv/bin/python
new-enough := -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null
some-python = $(or $(shell for each in $(python) python3 python3.14 python3.13 python3.12 python3.11; do \
	if $$each $(new-enough); then echo $$each; break; fi; done),$(error Tenfour needs Python 3.11 or newer))

help: ## show this list
	@sed -n 's/^\([a-z-]*\):.*## /make \1#/p' Makefile | while IFS='#' read -r name what; do \
		printf '%-18s %s\n' "$$name" "$$what"; done

# With bytecode, a process that ended is back sooner.
up: export PYTHONDONTWRITEBYTECODE :=
up: ## start everything in this terminal: Postgres, Redis, web, worker, clock
	@$(some-python) -m config.local.install requirements/embedded.lock
	@exec $(python) -m config.local.up --with-parent

demo: ## run unreliable agents against the running Tenfour, until Ctrl-C
	@$(some-python) -m config.local.install requirements/embedded.lock
	@$(python) manage.py demo

# Without bytecode every run would compile all tests and the programs that they start.
test: export PYTHONDONTWRITEBYTECODE :=
test: ## run all tests, two processes per core; ARGS="-k acknowledged" picks some
	@$(some-python) -m config.local.install requirements/tests.lock
	@$(python) -m pytest -n auto --dist worksteal $(ARGS)

agents-latest: export PYTHONDONTWRITEBYTECODE :=
agents-latest: ## run the tests of hooks and MCP with the newest Claude Code and Codex that there are
	@$(some-python) -m config.local.install requirements/tests.lock
	@$(python) -m tests.agents.latest $(ARGS)

build-docs := NO_MKDOCS_2_WARNING=1 .venv/bin/mkdocs build --quiet --strict --config-file docs_site/mkdocs.yml

check: ## format, lint, templates, import direction, docs, types, migrations, deployment
	@$(some-python) -m config.local.install requirements/tests.lock
	@$(MAKE) --no-print-directory --jobs=2 check-types check-files check-deployment

with-servers := $(python) -m tests.services --

# It takes longer than all others.
check-types:
	$(with-servers) .venv/bin/mypy

check-files:
	.venv/bin/ruff format --check .
	.venv/bin/ruff check .
	find templates dashboard -name '*.html' | xargs -r .venv/bin/djade --check --target-version 5.2
	.venv/bin/lint-imports
	$(build-docs)
	$(python) -m config.local.supply_chain

check-deployment:
	$(with-servers) $(python) manage.py makemigrations --check --dry-run
	$(with-servers) env TENFOUR_URL=https://tenfour.example.org \
		$(python) manage.py check --deploy --fail-level WARNING

docs: ## draw the modules, and build the docs as a site in site/
	@$(some-python) -m config.local.install requirements/tests.lock
	$(python) -m docs_site.architecture
	$(build-docs)

openapi: ## regenerate docs/openapi.json
	@$(some-python) -m config.local.install requirements/tests.lock
	$(python) -m tests.services -- $(python) manage.py export_openapi_schema \
		--api config.api.api --indent 1 --sorted --output docs/openapi.json

compile := .venv/bin/uv pip compile --quiet --upgrade --universal --python-version 3.11 \
	--generate-hashes --no-emit-index-url --no-header

lock: ## update all lists of pinned packages
	@$(some-python) -m config.local.install requirements/tests.lock
	$(compile) pyproject.toml -o requirements/server.lock
	$(compile) pyproject.toml --extra embedded -o requirements/embedded.lock
	$(compile) pyproject.toml --extra embedded --extra llm -o requirements/llm.lock
	$(compile) pyproject.toml --extra embedded --extra otel -o requirements/otel.lock
	$(compile) pyproject.toml --extra embedded --extra dev -o requirements/tests.lock
	echo uv | $(compile) - -o requirements/uv.lock

clean: ## remove all data, the virtual environment and every cache; refuses while Tenfour runs
	@$(some-python) -B -m config.local.up --clean
	rm -rf .venv .*_cache .hypothesis build site client/build client/*.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
