# One word a task. `make` alone lists them.

PYTHON  := $(shell command -v python3.11 || command -v python3)
VENV    := .venv
BIN     := $(VENV)/bin
FLAVOUR ?= mariadb
N       ?= 10
KILLS   ?= 200
MINUTES ?= 60
SOURCES ?= 8
JOBS    ?= 4
PREFIX  ?= /opt/migrate
COMPILED := build/compiled
ORDER    := --no-loadscope-reorder

# Where it is set, each of some thousand processes would compile every module again.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help setup install dist servers browser prepare demo demo-reshard test test-long test-all coverage compiled test-compiled test-browser types ddl-kinds record test-servers test-server soak-failover fuzz mutations times chaos
.PHONY: model model-broken models
.PHONY: lint typecheck bench-capture bench-apply bench-copy bench-verify bench-many clean distclean lock

help: ## list the tasks
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@echo
	@echo "  make demo FLAVOUR=mysql     the demo on MySQL instead of MariaDB"
	@echo "  make test FLAVOURS=mariadb  the suite on one database server only"
	@echo "  make test JOBS=2            the suite in two processes, each with servers of its own (4)"
	@echo "  make install PREFIX=DIR     somewhere else than /opt/migrate"

setup: $(VENV)/.done ## make .venv from requirements.lock

$(VENV)/.done: requirements.lock pyproject.toml
	@PYTHON="$(PYTHON)" VENV="$(VENV)" sh sandbox/setup.sh
	@touch $@

install: ## install to PREFIX=/opt/migrate, with the publisher compiled where a C compiler is
	@PYTHON="$(PYTHON)" VENV="$(PREFIX)" INSTALL=1 sh sandbox/setup.sh

dist: setup ## build wheel and sdist into dist/, the wheel's publisher compiled where a C compiler is; COMPILE=0: not
	@VENV="$(VENV)" COMPILE="$(COMPILE)" sh sandbox/dist.sh

servers: setup ## install MariaDB, MySQL, Kafka and Java where missing (root or sudo); SERVERS=all or by name: further ones
	@$(BIN)/python -m sandbox install --flavour all --servers "$(SERVERS)"
	@$(BIN)/python -m jobs.archive

browser: servers ## also what test-browser needs: Chromium, its driver, axe-core (root or sudo)
	@$(BIN)/python -m sandbox install --browser

prepare: setup ## both: the servers, and the publisher compiled, which takes one core while those are fetched
	@$(MAKE) --jobs=2 --output-sync=target servers compiled

demo: setup ## migrate a real database live and verify it; FLAVOUR=mariadb or mysql
	@$(BIN)/python -m sandbox install --flavour $(FLAVOUR)
	$(BIN)/python -m sandbox.demo --flavour $(FLAVOUR)

demo-reshard: setup ## re-shard SOURCES=8 servers live, 8 × 8 tables to 16 × 16, with a rollback; FLAVOUR
	@$(BIN)/python -m sandbox install --flavour $(FLAVOUR)
	$(BIN)/python -m sandbox.reshard --flavour $(FLAVOUR) --sources $(SOURCES)

test: servers ## run the suite on real servers, without the flows that take longest
	$(BIN)/python -m pytest -n $(JOBS) --dist loadfile $(ORDER) --durations=25 -m "not long and not browser"

# Their files alone: to collect all of the suite takes each process longer than some of these flows.
test-long: servers ## run the flows that take longest, those that matter most first
	$(BIN)/python -m pytest -n $(JOBS) --dist loadfile $(ORDER) --durations=25 -rs $(UNTIL:%=--begin-until=%) -m long $(shell grep -rlE 'mark\.long\b' --include='test_*.py' tests)

test-all: servers ## both, with every whole flow on both database servers; three times as long
	ALL=1 $(BIN)/python -m pytest -n $(JOBS) --dist loadfile --durations=25 -m "not browser"

coverage: servers ## the same, with a report of what the suite runs through; slower
	$(BIN)/python -m pytest -n $(JOBS) --dist loadfile -m "not browser" --cov --cov-report=term

# Without the sandbox, which finds its servers and its data beside its own files.
compiled: $(COMPILED)/.done ## build the publisher's hot modules as C, in build/compiled

$(COMPILED)/.done: $(VENV)/.done setup.py $(shell find migrate jobs sql -name '*.py' -o -name '*.sql')
	@echo "compiling the publisher: one to three minutes"
	@rm -rf build
	@MIGRATE_COMPILE=1 $(BIN)/python -m pip wheel -q --no-deps --no-build-isolation -w build/wheel .
	@$(BIN)/python -m pip install -q --no-deps --target $(COMPILED) build/wheel/*.whl
	@rm -rf $(COMPILED)/sandbox
	@touch $@

# -P and append: the folder that is worked in stands behind the compiled modules.
ON_COMPILED := EXPECT_COMPILED=1 PYTHONSAFEPATH=1 PYTHONPATH=$(CURDIR)/$(COMPILED):$(CURDIR) $(BIN)/python -P

# What decodes and emits, and one flow of a publisher: the rest of the service is plain Python in both builds.
COMPILED_TESTS := $(wildcard tests/publish/test_decode_*.py) $(patsubst %,tests/publish/test_%.py, \
	compiled recorded row_json json_shapes emit packets gtid statement batches reader outbox resume) \
	tests/model/test_message.py tests/model/test_coordinate.py

test-compiled: servers compiled ## run the tests of decoding and emission, and one publisher, on the compiled modules
	$(ON_COMPILED) -m pytest --import-mode=append -n $(JOBS) --dist loadfile $(COMPILED_TESTS)

test-browser: browser ## check the page in Chromium with axe-core, also through a demo with kills; FLAVOUR; pictures in artifacts/
	$(BIN)/python -m pytest -m browser tests/web/test_browser.py
	$(BIN)/python -m tests.web.demo_watched --flavour $(FLAVOUR)

types: servers ## bring every column type through stream and copy, print what is equal
	$(BIN)/python -m tests.types.table

ddl-kinds: setup ## write the table of docs/ddl-kinds.md anew from the cases that the suite runs
	$(BIN)/python -m tests.ddl.kinds

record: servers ## keep what a server (FLAVOUR) writes to its log, for the tests that read it without one
	PYTHONPATH=.:tests/publish $(BIN)/python tests/publish/record.py --flavour $(FLAVOUR)

test-servers: servers ## a migration with each pair of further servers, as a table; SERVERS=mariadb-11.8,mysql-5.6 or all
	$(BIN)/python -m tests.servers --servers "$(SERVERS)"

test-server: servers ## the same with a test server of yours as the source: HOST, PORT=3306, ACCOUNT=root, PASSWORD in the environment
	$(BIN)/python -m tests.servers --host "$(HOST)" --port "$(or $(PORT),3306)" --user "$(or $(ACCOUNT),root)"

soak-failover: servers ## run the failover and standby tests N times (N=10) and count
	$(BIN)/python -m tests.failover.soak $(N)

fuzz: servers ## search for failing examples of the property tests with fresh seeds; MINUTES=60
	$(BIN)/python -m tests.fuzz $(MINUTES)

mutations: servers ## put fifteen faults into a copy of the code, one at a time, and see a test turn red for each
	$(BIN)/python -m tests.mutations

times: servers ## run the suite and print where its time goes: by file, and by what was waited for
	@rm -rf .sandbox/times
	MEASURE=.sandbox/times $(BIN)/python -m pytest -p tests.measure -n $(JOBS) --dist loadfile $(ORDER) -q -m "not long and not browser"
	$(BIN)/python -m tests.measure .sandbox/times

chaos: servers ## a migration, cutovers and rollbacks under random kills and faults, then everything compared; FLAVOUR, KILLS=200, SEED
	$(BIN)/python -m tests.chaos --flavour $(FLAVOUR) --kills $(KILLS) $(if $(SEED),--seed $(SEED))

model: servers ## search the protocol's models in docs/model to their end with spin; about a minute
	$(BIN)/python -m tests.model_checker

model-broken: servers ## take each rule out of the models, and print how a row is lost without it
	$(BIN)/python -m tests.model_checker --broken

models: servers ## both at once, each on one core
	@$(MAKE) --jobs=2 --output-sync=target model model-broken

lint: setup ## check style (ruff)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

typecheck: setup ## check types (mypy, strict)
	$(BIN)/mypy

bench-capture: servers compiled ## measure the publisher: binlog backlog to Kafka; PEER=debezium, SCALE=0.1, RUNS=1, PLAIN=1, SOURCES=8
	$(if $(PLAIN),$(BIN)/python,$(ON_COMPILED)) -m bench.$(if $(filter file,$(origin SOURCES)),capture,sources)

bench-apply: servers compiled ## measure the consumer: Kafka to the target; PEER=debezium, SCALE=0.1, RUNS=1, ONLY=lag
	$(ON_COMPILED) -m bench.apply

bench-copy: servers ## measure the full copy: source to target; PEER=mydumper or all, SCALE=0.1, RUNS=1
	$(BIN)/python -m bench.copy

bench-verify: servers ## measure the verification, beside the copy and pt-table-checksum's query; SCALE=0.1, RUNS=1
	$(BIN)/python -m bench.verify

bench-many: servers ## measure 1,000 tables of ten rows in 100 databases, seconds and sessions; SCALE=0.1, FLAVOUR=mysql
	$(BIN)/python -m bench.many_tables

clean: ## remove server data, caches and build leftovers
	rm -rf .sandbox/run build dist htmlcov .coverage .coverage.* .hypothesis .mypy_cache .pytest_cache .ruff_cache \
		.import_linter_cache spark-warehouse metastore_db derby.log .migrate *.egg-info
	find . -name __pycache__ -not -path './$(VENV)/*' -not -path './.sandbox/*' -prune -exec rm -rf {} +

distclean: clean ## remove the downloaded servers and .venv too
	rm -rf .sandbox $(VENV)

lock: setup ## write requirements.lock anew from pyproject.toml
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
		--no-header --upgrade --extra dev --output-file requirements.lock pyproject.toml
