#!/usr/bin/env bash
# machines_test.sh SOURCE [MACHINE...]: the first commands of the README on machines that differ in what they have
# installed. Each is an empty Debian with git and make (debootstrap, an overlay a machine), a fresh clone of SOURCE's
# commit, and no compiler cache. There: `make demo`, `make install`, then a program by pkg-config, one by find_package
# and one by FetchContent. Prints each machine's times, and what the commands installed.
set -euo pipefail
source=$1
shift
here=$(cd "$(dirname "$0")" && pwd)
fail() { echo "machines_test: $*" >&2; exit 1; }
not_tested() { echo "NOT TESTED HERE: $*"; exit 0; }
((EUID == 0)) || not_tested "only root makes a root directory"
unshare --mount --pid --net --fork true 2>/dev/null || not_tested "namespaces are not allowed here"
command -v debootstrap >/dev/null || not_tested "debootstrap is not installed"
# shellcheck disable=SC1091 # of the machine
release=$(. /etc/os-release && echo "${VERSION_CODENAME:-}")
site=$(apt-get indextargets --format '$(SITE)' 'Created-By: Packages' "Codename: $release" | head -n 1)
[[ -n $site ]] || not_tested "apt knows no archive of Debian $release"

# What each machine has beside git and make, and what else is special there: a function prepare_NAME.
declare -A packages=(
    [nothing]=""
    [gtest]="libgtest-dev"
    [benchmark]="libbenchmark-dev"
    [lmdb]="liblmdb-dev"
    [pmemobj]="libpmemobj-dev"
    [boost174]="libboost1.74-dev"
    [ccache]="ccache"
    [clang]="clang"
    [python]="python3-venv"
    [cmake]="python3-venv"
    [user]="needed"
    [offline]="needed"
)
prepare_clang() {
    inside update-alternatives --set cc /usr/bin/clang
    inside update-alternatives --set c++ /usr/bin/clang++
}
prepare_python() { # a python3 without anything, first in PATH
    inside python3 -m venv --copies --without-pip /usr/local/python
    ln -s ../python/bin/python3 "$root/usr/local/bin/python3"
}
prepare_cmake() { # the newest of PyPI, first in PATH
    local environment=$source/build/python-environment # whose pip knows this machine's way to PyPI
    [[ -x $environment/bin/pip ]] || /usr/bin/python3 -m venv "$environment" || return
    "$environment/bin/pip" download --quiet --no-deps --dest "$root/usr/local/wheels" cmake || return
    inside sh -ec 'python3 -m venv /usr/local/cmake
        /usr/local/cmake/bin/pip install --quiet --no-index /usr/local/wheels/*
        ln -s /usr/local/cmake/bin/cmake /usr/local/cmake/bin/ctest /usr/local/cmake/bin/cpack /usr/local/bin'
}
prepare_user() { inside useradd --create-home somebody; }
machines=("${@:-nothing}")
[[ $# != 0 ]] || machines=(nothing gtest benchmark lmdb pmemobj boost174 ccache clang python cmake user offline)

work=$(mktemp -d)
# Overlays are mounted in a namespace of this script's own, so that none outlives it.
[[ ${HOLDFAST_MACHINES:-} == own-namespace ]] ||
    HOLDFAST_MACHINES=own-namespace exec unshare --mount "$0" "$source" "${machines[@]}"
trap 'umount --quiet --recursive "$work"/root 2>/dev/null; rm -rf --one-file-system "$work"' EXIT
mount -t tmpfs -o size=8g,mode=755 machines "$work" 2>/dev/null || true # overlays do not lie on overlays
base=$work/base root=$work/root
debootstrap --variant=minbase --include=git,make,ca-certificates "$release" "$base" "$site" >"$work/log" 2>&1 ||
    not_tested "debootstrap: $(tail -n 1 "$work/log")"
rm -rf "$base"/var/cache/apt/archives/*.deb
[[ ! -e /etc/resolv.conf ]] || cp -L /etc/resolv.conf "$base/etc/resolv.conf"
git clone --quiet --no-hardlinks "$source" "$base/holdfast"
mkdir "$base/consumers" "$work/archives"
cp -r "$here/consumer_cxx" "$base/consumers"

namespaces=() as=()
inside() {
    unshare --mount --pid "${namespaces[@]}" --fork --kill-child --mount-proc="$root/proc" chroot "${as[@]}" "$root" \
        /usr/bin/env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C HOME=/tmp \
        DEBIAN_FRONTEND=noninteractive "$@"
}
# timed WHAT COMMAND...: the seconds go to `times`; where it fails, its last lines are shown.
timed() {
    local what=$1 start=$SECONDS
    shift
    inside "$@" >"$work/log" 2>&1 ||
        { tail -n 40 "$work/log"; echo "machines_test: $machine: $what fails" >&2; return 1; }
    times+=", $what $((SECONDS - start)) s"
}
cat >"$base/consumers/CMakeLists.txt" <<'END'
cmake_minimum_required(VERSION 3.25)
project(consumers LANGUAGES C CXX)
include(FetchContent)
FetchContent_Declare(holdfast SOURCE_DIR /holdfast)
FetchContent_MakeAvailable(holdfast)
add_executable(consumer consumer_cxx/consumer.cpp)
target_link_libraries(consumer PRIVATE holdfast::holdfast)
END

# run_machine: in `root`, an overlay over the base.
run_machine() {
    local here_packages=${packages[$machine]}
    inside sh -ec 'apt-get -qq update'
    if [[ $here_packages == needed ]]; then
        inside sh -ec 'cd /holdfast; git config --global safe.directory "*"
            scripts/install-dependencies.sh build' >"$work/log" 2>&1 || { tail "$work/log"; return 1; }
    elif [[ -n $here_packages ]]; then
        # shellcheck disable=SC2086 # packages are words
        inside apt-get -qq -y -o Dpkg::Use-Pty=0 --no-install-recommends install $here_packages >"$work/log" 2>&1 ||
            { tail "$work/log"; return 1; }
    fi
    if declare -F "prepare_$machine" >/dev/null; then
        "prepare_$machine" >"$work/log" 2>&1 || { tail "$work/log"; return 1; }
    fi
    namespaces=() as=()
    case $machine in
        user)
            inside chown -R somebody: /holdfast /consumers
            as=(--userspec=somebody)
            ;;
        offline) namespaces=(--net) ;;
    esac
    local before
    before=$(inside dpkg-query -W -f='${Package}\n' | sort)
    times=""
    timed "make demo" make -C /holdfast demo || return
    times+=$(sed -n 's/^== \(Installed [0-9]* packages\).*/ (\1)/p' "$work/log")
    timed "make install" make -C /holdfast install PREFIX=/tmp/prefix || return
    timed "pkg-config" sh -ec 'export PKG_CONFIG_PATH=/tmp/prefix/lib/pkgconfig
        c++ -std=c++20 -O1 /consumers/consumer_cxx/consumer.cpp $(pkg-config --cflags --libs holdfast) -o /tmp/consumer
        /tmp/consumer /tmp/one.hf' || return
    timed "find_package" sh -ec 'cmake -S /consumers/consumer_cxx -B /tmp/found -DCMAKE_PREFIX_PATH=/tmp/prefix
        cmake --build /tmp/found; /tmp/found/consumer /tmp/two.hf' || return
    timed "FetchContent" sh -ec 'cmake -S /consumers -B /tmp/fetched -DCMAKE_BUILD_TYPE=Release
        cmake --build /tmp/fetched --parallel "$(nproc)" --target consumer
        $(find /tmp/fetched -name consumer -type f) /tmp/three.hf' || return
    as=() namespaces=()
    local gone
    gone=$(comm -23 <(echo "$before") <(inside dpkg-query -W -f='${Package}\n' | sort))
    [[ -z $gone ]] || { echo "machines_test: $machine: packages were removed: $gone" >&2; return 1; }
}

failed=()
for machine in "${machines[@]}"; do
    [[ -v packages[$machine] ]] || fail "there is no machine $machine"
    mkdir "$work/upper" "$work/work" "$root"
    mount -t overlay overlay -o "lowerdir=$base,upperdir=$work/upper,workdir=$work/work" "$root"
    mount --bind "$work/archives" "$root/var/cache/apt/archives" # fetched once for all
    mkdir -p "$work/archives/partial"
    echo 'Binary::apt-get::APT::Keep-Downloaded-Packages "true";' >"$root/etc/apt/apt.conf.d/99keep"
    echo 'APT::Keep-Downloaded-Packages "true";' >>"$root/etc/apt/apt.conf.d/99keep"
    rm -f "$root/etc/apt/apt.conf.d/docker-clean"
    status=0
    run_machine || status=$?
    if ((status == 0)); then
        echo "$machine${packages[$machine]:+ (${packages[$machine]})}$times"
    else
        failed+=("$machine")
    fi
    namespaces=() as=()
    umount --recursive "$root"
    rm -rf "$root" "$work/upper" "$work/work"
done
((${#failed[@]} == 0)) || fail "${failed[*]}"
echo "machines_test: ${#machines[@]} machines"
