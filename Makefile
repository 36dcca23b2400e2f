# The same verbs for people and for CI. Everything is installed into $(VENV), from pinned versions.
PYTHON ?= python3
VENV ?= .venv
BIN = $(VENV)/bin
READY = $(VENV)/.ready
TESTABLE = $(VENV)/.testable
VIEWABLE = $(VENV)/.viewable
DOCUMENTED = $(VENV)/.documented
PIP = $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt

.PHONY: help demo test lint format bench docs package clean

help:
	@echo "make demo    train on HalfCheetah for a minute or two, show what was found and film two of its policies"
	@echo "make test    run every test"
	@echo "make lint    ruff, mypy and who may import whom"
	@echo "make bench   throughput of training against raw physics, and native problems against the adapter"
	@echo "make docs    check that links and commands in the documents hold, and build the site in site/"
	@echo "make package build sdist and wheel, and try both in environments with nothing else in them"

$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "Python 3.11 or newer is needed; name one with: make PYTHON=python3.12 ..."; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(PIP) -e ".[dev]"
	@touch $@

# What only tests need: the optional parts, and Chromium and EGL where they can be installed. Tests that lack theirs
# are skipped with a reason.
$(TESTABLE): $(READY)
	$(PIP) -e ".[dev,ray,report,viewer,tensorboard,wandb,peers,onnx,wireless,box2d,tune,browser-tests,notebook-tests]"
	@command -v chromium >/dev/null || { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null \
		&& apt-get update -qq && apt-get install -y -qq chromium libegl1 zsh >/dev/null; } \
		|| echo "Chromium is not here and cannot be installed: browser tests will be skipped"
	@touch $@

# What only the demo's videos and the page need. Fifteen weights per policy instead of five show a richer front.
$(VIEWABLE): $(READY)
	$(PIP) -e ".[dev,viewer]"
	@touch $@

demo: $(VIEWABLE)
	$(BIN)/ucb-moppo train HalfCheetah-v2 --preset quick --probes 15 --stage-iterations 50 --videos 2

test: $(TESTABLE)
	MUJOCO_GL=egl $(BIN)/python -m pytest -n 2 --dist worksteal tests

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(READY)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(READY)
	$(BIN)/python benchmarks/throughput.py
	$(BIN)/python benchmarks/adapter.py
	$(BIN)/python benchmarks/checkpoint_cost.py

# What only the site needs.
$(DOCUMENTED): $(READY)
	$(PIP) -e ".[dev,docs]"
	@touch $@

docs: $(DOCUMENTED)
	$(BIN)/python docs/check.py
	$(BIN)/python docs/build.py

# Of another Python: make package PYTHON=python3.13
package: $(READY)
	rm -rf dist build
	$(BIN)/python -m build --quiet --outdir dist .
	$(PYTHON) .ci/check_package.py dist

clean:
	rm -rf $(VENV) site dist build .pytest_cache .mypy_cache .ruff_cache .hypothesis
