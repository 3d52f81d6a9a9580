#!/usr/bin/env bash
# test.sh PROGRAM DIRECTORY: the second process finds what the first one computed, the third what was not evicted.
set -euo pipefail
program=$1 heap=$2
rm -rf "$heap"
trap 'rm -rf "$heap"' EXIT
expect() {
    found=$("$program" "$heap" 2 "${@:2}" | sed 's/.*(\(.*\))/\1/' | tr '\n' ' ')
    [[ $found == "$1" ]] || { echo "$*: found '$found'" >&2; exit 1; }
}
expect 'computed computed cached ' 360 97 360
expect 'cached cached computed ' 97 360 12
expect 'computed ' 97
expect 'cached computed ' 12 360
"$program" "$heap" 2 360 | grep -q '^360 has 24 divisors (cached)$'
