# Everything a checkout needs: `make demo` sets up and runs, `make test` sets up and tests.
.PHONY: demo test test-all test-rest coverage chaos check wheel bench results docs clean help
.DEFAULT_GOAL := help

# The first Python that is new enough; `make PYTHON=/path/to/python demo` names another.
PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11; do \
	$$p -c 'import sys, venv; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { echo $$p; break; }; done)
BIN := .venv/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check install -qq --constraint constraints.txt
TESTS := $(BIN)/python -m pytest --dist worksteal
# The tests by which coverage is measured. The longest tests are not among them: others reach all that they do.
LONG := hostile_replies remote_world secret_sums simulated_equals_deployed texts_at_sites traffic
COVERING := $(filter-out %/test_requirements.py %/test_suggestions.py,$(wildcard tests/core/test_*.py)) \
	tests/security tests/p2p/test_messages.py tests/p2p/test_signed_messages.py tests/run/test_checkpoint.py \
	$(filter-out $(LONG:%=tests/server/test_%.py),$(wildcard tests/server/test_*.py))

help: ## what can be made
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' Makefile | expand -t 18

demo: .venv/core ## FedGroup and FedAvg on handwritten digits, under a minute
	$(BIN)/fedkin run
	@echo "fedkin itself: $(BIN)/fedkin, or fedkin after: . $(BIN)/activate"

test: .venv/dev ## the unit tests and the examples in their smallest form, a few minutes
	$(TESTS) -n 2 -m "unit or example"

# Four workers keep two cores busy: tests of separate processes often wait for them.
test-all: .venv/dev ## all tests; real data are read from FEDKIN_DATA
	$(TESTS) -n 4

coverage: .venv/dev ## every line and branch of storage, messages, membership and checkpoints is tested, or it fails
	$(BIN)/coverage run -m pytest $(COVERING)
	$(BIN)/coverage report

test-rest: .venv/dev ## all tests but those that `make coverage` runs
	$(TESTS) -n 4 $(COVERING:%=--ignore %)

chaos: .venv/dev ## federations on random faults (SCHEDULES, 1000, from SEED on, 0), damaged files (CASES, 10000), KILLS (100)
	$(BIN)/python -m tests.deterministic --schedules $(or $(SCHEDULES),1000) --seed $(or $(SEED),0)
	$(BIN)/python -m tests.deterministic --kill-one --schedules $(or $(SCHEDULES),1000) --seed $(or $(SEED),0)
	$(BIN)/python -m tests.deterministic --ledgers --schedules $(or $(SCHEDULES),1000) --seed $(or $(SEED),0)
	$(BIN)/python -m tests.deterministic --options --schedules $(or $(SCHEDULES),1000) --seed $(or $(SEED),0)
	$(BIN)/python -m tests.deterministic --peers --schedules $(or $(SCHEDULES),1000) --seed $(or $(SEED),0)
	$(BIN)/python -m tests.deterministic --every-write
	$(BIN)/python -m tests.process.kill_drill --kills $(or $(KILLS),100) --seed $(or $(SEED),0)
	$(BIN)/python -m tests.fuzzing --cases $(or $(CASES),10000) --seed $(or $(SEED),0)

check: .venv/dev ## formatting, lint and types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/pyright

wheel: .venv/dev ## build wheel and sdist into dist/, check them, and run the demo from the wheel alone
	rm -rf dist
	$(BIN)/python -m build
	$(BIN)/twine check --strict dist/*
	@folder=$$(mktemp -d) && trap 'rm -rf $$folder' EXIT && $(PYTHON) -m venv $$folder && \
	$$folder/bin/python -m pip --disable-pip-version-check install -qq --constraint constraints.txt dist/*.whl && \
	cd $$folder && bin/fedkin --version && bin/fedkin run run.rounds=3

bench: .venv/bench .venv/flower/done ## measure speed side by side, into docs/benchmarks.md
	$(BIN)/python -m benchmarks

results: .venv/core ## the pages of the papers' tables from their stored runs; HOURS=2 first makes missing runs for up to two hours
	$(BIN)/python -m papers $(if $(HOURS),--hours $(HOURS))

docs: .venv/dev ## the site, into site/; nothing is fetched
	DISABLE_MKDOCS_2_WARNING=true NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

clean: ## remove built files, keep runs
	rm -rf .venv .pytest_cache .ruff_cache .hypothesis build dist site *.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# Each stamp is newer than what it was installed from, so a pull that moves a pin installs again.
.venv/core: pyproject.toml constraints.txt
	@test -n "$(PYTHON)" || { echo "fedkin needs Python >= 3.11 with venv; none was found" >&2; exit 1; }
	@echo "installing into .venv (a minute or two the first time)"
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@$(PIP) --editable .
	@touch $@

.venv/dev: .venv/core
	@$(PIP) --editable '.[dev,docs,flower,hf,metrics,mlflow,onnx,p2p,ranks,ray,serve,text,torchax,wandb]'
	@touch $@

.venv/bench: .venv/core
	@$(PIP) --editable '.[bench]'
	@touch $@

.venv/flower/done: benchmarks/flower-requirements.txt .venv/core
	@test -x .venv/flower/bin/python || $(BIN)/python -m venv .venv/flower
	@.venv/flower/bin/python -m pip --disable-pip-version-check install -qq -r $<
	@touch $@
