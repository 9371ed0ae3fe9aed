# make book | slides | epub | pdf | offline | downloads | room | test | traces | jax | notebooks | lint | format | lab | results | clean | lock      (what each does: README.md)
# make colab | digits | oldest | newest | links | anywhere      (not part of make test: README.md)
PYTHON ?= python3
OLDEST ?= python3.11
COLAB_PYTHON ?= python3.13
BIN := .venv/bin
NAME ?=
# The tests of the two packages that need neither the book nor its tools: with other versions, on other systems.
PACKAGE := tests/model tests/course --ignore=tests/course/book --ignore=tests/course/test_checks_jax.py
JS := $(wildcard vitbook/figures/*.js vitbook/figures/*/*.js book/assets/*.js tests/pages/*.mjs)
# A cell takes a minute at most, ten on a machine that has much else to do.
NBVAL := --nbval-lax --nbval-current-env --nbval-cell-timeout=900

.PHONY: book slides epub pdf offline downloads room test traces jax gpu notebooks lint format lab results clean lock colab digits oldest newest links anywhere

book: .venv/ready
	@$(BIN)/jupyter-book build . --all -W --keep-going -n -q
	@echo "The book: $(CURDIR)/_build/html/index.html"

# Decks and handouts are built with the book; this prints them, too.
slides: book
	@$(BIN)/python -m pages.print_slides

# Three gigabytes on Linux, less with PACK=--cpu. It is installed where there is no network, and two chapters run there.
room: book
	@$(BIN)/python -m tools.room pack $(PACK)
	@$(BIN)/python -m tools.room prove

# The book as one file, for e-readers and on paper. Each command ends by judging what it made.
epub: .venv/ready
	@$(BIN)/python -m pages.make_epub

pdf: epub
	@$(BIN)/python -m pages.make_pdf

offline: book
	@$(BIN)/python -m pages.make_zip

# All of it in the folder that is published, and pages that link to it (where BOOK_URL or the repository says).
downloads: export BOOK_DOWNLOADS = 1
downloads: offline pdf
	@$(BIN)/python -m pages.make_zip --publish

# loadfile keeps a notebook's cells in one process and in order; tests/conftest.py says which files start first.
# One process more than cores, because page tests wait. One thread each: on two cores two processes with two threads
# each train three times slower.
test: lint book
	@OMP_NUM_THREADS=1 $(BIN)/python -m pytest book tests $(NBVAL) -n 3 --dist loadfile --no-loadscope-reorder

# What failed, once more, with a trace of each page test that fails again.
traces: .venv/ready
	@$(BIN)/python -m pytest tests --lf --lfnf none --tracing retain-on-failure

# The appendix on JAX: what it needs is large, and nothing else needs it.
jax: .venv/jax

# Every notebook of the commit at hand, as Colab runs it.
colab:
	@$(PYTHON) -m tools.colab $(NAME) --python $(COLAB_PYTHON)

# Every notebook where neither Fashion-MNIST nor a network is at hand: the digits stand in.
digits: .venv/ready
	@VITNB_OFFLINE=1 VITNB_DATA=$(CURDIR)/_build/no-data OMP_NUM_THREADS=1 \
		$(BIN)/python -m pytest book $(NBVAL) -n 3 --dist loadfile --no-loadscope-reorder

gpu: .venv/ready
	@mkdir -p _build
	@$(BIN)/python -m pytest book $(NBVAL) --junitxml=_build/gpu.xml; passed=$$?; \
		$(BIN)/python tools/seconds.py _build/gpu.xml _build/gpu.json && exit $$passed

# The package's tests with the lowest versions that pyproject.toml promises, and with the newest that pip finds, each in
# an environment of its own. From PyPI, torch for Linux on x86 brings 3 GB for GPUs and is not imported without them.
oldest newest:
	@$(if $(filter oldest,$@),$(OLDEST),$(PYTHON)) -m venv --clear .cache/$@
	@.cache/$@/bin/python tools/versions.py $@ > .cache/$@/requirements.txt
	@.cache/$@/bin/python -m pip install -q --disable-pip-version-check -r .cache/$@/requirements.txt
	@.cache/$@/bin/python -m pip list --disable-pip-version-check | grep -E '^(numpy|torch|torchvision|matplotlib|timm) '
	@OMP_NUM_THREADS=1 PYTHONPATH=. .cache/$@/bin/python -m pytest $(PACKAGE) -n 3 --dist loadfile

# Asks the sites that the pages link to, one page a second at each: make test needs no network.
links: book
	@$(BIN)/python tools/links.py

# The last commit's tests in a hard place, by default all: make anywhere WHERE="--only home network -- make lint"
anywhere: .venv/ready
	@$(BIN)/python tools/anywhere.py $(WHERE)

notebooks: .venv/ready
	@$(BIN)/python -m pages.notebooks $(NAME)

lint: .venv/ready
	@$(BIN)/ruff check -q .
	@$(BIN)/ty check -q
	@$(BIN)/zizmor -q --offline --no-progress .github
	@$(BIN)/oxlint -f unix -D correctness $(JS)
	@$(BIN)/ruff format -q --check . && $(BIN)/oxfmt --check $(JS) > /dev/null || (echo "'make format' sets this right." && false)

format: .venv/ready
	@$(BIN)/ruff check -q --fix . ; $(BIN)/ruff format -q . ; $(BIN)/oxfmt $(JS) 2> /dev/null

lab: .venv/ready
	@$(BIN)/jupyter lab book

results: .venv/ready
	@$(BIN)/python -m experiments $(NAME)

clean:
	rm -rf _build .pytest_cache .ruff_cache .hypothesis *.egg-info

# Everything above needs the network only when one of these three files has changed.
.venv/ready: requirements.txt constraints.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("Python 3.11 or newer is needed: make PYTHON=python3.13 ...")'
	@test -x $(BIN)/pip || $(PYTHON) -m venv .venv
	@echo "Setting up .venv: several minutes the first time (PyTorch is large)"
	@$(BIN)/python -m pip install -q --disable-pip-version-check -r requirements.txt
	@$(BIN)/python -m pip install -q --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

.venv/jax: .venv/ready requirements-jax.txt
	@echo "Adding JAX to .venv: about 500 MB"
	@$(BIN)/python -m pip install -q --disable-pip-version-check -r requirements-jax.txt
	@touch $@

lock:
	@head -1 constraints.txt > constraints.new
	@grep -v '^-c' requirements.txt | uv pip compile - -q --universal --python-version 3.11 \
		--no-emit-index-url --no-emit-find-links --no-annotate --no-header --strip-extras >> constraints.new
	@mv constraints.new constraints.txt
