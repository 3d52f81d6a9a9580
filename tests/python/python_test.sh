#!/usr/bin/env bash
# python_test.sh SOURCE WORK: builds the wheel in WORK, installs it into a new environment, and runs tests and examples.
set -euo pipefail
source=$1 work=$2
python=${HOLDFAST_PYTHON:-/usr/bin/python3}
fail() { echo "python_test: $*" >&2; exit 1; }
not_tested() { echo "NOT TESTED HERE: $*"; exit 0; }
logged() {
    local what=$1
    shift
    "$@" >"$work/log" 2>&1 || { tail -n 30 "$work/log"; fail "$what"; }
}

mkdir -p "$work"
rm -rf "$work/environment" "$work/wheel"
"$python" -c 'import venv, ensurepip' 2>/dev/null || not_tested "$python has no venv (python3-venv)"
"$python" -c 'import sysconfig, os; assert os.path.exists(sysconfig.get_path("include") + "/Python.h")' ||
    not_tested "$python has no headers (python3-dev)"
logged "a virtual environment" "$python" -m venv "$work/environment"
bin=$work/environment/bin
"$bin/pip" install --quiet numpy pytest auditwheel mypy scikit-build-core nanobind >"$work/log" 2>&1 ||
    not_tested "pip cannot install what the build needs: $(tail -n 1 "$work/log")"

export CCACHE_BASEDIR=$source CCACHE_NOHASHDIR=1
logged "the wheel" "$bin/pip" wheel --no-deps --no-build-isolation --wheel-dir "$work/wheel" \
    --config-settings=build-dir="$work/build" "$source"
wheel=$(find "$work/wheel" -name '*.whl')
"$bin/auditwheel" show "$wheel" >"$work/audit" 2>&1 || { cat "$work/audit"; fail "auditwheel show"; }
grep -qE 'consistent with the following platform tag:|manylinux' "$work/audit" ||
    { cat "$work/audit"; fail "the wheel is for no manylinux"; }
echo "$(basename "$wheel"): $(grep -oE 'manylinux_[0-9]+_[0-9]+_[a-z0-9_]+' "$work/audit" | head -n 1)"
logged "pip install of the wheel" "$bin/pip" install --no-deps "$wheel"
both="import holdfast, importlib.metadata as m; print(holdfast.__version__, m.version('holdfast'))"
installed=$("$bin/python" -c "$both")
[[ ${installed% *} == "${installed#* }" ]] || fail "the versions differ: $installed"
for command in "$bin/holdfast" "$bin/python -m holdfast"; do
    told=$($command --version)
    [[ $told == "holdfast ${installed% *},"* ]] || fail "'$command --version' printed $told"
done
others=(ml_dtypes pandas pyarrow polars usearch)
"$bin/pip" install --quiet "${others[@]}" >"$work/log" 2>&1 ||
    echo "NOT TESTED HERE: values of ${others[*]}, which pip cannot install"

cd "$work" # so that nothing of the source is imported
logged "the types" "$bin/mypy" --strict --python-executable "$bin/python" -p holdfast
"$bin/python" -m pytest -q -rs -p no:cacheprovider --rootdir "$source/tests/python" "$source/tests/python" "${@:3}" ||
    fail "the tests"
"$source/examples/python/run.sh" "$bin/python" "$work/examples" || fail "the examples"
echo "python_test: the wheel, the tests and the examples work"
