#!/usr/bin/env bash
# Builds what a user installs, and the examples: build/release/bin, build/release/lib.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
scripts/install-dependencies.sh build
step "the libraries, holdfast and the examples, compiled" build release all
say "Done after $SECONDS s: programs in build/release/bin, libraries in build/release/lib"
