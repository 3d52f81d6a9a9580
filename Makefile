# The short names of what the scripts do. Everything that these targets make lies in build/.
.PHONY: help demo test testall build bench soak dax format lint coverage clean
.DEFAULT_GOAL := help

help: ## this list
	@sed -n 's/^\([a-z]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 12

demo: build ## the package graph: ingest, SIGKILL half way, reopen elsewhere, finish, answer, compare
	@scripts/demo.sh

test: ## install what is needed, build, run the suite: release, sanitizers, crash simulator, fuzzers, arm64
	@scripts/test.sh

testall: ## the same and the presets dev and clang (with clang-tidy)
	@scripts/test.sh --all

build: ## the programs of the release preset, in build/release/bin
	@scripts/install-dependencies.sh
	@scripts/build.sh release

bench: ## every benchmark of the release preset
	@scripts/install-dependencies.sh
	@scripts/bench.sh

soak: ## the long runs of the crash tests (hours)
	@scripts/soak.sh

dax: ## durability atomic on real DAX: a guest of qemu is killed and started again
	@scripts/dax.sh

format: ## format all files with the pinned clang-format
	@scripts/format.sh

lint: ## own lint, format check, clang's warnings, clang-tidy
	@scripts/lint.sh

coverage: ## line and branch coverage of the unit tests
	@scripts/coverage.sh

clean: ## remove build/
	rm -rf build
