#!/usr/bin/env bash
# run_twice.sh PROGRAM HEAP: the second process must see what the first one committed.
set -euo pipefail
program=$1 heap=$2
rm -rf "$heap"
trap 'rm -rf "$heap"' EXIT
for run in 1 2; do
    found=$("$program" "$heap")
    [[ $found == "run $run" ]] || { echo "found '$found', expected 'run $run'" >&2; exit 1; }
done
