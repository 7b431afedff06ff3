# Everything runs in .venv, made on first use from pyproject.toml and constraints.txt.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
export RAY_USAGE_STATS_ENABLED := 0
# Bytecode is kept whatever the caller's shell says: tests start hundreds of processes that import the package.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: demo demo-deadlines test check setup docs performance clean

demo: setup  ## six real jobs on an emulated cluster of three GPU types
	$(BIN)/python -m examples.demo

demo-deadlines: setup  ## a deadline that is met because a best-effort job waited
	$(BIN)/python -m examples.demo_deadlines

test: check  ## everything but the tests marked slow; those that start a cluster come last, two at a time
	$(BIN)/python -m pytest -m "not slow and not live" --numprocesses 3 --dist loadfile --no-loadscope-reorder
	$(BIN)/python -m pytest -m "live and not slow" --numprocesses 2 --dist loadfile --no-loadscope-reorder

check: setup  ## lint and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	@mkdir -p .types && ln -sfn .. .types/coadapt
	$(BIN)/mypy --num-workers 2

performance: setup  ## run every benchmark and rewrite docs/results/performance.md
	$(BIN)/python -m benchmarks.performance

docs: setup  ## build the site of docs/ in out/site; a link that leads nowhere is an error
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet

setup: $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet -c constraints.txt torch
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[dev]'
	$(BIN)/python -m coadapt.scheduler.rounds.kernels coadapt  # compiles the solver, so that no round waits for it
	touch $@

clean:
	rm -rf $(VENV) .types .mypy_cache .ruff_cache .pytest_cache build *.egg-info out
