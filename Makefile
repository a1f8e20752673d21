# Two commands: `make chaos` and `make test`. Both set up what is missing first.
PYTHON  ?=
SEED    ?=
RUNTIME ?= process
IMAGES  ?=
SUT     ?= dualplane
PROFILE ?= smoke
BIN     := .venv/bin
ARGS    ?=
# Of tests: 3 share them (tests/workers.py says how), 0 is one process without pytest-xdist. Whoever
# dies takes the run along: what it had to play nobody would. A test that hangs fails after 15 minutes.
WORKERS ?= 3
# Compiled Python is kept, whatever the caller's shell has to say: every process would compile anew.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help setup chaos test unit check lint image kafka-images compare-runtimes kafka clean

help: ## list the commands
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

setup: ## make .venv/ and .biplane/bin (quick when nothing changed)
	@PYTHON="$(PYTHON)" bash setup.sh

ifeq ($(RUNTIME),docker)
chaos: image
endif
chaos: setup ## the main job: flood, restart and lie to a real cluster; verdict and HTML report
	@$(BIN)/pytest harness/ --profile=$(PROFILE) --runtime=$(RUNTIME) --sut=$(SUT) $(if $(SEED),--seed=$(SEED)) $(ARGS)

test: setup ## the project's own tests, a short run on a real cluster among them
	@$(BIN)/python -m pytest tests -n $(WORKERS) --max-worker-restart=0 --timeout=900 $(ARGS)

unit: setup ## for the inner loop: the tests without clusters, Spark, ZooKeeper, containers and what takes seconds; within a minute
	@$(BIN)/python -m pytest tests -q -n $(WORKERS) --hypothesis-profile=unit -m "not cluster and not spark and not docker and not zookeeper and not slow" $(ARGS)

lint: setup ## ruff, mypy --strict, import contracts
	@$(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/mypy && $(BIN)/lint-imports

check: lint test ## what CI runs

kafka: setup ## bring Apache Kafka's jars from Maven Central, for SUT=kafka-zk and SUT=kafka-kraft
	@$(BIN)/python -m harness.sut.kafka_jars --version="$(VERSION)"

image: setup ## build what RUNTIME=docker needs; IMAGES=public or local: whose bases (default: what can be had)
	@IMAGES="$(IMAGES)" $(BIN)/python -m harness.runtime.docker_images

kafka-images: image ## Apache Kafka in images, for SUT=kafka-zk and SUT=kafka-kraft with RUNTIME=docker
	@IMAGES="$(IMAGES)" $(BIN)/python -m harness.sut.kafka_images

compare-runtimes: image ## one seed and plan in both runtimes: verdicts, faults in time, differences
	@$(BIN)/python -m harness.studies.runtimes --profile=$(PROFILE) $(if $(SEED),--seed=$(SEED)) $(ARGS)

clean: ## end what earlier runs left behind (by recorded id), remove build products
	@if [ -x $(BIN)/biplane ]; then $(BIN)/biplane clean; fi
	@rm -rf build .pytest_cache .mypy_cache .ruff_cache
