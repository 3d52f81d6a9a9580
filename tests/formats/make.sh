#!/usr/bin/env bash
# make.sh FORMATS_TEST VERSION: archives heaps and stores as the program writes them, each as KIND.VERSION.tar.gz beside
# this script, to be added and never changed. VERSION: of the formats, as in docs/format.md and docs/store-format.md.
set -euo pipefail
program=$1 version=$2
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$program" --make "$work"
for made in "$work"/*; do
    kind=$(basename "$made")
    tar --sort=name --owner=0 --group=0 --numeric-owner --mtime=@0 -Sc -C "$work" "$kind" |
        gzip -9n >"$here/$kind.$version.tar.gz"
done
ls -l "$here"/*."$version".tar.gz
