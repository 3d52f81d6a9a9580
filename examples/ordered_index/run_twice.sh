#!/usr/bin/env bash
# run_twice.sh PROGRAM HEAP: the second process must see the visit of the first one.
set -euo pipefail
program=$1 heap=$2
rm -rf "$heap"
trap 'rm -rf "$heap"' EXIT
"$program" "$heap" >/dev/null
found=$("$program" "$heap")
[[ $found == $'2 visits\nvisit 2\nvisit 1' ]] || { echo "found '$found'" >&2; exit 1; }
