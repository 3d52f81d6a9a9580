#!/usr/bin/env bash
# All static checks: our own lint and its test, the list of exported symbols, the format, and clang's warnings and
# clang-tidy on every file (the preset clang runs clang-tidy with each compilation, so that only changed files are
# looked at again).
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
step "packages of Debian that this needs" scripts/install-dependencies.sh lint
step "lint" python3 tools/lint.py
step "lint_test" python3 tools/lint_test.py
step "bench_pages_test" python3 tools/bench_pages_test.py
step "exports" python3 tools/exports.py --check
step "pictures" python3 docs/pictures/draw.py --check
step "charts" python3 docs/pictures/charts.py --check
step "format" scripts/format.sh --check
step "clang-tidy" build clang all all_tests benchmarks
print_steps
