#!/usr/bin/env bash
# What `make test` leaves out, the age of the benchmarks' figures included. Each part is a preset; all are built, then
# one CTest run takes their tests of the tier `suite` (cmake/holdfast_tests.cmake).
#   verify.sh [--minutes N] [PART...]
# PART: asan tsan crash release fuzz arm64 lint dev; default: all. With --minutes, parts that would not end in time on
# this machine are left out, the last ones first, and listed: by what they took on another machine, and by how long the
# tests of `make test` took on this one.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

# In the order of what they find: seconds of compiling and of tests, on two cores with an empty compiler cache.
order=(asan crash release tsan fuzz arm64 lint dev)
declare -A compiling=([asan]=360 [crash]=60 [release]=240 [tsan]=180 [fuzz]=120 [arm64]=300 [lint]=600 [dev]=420)
declare -A testing=([asan]=600 [crash]=1800 [release]=480 [tsan]=300 [fuzz]=60 [arm64]=200 [lint]=1 [dev]=60)
quick_tests=240

limit=0
if [[ ${1:-} == --minutes ]]; then
    limit=$((60 * $2))
    shift 2
fi
chosen=("${@:-${order[@]}}")

# How much slower this machine is, in per cent of the one above; never taken for faster.
slower=100
if [[ -e build/quick/seconds ]]; then
    slower=$((100 * $(<build/quick/seconds) / quick_tests))
    ((slower >= 100)) || slower=100
fi

groups=()
for part in "${chosen[@]}"; do
    [[ -n ${compiling[$part]:-} ]] || { echo "verify: there is no part $part" >&2; exit 2; }
    case $part in
        asan | tsan | fuzz) groups+=(coverage) ;;
        release) groups+=(verify dax) ;;
        crash | dev) groups+=(test) ;;
        *) groups+=("$part") ;;
    esac
done
step "packages of Debian that this needs" scripts/install-dependencies.sh "${groups[@]}"

build_part() {
    case $1 in
        lint) scripts/lint.sh ;;
        release)
            scripts/fetch-kernel.sh &&
                build release -DHOLDFAST_BUILD_TESTS=ON -DHOLDFAST_BUILD_BENCH=ON all benchmarks suite
            ;;
        *) build "$1" suite ;;
    esac
}

presets=()
left_out=()
broken=()
to_test=0
for part in "${chosen[@]}"; do
    needed=$(((compiling[$part] + testing[$part] + to_test) * slower / 100))
    if ((limit > 0 && SECONDS + needed > limit)); then
        left_out+=("$part")
        continue
    fi
    if ! attempt "$part, compiled" build_part "$part"; then
        broken+=("$part")  # the others are tested all the same
    elif [[ $part != lint ]]; then
        ((to_test += testing[$part])) || true
        presets+=("$part")
    fi
done
print_steps
if ((${#left_out[@]})); then
    say "NOT TESTED, for $((limit / 60)) minutes would not suffice: ${left_out[*]}"
fi
if ((${#broken[@]})); then
    say "FAILED, and not tested: ${broken[*]}"
    failed=1
fi
((${#presets[@]})) || exit "${failed:-0}"
say "the tests of ${presets[*]}"
start=$SECONDS
run_tests suite "${presets[@]}" || failed=$?
if ((limit == 0)); then
    list_not_tested build/suite/junit.xml
    printf '\n%5d s of tests, %d s in all\n' $((SECONDS - start)) "$SECONDS"
fi
exit "${failed:-0}"
