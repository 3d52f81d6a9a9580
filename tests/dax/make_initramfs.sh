#!/usr/bin/env bash
# make_initramfs.sh KERNEL-DIRECTORY OUTPUT PROGRAM...: makes the initial file system of the guest, with the programs
# and their libraries. KERNEL-DIRECTORY: from scripts/fetch-kernel.sh. Prints what is missing, with exit status 77.
set -euo pipefail
kernel=$1 output=$2
shift 2
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
PATH=$PATH:/usr/sbin:/sbin

missing=()
for tool in qemu-system-x86_64 busybox cpio mke2fs; do
    command -v "$tool" >/dev/null || missing+=("$tool")
done
[[ -e $kernel/vmlinuz ]] || missing+=("a kernel (scripts/fetch-kernel.sh)")
[[ $(uname -m) == x86_64 ]] || missing+=("an x86-64 machine")
if ((${#missing[@]} != 0)); then
    printf 'missing: %s' "${missing[0]}"
    printf ', %s' "${missing[@]:1}"
    exit 77
fi

root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
mkdir "$root"/{bin,sbin,dev,proc,sys,modules}
cp "$(command -v busybox)" "$root/bin/busybox"
cp "$(command -v mke2fs)" "$root/sbin/"
cp "$here/guest_init.sh" "$root/init"
cp "$kernel"/modules/*.ko "$root/modules/"
cp "$@" "$root/bin/"
strip --strip-debug "$root"/bin/*
# ldd: "name => /path (address)" and "/lib64/ld-linux-x86-64.so.2 (address)"
for program in "$(command -v mke2fs)" "$@"; do
    ldd "$program" | grep -o '/[^ ]*'
done | sort -u | while read -r library; do
    mkdir -p "$root$(dirname "$library")"
    cp -L "$library" "$root$library"
done
(cd "$root" && find . | cpio --create --format=newc --quiet) >"$output"
