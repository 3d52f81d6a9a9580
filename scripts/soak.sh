#!/usr/bin/env bash
# The long runs, by hand: tests labelled `soak`; those of the simulator (also labelled `crash`) with the mutants
# compiled in, the fuzzers from random seeds.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
scripts/install-dependencies.sh soak coverage
scripts/fetch-kernel.sh
build release -DHOLDFAST_BUILD_TESTS=ON all all_tests
build crash all_tests
build fuzz suite
ctest --test-dir build/crash --output-on-failure -L '^soak$' -L '^crash$'
ctest --test-dir build/release --output-on-failure -L '^soak$' -LE '^crash$'
ctest --test-dir build/fuzz --output-on-failure -L '^soak$'
