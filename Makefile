# Everything runs in .venv, which is made on first use with PYTHON: 3.11 or newer. Where none is named it is python3.11,
# for which alone enzyme-ad has wheels, if that is there, else python3.
SETUP_PYTHON = $(or $(PYTHON),$(shell python3.11 -c 'print("python3.11")' 2>/dev/null),python3)
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
PIP := $(BIN)/python -m pip --quiet --disable-pip-version-check
PYTEST := $(BIN)/python -m pytest -n auto --dist worksteal

# rows whose packages have wheels everywhere: the gate fails if one of them was not checked
REQUIRED := jax_cell_list jax_cell_list_adjoint jax_neighbor_list jax_segments jax_warp_adjoint numba_adjoint \
  torch_index_add warp_adjoint warp_autodiff
CACHES = T=$$(mktemp -d); trap 'rm -rf "$$T"' EXIT; export WARP_CACHE_PATH="$$T/warp" NUMBA_CACHE_DIR="$$T/numba";

.DEFAULT_GOAL := help
.PHONY: help bench test check test-thorough test-slow bench-study bench-full bench-gpu bench-segments bench-micro docs lint types report clean

help: ## Show what there is to make
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' Makefile | expand -t 16

bench: $(READY) ## Compare all rows on this machine's CPU and print the tables; ARGS=--quiet without progress
	@code=0; $(BIN)/pairgrad bench --profile quick $(ARGS) || code=$$?; \
	  $(BIN)/pairgrad report --results results/local --out reports/local && exit $$code

test: $(READY) lint ## Lint, tests, types, the gate on the published input, stale-report check
	@$(PYTEST) -m "not slow and not gpu and not thorough"
	@$(MAKE) --no-print-directory --jobs 2 types check ARGS="--scenario published --dtype float64"
	@$(BIN)/pairgrad report --check

check: $(READY) ## The whole gate: every gradient, hard inputs too, against the oracle, finite differences and each other
	@$(BIN)/pairgrad check $(addprefix --require ,$(REQUIRED)) $(ARGS)

test-thorough: $(READY) ## The tests that are too long for every change; .ci/run runs them after `make test`
	@$(PYTEST) -m "thorough and not gpu"

test-slow: $(READY) ## The tests that take minutes each
	@$(BIN)/python -m pytest -m slow --timeout 3600

bench-study: $(READY) ## The study's run, N to 1e6; updates the committed records and reports
	@code=0; $(BIN)/pairgrad bench --profile study --results "results/$$($(BIN)/pairgrad env --name)" || code=$$?; \
	  $(BIN)/pairgrad report && exit $$code

bench-full: $(READY) ## study, float32, one thread, clustered input, capacities; updates what is committed
	@code=0; $(BIN)/pairgrad bench --profile full --results "results/$$($(BIN)/pairgrad env --name)" || code=$$?; \
	  $(BIN)/pairgrad report && exit $$code

bench-micro: $(READY) ## Each row at small N under pytest-benchmark, saved; ARGS=--benchmark-compare compares with the last
	@$(CACHES) $(BIN)/python -m pytest benchmarks/test_rows.py --benchmark-autosave $(ARGS)

# at most 0.1 s and at least 5 calls a benchmark keep 1,728 of them near ten minutes; the check before has warmed up
bench-segments: $(READY) ## The segment operations, plain composites and, if installed, their peer; updates what is committed
	@mkdir -p results/segments
	@$(CACHES) PAIRGRAD_SEGMENT_SIZES=$${PAIRGRAD_SEGMENT_SIZES:-100000,1000000} \
	  $(BIN)/python -m pytest benchmarks/test_segments.py --benchmark-json "$$T/segments.json" --benchmark-quiet \
	  --benchmark-max-time 0.1 --benchmark-min-rounds 5 --benchmark-warmup off $(ARGS) && \
	  $(BIN)/python -m json.tool --compact "$$T/segments.json" "results/segments/$$($(BIN)/pairgrad env --name).json" && \
	  $(BIN)/pairgrad report

bench-gpu: ## On a machine with an NVIDIA GPU, with what is installed there: agreement, tests, rows, segment operations
	@PYTHONPATH="$$PWD" "$(or $(PYTHON),python3)" -m harness.gpu

docs: $(READY) ## Make the generated page of the docs anew
	@$(BIN)/python -m harness.report.schema > docs/record_schema.md

lint: $(READY)
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check --quiet .

types: $(READY)
	@$(BIN)/mypy

report: $(READY) ## Make the committed reports anew from the committed records
	@$(BIN)/pairgrad report

clean: ## Remove .venv and local results and reports
	rm -rf $(VENV) results/local reports/local

$(READY): pyproject.toml constraints.txt
	@"$(SETUP_PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "pairgrad needs Python 3.11 or newer, this is $$("$(SETUP_PYTHON)" --version): make PYTHON=python3.11 ..."; exit 2; }
	@echo "setting up $(VENV) with $$("$(SETUP_PYTHON)" --version): a few minutes, once"
	@"$(SETUP_PYTHON)" -m venv $(VENV)
	@$(PIP) install --constraint constraints.txt --editable '.[jax,torch,warp,numba,page,dev]'
	@$(PIP) install --constraint constraints.txt --editable '.[enzyme]' || \
	  echo "enzyme-ad could not be installed (above): its rows will say unavailable"
	@touch $@
