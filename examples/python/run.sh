#!/usr/bin/env bash
# run.sh PYTHON WORK: runs every example as its first lines say, the job queue with kills, and checks what they print.
set -euo pipefail
python=$1 work=$2
here=$(cd "$(dirname "$0")" && pwd)
rm -rf "$work"
mkdir -p "$work"
fail() { echo "examples/python: $*" >&2; exit 1; }
expect() {
    local wanted=$1 found
    shift
    found=$("$@")
    [[ $found == *"$wanted"* ]] || fail "$* printed '$found', and not '$wanted'"
}

printf 'a heap of heaps\n' >"$work/one.txt"
printf 'a store beyond the end of the heap\n' >"$work/two.txt"
expect "2 documents, 8 words" "$python" "$here/inverted_index.py" "$work/index.hf" add "$work/one.txt" "$work/two.txt"
expect "2 two.txt" "$python" "$here/inverted_index.py" "$work/index.hf" find the
printf 'no such word\n' >"$work/two.txt"
expect "2 one.txt" "$python" "$here/inverted_index.py" "$work/index.hf" find a heap
"$python" "$here/inverted_index.py" "$work/index.hf" add "$work/two.txt" >/dev/null
[[ -z $("$python" "$here/inverted_index.py" "$work/index.hf" find beyond) ]] || fail "the index kept an old word"

expect "0 known, 3 computed" "$python" "$here/warm_cache.py" "$work/cache.hf" 97 600851475143 97000001
expect "2 known, 1 computed" "$python" "$here/warm_cache.py" "$work/cache.hf" 600851475143 97 12

expect "2000 edges" "$python" "$here/graph.py" "$work/graph.hf" make 500 4
expect "distance 0: 1 nodes" "$python" "$here/graph.py" "$work/graph.hf" search 7

expect "2 rows" "$python" "$here/measurements.py" "$work/measurements.hf" record cellar 11.5 12.5
expect "5 rows" "$python" "$here/measurements.py" "$work/measurements.hf" record roof 20 21 22
expect "cellar: 2 values, mean 12.00" "$python" "$here/measurements.py" "$work/measurements.hf" summary
expect "roof: 3 values, mean 21.00" "$python" "$here/measurements.py" "$work/measurements.hf" summary

if "$python" -c 'import usearch' 2>/dev/null; then
    search=("$python" "$here/semantic_search.py" "$work/texts.hf")
    expect "3 texts" "${search[@]}" add en "a persistent heap" "persistence of memory" "the price of fish"
    expect "5 texts" "${search[@]}" add de "ein persistenter Heap" "der Preis von Fisch"
    expect "a persistent heap" "${search[@]}" find "persistent heaps" en
    found=$("${search[@]}" find "persistent" de)
    [[ ${found%%$'\n'*} == *"ein persistenter Heap" ]] || fail "the filter found $found"
else
    echo "NOT TESTED HERE: semantic_search.py, without the package usearch"
fi

jobs=20000
"$python" "$here/job_queue.py" "$work/queue.hf" add $jobs >/dev/null
kills=0
for pause in 0.02 0.1 0.05 0.15; do
    : >"$work/said"
    "$python" "$here/job_queue.py" "$work/queue.hf" work >"$work/said" &
    worker=$!
    while [[ ! -s $work/said ]] && kill -0 "$worker" 2>/dev/null; do
        sleep 0.01
    done
    sleep "$pause"
    if kill -9 "$worker" 2>/dev/null; then
        kills=$((kills + 1))
    fi
    wait "$worker" 2>/dev/null || true
done
((kills > 0)) || fail "no worker was killed"
expect "0 waiting, $jobs done, sum $(((jobs - 1) * jobs * (2 * jobs - 1) / 6))" \
    "$python" "$here/job_queue.py" "$work/queue.hf" work

jobs=1000 workers=$work/workers.hf
"$python" "$here/workers.py" "$workers" add $jobs >/dev/null
"$python" "$here/workers.py" "$workers" work 3 >"$work/said" &
supervisor=$!
deaths=0
while ((deaths < 3)) && kill -0 "$supervisor" 2>/dev/null; do
    sleep 0.1 # less than a process of Python takes to begin
    victim=$(pgrep -P "$supervisor" -f spawn_main | shuf -n 1) || true
    if [[ -n $victim ]] && kill -9 "$victim" 2>/dev/null; then
        deaths=$((deaths + 1))
    fi
done
wait "$supervisor" || fail "workers.py: $(cat "$work/said")"
((deaths > 0)) || fail "no process of workers.py was killed"
expect "0 waiting, $jobs done, sum $(((jobs - 1) * jobs * (2 * jobs - 1) / 6))" \
    "$python" "$here/workers.py" "$workers" status
echo "examples/python: all work; the job queue was killed $kills times, a process of the workers $deaths times"
