#!/usr/bin/env bash
# demo_sample.sh DEMO PACKAGE_GRAPH SAMPLE DIRECTORY: the demo on the sample, killed several times. The seed is printed;
# what a failure leaves behind stays in the directory. Then the controls: a verification that nothing could fail would
# prove nothing.
set -euo pipefail
demo=$1 program=$2 sample=$3 directory=$4
rm -rf "$directory"
mkdir -p "$directory"
heap=$directory/packages.hf input=$directory/packages
xz --decompress --stdout "$sample" >"$input"
"$demo" --program "$program" --heap "$heap" --input "$input" --kills 6 --commit-every 1000

# expect STATUS WHAT COMMAND...
expect() {
    local expected=$1 what=$2 status=0
    shift 2
    "$@" >"$directory/control" 2>&1 || status=$?
    if ((status != expected)); then
        cat "$directory/control"
        echo "control: $what: found exit status $status, expected $expected" >&2
        exit 1
    fi
    echo "control: $what: exit status $status"
}

echo
cp "$heap.commits" "$directory/commits"
last=$(awk '$1 == "done" { last = $2 } END { print last }' "$heap.commits")
expect 0 "nothing changed" "$program" verify --heap "$heap" --input "$input"
expect 0 "nothing left to ingest" "$program" ingest --heap "$heap" --input "$input"
cp "$directory/commits" "$heap.commits"
grep -v "^done $last " "$directory/commits" >"$heap.commits"
expect 0 "the last commit begun, its return not recorded" "$program" verify --heap "$heap" --input "$input"
grep -vE "^(done|begin) $last " "$directory/commits" >"$heap.commits"
expect 1 "a commit that nobody began" "$program" verify --heap "$heap" --input "$input"
grep -vE "^done ($last|$((last - 1))) " "$directory/commits" >"$heap.commits"
expect 1 "two commits ahead" "$program" verify --heap "$heap" --input "$input"
cp "$directory/commits" "$heap.commits"
sed '0,/^Version: .*/s//Version: 99/' "$input" >"$directory/other"  # of the first package
expect 1 "another input" "$program" verify --heap "$heap" --input "$directory/other"
expect 1 "answers from another text" "$program" query --heap "$heap" --input "$directory/other"
expect 2 "go on with another input" "$program" ingest --heap "$heap" --input "$directory/other"
expect 2 "no such input" "$program" verify --heap "$heap" --input "$directory/none"
mv "$heap" "$heap.away"
expect 2 "no heap" "$program" verify --heap "$heap" --input "$input"
expect 1 "a commit that returned is lost" "$program" ingest --heap "$heap" --input "$input"
rm -rf "$directory"
