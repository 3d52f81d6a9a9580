#!/usr/bin/env bash
# Builds one preset (default: release); its programs lie in build/<preset>/bin.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
build "${1:-release}"
