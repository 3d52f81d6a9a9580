#!/usr/bin/env bash
# Builds the Debian packages, in build/debian/packages: the shared library, its development files, the tools linked with
# it, and the Python module where pip can get nanobind.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
scripts/install-dependencies.sh debian
architecture=$(dpkg-architecture -qDEB_HOST_MULTIARCH)
environment=build/python-environment
options=(-DBUILD_SHARED_LIBS=ON -DHOLDFAST_BUILD_EXAMPLES=OFF
    -DCMAKE_INSTALL_PREFIX=/usr "-DCMAKE_INSTALL_LIBDIR=lib/$architecture")
mkdir -p build
if [[ -x $environment/bin/python ]] || /usr/bin/python3 -m venv "$environment"; then
    if "$environment/bin/pip" install --quiet nanobind >build/pip.log 2>&1; then
        options+=(-DHOLDFAST_BUILD_PYTHON=ON "-DPython_EXECUTABLE=$PWD/$environment/bin/python")
    else
        say "Without python3-holdfast: pip cannot install nanobind"
    fi
fi
rm -rf build/debian/packages
quiet build/configure-debian.log cmake --preset release -B build/debian "${options[@]}"
step "the packages, compiled" cmake --build build/debian --parallel "$jobs"
step "the packages, packed" cpack -G DEB --config build/debian/CPackConfig.cmake -B build/debian/packages
rm -rf build/debian/packages/_CPack_Packages
ls -l build/debian/packages
