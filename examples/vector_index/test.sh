#!/usr/bin/env bash
# test.sh PROGRAM SOURCE WORK: the demo of the vector index, on the lines of the project's own documents.
set -euo pipefail
program=$1 source=$2 work=$3
rm -rf "$work"
mkdir -p "$work"
python=$work/environment/bin/python
/usr/bin/python3 -c 'import venv, ensurepip, sysconfig, os
assert os.path.exists(sysconfig.get_path("include") + "/Python.h")' 2>/dev/null ||
    { echo "NOT TESTED HERE: python3-venv or python3-dev is not installed"; exit 0; }
/usr/bin/python3 -m venv "$work/environment"
"$python" -m pip install --quiet numpy scikit-learn hnswlib >"$work/log" 2>&1 ||
    { echo "NOT TESTED HERE: pip cannot install what the demo needs: $(tail -n 1 "$work/log")"; exit 0; }
cat "$source"/docs/*.md "$source"/docs/decisions/*.md >"$work/texts"
"$python" "$source/examples/vector_index/demo.py" --program "$program" --work "$work" --texts "$work/texts" --twice
expect() {
    local expected=$1 status=0
    shift
    "$@" >"$work/log" 2>&1 || status=$?
    ((status == expected)) || { cat "$work/log"; echo "$*: exit status $status, expected $expected" >&2; exit 1; }
}
expect 2 "$program" query --heap "$work/none" --vectors "$work/vectors.f4" --output "$work/answers"
expect 2 "$program" build --heap "$work/vectors.hf" --vectors "$work/texts" --dimensions 63
expect 2 "$program" build --heap "$work/vectors.hf" --vectors "$work/vectors.f4" --dimensions 32
rm -rf "$work"
