#!/usr/bin/env bash
# The package graph, from nothing: installs what is missing, builds the release preset, runs the demo. Leaves the heap
# in build/demo/packages.hf; arguments go to package_graph_demo.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
started=$SECONDS
scripts/install-dependencies.sh
mkdir -p build
say "Building (release)"
build release >build/demo-build.log 2>&1 || { cat build/demo-build.log >&2; exit 1; }
build/release/bin/package_graph_demo --program build/release/bin/package_graph --heap build/demo/packages.hf \
    --sample examples/data/packages-sample.xz "$@"
say "The demo took $((SECONDS - started)) s, from its first line on"
