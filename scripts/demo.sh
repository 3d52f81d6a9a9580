#!/usr/bin/env bash
# The package graph, from nothing: installs what is missing, builds the library and the demo, runs it. Leaves the heap
# in build/demo/packages.hf; arguments go to package_graph_demo.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
step "packages of Debian that the demo needs" scripts/install-dependencies.sh demo
step "the library, the demo and holdfast, compiled" build release package_graph package_graph_demo holdfast_cli
step "the demo" build/release/bin/package_graph_demo --program build/release/bin/package_graph \
    --heap build/demo/packages.hf --sample examples/data/packages-sample.xz "$@"
print_steps
