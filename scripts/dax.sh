#!/usr/bin/env bash
# Durability `atomic` on real DAX, in a guest of qemu: installs what that needs, builds, runs dax_test, which is not
# allowed to be skipped here. Arguments go to it: --cycles N, --seed N.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
scripts/install-dependencies.sh
scripts/fetch-kernel.sh
build release dax_test
cd build/release
HOLDFAST_REQUIRE_DAX=1 tests/bin/dax_test "$@"
