# Every target builds the environment it needs by itself: python3 >= 3.11 and git are all it takes.
# PYTHON=/path/to/python3 says which Python .venv is made of, ARGS="..." is passed on.
.DEFAULT_GOAL := test
VENV := .venv/bin
MAKE_ENV := $(or $(PYTHON),python3) scripts/make_env.py
PYTEST := $(VENV)/python -m pytest -q -n auto --dist worksteal
PARTS := http memory cache nodes
PURE := tests/protocol tests/checkers $(sort $(wildcard tests/client/test_nursery_*.py tests/client/test_drafting_*.py tests/client/test_watching_*.py))
LOCK := $(VENV)/uv pip compile --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-emit-find-links \
	--no-annotate --custom-compile-command "make lock" --quiet --upgrade
PACKAGES := pyproject.toml --group build --extra server
# The tests start hundreds of processes: none of them should compile the sources again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: env server-env serve test quick checks style types layers tests tests-core tests-http tests-memory tests-cache pure coverage bench bench-quick soak mutate fuzz lock docs reference transcripts pictures web console tests-web tests-browser web-made jq

serve: server-env   ## start the server on 127.0.0.1:8420 with its data in ./data; ARGS="--port 9000" and the like
	@$(VENV)/stemmadb serve $(ARGS)

test:               ## everything that must pass on every change, and the seconds of each part
	@$(or $(PYTHON),python3) scripts/run_parts.py

quick: checks pure  ## for the inner loop, in under two minutes: style, types, layers and the tests that do no I/O

checks: style types layers

server-env:         ## .venv with the server's packages, ours and the extension
	@$(MAKE_ENV) server

env:                ## and with the development packages
	@$(MAKE_ENV) dev

style: env          ## ruff: lint and format
	@$(VENV)/ruff check .
	@$(VENV)/ruff format --check .

types: env          ## mypy --strict
	@$(VENV)/mypy

layers: env         ## import-linter: imports go down only
	@$(VENV)/lint-imports --no-cache

tests: env          ## pytest
	@$(PYTEST) $(ARGS)

tests-core: env     ## the tests of everything that is no part of its own
	@$(PYTEST) tests $(PARTS:%=--ignore=tests/%) --ignore=tests/workers $(ARGS)

tests-memory: jq    # the scripts for task files run jq; without it their tests are skipped, or fail where it is required
jq:
	@scripts/get-tools jq || true

$(PARTS:%=tests-%): env   ## the tests of one part: http, memory, cache, nodes
	@$(PYTEST) $(@:tests-%=tests/%) $(ARGS)

web: env            ## node and the packages of typescript/, from their locks
	@$(VENV)/python scripts/web.py install

console: env        ## the web console in build/console/, which the server has at /console
	@$(VENV)/python scripts/web.py console

tests-workers: env  ## real processes with workers, and a tenth of the system tests against a server with three
	@TEST_WORKERS=3 $(PYTEST) tests/workers tests/system -m workers $(ARGS)

tests-web: env      ## typescript/: types, sizes, vectors, 10,000 cases against Python, a real server, 4 tests in Chromium
	@$(VENV)/python scripts/web.py test $(ARGS)

tests-browser: env  ## all browser tests in Chromium, some in Firefox, a smoke in WebKit
	@$(VENV)/python scripts/web.py browser $(ARGS)

pictures: env       ## write the pictures of the web console for the docs again
	@STEMMADB_PICTURES=$(CURDIR)/docs/console/web $(VENV)/python scripts/web.py browser browser/console_pictures.test.ts

web-made: env       ## write again what is made from the Python code for authors of clients
	@$(VENV)/python -m scripts.clientkit

pure: env           ## the tests of what does no I/O
	@$(PYTEST) $(PURE)

coverage: env       ## the tests again, with line and branch coverage of the pure core
	@$(VENV)/python -m pytest -q --cov --cov-report=term-missing $(ARGS)

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

lock: env           ## write requirements/*.txt again: pins and hashes, no addresses
	@$(VENV)/python -m pip install --quiet uv
	@$(LOCK) $(PACKAGES) -o requirements/server.txt
	@$(LOCK) $(PACKAGES) --extra dev --extra memory --extra postgres --constraint requirements/server.txt -o requirements/dev.txt
	@$(LOCK) requirements/web.in -o requirements/web.txt
