#!/usr/bin/env bash
# Packs holdfast-bench with all that it loads, for a machine of many cores: build/scaling.tar.gz. There, without a
# compiler or a package,
#   tar xf scaling.tar.gz && scaling/run [OPTION...]     options as of holdfast-bench; about 8 minutes; needs /dev/shm
# prints what holdfast-bench --scaling prints.
#   scripts/scaling.sh [PROGRAM]     PROGRAM: a holdfast-bench that is built already
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
program=${1:-}
if [[ -z $program ]]; then
    build release -DHOLDFAST_BUILD_BENCH=ON holdfast_bench
    program=build/release/bin/holdfast-bench
fi
pack=build/scaling
rm -rf "$pack"
mkdir -p "$pack/lib"
cp "$program" "$pack/holdfast-bench"
# What the program is linked with, and the peers that it loads by name, with what they are linked with.
peers=()
for name in libmimalloc.so.2 libpmemobj.so.1; do
    found=$(ldconfig -p | awk -v name="$name" '$1 == name {print $NF; exit}')
    [[ -n $found ]] && peers+=("$found") || echo "scaling: without $name, which is not installed" >&2
done
for file in "$program" "${peers[@]}"; do
    ldd "$file" | awk '$2 == "=>" && $3 ~ /^\// {print $3} $1 ~ /^\// {print $1}'
done | sort -u | xargs cp -L -t "$pack/lib"
((${#peers[@]})) && cp -L "${peers[@]}" "$pack/lib/"
loader=$(basename "$(ldd "$program" | awk '$1 ~ /^\/.*ld-/ {print $1}')")
cat >"$pack/run" <<END
#!/bin/sh
# holdfast-bench --scaling with the loader and the libraries beside it, whatever those of this machine are.
here=\$(cd "\$(dirname "\$0")" && pwd)
export HOLDFAST_BENCH_PROGRAM="\$here/run"
case " \$* " in
    *" --worker "* | *" --help "*) ;;
    *" --rounds "* | *" --repeat "*) set -- --scaling "\$@" ;;
    *) set -- --scaling --rounds 3 "\$@" ;;
esac
exec "\$here/lib/$loader" --library-path "\$here/lib" "\$here/holdfast-bench" "\$@"
END
chmod +x "$pack/run"
tar -C build -czf build/scaling.tar.gz scaling
du -h build/scaling.tar.gz
