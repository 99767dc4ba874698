# `make demo` trains and shows results; `make test` runs the tests. Each sets the environment up first when it is
# missing or stale: with what shoal needs to run (`./setup`), or also with the tools for tests (`./setup dev`). VENV and
# PYTHON may be given, as in `make test PYTHON=python3.13 VENV=.venv-313`.

SHELL := /bin/sh
VENV ?= .venv
export VENV
BIN = $(VENV)/bin

# Small tests gain nothing from many threads, and lose much to waiting for each other.
THREADS = OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 NPROC=2
# Test files and the sources are compiled once, not in each of the many processes that tests start.
BYTECODE = PYTHONDONTWRITEBYTECODE=
# Most of the time goes into compiling, which takes a seventh to a half of the time then: see tests/conftest.py.
QUICK = SHOAL_TEST_XLA_LEVEL=0
# Checking the annotations at each call takes a third of the time: `make test-newest` and `make test-all` do it.
UNCHECKED = --jaxtyping-packages=

.PHONY: help setup setup-dev demo test test-all test-newest sources lint docs dist lock peers gpu-program test-gpu-program clean

help:  ## list the targets
	@sed -n 's/^\([a-z-]*\):[^#]*## /\1\t/p' Makefile | expand -t 18

setup:  ## create or update .venv, with what shoal needs to run
	@./setup

setup-dev:  ## also install what the tests and `make lint` need
	@./setup dev

demo: setup  ## train 16 agents on CartPole and make pictures, in about a minute on two free cores
	@$(BIN)/shoal demo
	@echo "Before these commands: . $(BIN)/activate"

test: setup-dev  ## run the tests, except those marked slow or long
	@$(QUICK) $(THREADS) $(BYTECODE) $(BIN)/python -m pytest -n 2 --dist loadfile -m "not slow and not long" $(UNCHECKED)

test-all: setup-dev  ## run all tests, also those marked slow; before a release
	@$(THREADS) $(BYTECODE) $(BIN)/python -m pytest -n 2 --dist loadfile -m "not long"

test-newest:  ## run the tests of `make test` with Python 3.13, the newest JAX, and annotations checked at each call
	@VENV=.venv-newest PYTHON=$${PYTHON:-python3.13} ./setup dev
	@$(QUICK) $(THREADS) $(BYTECODE) .venv-newest/bin/python -m pytest -n 2 --dist loadfile -m "not slow and not long"

sources:  ## test each library of environments in its own environment with its newest release (ONLY="pgx brax" for some)
	@$(QUICK) $(THREADS) tests/interop/sources/run $(ONLY)

lint: setup-dev  ## ruff, formatting, types
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check
	@$(BIN)/pyright --pythonpath $(BIN)/python

docs:  ## write the generated pages, then build the site in site/
	@./setup dev docs
	@$(BIN)/python docs/generate.py
	@$(BIN)/zensical build --clean

dist:  ## build the wheel and the source distribution in dist/, and check them; nothing is uploaded
	@./setup dev release
	@rm -rf dist
	$(BIN)/python -m hatchling build -d dist
	$(BIN)/twine check --strict dist/*

lock:  ## resolve all versions again into constraints.txt (needs uv; uv.lock is not kept in git)
	uv lock --upgrade
	uv export --no-hashes --all-extras --no-extra gp --no-extra gymnax --no-emit-project -o constraints.txt

peers:  ## make .venv-peers with the libraries that benchmarks and reproductions compare with
	VENV=.venv-peers sh benchmarks/peers/setup.sh

GPU_PROGRAM = .venv-gpu-program

gpu-program:  ## count the CUDA programs of all environments and agents, without a GPU (hours; ONLY=text for some)
	@VENV=$(GPU_PROGRAM) sh benchmarks/cuda_program/setup.sh
	$(GPU_PROGRAM)/bin/python benchmarks/gpu_program.py table --only "$(ONLY)"

test-gpu-program:  ## test that no CUDA program has more launches or bytes than its budget, without a GPU
	@VENV=$(GPU_PROGRAM) sh benchmarks/cuda_program/setup.sh
	@$(GPU_PROGRAM)/bin/python -m pytest tests/gpu_program

clean:  ## remove files made by make and tests, except environments and runs
	rm -rf site dist .ruff_cache .pytest_cache .hypothesis
	find . -name __pycache__ -type d -not -path './.venv*' -prune -exec rm -rf {} +
