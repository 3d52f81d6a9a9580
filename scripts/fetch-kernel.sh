#!/usr/bin/env bash
# fetch-kernel.sh [PACKAGE]: a kernel that dax_test boots, Debian's for virtual machines, unpacked into
# build/dax-kernel/PACKAGE and not installed. What cannot be had is said, and the test skipped.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
package=${1:-linux-image-cloud-amd64}
target=$PWD/build/dax-kernel/$package
modules=(libnvdimm nd_btt nd_pmem nfit)

if [[ -e $target/vmlinuz ]]; then
    exit 0
fi
unavailable() { echo "fetch-kernel: $*: dax_test will be skipped" >&2; exit 0; }
[[ $(uname -m) == x86_64 ]] || unavailable "no x86-64 machine"
command -v apt-get >/dev/null || unavailable "not a Debian system"

# The package of this name has no files; it depends on the newest one.
newest() { apt-cache depends "$package" 2>/dev/null | sed -n 's/^ *Depends: \(linux-image-[0-9].*\)/\1/p'; }
unpacked=$(mktemp -d)
trap 'rm -rf "$unpacked"' EXIT
fetch() { (cd "$unpacked" && apt-get -qq download "$(newest)" 2>/dev/null); }
if ! fetch; then
    # apt's lists are old, or there are none.
    apt-get -qq update || true
    fetch || unavailable "apt-get cannot download $package"
fi
say "Unpacking $(newest)"
dpkg-deb --extract "$unpacked"/*.deb "$unpacked"
mkdir -p "$target/modules"
for module in "${modules[@]}"; do
    found=$(find "$unpacked/lib/modules" -name "$module.ko*")
    case $found in
        *.ko) cp "$found" "$target/modules/" ;;
        *.ko.xz) xz --decompress --stdout "$found" >"$target/modules/$module.ko" ;;
        *) unavailable "the kernel has no module $module" ;;
    esac
done
mv "$unpacked"/boot/vmlinuz-* "$target/vmlinuz"
