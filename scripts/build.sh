#!/usr/bin/env bash
# Builds what a user installs, the examples and holdfast-bench: build/release/bin, build/release/lib.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
scripts/install-dependencies.sh build
say "Building the libraries, holdfast, the examples and holdfast-bench"
build release all
say "Done after $SECONDS s: programs in build/release/bin, libraries in build/release/lib"
