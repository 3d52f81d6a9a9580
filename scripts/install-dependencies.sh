#!/usr/bin/env bash
# Installs what building and testing need on Debian 12, as root (or through sudo). Where all is there: does nothing,
# quickly.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

packages=(
    # compilers and tools
    build-essential cmake ninja-build ccache pkg-config git python3 util-linux
    clang-16 clang-tidy-16 clang-format-16 llvm-16 libclang-rt-16-dev lld-16
    g++-aarch64-linux-gnu
    # libraries
    libboost1.81-dev libcli11-dev libfmt-dev nlohmann-json3-dev libxxhash-dev
    libgtest-dev libgmock-dev libbenchmark-dev
    # what holdfast-bench is measured beside
    libpmemobj-dev libjemalloc-dev libmimalloc-dev libmemkind-dev
    # what one of its applications computes with
    libgmp-dev
    # file systems that the crash tests mount
    e2fsprogs xfsprogs btrfs-progs fuse3 libfuse3-dev mount
    # the guest that has DAX
    qemu-system-x86 busybox-static cpio
    # the page of `holdfast map`, opened by its tests
    chromium
    # programs that run on libholdfast-malloc.so in its tests
    sqlite3 redis-server redis-tools libpython3.11-testsuite default-jdk-headless
    # the demo's input
    apt lz4 xz-utils
)

if ! command -v dpkg-query >/dev/null; then
    echo "install-dependencies: this is not a Debian system; install by hand: ${packages[*]}" >&2
    exit 0
fi
missing=()
installed=$(dpkg-query -W -f='${db:Status-Status} ${Package}\n' | sed -n 's/^installed //p')
for package in "${packages[@]}"; do
    grep -qxF "$package" <<<"$installed" || missing+=("$package")
done
if ((${#missing[@]} == 0)); then
    exit 0
fi

as_root=()
if ((EUID != 0)); then
    command -v sudo >/dev/null || { echo "install-dependencies: run as root to install: ${missing[*]}" >&2; exit 1; }
    as_root=(sudo)
fi
say "Installing ${missing[*]}"
"${as_root[@]}" apt-get -qq update
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq -y --no-install-recommends \
    -o Dpkg::Use-Pty=0 install "${missing[@]}" >/dev/null
