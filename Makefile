# Every command a person needs. Each one sets up what it uses, in .venv, once.
PYTHON ?= python3
PYTHONS := $(shell sed -n "s/^python_versions *= *//p" settings.ini)
# On Linux without a GPU: TORCH_INDEX=<PyTorch's CPU index> keeps the download small (see README).
TORCH_INDEX ?=
# What is imported is compiled once, not by each of the hundreds of processes that the tests start.
unexport PYTHONDONTWRITEBYTECODE
BIN := .venv/bin
READY := .venv/.ready

.DEFAULT_GOAL := help
# The steps of `docs` follow each other, also under `make -j`.
.NOTPARALLEL:
.PHONY: help docs page named test checks nightly book lab serve chapter train prepare export outputs pages card hooks constraints oldest newest corpus mutation bench third-party clean

help:  ## list these commands
	@awk -F ':.*## ' '/^[a-z -]+:.*## / {printf "  make %-13s %s\n", $$1, $$2}' Makefile

docs: export outputs pages  ## run the notebooks and build the site into docs/, README.md too
	@echo "Done. Open docs/index.html"

# The page of a chapter by its number, of what is no chapter by its place in nbs/.
page: NOTEBOOK = $(wildcard nbs/$(N)*.ipynb)
page: named export  ## run one notebook and render its page: make page N=02, or N=lookup/notation
	@$(BIN)/python tools/outputs.py refresh $(NOTEBOOK)
	$(BIN)/python website/build.py

named:
	$(if $(and $(N),$(NOTEBOOK)),,$(error no notebook was named: make page N=02))

# What marks a test as one for continuous integration alone, or for the night, stands in pyproject.toml.
test: $(READY)  ## run the tests that a change of the book can break; CI=true make test: wheel and Lab too
	$(BIN)/python -m pytest tests -m "not nightly$(if $(filter true,$(CI)),, and not ci)"

nightly: $(READY) .venv/.gpu  ## test the EPUB, the tools, nbdev's commands, other processors, a host, more examples (minutes)
	CI=true $(BIN)/python -m pytest tests -m nightly
	CI=true HYPOTHESIS_PROFILE=night $(BIN)/python -m pytest tests/test_properties.py
	$(MAKE) corpus

book: export  ## make the book one EPUB file, dist/attention_nb.epub
	$(BIN)/python website/build.py --epub dist/attention_nb.epub

# In tools/jupyter: what is saved is clean for git, and the arrow keys move a figure's slider. Only this Lab reads it.
lab: NBS := nbs
lab: $(READY)  ## open the notebooks in JupyterLab
	JUPYTER_CONFIG_PATH=tools/jupyter $(BIN)/jupyter lab --notebook-dir=$(NBS) $(if $(filter 0,$(shell id -u)),--allow-root) $(LAB)

serve: $(READY)  ## serve docs/ on http://localhost:8000
	$(BIN)/python -m http.server --directory docs 8000

chapter: $(READY)  ## begin a chapter from the template: make chapter N=06 NAME=positions
	@$(BIN)/python tools/chapter.py "$(N)" "$(NAME)"

train: $(READY)  ## train the models of chapters 7, 8, 9, 23 and 24 from nothing, over all their seeds (some twenty minutes)
	$(BIN)/python -m tools.training.sums
	$(BIN)/python -m tools.training.translation
	$(BIN)/python -m tools.training.induction
	$(BIN)/python -m tools.training.images
	$(BIN)/python -m tools.training.hybrid_models

prepare: FRESH := --fresh
prepare: docs  ## refresh everything that is generated; run this before a commit
	$(BIN)/nbdev_clean
	@git status --short

export: $(READY)
	$(BIN)/python tools/names.py
	$(BIN)/nbdev_export
	@$(MAKE) --no-print-directory attention_nb/catalogue.json

# What `attention-nb explain` and `attention-nb check --help` say without PyTorch.
attention_nb/catalogue.json: $(wildcard attention_checks/catalogue/*.py) attention_checks/api.py attention_checks/spec.py nbs/lookup/codes.ipynb tools/catalogue.py settings.ini
	$(BIN)/python tools/catalogue.py

outputs: export
	@$(BIN)/python tools/outputs.py refresh || { echo "docs/ and README.md are as they were: they are built when all cells pass." >&2; exit 1; }

pages: export
	$(BIN)/python website/build.py $(FRESH)

# The pictures of links: of the book, and of each chapter as docs/ shows it.
card: $(READY)
	@$(BIN)/python -c "import PIL" 2>/dev/null || $(BIN)/python -m pip install --quiet --disable-pip-version-check pillow
	$(BIN)/python website/card.py
	$(BIN)/python website/previews.py

hooks: $(READY)  ## teach git to merge notebooks cell by cell
	$(BIN)/nbdev_install_hooks

constraints: $(READY)  ## choose new versions for constraints.txt
	$(BIN)/python tools/constraints.py

oldest newest: $(READY)  ## try the package with the oldest or newest torch and fastcore it allows (gigabytes)
	$(BIN)/python tools/versions.py $@

checks: $(READY)  ## run the tests of the checks alone
	$(BIN)/python -m pytest tests/checks -m "not nightly and not ci"

corpus: $(READY) .venv/.corpus  ## hold the checks against all right and wrong attention of tests/checks/corpus (minutes)
	$(BIN)/python -m pytest tests/checks/corpus --timeout=300 -q --no-header

mutation: $(READY) .venv/.corpus  ## change the chapters' modules by machine; their cells must notice (an hour or more; resumes)
	$(BIN)/python -m tests.mutation.run
	$(BIN)/python -m tests.mutation.run --sample 80

.venv/.corpus: tests/checks/corpus/requirements.txt $(READY)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --requirement $<
	@touch $@

# Triton, for the chapter on GPU kernels: a large download, and for Linux alone. Without it that chapter is skipped.
# PyTorch for CUDA brings its own, which stays.
.venv/.gpu: benchmarks/gpu.txt $(READY)
	$(BIN)/python -c "import triton" 2>/dev/null || $(BIN)/python -m pip install --quiet --no-compile --disable-pip-version-check --no-deps --requirement $<
	@touch $@

bench: $(READY) .venv/.bench  ## measure our layers beside those of other packages, in one run (minutes)
	$(BIN)/python -m benchmarks.run $(BENCH)

# llms-from-scratch asks for TensorFlow, which its attention does not need.
.venv/.bench: benchmarks/requirements.txt $(READY)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --requirement $<
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps llms-from-scratch==1.0.19
	@touch $@

third-party: $(READY)  ## hold released packages against the checks, each installed apart (an hour, gigabytes; resumes)
	$(BIN)/python -m tests.third_party.run $(PACKAGES)

clean:  ## remove the environment and scratch files
	rm -rf .venv _proc _build build dist *.egg-info

# --no-compile: most of what is installed is never imported; what is, Python compiles then. What is pinned is installed
# by two processes, half by each; then pip looks whether anything is lacking.
PIP := $(BIN)/python -m pip install --quiet --no-compile --disable-pip-version-check
$(READY): constraints.txt settings.ini setup.py tools/export/nbdev_hook.py
	@$(PYTHON) -c 'import sys; v = "%d.%d" % sys.version_info[:2]; sys.exit(v not in "$(PYTHONS)".split() and "attention_nb is built with Python $(PYTHONS); got " + v + ". Name one: make PYTHON=python3.12")'
	@echo "Setting up .venv (once; a minute or two)"
	$(PYTHON) -m venv .venv
	$(PIP) --constraint constraints.txt $(if $(TORCH_INDEX),--index-url $(TORCH_INDEX)) torch
	@awk '{ print > ".venv/pins-" NR % 2 }' constraints.txt
	$(PIP) --no-deps --requirement .venv/pins-0 & half=$$!; $(PIP) --no-deps --requirement .venv/pins-1 && wait $$half
	$(PIP) --constraint constraints.txt --no-build-isolation --editable '.[dev]'
	$(BIN)/python tools/export/nbdev_hook.py
	@touch $@
