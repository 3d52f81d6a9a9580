#!/usr/bin/env bash
# apt_test.sh SOURCE: an empty Debian, into which apt installs our packages with all that they depend on; then the
# programs of the README are compiled and run there, as a user's first steps are.
set -euo pipefail
source=$1
fail() { echo "apt_test: $*" >&2; exit 1; }
not_tested() { echo "NOT TESTED HERE: $*"; exit 0; }
((EUID == 0)) || not_tested "only root makes a root directory"
unshare --mount --pid --fork true 2>/dev/null || not_tested "namespaces are not allowed here"
command -v debootstrap >/dev/null || not_tested "debootstrap is not installed"
# shellcheck disable=SC1091 # of the machine
release=$(. /etc/os-release && echo "${VERSION_CODENAME:-}")
site=$(apt-get indextargets --format '$(SITE)' 'Created-By: Packages' "Codename: $release" | head -n 1)
[[ -n $site ]] || not_tested "apt knows no archive of Debian $release"

work=$(mktemp -d)
root=$work/root
trap 'rm -rf --one-file-system "$work"' EXIT
"$source/scripts/debian.sh" >"$work/log" 2>&1 || { tail -n 30 "$work/log"; fail "scripts/debian.sh"; }
debootstrap --variant=minbase "$release" "$root" "$site" >"$work/log" 2>&1 ||
    not_tested "debootstrap: $(tail -n 1 "$work/log")"
mkdir "$root/packages" "$root/work"
cp "$source"/build/debian/packages/*.deb "$root/packages"
[[ ! -e /etc/resolv.conf ]] || cp -L /etc/resolv.conf "$root/etc/resolv.conf"
inside() {
    # /proc in a namespace of its own, so that no mount outlives a test that is killed.
    unshare --mount --pid --fork --kill-child --mount-proc="$root/proc" chroot "$root" /usr/bin/env -i \
        PATH=/usr/sbin:/usr/bin:/sbin:/bin DEBIAN_FRONTEND=noninteractive LC_ALL=C "$@"
}
inside sh -ec 'apt-get -qq update; apt-get -qq -y --no-install-recommends install ./packages/*.deb g++ pkg-config' \
    >"$work/log" 2>&1 || { tail -n 30 "$work/log"; fail "apt-get install of our packages"; }

# blocks LANGUAGE NUMBER: a program of the README.
block() {
    awk -v start="\`\`\`$1" -v wanted="$2" '
        $0 == start { inside = ++count == wanted; next } /^```/ { inside = 0 } inside' <"$source"/README.md
}
block cpp 1 >"$root/work/hello.cpp"
{
    printf '#include <holdfast/holdfast.h>\n#include <stdio.h>\nint main(void) {\n'
    block c 1 | sed 's/^++\*counter;/&  printf("%d\\n", *counter);/'
    printf 'return 0;\n}\n'
} >"$root/work/counter.c"
block python 1 >"$root/work/words.py"
cat >"$root/work/steps" <<'STEPS'
set -e
cd /work
g++ -std=c++20 -O1 hello.cpp -o hello $(pkg-config --cflags --libs holdfast)
gcc counter.c -o counter $(pkg-config --cflags --libs holdfast)
./hello && ./hello
./counter && ./counter
holdfast ls hello.hf
holdfast check hello.hf
if [ -d /usr/lib/python3/dist-packages/holdfast ]; then
    python3 words.py && python3 words.py
    python3 -c "import holdfast; print(holdfast.open('words.hf', mode='r')['counts'])"
fi
STEPS
told=$(inside sh work/steps 2>&1) || fail "the first steps: $told"
echo "$told"
expect() { grep -qF "$1" <<<"$told" || fail "no '$1'"; }
expect "run 2"
expect "runs"
[[ ! -d $root/usr/lib/python3/dist-packages/holdfast ]] || expect "Dict({'hello': 2})"
inside apt-get -qq -y purge '*holdfast*' >"$work/log" 2>&1 || { tail "$work/log"; fail "apt-get purge"; }
left=$(find "$root/usr" "$root/etc" -path '*holdfast*' -print -quit)
[[ -z $left ]] || fail "$left was left by apt-get purge"
echo "apt_test: apt installs our packages into an empty Debian; the README's programs run; purge leaves nothing"
