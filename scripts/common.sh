# Sourced by the other scripts: goes to the project's root, whatever the caller's directory; steps and their times.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
jobs=$(nproc)
# Paths relative to the root, so that every clone of the project finds the same objects in the compiler's cache.
export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1

say() { printf '\n== %s\n' "$*"; }

# attempt NAME COMMAND...: runs the command, remembers how long it took, and returns its status.
steps=()
attempt() {
    local name=$1 start=$SECONDS status=0
    shift
    say "$name"
    "$@" || status=$?
    steps+=("$(printf '%5d s  %s' $((SECONDS - start)) "$name")")
    ((status == 0)) || printf '\n== %s: FAILED (exit status %d) after %d s\n' "$name" "$status" $((SECONDS - start)) >&2
    return "$status"
}

# step NAME COMMAND...: an attempt whose failure ends the script.
step() {
    attempt "$@" || exit
}

print_steps() {
    say "Wall time"
    printf '%s\n' "${steps[@]}"
}

# quiet LOG COMMAND...: what the command prints goes to the file; where it fails, its last lines are shown.
quiet() {
    local log=$1
    shift
    mkdir -p "$(dirname "$log")"
    "$@" >"$log" 2>&1 || { tail -n 25 "$log"; echo "(the whole of it: $log)"; return 1; }
}

# build PRESET [-DNAME=VALUE...] [TARGET...]: what the preset configures, changed by the options. Of `release`, that is
# what a user installs; -DHOLDFAST_BUILD_TESTS=ON and -DHOLDFAST_BUILD_BENCH=ON add tests and benchmarks.
build() {
    local preset=$1 options=()
    shift
    while [[ ${1:-} == -D* ]]; do
        options+=("$1")
        shift
    done
    quiet "build/configure-$preset.log" cmake --preset "$preset" "${options[@]}" &&
        cmake --build --preset "$preset" --parallel "$jobs" --target "${@:-all}"
}

# run_tests TIER PRESET...: one CTest run over the presets' tests of the tier; what came out lies in
# build/TIER/junit.xml.
run_tests() {
    local tier=$1 preset
    shift
    mkdir -p "build/$tier"
    for preset in "$@"; do
        echo "subdirs(\"../$preset\")"
    done >"build/$tier/CTestTestfile.cmake"
    ctest --test-dir "build/$tier" --label-regex "^$tier\$" --parallel "$jobs" --output-on-failure --no-label-summary \
        --no-tests=error --output-junit junit.xml --test-output-size-passed 1000000
}

# list_not_tested JUNIT: the tests that were skipped, and why.
list_not_tested() {
    [[ ! -e $1 ]] || python3 tools/test_results.py "$1"
}
