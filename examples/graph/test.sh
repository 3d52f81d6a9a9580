#!/usr/bin/env bash
# test.sh PROGRAM DIRECTORY: edges of two processes, paths of others.
set -euo pipefail
program=$1 heap=$2
rm -rf "$heap"
trap 'rm -rf "$heap"' EXIT
expect() {
    found=$("$program" "$heap" path "${@:2}" | tr '\n' ' ')
    [[ $found == "$1" ]] || { echo "$*: found '$found'" >&2; exit 1; }
}
"$program" "$heap" add kiel hamburg hamburg berlin berlin leipzig leipzig dresden
expect 'kiel hamburg berlin leipzig dresden ' kiel dresden
"$program" "$heap" add berlin dresden berlin dresden rome milan
expect 'dresden berlin hamburg kiel ' dresden kiel
expect 'rome milan ' rome milan
expect '' rome kiel
expect 'kiel ' kiel kiel
if "$program" "$heap" path kiel nowhere 2>/dev/null; then echo 'a node that is not there' >&2; exit 1; fi
