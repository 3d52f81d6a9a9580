#!/usr/bin/env bash
# install.sh PREFIX: builds, and installs the libraries, the headers, holdfast and libholdfast-malloc.so there.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
prefix=${1:?usage: install.sh PREFIX}
scripts/build.sh
cmake --install build/release --prefix "$prefix" --strip
say "Installed in $prefix: find_package(holdfast) with CMAKE_PREFIX_PATH=$prefix, or pkg-config"
