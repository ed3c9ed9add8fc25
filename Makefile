# The doors of the project. `make help` lists them.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin
UV := $(BIN)/uv
PYTEST := $(BIN)/python -m pytest
ON_ALL_CORES := -n logical --maxprocesses 4 --dist loadfile

.DEFAULT_GOAL := help
.PHONY: help setup setup-dev setup-bench setup-clouds setup-finance demo up test ci check lint types layers fast bench bench-pages bench-speed test-long plane test-kubernetes clean

help: ## This list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  make %-15s %s\n", $$1, $$2}'

$(BIN)/python:
	@command -v $(PYTHON) >/dev/null || { echo "Python 3.11 is needed (python3.11 on PATH, or make PYTHON=/path/to/python3.11)"; exit 1; }
	@$(PYTHON) -m venv $(VENV)

$(VENV)/.tools: $(BIN)/python tools/uv.txt
	@echo "setting up $(VENV)"
	@$(BIN)/python -m pip install -q --disable-pip-version-check --require-hashes -r tools/uv.txt
	@touch $@

$(VENV)/.runtime: $(VENV)/.tools requirements.txt pyproject.toml
	@echo "installing what the product needs"
	@$(UV) pip install -q --python $(BIN)/python --require-hashes -r requirements.txt
	@$(UV) pip install -q --python $(BIN)/python --no-deps -e .
	@touch $@

$(VENV)/.finance: $(VENV)/.runtime requirements-finance.txt
	@echo "installing what writes and checks the night's files"
	@$(UV) pip install -q --python $(BIN)/python --require-hashes -r requirements-finance.txt
	@touch $@

$(VENV)/.dev: $(VENV)/.bench $(VENV)/.clouds $(VENV)/.finance requirements-dev.txt
	@echo "installing what the tests need"
	@$(UV) pip install -q --python $(BIN)/python --require-hashes -r requirements-dev.txt
	@touch $@

$(VENV)/.bench: $(VENV)/.runtime requirements-bench.txt
	@echo "installing what draws the charts"
	@$(UV) pip install -q --python $(BIN)/python --require-hashes -r requirements-bench.txt
	@touch $@

$(VENV)/.clouds: $(VENV)/.runtime requirements-clouds.txt
	@echo "installing what buys machines in AWS, Google Cloud and Azure"
	@$(UV) pip install -q --python $(BIN)/python --require-hashes -r requirements-clouds.txt
	@touch $@

setup: $(VENV)/.runtime ## .venv from the committed lock, with gpufleet in .venv/bin
setup-dev: $(VENV)/.dev ## setup, plus what the tests need
setup-bench: $(VENV)/.bench ## setup, plus what draws the benchmarks' charts
setup-clouds: $(VENV)/.clouds ## setup, plus what buys machines in AWS, Google Cloud and Azure

setup-finance: $(VENV)/.finance ## setup, plus what writes and checks the files of chargeback

ON_CLUSTER = $(if $(CLUSTER),--cluster $(CLUSTER))
NEEDS_PLANE = $(if $(filter kubernetes,$(CLUSTER)),plane)

demo: setup setup-finance $(NEEDS_PLANE) ## The embedded fleet and its main story; EXIT=1 ends by itself; CLUSTER=kubernetes on a real API
	@$(BIN)/python -m tools.demo demo $(if $(EXIT),--exit) $(ON_CLUSTER)

up: setup setup-finance $(NEEDS_PLANE) ## The embedded fleet without the story
	@$(BIN)/python -m tools.demo up $(ON_CLUSTER)

test: setup-dev ## Every test that needs only Python and the registries, and one whole demo
	@$(PYTEST) tests $(ON_ALL_CORES) -m "not airflow and not browser and not demo and not long and not kubernetes"
	@$(PYTEST) tests -m demo

ci: test ## What .ci/run calls: test, lint, types, layers, quick benchmarks, a browser, a running Airflow, a real Kubernetes
	@$(MAKE) --no-print-directory lint types layers
	@$(MAKE) --no-print-directory bench QUICK=1
	@tools/chromium.sh
	@$(PYTEST) tests -m browser
	@$(PYTEST) tests -m airflow
	@$(MAKE) --no-print-directory test-kubernetes

plane: setup ## Build the Kubernetes control plane of the tests with Go, once (ten minutes; docs/kubernetes-tests.md)
	@$(BIN)/python -m tools.kubernetes.build

test-kubernetes: setup-dev plane ## Everything that needs a real Kubernetes API, or a real Prometheus
	@tools/prometheus.sh
	@$(PYTEST) tests $(ON_ALL_CORES) -m kubernetes --ignore=tests/demo
	@$(PYTEST) tests/demo -m kubernetes

check: setup-dev lint types layers fast ## Lint, types, layers, fast tests

lint:
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .

types:
	@$(BIN)/mypy

layers:
	@$(BIN)/lint-imports

fast:
	@$(PYTEST) tests/unit tests/scenarios tests/architecture -x -m "not browser and not airflow"

bench: $(if $(QUICK),setup,setup-bench) ## Benchmarks against benchmarks/ranges.yaml, pages and charts; QUICK=1: a few minutes, no pages
	@$(BIN)/python -m benchmarks run $(if $(QUICK),quick,full)

bench-pages: setup-bench ## Pages and charts again, from the results of the last full run
	@$(BIN)/python -m benchmarks pages

bench-speed: setup ## How fast the engine decides, nothing else
	@$(BIN)/python -m benchmarks speed

test-long: setup-dev ## The long profile
	@$(PYTEST) tests -m long

clean: ## Remove what was built and the demo's leftovers
	@rm -rf $(VENV) .demo .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis include/*.egg-info
