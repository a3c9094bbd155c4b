# The two commands that do everything: make compare, make test.
CARGO ?= cargo
export LOCKYARD_GIT_SHA := $(shell git rev-parse --short HEAD 2>/dev/null || echo unknown)
SERVERS := redis,postgres,etcd,zookeeper

.PHONY: compare report test lint bench setup fmt

## Installs what is missing, builds, starts the servers, compares them, writes lockyard-report/
compare: setup
	$(CARGO) build --release -p lockyard-cli
	target/release/lockyard compare --suite quick

## The same with the standard suite, and with locks of others beside ours
report: setup
	$(CARGO) build --release -p lockyard-cli --features peers
	target/release/lockyard compare --suite standard

## Every test; a server or browser that is missing is a failure
test:
	@scripts/setup chromium
	CARGO="$(CARGO)" LOCKYARD_REQUIRE=$(SERVERS),chromium scripts/test

## Formatting, lints, documentation, dependencies: reads only
lint: setup
	CARGO="$(CARGO)" scripts/lint

bench: setup
	$(CARGO) bench -p lockyard-benches

fmt:
	$(CARGO) fmt --all

setup:
	@scripts/setup
