# Every habit of this repository; `make` lists them.
SHELL := /bin/bash
.DEFAULT_GOAL := help
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
DATA ?=
CACHE := $(if $(XDG_CACHE_HOME),$(XDG_CACHE_HOME),$(HOME)/.cache)/trivium
export PYTHONPATH :=

.PHONY: help
help: ## List what there is
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

# ---- environment: each stamp is remade when its pins change

# uv and the build backend come by hash like everything else, so nothing is built in isolation,
# for which pip and uv would fetch a backend of their own.
$(BIN)/uv: requirements/bootstrap.txt
	@$(PYTHON) -c 'import sys; ok = (3, 11) <= sys.version_info < (3, 14); \
	  sys.exit(None if ok else f"Trivium needs Python 3.11 to 3.13, {sys.executable} is {sys.version.split()[0]}; try make PYTHON=python3.12")'
	@$(PYTHON) -m venv $(VENV) || { echo "could not make $(VENV): is the venv module of $(PYTHON) installed (Debian: python3-venv)?"; exit 1; }
	@echo "installing uv into $(VENV)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes --only-binary :all: \
	  -r requirements/bootstrap.txt
	@touch $@

$(VENV)/.desk: requirements/desk.txt pyproject.toml | $(BIN)/uv
	@echo "installing the service into $(VENV) (about 6 GB the first time; run again to resume)"
	$(BIN)/uv pip install --python $(BIN)/python --require-hashes -r requirements/desk.txt
	@$(BIN)/uv pip install --python $(BIN)/python --quiet --no-deps --no-build-isolation -e .
	@touch $@

$(VENV)/.dev: requirements/dev.txt $(VENV)/.desk
	@echo "installing the tools into $(VENV)"
	$(BIN)/uv pip install --python $(BIN)/python --require-hashes -r requirements/dev.txt
	@touch $@

$(VENV)/.gpu: requirements/gpu.txt $(VENV)/.desk
	@echo "installing the libraries for GPUs into $(VENV) (about 0.5 GB)"
	$(BIN)/uv pip install --python $(BIN)/python --require-hashes -r requirements/gpu.txt
	@touch $@

.PHONY: install-gpu
install-gpu: $(VENV)/.gpu ## Install what searches vectors on a GPU, for CUDA 13 (docs/gpu.md)

# ---- use

.PHONY: demo
demo: $(VENV)/.desk ## Start everything, ingest the sample, ask five questions (DEMO_ONCE=1 ends then)
	@$(BIN)/python -m serving demo $(if $(DEMO_ONCE),--once)

.PHONY: serve
serve: $(VENV)/.desk ## Serve in the foreground on persistent data
	@$(BIN)/python -m serving serve

.PHONY: bench
bench: $(VENV)/.dev ## Measure; DATA=FOLDER names a collection, else the sample multiplied
	@$(BIN)/python -m bench $(if $(DATA),--data $(DATA))

.PHONY: test-matrix
test-matrix: $(VENV)/.dev ## Test the index in every form: placements, exact and in lists, shards
	@set -o pipefail; $(BIN)/python -m pytest tests/e2e/test_index_matrix.py --index-matrix -q -rA \
	  --durations 12 --durations-min 1 | tee bench/results/index-matrix.txt

.PHONY: bench-index
bench-index: $(VENV)/.dev ## Measure the vector index on the CPU; DATA=FOLDERS adds the texts of sets
	@$(BIN)/python -m bench.index $(DATA)

.PHONY: bench-gpu
bench-gpu: $(VENV)/.dev ## Measure the models and the index of the GPU tier, apart and together, on the GPU that is there
	@$(BIN)/python -m bench.gpu.index
	@$(BIN)/python -m bench.index_fill --rows 1000000 --device cuda
	@$(BIN)/python -m bench.gpu
	@$(BIN)/python -m bench.gpu.batching --encoder 0.6B
	@$(BIN)/python -m bench.gpu.retrieve

.PHONY: quality
quality: $(VENV)/.dev ## Measure how good answers are; DATA="DIR DIR" names sets, else the slices that ship
	@$(BIN)/python -m bench.quality $(DATA)

.PHONY: quality-gate
quality-gate: $(VENV)/.dev ## Compare the answers to the slices with the stored scores
	@$(BIN)/python -m bench.quality --out bench/results/gate --gate bench/quality/slices/expected.jsonl

.PHONY: quality-gate-store
quality-gate-store: $(VENV)/.dev ## Store the scores of the slices anew, after a change that is meant
	@$(BIN)/python -m bench.quality --out bench/results/gate --store bench/quality/slices/expected.jsonl

.PHONY: tune
tune: $(VENV)/.dev ## Search a better default profile; DATA="DIR DIR" names sets, else the slices that ship
	@$(BIN)/python -m bench.quality.tune $(DATA)

# ---- develop

.PHONY: format
format: $(VENV)/.dev ## Format code and protos
	@$(BIN)/ruff check --quiet --fix-only .
	@$(BIN)/ruff format .
	@$(BIN)/buf format -w

.PHONY: proto
proto: $(VENV)/.dev ## Generate the stubs from the protos
	@$(BIN)/python -m grpc_tools.protoc -I protos \
	  --plugin=protoc-gen-mypy_grpc=$(BIN)/protoc-gen-mypy_grpc \
	  --python_out=clients/python --pyi_out=clients/python \
	  --grpc_python_out=clients/python --mypy_grpc_out=quiet:clients/python \
	  protos/trivium/v1/*.proto

.PHONY: cuvs-layouts
cuvs-layouts: $(VENV)/.dev ## Read the structs of cuVS' C API out of its headers (docs/gpu.md); needs gcc
	@$(BIN)/python -m tests.cuvs_layouts

.PHONY: lock
lock: | $(BIN)/uv ## Pin the requirements anew, with hashes
	@cd requirements && ../$(BIN)/uv pip compile --quiet --universal --python-version 3.11 \
	  --generate-hashes --no-emit-index-url --custom-compile-command 'make lock' \
	  ../pyproject.toml -o serving.txt
	@cd requirements && ../$(BIN)/uv pip compile --quiet --universal --python-version 3.11 \
	  --generate-hashes --no-emit-index-url --custom-compile-command 'make lock' \
	  --extra desk ../pyproject.toml -o desk.txt
	@cd requirements && ../$(BIN)/uv pip compile --quiet --universal --python-version 3.11 \
	  --generate-hashes --no-emit-index-url --custom-compile-command 'make lock' \
	  --extra gpu -c desk.txt ../pyproject.toml -o gpu.txt
	@cd requirements && ../$(BIN)/uv pip compile --quiet --universal --python-version 3.11 \
	  --generate-hashes --no-emit-index-url --custom-compile-command 'make lock' \
	  -c desk.txt bootstrap.in -o bootstrap.txt
	@cd requirements && ../$(BIN)/uv pip compile --quiet --universal --python-version 3.11 \
	  --generate-hashes --no-emit-index-url --custom-compile-command 'make lock' \
	  --extra desk --extra dev -c desk.txt -c bootstrap.txt ../pyproject.toml -o dev.txt

.PHONY: lint
lint: $(VENV)/.dev ## Format, lint, import rules, protos and their stubs, spelling
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/buf format --diff --exit-code
	@$(BIN)/buf lint
	@$(BIN)/lint-imports --no-cache
	@$(BIN)/codespell

.PHONY: types
types: $(VENV)/.dev ## Check the types, strictly
	@$(BIN)/mypy

.PHONY: unit
unit: $(VENV)/.dev ## Run the unit tests alone: seconds
	@$(BIN)/pytest tests/unit -q

.PHONY: test
test: lint types ## Run everything that CI runs
	@$(BIN)/pytest -n 2 --require postgres,neo4j,ray,model

.PHONY: test-gpu
test-gpu: $(VENV)/.dev ## Run the tests that need a GPU, which `make test` skips without one
	@$(BIN)/pytest -m gpu

.PHONY: clean
clean: ## Remove what was made here; the cache (~/.cache/trivium) stays
	@rm -rf $(VENV) dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
	@echo "kept: your data (see TRIVIUM_DATA_DIR) and $(CACHE) (downloads)"
