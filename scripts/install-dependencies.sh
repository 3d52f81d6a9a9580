#!/usr/bin/env bash
# install-dependencies.sh GROUP...: installs what the make targets of these names need on Debian 12, as root (or through
# sudo). Where all is there: does nothing, quickly. Removes nothing: where a package could be installed only so, it says
# what to do by hand. Prints each package that was installed.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

demo=(
    build-essential cmake ninja-build
    "libboost1.81-dev|libboost1.74-dev" libcli11-dev libfmt-dev libxxhash-dev nlohmann-json3-dev
    # the demo's input
    apt lz4 xz-utils
)
demo_vectors=("${demo[@]}" python3-dev python3-venv)
docs=(doxygen python3-venv)
build=("${demo[@]}" pkg-config git)
benchmarks=(libbenchmark-dev libgmp-dev)
bench=(
    "${build[@]}" "${benchmarks[@]}"
    # what holdfast-bench is measured beside
    libpmemobj-dev libabsl-dev libjemalloc-dev libmimalloc-dev libmemkind-dev
    # stores that disk_bench is measured beside
    liblmdb0 libsqlite3-0 librocksdb7.8
    # the page of holdfast-bench --html
    xfsprogs e2fsprogs mount
)
test=(
    "${build[@]}" ccache python3 libgtest-dev libgmock-dev libboost1.81-dev
    # searches models of protocols
    spin
    # file systems that lose power, or are full
    util-linux mount e2fsprogs xfsprogs btrfs-progs
    # a program that runs on libholdfast-malloc.so
    sqlite3
    # what the store is compared with
    liblmdb0 lmdb-utils
    # a library that the example `sections` makes persistent
    libcjson-dev
)
lint=("${test[@]}" "${benchmarks[@]}" clang-16 clang-tidy-16 clang-format-16 lld-16)
coverage=("${test[@]}" clang-16 llvm-16 libclang-rt-16-dev lld-16)
arm64=("${test[@]}" g++-aarch64-linux-gnu qemu-user-static)
# The guest that has DAX.
dax=("${test[@]}" qemu-system-x86 busybox-static cpio)
debian=("${build[@]}" ccache dpkg-dev file fakeroot python3-dev python3-venv)
wheels=("${demo[@]}" python3-dev python3-venv)
verify=(
    "${bench[@]}" "${lint[@]}" "${coverage[@]}" "${arm64[@]}" "${dax[@]}"
    # the site
    "${docs[@]}"
    # the pages of `holdfast map` and `holdfast-bench --html`, opened by tests
    chromium
    # the Python package, and CPython's own tests of mappings
    "${debian[@]}" libpython3.11-testsuite
    # the Debian packages; the pretty printers
    lintian man-db python3-numpy gdb debootstrap
    # programs that run on the store
    knot knot-dnsutils postfix postfix-lmdb liblmdb-dev python3-dev python3-venv
)
# Programs that run on libholdfast-malloc.so for minutes.
soak=("${verify[@]}" redis-server redis-tools libpython3.11-testsuite default-jdk-headless)

packages=()
for group in "$@"; do
    case $group in
        demo | demo-vectors | docs | build | bench | test | lint | coverage | arm64 | dax) ;;
        debian | wheels | verify | soak) ;;
        *) echo "install-dependencies: there is no group $group" >&2; exit 2 ;;
    esac
    declare -n members=${group//-/_}
    packages+=("${members[@]}")
done

if ! command -v dpkg-query >/dev/null; then
    echo "install-dependencies: this is not a Debian system; install by hand: ${packages[*]}" >&2
    exit 0
fi
list_installed() { dpkg-query -W -f='${db:Status-Status} ${Package} ${Version}\n' | sed -n 's/^installed //p' | sort; }
before=$(list_installed)
installed=$(cut -d ' ' -f 1 <<<"$before")
missing=()
for package in "${packages[@]}"; do
    # Of alternatives, the first is installed where none is there.
    if ! grep -qxF "${package//|/$'\n'}" <<<"$installed" && [[ " ${missing[*]} " != *" ${package%%|*} "* ]]; then
        missing+=("${package%%|*}")
    fi
done
if ((${#missing[@]} == 0)); then
    exit 0
fi

as_root=()
if ((EUID != 0)); then
    command -v sudo >/dev/null || {
        echo "install-dependencies: these packages are missing, and only root can install them (there is no sudo):" \
            "apt-get install ${missing[*]}" >&2
        exit 1
    }
    as_root=(sudo)
fi
say "Installing ${missing[*]}"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
# apt COMMAND ARGUMENT...: where it fails, its last lines are shown.
apt() {
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive LC_ALL=C apt-get -qq -o Dpkg::Use-Pty=0 "$@" >"$log" 2>&1 &&
        return
    tail -n 15 "$log" >&2
    if grep -q 'Packages need to be removed' "$log"; then
        echo "install-dependencies: apt would have to remove packages, which only you can decide: apt-get install" \
            "${missing[*]}" >&2
    else
        echo "install-dependencies: apt-get $1 failed" >&2
    fi
    return 1
}
apt update
apt install -y --no-install-recommends --no-remove "${missing[@]}"
added=$(comm -13 <(echo "$before") <(list_installed) | tr ' ' '=' | tr '\n' ' ')
say "Installed $(wc -w <<<"$added") packages: $added" | fold -s -w 160
