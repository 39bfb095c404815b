# Every target builds its own environment from the lock; python3 >= 3.11 and git are all it needs.
.PHONY: packages env serve test style types layers tests tests-compiled coverage bench bench-quick soak mutate fuzz lock docs reference transcripts
.DEFAULT_GOAL := test
VENV := .venv/bin
# Hundreds of processes are started by the tests: none of them should compile the sources again.
unexport PYTHONDONTWRITEBYTECODE

packages:           ## build .venv with all that others wrote (server, client and development packages)
	@scripts/make-env packages

env: packages       ## put our own packages into it, and compile what is compiled
	@scripts/make-env ours

test: style types layers tests   ## everything that must pass on every change
ifneq (,$(filter test,$(or $(MAKECMDGOALS),test)))
# The types are looked at while the rest is compiled; the tests run once all of that is well.
MAKEFLAGS += -j2
tests: style types layers
endif

style: packages     ## ruff: lint and format
	@$(VENV)/ruff check .
	@$(VENV)/ruff format --check .

types: packages     ## mypy --strict
	@$(VENV)/mypy

layers: env         ## import-linter: imports go down only
	@$(VENV)/lint-imports --no-cache

tests: env          ## pytest
	@$(VENV)/python -m pytest -q -n auto --dist worksteal $(ARGS)

tests-compiled: env ## the tests of the server again, on the modules that are compiled
	@PYTHONPATH=tests/support $(VENV)/python -m pytest -q -n auto --dist worksteal -p compiled_modules $(or $(ARGS),tests/server tests/system tests/simulation)

coverage: env       ## the tests again, with line and branch coverage of the pure core
	@$(VENV)/python -m pytest -q --cov --cov-report=term-missing $(ARGS)

serve: env          ## start the server on 127.0.0.1:8420 with its data in ./data; ARGS="--port 9000" and the like
	@$(VENV)/stemmadb serve $(ARGS)

bench bench-quick: env   ## ours and the peers in turn (SCENARIO=name: one); bench-quick: two minutes, fails below benchmarks/floors.toml
	@$(VENV)/python -m benchmarks $(if $(SCENARIO),--only $(SCENARIO),) $(if $(filter bench-quick,$@),--quick,)

mutate: env         ## over 200 deliberate bugs, one at a time: every one must be caught; writes docs/mutations.md
	@$(VENV)/python scripts/mutate.py $(ARGS)

fuzz: env           ## coverage-guided fuzzing of every decoder for MINUTES=n; new inputs stay in the corpus
	@$(VENV)/python scripts/fuzz.py --minutes $(or $(MINUTES),5) --keep $(ARGS)

soak: env           ## the generated tests with many more cases, for MINUTES=n
	@$(VENV)/python scripts/soak.py --minutes $(or $(MINUTES),10)

docs: env reference   ## the site, in site/; works without a network
	@NO_MKDOCS_2_WARNING=1 $(VENV)/mkdocs build --strict --quiet

reference: env      ## write the pages of commands and errors from the code
	@$(VENV)/python -m scripts.docpages reference

transcripts: env    ## type the commands of the docs against a server of their own, and write what they print; PAGES="..."
	@$(VENV)/python -m scripts.docpages run $(PAGES)

lock: env           ## write requirements/dev.txt again: pins and hashes, no addresses
	@$(VENV)/python -m pip install --quiet uv
	@$(VENV)/uv pip compile --universal --python-version 3.11 --extra server --extra dev --generate-hashes \
		--no-emit-index-url --no-emit-find-links --no-annotate --custom-compile-command "make lock" \
		--quiet --upgrade pyproject.toml -o requirements/dev.txt
