# Everything a user or CI runs. `make demo` and `make test` set up a fresh Debian 12 by themselves.
VENV   := .venv
PYTHON := $(VENV)/bin/python
BUILD  := build
JOBS   ?= $(shell nproc)
export CMAKE_BUILD_PARALLEL_LEVEL := $(JOBS)

.PHONY: setup build demo test test-cpp test-python lint format bench benchmark-page clean

setup: $(VENV)/.installed

$(VENV)/.installed: scripts/setup.sh pyproject.toml
	bash scripts/setup.sh $(VENV)
	touch $@

build: setup
	$(PYTHON) -m pip install --quiet --no-build-isolation --no-deps --editable .

demo: build
	$(PYTHON) -m mindspeed_llm.demo

test: build lint test-cpp test-python

test-cpp: build
	ctest --test-dir $(BUILD) --output-on-failure --no-tests=error -j $(JOBS)

test-python: build
	$(PYTHON) -m pytest

lint: setup
	bash scripts/lint.sh $(VENV)

format: setup
	$(VENV)/bin/ruff format python tests benchmarks examples
	$(VENV)/bin/ruff check --fix --quiet python tests benchmarks examples
	git ls-files 'src/*.cpp' 'src/*.h' 'tests/*.cpp' 'tests/*.h' | xargs $(VENV)/bin/clang-format -i

# Files of this machine and day; then the page that is built from all of them.
MEASURED := benchmarks/results/$(shell date +%F)-$(shell uname -n)
bench: build
	$(VENV)/bin/mindspeed bench ops --csv $(MEASURED)-ops.csv
	$(VENV)/bin/mindspeed bench train --json $(BUILD)/bench-train.json --csv $(MEASURED)-train.csv
	$(MAKE) benchmark-page

benchmark-page:
	$(PYTHON) benchmarks/build_page.py

clean:
	rm -rf $(BUILD)
