#!/usr/bin/env bash
# slow_media.sh NANOSECONDS OPTION...: holdfast-bench whose fences (those of libpmemobj, too) take at least as long
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
[[ ${1:-} =~ ^[0-9]+$ ]] || { sed -n 2p "$0" >&2; exit 2; }
nanoseconds=$1
shift
scripts/install-dependencies.sh bench
build slow-media holdfast_bench
library=build/slow-media/lib/libslow_libpmem.so
[[ ! -e $library ]] || export LD_PRELOAD=$PWD/$library
HOLDFAST_FENCE_NS=$nanoseconds exec build/slow-media/bin/holdfast-bench "$@"
