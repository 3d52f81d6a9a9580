# The short names of what the scripts do. Everything that these targets make lies in build/. Each installs what it needs.
.PHONY: help demo demo-vectors docs build install debian wheels test verify bench soak dax arm64 format lint coverage clean
.DEFAULT_GOAL := help
PREFIX ?= /usr/local

help: ## this list
	@sed -n 's/^\([a-z0-9-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 14

demo: ## the package graph: ingest, SIGKILL half way, reopen elsewhere, finish, answer, compare
	@scripts/demo.sh

demo-vectors: ## an index of 218,000 texts: built, SIGKILLed, opened by four processes at once, beside other ways to load
	@scripts/demo-vectors.sh

build: ## the libraries, holdfast, libholdfast-malloc.so and the examples, in build/release
	@scripts/build.sh

install: ## what `make build` makes, in PREFIX (default: /usr/local)
	@scripts/install.sh "$(PREFIX)"

debian: ## the Debian packages: library, development files, tools, Python module; in build/debian/packages
	@scripts/debian.sh

wheels: ## wheels of the Python package for every Linux with glibc 2.28 or later, tested; in build/wheels
	@scripts/wheels.sh

test: ## the suite of every commit: unit tests, simulator, kills, power cuts, full disks, the package
	@scripts/test.sh

verify: ## the rest: sanitizers, the whole simulator and all mutants, fuzzers, clang-tidy, DAX guest, arm64
	@scripts/verify.sh

bench: ## every benchmark of the release preset
	@scripts/bench.sh

soak: ## the long runs of the crash tests (hours)
	@scripts/soak.sh

dax: ## durability atomic on real DAX: a guest of qemu is killed and started again
	@scripts/dax.sh

arm64: ## unit tests and a run of the simulator for arm64, under qemu-user
	@scripts/verify.sh arm64

format: ## format all files with the pinned clang-format
	@scripts/format.sh

lint: ## own lint, format check, clang's warnings, clang-tidy
	@scripts/lint.sh

docs: ## the site: guides, reference, charts; in build/site
	@scripts/docs.sh

coverage: ## line and branch coverage of the unit tests
	@scripts/coverage.sh

clean: ## remove build/
	rm -rf build
