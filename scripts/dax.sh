#!/usr/bin/env bash
# Durability `atomic` on real DAX, in a guest of qemu: installs what that needs, builds, and runs dax_test, which may
# not be skipped here, with two kernels: the suite's, and one with PAGEMAP_SCAN (Linux 6.7). Arguments go to dax_test:
# --cycles N, --seed N.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
scripts/install-dependencies.sh dax
build release -DHOLDFAST_BUILD_TESTS=ON dax_test
for kernel in linux-image-cloud-amd64 linux-image-6.12-cloud-amd64; do
    scripts/fetch-kernel.sh "$kernel"
    say "$kernel"
    (cd build/release && HOLDFAST_DAX_KERNEL=$kernel HOLDFAST_REQUIRE_DAX=1 tests/bin/dax_test "$@")
done
